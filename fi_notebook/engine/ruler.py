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
    """Room for the measures of one block after the other; taking it anew costs as much as they.

    Args:
        size: Elements of the largest block.
        brief: Leave out relative errors, representable values and signs.
    """

    def __init__(self, size: int = QUICK_BLOCK, *, brief: bool = False) -> None:
        """Take the room."""
        self._brief = brief
        self._room = np.empty((3, size))
        self._integers = np.empty((2, size), dtype=np.int64)
        self._truths = np.empty(size, dtype=np.bool_)

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
        if same_memory(golden, faulty) and math.isfinite(before := _dot(a, a)):
            return (0.0, before, before, before, 0.0, 0.0, math.nan, 0, 0, 0, 0)
        np.copyto(b, _numbers(faulty))
        bits = [raw(tensor).numpy() for tensor in (golden, faulty)]
        truths = self._truths[: a.size]
        changed = int(np.count_nonzero(np.not_equal(bits[0], bits[1], out=truths)))
        sums = self._sums(a, b)
        odd = None if math.isfinite(sum(sums[:3])) else _Odd.of(a, b)
        if odd is not None:
            a[odd.places] = b[odd.places] = 0
            bits = [np.where(odd.no_number, 0, side) for side in bits]
            sums = self._sums(a, b)
        far, relative = self._largest(a, b)
        steps, flips = (math.nan, 0) if self._brief else self._steps(bits[0], bits[1], odd)
        new = (0, 0) if odd is None else odd.new
        return (*sums, far, relative, steps, changed, flips, *new)

    def _sums(self, a: np.ndarray, b: np.ndarray) -> tuple[float, float, float, float]:
        """Squares of the difference, which stays in the room, of each, and the product."""
        apart = np.subtract(b, a, out=self._room[2][: a.size])
        squares, before, after = (_dot(side, side) for side in (apart, a, b))
        return squares, before, after, math.nan if self._brief else _dot(a, b)

    def _largest(self, golden: np.ndarray, room: np.ndarray) -> tuple[float, float]:
        """Largest difference, absolute and relative: infinite where golden is 0 and it not."""
        apart = self._room[2][: golden.size]
        far = float(max(apart.max(), -apart.min()))
        if self._brief:
            return far, math.nan
        ratios = np.divide(apart, golden, out=room)
        found = float(max(np.fmax.reduce(ratios), -np.fmin.reduce(ratios)))
        return far, 0.0 if math.isnan(found) else found

    def _steps(self, golden: np.ndarray, faulty: np.ndarray, odd: _Odd | None) -> tuple[float, int]:
        """Largest distance in representable values, and how many signs of finite numbers flip."""
        rooms = (row.view(golden.dtype)[: golden.size] for row in self._integers)
        steps = np.subtract(faulty, golden, out=next(rooms))
        across = np.bitwise_xor(faulty, golden, out=next(rooms))
        flipped = np.flatnonzero(np.less(across, 0, out=self._truths[: golden.size]))
        if not flipped.size:
            most = max(int(steps.max()), -int(steps.min()))
            return (float(most) if most else math.nan), 0  # no number changed
        steps[flipped] = 0
        most = max(int(steps.max()), -int(steps.min()))
        flips = flipped if odd is None else flipped[~odd.places[flipped]]
        return max(float(most), _across(golden[flipped], faulty[flipped])), int(flips.size)


def _across(golden: np.ndarray, faulty: np.ndarray) -> float:
    """Largest distance in representable values between numbers of different signs."""
    lowest = int(np.iinfo(golden.dtype).min)
    sides = (side.astype(np.int64) for side in (golden, faulty))
    far = sum(np.where(side < 0, side - lowest, side).astype(np.float64) for side in sides)
    return float(np.max(far))


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


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    """Sum of products by torch: numpy's BLAS has threads of its own, which fight with torch's."""
    return torch.dot(torch.from_numpy(a), torch.from_numpy(b)).item()


def _numbers(tensor: torch.Tensor) -> np.ndarray:
    """The values as numpy knows them."""
    values = tensor.float() if tensor.element_size() == 2 else tensor
    return np.asarray(values.numpy())
