"""How the faulty loss ran beside the golden one over several steps.

    >>> course = follow(golden_steps, faulty_steps, strike=3)
    >>> course.rise, course.final  # shares of the golden loss
    (1.52, 0.003)                        # a spike of 152 % that was made good

The excess of a step is ``(faulty - golden) / |golden|``, where a golden loss counts as
at least its mean over the steps, so that a loss that ends near zero does not make every
rounding a catastrophe. All are of the steps from the strike on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, isfinite, isnan

import numpy as np

from fi_notebook.analysis.words import excess as excess_words
from fi_notebook.core.run import StepRecord

__all__ = ["Course", "follow", "pairs", "relative"]


@dataclass(frozen=True, eq=False)
class Course:
    """The excess of the faulty loss over the golden one, step by step.

    Attributes:
        steps: Step numbers, from the one in which the first fault struck.
        excess: Share of the golden loss by which the faulty one exceeds it.
        of_mean: Whether that is a share of its mean, which is larger than it is there.
        rise: Largest growth of the excess within the steps of a sudden rise.
        rise_step: The step at which that rise ended.
        final: Mean excess over the last steps.
        tail: How many these are.
        distance: How far the parameters are in the end, relative; NaN if unknown.
    """

    steps: np.ndarray
    excess: np.ndarray
    of_mean: np.ndarray
    rise: float
    rise_step: int
    final: float
    tail: int
    distance: float

    @property
    def largest(self) -> float:
        """The largest excess of any step, either way."""
        return float(np.max(np.abs(self.excess), initial=0.0))

    @property
    def largest_words(self) -> str:
        """The same in words."""
        of_mean = len(self.excess) and self.of_mean[int(np.argmax(np.abs(self.excess)))]
        return excess_words(self.largest, of_mean=bool(of_mean))

    @property
    def rise_words(self) -> str:
        """The largest rise in words."""
        of_mean = bool(self.of_mean[self.steps == self.rise_step].any())
        return excess_words(self.rise, of_mean=of_mean)

    @property
    def final_words(self) -> str:
        """By how much the last steps exceed, or stay below, the golden ones, in words."""
        return excess_words(abs(self.final), of_mean=bool(self.of_mean[-self.tail :].any()))


def pairs(
    golden: Sequence[StepRecord], faulty: Sequence[StepRecord]
) -> list[tuple[StepRecord, StepRecord]]:
    """The steps that both runs made, in order."""
    by_step = {record.step: record for record in golden}
    return [(by_step[record.step], record) for record in faulty if record.step in by_step]


def relative(golden: float, faulty: float) -> float:
    """``|faulty - golden| / |golden|``; 0 where both are the same, NaN included."""
    if golden == faulty or (isnan(golden) and isnan(faulty)):
        return 0.0
    apart = abs(faulty - golden)
    return float(apart / abs(golden)) if golden and isfinite(apart) else inf


def follow(
    golden: Sequence[StepRecord],
    faulty: Sequence[StepRecord],
    strike: int,
    *,
    sudden: int = 2,
    final: float = 0.25,
) -> Course:
    """Follow the loss from the step in which the first fault struck.

    Args:
        golden: Records of the golden run.
        faulty: Records of the faulty run.
        strike: The step in which the first fault struck.
        sudden: In how many steps a sudden rise must happen.
        final: Share of the steps, from the end, whose mean is the final excess.
    """
    both = [(g, f) for g, f in pairs(golden, faulty) if f.step >= strike]
    losses = np.asarray([(g.loss, f.loss) for g, f in both], dtype=float).reshape(-1, 2)
    scale = np.abs(losses[:, 0])
    floor = float(scale[np.isfinite(scale)].mean()) if np.isfinite(scale).any() else 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = np.diff(losses, axis=1)[:, 0] / np.maximum(scale, floor)
        of_mean = scale < floor
    lead = np.concatenate([np.zeros(max(sudden, 1)), excess])  # before the strike: no excess
    reach = range(1, max(sudden, 1) + 1)
    with np.errstate(invalid="ignore"):
        rises = [excess - lead[len(lead) - len(excess) - k : len(lead) - k] for k in reach]
    rise = np.max(_known(np.asarray(rises)), axis=0) if len(excess) else np.zeros(1)
    excess = _known(excess)
    last = max(1, ceil(final * len(excess)))
    tail = excess[-last:] if len(excess) else np.zeros(1)
    steps = np.asarray([f.step for _, f in both], dtype=np.int64)
    return Course(
        steps=steps,
        excess=excess,
        of_mean=of_mean,
        rise=float(rise.max()),
        rise_step=int(steps[rise.argmax()]) if len(steps) else strike,
        final=float(tail.mean()),
        tail=last,
        distance=_distance(both),
    )


def _known(excess: np.ndarray) -> np.ndarray:
    """The excess, or its rise, where both losses are numbers; else 0."""
    return np.nan_to_num(excess, nan=0.0, posinf=np.inf, neginf=-np.inf)


def _distance(both: Sequence[tuple[StepRecord, StepRecord]]) -> float:
    """How far the parameters are after the last step: measured, else from their norms."""
    if not both:
        return float("nan")
    golden, faulty = both[-1]
    if not np.isnan(faulty.parameter_distance):
        return faulty.parameter_distance
    return relative(golden.parameter_norm, faulty.parameter_norm)
