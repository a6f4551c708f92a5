"""What a page is told of a campaign: how far it is, rates, pictures and some rows.

    frame(campaign)       small, for every update; with a trace, elements have coordinates
    pictures(campaign)    figures and their text twins, which cost more

Both are plain data that JSON can write.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any

import numpy as np

from fi_notebook.analysis.words import about, told_apart
from fi_notebook.campaign.counted import Counted
from fi_notebook.campaign.journal import Row
from fi_notebook.campaign.results import Results
from fi_notebook.campaign.statistics import Rate
from fi_notebook.core.run import HARMLESS
from fi_notebook.core.trace import Trace
from fi_notebook.core.words import counted, spoken
from fi_notebook.errors import FiError
from fi_notebook.report.campaign_figures import campaign_figures

__all__ = ["MOST_ROWS", "frame", "pictures"]

MOST_ROWS = 30
"""How many rows a page is given, those that changed the result most first."""

_WORST = ("crash", "nan_immediate", "nan_delayed")


def frame(campaign: Counted, golden: Trace | None = None) -> dict[str, Any]:
    """How far a campaign is, its rates, and the rows that a person may want to open.

    Args:
        campaign: The campaign.
        golden: The trace of the session that it strikes, where there is one here.
    """
    results, progress = campaign.results, campaign.progress
    changed = _changed(results)
    done = len(results) if progress is None else progress.done
    planned = done if progress is None else progress.planned
    return {
        "state": _state(campaign.running, done, planned, begun=progress is not None),
        "done": done,
        "planned": planned,
        "words": "nothing was run yet" if progress is None else str(progress),
        "early": "" if not done or progress is None else f"{about(progress.early)} ended early",
        "rates": _rates(results),
        "rows": [_row(row, golden) for row in changed[:MOST_ROWS]],
        "changed": len(changed),
        "more": counted(len(results), "injection"),
    }


def _state(running: bool, done: int, planned: int, *, begun: bool) -> str:
    if running:
        return "running"
    if not begun and not done:
        return "not started"
    return "done" if done >= planned else "stopped"


def _rates(results: Results) -> list[list[str]]:
    return [
        [
            spoken(rate.outcome),
            f"{rate.count:,} of {rate.n:,}",
            about(rate.rate, 1),
            _interval(rate),
        ]
        for rate in results.rates()
    ]


def _interval(rate: Rate) -> str:
    """The interval of a rate; of what was tried in full there is none."""
    if rate.low == rate.high:
        return "exact"
    return f"{about(rate.low, 1)} to {about(rate.high, 1)}"


def _changed(results: Results) -> list[Row]:
    """Rows whose result is another: crashes and NaN first, then by how much the loss changed."""
    changed = [row for row in results if row.outcome not in HARMLESS]
    return sorted(changed, key=_rank)


def _rank(row: Row) -> tuple[int, float, float, int]:
    worst = _WORST.index(row.outcome) if row.outcome in _WORST else len(_WORST)
    golden, faulty = _losses(row)
    distance = float(row.metrics.get("parameter_distance", 0.0))
    return worst, _most_first(abs(faulty - golden)), _most_first(distance), row.id


def _most_first(size: float) -> float:
    return 0.0 if math.isnan(size) else -size


def _losses(row: Row) -> tuple[float, float]:
    """The golden and the faulty loss; NaN where there is none."""
    golden, faulty = (row.metrics.get(name, math.nan) for name in ("golden_loss", "loss"))
    return float(golden), float(faulty)


def _row(row: Row, golden: Trace | None) -> dict[str, Any]:
    """What stands in the line of a row; text, since JSON has no NaN."""
    fault, bit = row.fault, row.place.get("bit")
    before, after = (row.metrics.get(name, float("nan")) for name in ("before", "after"))
    what = f"bit {bit} ({row.place.get('field')})" if bit is not None else str(fault["model"])
    return {
        "id": row.id,
        "site": row.site,
        "what": what,
        "elements": _elements(fault["elements"], _shape(row.site, golden)),
        "change": " → ".join(told_apart(before, after)),
        "loss": "" if math.isnan(_losses(row)[0]) else " → ".join(told_apart(*_losses(row))),
        "outcome": spoken(row.outcome),
        "reason": row.reason,
    }


def _shape(site: str, golden: Trace | None) -> tuple[int, ...] | None:
    """Shape of a site, where the trace has it."""
    if golden is None:
        return None
    with suppress(FiError):
        return golden.site(golden.row(site)).shape
    return None


def _elements(elements: Any, shape: tuple[int, ...] | None) -> str:
    """The elements in words; one element by its coordinates where the shape is known."""
    index = elements.get("index") if isinstance(elements, dict) else None
    if not isinstance(index, int):
        return json.dumps(elements)
    if shape is None or not 0 <= index < math.prod(shape):
        return f"element {index}"
    return f"element {[int(at) for at in np.unravel_index(index, shape)]}"


def pictures(campaign: Counted) -> dict[str, Any]:
    """The figures as plotly's JSON by name, and their text twins."""
    columns = campaign.results.columns()
    several = len(set(columns["layer"].tolist())) > 1
    figures, texts = campaign_figures(columns, "layer" if several else "field")
    return {"figures": figures, "texts": texts}
