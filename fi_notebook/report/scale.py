"""An axis on which both 0.5 and 1e30 can be read: linear near zero, logarithmic beyond.

    scale = SymLog.fitting(values, [3e38])
    scale.forward([0.5, 3e38])      positions on the axis
    scale.ticks(low, high)          positions and labels: -1, 0, 1, 1e10, 1e20, …

The logarithmic sides are compressed so that the bulk of the values keeps at least a
third of the axis, however far the extremes are. Edges are exact extremes: nothing is
clipped.

Limits: finite numbers only; NaN and Inf have no place on an axis.
"""

from __future__ import annotations

from math import floor, log10
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["SymLog", "tick_label"]

_LINEAR_UP_TO = 20.0  # golden values of no wider range than this are shown on a linear axis
_LOG_SIDE = 2.5  # greatest length of a logarithmic side, in halves of the linear middle


class SymLog(NamedTuple):
    """A symmetric scale: linear up to ``threshold``, logarithmic beyond.

    Attributes:
        threshold: Up to which absolute value it is linear.
        decade: Length of a decade on the logarithmic sides; the linear half is 1.
    """

    threshold: float
    decade: float

    @classmethod
    def fitting(cls, golden: ArrayLike, faulty: ArrayLike = ()) -> SymLog:
        """The scale that shows both the bulk of the golden values and every extreme."""
        base, other = (np.abs(np.asarray(v, dtype=float).ravel()) for v in (golden, faulty))
        base = base[np.isfinite(base) & (base > 0)]
        every = np.concatenate([base, other[np.isfinite(other) & (other > 0)]])
        if not len(every):
            return cls(1.0, 1.0)
        bulk = base if len(base) else every
        middle, largest = float(np.median(bulk)), float(bulk.max())
        threshold = largest if largest <= _LINEAR_UP_TO * middle else middle
        decades = log10(float(every.max())) - log10(threshold)
        return cls(threshold, min(1.0, _LOG_SIDE / decades) if decades > 0 else 1.0)

    def forward(self, values: ArrayLike) -> np.ndarray:
        """Positions on the axis."""
        given = np.asarray(values, dtype=float)
        size = np.maximum(np.abs(given), self.threshold)
        outside = 1 + self.decade * (np.log10(size) - log10(self.threshold))
        inside = np.clip(given, -self.threshold, self.threshold) / self.threshold
        return np.where(np.abs(given) <= self.threshold, inside, np.sign(given) * outside)

    def inverse(self, positions: ArrayLike) -> np.ndarray:
        """Values at positions of the axis."""
        given = np.asarray(positions, dtype=float)
        exponent = (np.maximum(np.abs(given), 1) - 1) / self.decade + log10(self.threshold)
        outside = np.sign(given) * 10.0 ** np.minimum(exponent, 308.25)
        return np.where(np.abs(given) <= 1, given * self.threshold, outside)

    def ticks(self, low: float, high: float, gap: float = 0.09) -> tuple[list[float], list[str]]:
        """Positions and labels of ticks between two values.

        Args:
            low: Smallest value on the axis.
            high: Largest value on the axis.
            gap: Share of the axis that must lie between two ticks.
        """
        left, right = (float(p) for p in self.forward([low, high]))
        least = gap * max(right - left, 1e-9)
        chosen: list[tuple[float, str]] = []
        for candidate in self._candidates(low, high):
            position = float(self.forward(candidate))
            if left <= position <= right and all(abs(position - p) >= least for p, _ in chosen):
                chosen.append((position, tick_label(candidate)))
        chosen.sort()
        return [position for position, _ in chosen], [label for _, label in chosen]

    def _candidates(self, low: float, high: float) -> list[float]:
        """Round values, the most wanted first."""
        unit = _round_down(self.threshold)
        inner = [0.0, *(sign * part * unit for part in (1, 0.5) for sign in (1, -1))]
        furthest = max(abs(low), abs(high), self.threshold)
        first, last = floor(log10(self.threshold)) + 1, floor(log10(furthest))
        stride = max(1, -(-(last - first) // 3))
        powers = [10.0**n for n in range(last - last % stride, first - 1, -stride)]
        inside = [sign * part * unit for part in (1.5, 2.0, 0.25) for sign in (1, -1)]
        return [*inner, *(sign * power for power in powers for sign in (1, -1)), *inside]


def _round_down(value: float) -> float:
    """The largest of 1, 2, 5 times a power of ten that is not above a value."""
    power = 10.0 ** floor(log10(value)) or value
    return next((part * power for part in (5, 2, 1) if part * power <= value), value)


def tick_label(value: float) -> str:
    """A value as a tick label: ``0.01``, ``1``, ``1e-5``, ``1e30``."""
    mantissa, e, exponent = f"{value:.4g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if e else mantissa
