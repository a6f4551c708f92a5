"""plotly.js as a widget of its own, so that all views of a kernel share one copy.

    source = plotly_source()        # made, and so sent, when it is first asked for
    source.model_id                 # what a view looks it up by

A page that is reloaded gets it again with the other widgets of the kernel, without
anybody being asked.
"""

from __future__ import annotations

import zlib

import ipywidgets
import traitlets

from fi_notebook import assets

__all__ = ["PlotlySource", "plotly_source"]


class PlotlySource(ipywidgets.Widget):
    """Holds the plotly.js of the installed plotly package, deflated."""

    _deflated = traitlets.Bytes().tag(sync=True)


def plotly_source() -> PlotlySource:
    """The one of this kernel; another one where somebody closed it."""
    if not _SOURCES or _SOURCES[-1].comm is None:
        _SOURCES[:] = [PlotlySource(_deflated=zlib.compress(assets.plotly_source().encode(), 6))]
    return _SOURCES[-1]


_SOURCES: list[PlotlySource] = []  # registry: the one of this kernel
