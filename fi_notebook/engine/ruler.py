"""Measuring floating-point blocks on the host in a few passes that stay in the cache.

    ruler = Ruler(QUICK_BLOCK)
    ruler.measure(golden, faulty)       # 11 numbers

Numbers are of float64. A ruler for ``single`` precision takes float32 where that is enough,
which is a third of the work: sums and ratios have 5 digits, the largest difference is exact at
the element where float32 finds it. Blocks of up to `EXACT` elements, those with numbers that
are not finite or whose squares float32 cannot hold, and those of float64 it measures in
float64. Counts are always exact, and so are distances in representable values, which are of
the bits as integers: neighbours of one sign are as far apart as their bits; two numbers of
different signs are as far as both are from zero.

Limits: an element counts as changed by its bits, also where its number is the same. In
single precision a ratio beyond float32 (golden below 1e-38 of the change) is infinite.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch

from fi_notebook.engine.bits import raw, same_memory
from fi_notebook.engine.stats import EXACT

__all__ = ["QUICK", "QUICK_BLOCK", "Ruler"]

QUICK = frozenset({torch.float32, torch.float64, torch.float16, torch.bfloat16})
"""Dtypes that it can measure."""

QUICK_BLOCK = 1 << 15
"""Elements of a block: 256 KiB in float64."""

_LEAST, _MOST = 1e-27, 1e36
"""Sums of squares of a block between which float32 loses nothing that matters to them."""

Found = tuple[float, float, float, float, float, float, float, int, int, int, int]


class Ruler:
    """Room for the measures of one block after the other; taking it anew costs as much as they.

    Args:
        size: Elements of the largest block.
        brief: Leave out relative errors, representable values and signs.
        single: Measure large blocks in single precision where that is enough.
    """

    def __init__(
        self, size: int = QUICK_BLOCK, *, brief: bool = False, single: bool = False
    ) -> None:
        """Take the room."""
        self._brief, self._single = brief, single
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
            return self._in_single(golden, faulty) or self._in_double(golden, faulty)

    def _in_single(self, golden: torch.Tensor, faulty: torch.Tensor) -> Found | None:
        """None where that is not enough, or not asked for."""
        if not self._single or golden.numel() <= EXACT or golden.dtype == torch.float64:
            return None
        first, second, third, room = (row[: golden.numel()] for row in self._singles)
        a = _single(golden, first)
        if same_memory(golden, faulty):
            before = _dot(a, a)
            fits = _LEAST < before < _MOST
            return (0.0, before, before, before, 0.0, 0.0, math.nan, 0, 0, 0, 0) if fits else None
        b = _single(faulty, second)
        apart = np.subtract(b, a, out=third)
        squares, before, after = (_dot(side, side) for side in (apart, a, b))
        if not all(_LEAST < found < _MOST for found in (squares, before, after)):
            return None
        places = (int(apart.argmax()), int(apart.argmin()))
        far = max(abs(float(b[place]) - float(a[place])) for place in places)
        product = relative = math.nan
        if not self._brief:
            near = squares <= min(before, after)  # then the sums say it, to more digits
            product = (before + after - squares) / 2 if near else _dot(a, b)
            relative = _largest_ratio(apart, a, room)
        changed, steps, flips = self._of_bits(_bits(golden), _bits(faulty), None)
        return (squares, before, after, product, far, relative, steps, changed, flips, 0, 0)

    def _in_double(self, golden: torch.Tensor, faulty: torch.Tensor) -> Found:
        """Whatever the numbers are."""
        a, b, _ = (row[: golden.numel()] for row in self._room)
        np.copyto(a, _numbers(golden))
        if same_memory(golden, faulty) and math.isfinite(before := _dot(a, a)):
            return (0.0, before, before, before, 0.0, 0.0, math.nan, 0, 0, 0, 0)
        np.copyto(b, _numbers(faulty))
        sums = self._sums(a, b)
        odd = None if math.isfinite(sum(sums[:3])) else _Odd.of(a, b)
        if odd is not None:
            a[odd.places] = b[odd.places] = 0
            sums = self._sums(a, b)
        far, relative = self._largest(a, b)
        changed, steps, flips = self._of_bits(_bits(golden), _bits(faulty), odd)
        new = (0, 0) if odd is None else odd.new
        return (*sums, far, relative, steps, changed, flips, *new)

    @property
    def _singles(self) -> np.ndarray:
        """The same room, for numbers of half the width."""
        return self._room.view(np.float32).reshape(6, -1)[:4]

    def _sums(self, a: np.ndarray, b: np.ndarray) -> tuple[float, float, float, float]:
        """Squares of the difference, which stays in the room, of each, and the product."""
        apart = np.subtract(b, a, out=self._room[2][: a.size])
        squares, before, after = (_dot(side, side) for side in (apart, a, b))
        return squares, before, after, math.nan if self._brief else _dot(a, b)

    def _largest(self, golden: np.ndarray, room: np.ndarray) -> tuple[float, float]:
        """Largest difference, absolute and relative."""
        apart = self._room[2][: golden.size]
        far = float(max(apart.max(), -apart.min()))
        return far, math.nan if self._brief else _largest_ratio(apart, golden, room)

    def _of_bits(
        self, golden: np.ndarray, faulty: np.ndarray, odd: _Odd | None
    ) -> tuple[int, float, int]:
        """How many elements changed, the largest distance, and how many finite signs flip."""
        truths = self._truths[: golden.size]
        changed = int(np.count_nonzero(np.not_equal(golden, faulty, out=truths)))
        if self._brief:
            return changed, math.nan, 0
        if odd is not None:
            golden, faulty = (np.where(odd.no_number, 0, side) for side in (golden, faulty))
        return changed, *self._steps(golden, faulty, odd)

    def _steps(self, golden: np.ndarray, faulty: np.ndarray, odd: _Odd | None) -> tuple[float, int]:
        """Largest distance in representable values, and how many signs of finite numbers flip."""
        rooms = (row.view(golden.dtype)[: golden.size] for row in self._integers)
        steps = np.subtract(faulty, golden, out=next(rooms))
        across = np.bitwise_xor(faulty, golden, out=next(rooms))
        if across.min() >= 0:
            most = max(int(steps.max()), -int(steps.min()))
            return (float(most) if most else math.nan), 0  # no number changed
        flipped = np.flatnonzero(np.less(across, 0, out=self._truths[: golden.size]))
        steps[flipped] = 0
        most = max(int(steps.max()), -int(steps.min()))
        flips = flipped if odd is None else flipped[~odd.places[flipped]]
        return max(float(most), _across(golden[flipped], faulty[flipped])), int(flips.size)


def _largest_ratio(apart: np.ndarray, golden: np.ndarray, room: np.ndarray) -> float:
    """Largest relative difference: infinite where golden is 0 and it not."""
    ratios = np.divide(apart, golden, out=room)
    found = float(max(np.fmax.reduce(ratios), -np.fmin.reduce(ratios)))
    return 0.0 if math.isnan(found) else found


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


def _bits(tensor: torch.Tensor) -> np.ndarray:
    """The bits as integers of their width."""
    return np.asarray(raw(tensor).numpy())


def _single(tensor: torch.Tensor, room: np.ndarray) -> np.ndarray:
    """The values in float32, where they lie or in the room."""
    if tensor.dtype == torch.float32:
        return np.asarray(tensor.numpy())
    torch.from_numpy(room).copy_(tensor)
    return room


def _numbers(tensor: torch.Tensor) -> np.ndarray:
    """The values as numpy knows them."""
    values = tensor.float() if tensor.element_size() == 2 else tensor
    return np.asarray(values.numpy())
