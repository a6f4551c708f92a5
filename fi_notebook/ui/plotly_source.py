"""plotly.js as a widget of its own, so that all views of a kernel share one copy.

    source = plotly_source()        # made, and so sent, when it is first asked for
    source.model_id                 # what a view looks it up by

A page that is reloaded gets it again with the other widgets of the kernel, without
anybody being asked.
"""

from __future__ import annotations

import zlib
from functools import cache

import ipywidgets
import traitlets

from fi_notebook import assets

__all__ = ["PlotlySource", "plotly_source"]


class PlotlySource(ipywidgets.Widget):
    """Holds the plotly.js of the installed plotly package, deflated."""

    _deflated = traitlets.Bytes().tag(sync=True)


@cache
def plotly_source() -> PlotlySource:
    """The one of this kernel."""
    return PlotlySource(_deflated=zlib.compress(assets.plotly_source().encode(), 6))
