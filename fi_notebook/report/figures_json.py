"""The figures of a run as plotly's own JSON, and their text twins, for a page to draw.

    figures, texts = run_figures(run)
    figures["propagation"]     '{"data": [...], "layout": {...}}'
    texts["propagation"]       the same in words and numbers

A figure that cannot be drawn is left out and says why in its text; it takes nothing
else with it. Templates are sent once for all figures (`templates`), not in each.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from fi_notebook.core.run import Run
from fi_notebook.report.figures.look import theme
from fi_notebook.report.figures.spread import propagation
from fi_notebook.report.figures.tensors import difference_heatmap, tensor_diff
from fi_notebook.report.figures.training import training

__all__ = ["MOST_INJECTIONS", "run_figures", "templates"]

_LOG = logging.getLogger("fi_notebook")

MOST_INJECTIONS = 8
"""Of how many injections the tensor figures are drawn."""


def templates() -> dict[str, Any]:
    """The look of every figure on a light and on a dark page."""
    return {name: json.loads(theme(dark).to_json()) for name, dark in _THEMES.items()}


_THEMES = {"light": False, "dark": True}


def run_figures(run: Run) -> tuple[dict[str, str], dict[str, str]]:
    """Every figure of a run as JSON text by name, and its text twin."""
    drawn, texts = {}, {}
    for name, draw, twin in _wanted(run):
        try:
            figure = draw()
            figure.layout.template = None
            drawn[name] = figure.to_json()
            texts[name] = twin()
        except Exception as error:
            _LOG.exception("the figure %r could not be drawn", name)
            texts[name] = f"the figure could not be drawn: {error}"
    return drawn, texts


def _wanted(run: Run) -> Iterator[tuple[str, Callable[[], Any], Callable[[], str]]]:
    for at, injection in enumerate(run.injections[:MOST_INJECTIONS]):
        suffix = f" {at}" if at else ""
        yield f"tensor_diff{suffix}", partial(tensor_diff, injection), str
        yield f"difference_heatmap{suffix}", partial(difference_heatmap, injection), str
    yield "propagation", partial(propagation, run.comparison), str
    yield "training", partial(training, run), str
