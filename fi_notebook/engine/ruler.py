"""Measuring floating-point blocks on the host in a few passes that stay in the cache.

    ruler = Ruler(QUICK_BLOCK, brief=False)
    ruler.measure(golden, faulty)       # 11 numbers

Sums are of float64, distances in representable values of the bits as integers. Neighbours
of one sign are as far apart as their bits; two numbers of different signs are as far as
both are from zero.

Limits: an element counts as changed by its bits, also where its number is the same.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch

from fi_notebook.engine.bits import raw, same_memory

__all__ = ["QUICK", "QUICK_BLOCK", "Ruler"]

QUICK = frozenset({torch.float32, torch.float64, torch.float16, torch.bfloat16})
"""Dtypes that it can measure."""

QUICK_BLOCK = 1 << 15
"""Elements of a block: 256 KiB in float64."""

Found = tuple[float, float, float, float, float, float, float, int, int, int, int]


class Ruler:
    """Room for the measures of one block after the other.

    Args:
        size: Elements of the largest block.
        brief: Leave out relative errors, representable values and signs.
    """

    def __init__(self, size: int, *, brief: bool) -> None:
        """Take the room."""
        self._brief = brief
        self._room = np.empty((3, size))

    def measure(self, golden: torch.Tensor, faulty: torch.Tensor) -> Found:
        """Measure a block of one against a block of the other.

        Returns:
            Sums of squares of difference, golden and faulty, the sum of products, largest
            absolute and relative difference and distance in representable values, how many
            elements changed, how many signs, and how many new NaNs and infinities.
        """
        with np.errstate(all="ignore"):
            return self._measured(golden, faulty)

    def _measured(self, golden: torch.Tensor, faulty: torch.Tensor) -> Found:
        a, b, _ = (row[: golden.numel()] for row in self._room)
        np.copyto(a, _numbers(golden))
        if same_memory(golden, faulty) and math.isfinite(before := float(np.dot(a, a))):
            return (0.0, before, before, before, 0.0, 0.0, math.nan, 0, 0, 0, 0)
        np.copyto(b, _numbers(faulty))
        bits = [raw(tensor).numpy() for tensor in (golden, faulty)]
        changed = int(np.count_nonzero(bits[0] != bits[1]))
        sums = self._sums(a, b)
        odd = None if math.isfinite(sum(sums[:3])) else _Odd.of(a, b)
        if odd is not None:
            a[odd.places] = b[odd.places] = 0
            bits = [np.where(odd.no_number, 0, side) for side in bits]
            sums = self._sums(a, b)
        far, relative = self._largest(a, b)
        steps, flips = (math.nan, 0) if self._brief else _steps(bits[0], bits[1], odd)
        new = (0, 0) if odd is None else odd.new
        return (*sums, far, relative, steps, changed, flips, *new)

    def _sums(self, a: np.ndarray, b: np.ndarray) -> tuple[float, float, float, float]:
        """Squares of the difference, which stays in the room, of each, and the product."""
        apart = np.subtract(b, a, out=self._room[2][: a.size])
        squares, before, after = (float(np.dot(side, side)) for side in (apart, a, b))
        return squares, before, after, math.nan if self._brief else float(np.dot(a, b))

    def _largest(self, golden: np.ndarray, room: np.ndarray) -> tuple[float, float]:
        """Largest difference, absolute and relative: infinite where golden is 0 and it not."""
        apart = self._room[2][: golden.size]
        far = float(max(apart.max(), -apart.min()))
        if self._brief:
            return far, math.nan
        ratios = np.divide(apart, golden, out=room)
        found = float(max(np.fmax.reduce(ratios), -np.fmin.reduce(ratios)))
        return far, 0.0 if math.isnan(found) else found


class _Odd(NamedTuple):
    """What is not finite in a block.

    Attributes:
        places: Where either is not finite.
        no_number: Where either is NaN.
        new: How many NaNs and infinities golden does not have.
    """

    places: np.ndarray
    no_number: np.ndarray
    new: tuple[int, int]

    @classmethod
    def of(cls, a: np.ndarray, b: np.ndarray) -> _Odd:
        """Look for it."""
        nans, infinities = (np.isnan(a), np.isnan(b)), (np.isinf(a), np.isinf(b))
        new = (np.count_nonzero(theirs & ~mine) for mine, theirs in (nans, infinities))
        places = ~(np.isfinite(a) & np.isfinite(b))
        return cls(places, nans[0] | nans[1], (int(next(new)), int(next(new))))


def _numbers(tensor: torch.Tensor) -> np.ndarray:
    """The values as numpy knows them."""
    values = tensor.float() if tensor.element_size() == 2 else tensor
    return np.asarray(values.numpy())


def _steps(golden: np.ndarray, faulty: np.ndarray, odd: _Odd | None) -> tuple[float, int]:
    """Largest distance in representable values, and how many signs of finite numbers flip."""
    steps = faulty - golden
    flipped = np.flatnonzero((faulty ^ golden) < 0)
    if not flipped.size:
        most = max(int(steps.max()), -int(steps.min()))
        return (float(most) if most else math.nan), 0  # no number changed
    steps[flipped] = 0
    most = max(int(steps.max()), -int(steps.min()))
    sides = (side[flipped].astype(np.int64) for side in (golden, faulty))
    lowest = int(np.iinfo(golden.dtype).min)
    across = sum(np.where(side < 0, side - lowest, side).astype(np.float64) for side in sides)
    flips = flipped if odd is None else flipped[~odd.places[flipped]]
    return max(float(most), float(np.max(across))), int(flips.size)
