"""A campaign at a glance without a widget: how far it came, how faults ended, and where.

    campaign_snapshot("400 of 400 (100%) …", columns, rates)      static HTML

A saved notebook carries it. Every name is escaped; there is no script in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

import numpy as np

from fi_notebook.analysis.words import about
from fi_notebook.core.run import OUTCOMES
from fi_notebook.core.words import spoken
from fi_notebook.report.html import html_table
from fi_notebook.report.palette import OUTCOME_COLOURS
from fi_notebook.report.snapshot import STYLE

__all__ = ["MOST_GROUPS", "campaign_snapshot"]

MOST_GROUPS = 24
"""How many layers are shown at most."""


def campaign_snapshot(
    words: str, columns: Mapping[str, np.ndarray], rates: Sequence[Sequence[str]]
) -> str:
    """How far a campaign came, its rates, and the shares of the outcomes layer by layer.

    Args:
        words: How far it came.
        columns: One array per column, one item per injection.
        rates: Outcome, count, rate and interval as text.

    Returns:
        Static HTML.
    """
    parts = [STYLE, f'<div class="fi-snapshot"><p><b>campaign</b>: {escape(words)}</p>']
    if len(rates):
        parts.append(html_table(("outcome", "injections", "rate", "95 % interval"), rates))
        parts.append("".join(_bars(columns)))
    return "\n".join((*parts, "</div>"))


def _bars(columns: Mapping[str, np.ndarray]) -> Iterator[str]:
    """One bar per layer, in execution order, divided by outcome."""
    order = np.argsort(columns["order"], kind="stable")
    layers = list(dict.fromkeys(columns["layer"][order].tolist()))
    weights = columns.get("weight", np.ones(len(order)))
    for layer in layers[:MOST_GROUPS]:
        here = columns["layer"] == layer
        mine, whole = columns["outcome"][here], weights[here].sum()
        shares = {name: weights[here][mine == name].sum() / whole for name in OUTCOMES}
        parts = [(name, share) for name, share in shares.items() if share]
        told = ", ".join(f"{spoken(name)} {about(share)}" for name, share in parts)
        drawn = "".join(
            f'<i style="width:{share:.2%};background:{OUTCOME_COLOURS.get(name, "#888")}"></i>'
            for name, share in parts
        )
        yield (
            f'<div><span style="display:inline-block;width:16em">'
            f"{escape(str(layer))} ({len(mine)})</span>"
            f'<span aria-hidden="true" style="display:inline-flex;width:20em;'
            f'height:.8em">{drawn}</span> <span class="fi-quiet">{escape(told)}</span></div>'
        )
    if len(layers) > MOST_GROUPS:
        yield f"<p class='fi-quiet'>the first {MOST_GROUPS} of {len(layers)} layers</p>"
