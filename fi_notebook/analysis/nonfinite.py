"""The first step that shows a new NaN or Inf, and where it shows.

    (3, 'the loss became NaN (2.303 in the golden run)')

*New* means that the golden run is finite there; what it holds in an earlier step than the
faulty run was put off by the fault, not made by it. Which places count is the NaN policy of a
`Tolerance`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import isfinite

import numpy as np

from fi_notebook.analysis.words import four_digits, several
from fi_notebook.core.run import Comparison, Difference, StepRecord
from fi_notebook.core.words import agreed, among, counted, spoken

__all__ = ["first_nonfinite", "golden_words"]

_TENSORS = {
    "gradients": "compared",
    "parameters": "updated",
    "buffers": "updated",
    "optimizer_state": "updated",
}
_RECORDED = {"loss": "loss", "gradients": "gradient_norm", "parameters": "parameter_norm"}


def first_nonfinite(
    comparison: Comparison,
    steps: Sequence[tuple[StepRecord, StepRecord]],
    places: Collection[str],
    *,
    compared: int,
    updated: int,
) -> tuple[int, str] | None:
    """Find the first step with a new NaN or Inf.

    Args:
        comparison: The comparison of the two runs.
        steps: Golden and faulty record of each step.
        places: Where a new NaN or Inf counts: some of `PLACES`.
        compared: Step whose calls, loss and gradients were compared.
        updated: Step after which parameters, buffers and optimizer state were compared.

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
    loss = comparison.loss
    if "loss" in places and _is_new(loss.golden, loss.faulty):
        _add(shown, compared, _became(loss.name, loss.golden, loss.faulty))
    for place, step in _TENSORS.items():
        if place in places and not _put_off(steps, _RECORDED.get(place)):
            text = _tensors(spoken(place), getattr(comparison, place))
            _add(shown, compared if step == "compared" else updated, text)
    if "calls" in places:
        _add(shown, compared, _calls(comparison))
    return next(((step, several(shown[step])) for step in sorted(shown) if shown[step]), None)


def golden_words(steps: Sequence[tuple[StepRecord, StepRecord]], *, has_loss: bool = True) -> str:
    """What the golden run holds of NaN and Inf itself, as a clause; ``""`` where nothing.

    Args:
        steps: Golden and faulty record of each step.
        has_loss: Whether the steps have a loss, so that one that is NaN is NaN.
    """
    names = [name for name in _RECORDED.values() if has_loss or name != "loss"]
    first = next(((g, bad) for g, _ in steps if (bad := _bad(g, names))), None)
    if first is None:
        return ""
    golden, bad = first
    held = ", ".join(f"{spoken(name)} {four_digits(getattr(golden, name))}" for name in bad)
    gone = "" if any(_bad(f, names) for _, f in steps) else ", and the faulty run holds none"
    return f"the golden run itself holds NaN or Inf in step {golden.step} ({held}){gone}"


def _bad(record: StepRecord, names: Sequence[str]) -> list[str]:
    return [name for name in names if not isfinite(getattr(record, name))]


def _put_off(steps: Sequence[tuple[StepRecord, StepRecord]], name: str | None) -> bool:
    """Whether the golden run is not finite in an earlier step than the faulty run is."""
    if name is None:
        return False
    golden, faulty = (
        next((n for n, both in enumerate(steps) if _bad(both[run], [name])), len(steps))
        for run in (0, 1)
    )
    return golden < faulty


def _add(shown: dict[int, list[str]], step: int, text: str) -> None:
    """Add a text to a step, once."""
    if text and text not in shown.setdefault(step, []):
        shown[step].append(text)


def _is_new(golden: float, faulty: float) -> bool:
    return isfinite(golden) and not isfinite(faulty)


def _became(name: str, golden: float, faulty: float) -> str:
    words = spoken(name)
    return f"the {words} became {four_digits(faulty)} ({four_digits(golden)} in the golden run)"


def _tensors(kind: str, differences: Sequence[Difference]) -> str:
    bad = [d.name for d in differences if d.new_nan or d.new_inf]
    if not bad:
        return ""
    held = among(len(bad), len(differences), kind.removesuffix("s"))
    return f"{held} {agreed(len(bad), 'hold')} new NaN or Inf ({several(bad)})"


def _calls(comparison: Comparison) -> str:
    columns = comparison.columns
    rows = np.flatnonzero((columns["new_nan"] > 0) | (columns["new_inf"] > 0))
    if not len(rows):
        return ""
    first, many = comparison.site(int(rows[0])), counted(len(rows), "site")
    return f"{many} {agreed(len(rows), 'hold')} new NaN or Inf, first {first}"
