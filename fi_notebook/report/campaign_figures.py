"""The pictures of a campaign as plotly's own JSON, and their text twins, for a page to draw.

    figures, texts = campaign_figures(columns, by="layer")
    figures["harm"]      '{"data": [...], "layout": {...}}'
    texts["harm"]        the same in words and numbers

``columns`` is `campaign.Results.columns`. What a campaign has nothing for (a timeline of
one site, losses of one step) is left out; of what cannot be drawn the text says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from fi_notebook.core.run import HARMLESS, OUTCOMES
from fi_notebook.core.words import counted, spoken
from fi_notebook.report.figures import campaign
from fi_notebook.report.figures_json import drawn
from fi_notebook.report.table import table

__all__ = ["campaign_figures"]

Columns = Mapping[str, np.ndarray]


def campaign_figures(columns: Columns, by: str = "layer") -> tuple[dict[str, str], dict[str, str]]:
    """Every picture of a campaign as JSON text by name, and its text twin.

    Args:
        columns: One array per column, one item per injection.
        by: What the outcomes are shown by.

    Returns:
        The pictures and the texts.
    """
    return drawn(
        (name, partial(draw, columns), partial(twin, columns))
        for name, draw, twin in _wanted(columns, by)
    )


def _wanted(
    columns: Columns, by: str
) -> Iterator[tuple[str, Callable[[Columns], Any], Callable[[Columns], str]]]:
    if not len(columns["outcome"]):
        return
    yield "outcomes", partial(campaign.outcomes, by=by), partial(_shares, by=by)
    yield "harm", campaign.heat_map, _harm
    if len(np.unique(columns["order"])) > 1:
        yield "timeline", campaign.timeline, partial(_shares, by="site")
    if any(len(curve) > 1 for curve in columns["losses"]):
        yield "losses", campaign.losses, _losses


def _shares(columns: Columns, by: str) -> str:
    """How often each outcome came, group by group."""
    groups, outcomes = columns[by].tolist(), columns["outcome"].tolist()
    seen = [name for name in OUTCOMES if name in set(outcomes)]
    lines = []
    for group in dict.fromkeys(groups):
        mine = [outcome for outcome, g in zip(outcomes, groups, strict=True) if g == group]
        lines.append([str(group), *(str(mine.count(name)) for name in seen)])
    header = [by, *(spoken(name) for name in seen)]
    return table(header, lines, right=range(1, len(header)))


def _harm(columns: Columns) -> str:
    """For each bit, how many of its injections did harm; bits of several formats apart."""
    harmless = np.isin(columns["outcome"].astype(str), HARMLESS)
    order = np.lexsort((-columns["bit"], columns["dtype"]))
    lines = []
    for name in dict.fromkeys(columns["bit_name"][order][columns["bit"][order] >= 0].tolist()):
        mine = columns["bit_name"] == name
        made = counted(int(mine.sum()), "injection")
        lines.append(f"bit {name}: {int((mine & ~harmless).sum())} of {made}")
    return "\n".join(lines) or "no injection flips a single bit"


def _losses(columns: Columns) -> str:
    """For each outcome the median of the last loss."""
    last = np.asarray([curve[-1] if len(curve) else np.nan for curve in columns["losses"]])
    known, weights = np.asarray([len(curve) > 0 for curve in columns["losses"]]), columns["weight"]
    lines = []
    for name in dict.fromkeys(columns["outcome"][known].tolist()):
        mine = known & (columns["outcome"] == name)
        finite = np.where(np.isfinite(last[mine]), last[mine], np.nan)
        (middle,) = campaign.quantiles(finite, weights[mine], (0.5,))
        lines.append([spoken(name), str(int(mine.sum())), f"{middle:.4g}"])
    return table(["outcome", "injections", "median of the last loss"], lines, right=(1, 2))
