"""The first step that shows a new NaN or Inf, and where it shows.

    (3, 'the loss became NaN (2.303 in the golden run)')

*New* means that the golden run is finite there. Which places count is the NaN policy
of a `Tolerance`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from fi_notebook.analysis.words import four_digits, several
from fi_notebook.core.run import Comparison, Difference, StepRecord

__all__ = ["first_nonfinite"]

_RECORDED = {"loss": "loss", "gradients": "gradient_norm", "parameters": "parameter_norm"}


def first_nonfinite(
    comparison: Comparison,
    compared: int,
    steps: Sequence[tuple[StepRecord, StepRecord]],
    places: Collection[str],
) -> tuple[int, str] | None:
    """Find the first step with a new NaN or Inf.

    Args:
        comparison: The comparison of one step.
        compared: The number of that step.
        steps: Golden and faulty record of each step.
        places: Where a new NaN or Inf counts: some of `PLACES`.

    Returns:
        The step and what became NaN or Inf there, or None.
    """
    shown: dict[int, list[str]] = {}
    for golden, faulty in steps:
        shown[faulty.step] = [
            _became(name, getattr(golden, name), getattr(faulty, name))
            for place, name in _RECORDED.items()
            if place in places and _is_new(getattr(golden, name), getattr(faulty, name))
        ]
    shown.setdefault(compared, []).extend(_compared(comparison, places, shown.get(compared, ())))
    return next(((step, several(shown[step])) for step in sorted(shown) if shown[step]), None)


def _is_new(golden: float, faulty: float) -> bool:
    return bool(np.isfinite(golden) and not np.isfinite(faulty))


def _became(name: str, golden: float, faulty: float) -> str:
    words = name.replace("_", " ")
    return f"the {words} became {four_digits(faulty)} ({four_digits(golden)} in the golden run)"


def _compared(comparison: Comparison, places: Collection[str], shown: Collection[str]) -> list[str]:
    """What the comparison itself shows, beyond what the step's record already does."""
    found = []
    loss = comparison.loss
    if "loss" in places and _is_new(loss.golden, loss.faulty):
        found.append(_became("loss", loss.golden, loss.faulty))
    found.extend(
        _tensors(place.replace("_", " "), getattr(comparison, place))
        for place in ("gradients", "parameters", "buffers", "optimizer_state")
        if place in places
    )
    if "calls" in places:
        found.append(_calls(comparison))
    return [text for text in found if text and text not in shown]


def _tensors(kind: str, differences: Sequence[Difference]) -> str:
    bad = [d.name for d in differences if d.new_nan or d.new_inf]
    if not bad:
        return ""
    verb = "holds" if len(bad) == 1 else "hold"
    return f"{len(bad)} of {len(differences)} {kind} {verb} NaN or Inf ({several(bad)})"


def _calls(comparison: Comparison) -> str:
    columns = comparison.columns
    rows = np.flatnonzero((columns["new_nan"] > 0) | (columns["new_inf"] > 0))
    if not len(rows):
        return ""
    return f"{len(rows)} outputs of calls hold NaN or Inf, first {comparison.site(int(rows[0]))}"
