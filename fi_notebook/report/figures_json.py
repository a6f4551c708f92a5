"""The figures of a run as plotly's own JSON, and their text twins, for a page to draw.

    figures, texts = run_figures(run)
    figures["propagation"]     '{"data": [...], "layout": {...}}'
    texts["propagation"]       the same in words and numbers

A figure that cannot be drawn is left out and says why in its text; it takes nothing
else with it. Templates are sent once for all figures (`templates`), not in each.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from fi_notebook.core.run import Run
from fi_notebook.report import figures, text

__all__ = ["MOST_INJECTIONS", "Wanted", "drawn", "run_figures", "templates"]

_LOG = logging.getLogger("fi_notebook")

Wanted = tuple[str, Callable[[], Any], Callable[[], str]]
"""Name of a figure, what draws it, and what writes its text twin."""

MOST_INJECTIONS = 8
"""Of how many injections the tensor figures are drawn."""


def templates() -> dict[str, Any]:
    """The look of every figure on a light and on a dark page, which shows through."""
    return {
        name: figures.theme(dark, transparent=True).to_plotly_json()
        for name, dark in _THEMES.items()
    }


_THEMES = {"light": False, "dark": True}


def run_figures(run: Run) -> tuple[dict[str, str], dict[str, str]]:
    """Every figure of a run as JSON text by name, and its text twin."""
    return drawn(_wanted(run))


def drawn(wanted: Iterable[Wanted]) -> tuple[dict[str, str], dict[str, str]]:
    """Figures as JSON text by name, and their text twins; of one that fails the twin says why.

    Args:
        wanted: Of each its name, what draws it, and what writes its twin.

    Returns:
        The figures and the twins.
    """
    made, texts = {}, {}
    for name, draw, twin in wanted:
        try:
            figure = draw()
            figure.layout.template = None
            made[name] = figure.to_json()
            texts[name] = twin()
        except Exception as error:  # noqa: BLE001 - one figure must not take the others with it
            _LOG.exception("the figure %r could not be drawn", name)
            texts[name] = f"the figure could not be drawn: {error}"
    return made, texts


def _wanted(run: Run) -> Iterator[Wanted]:
    """Name, figure and text twin of every picture that the page shows."""
    for at, struck in enumerate(run.injections[:MOST_INJECTIONS]):
        suffix = f" {at}" if at else ""
        for name in ("tensor_diff", "difference_heatmap"):
            yield name + suffix, *_both(name, struck)
    yield (
        "propagation",
        partial(figures.propagation, run.comparison, detections=run.detections),
        partial(text.propagation, run.comparison),
    )
    yield "gradients", *_both("gradients", run.comparison)
    yield "training", *_both("training", run)


def _both(name: str, record: object) -> tuple[Callable[[], Any], Callable[[], str]]:
    return partial(getattr(figures, name), record), partial(getattr(text, name), record)
