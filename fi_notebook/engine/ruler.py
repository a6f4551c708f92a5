"""Measuring floating-point vectors on the host in a few passes that stay in the cache.

    ruler = Ruler()
    ruler.measure(golden, faulty)       # 12 numbers of each block

Numbers are of float64. A ruler for ``single`` precision takes float32 where that is enough,
which is a third of the work and is shared by torch's threads: sums and ratios have 4 digits
or more, the largest difference has 7. Vectors of up to `EXACT` elements, blocks with numbers
that are not finite or whose squares float32 cannot hold, and those of float64 it measures in
float64. Counts are always exact, and so are distances in representable values, which are of
the bits as integers: neighbours of one sign are as far apart as their bits; two numbers of
different signs are as far as both are from zero.

Limits: an element counts as changed by its bits, also where its number is the same. In
single precision a ratio beyond float32 (golden below 1e-38 of the change) is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch

from fi_notebook.engine.bits import raw, same_memory
from fi_notebook.engine.stats import EXACT
from fi_notebook.engine.storages import array_over

__all__ = ["QUICK", "QUICK_BLOCK", "Ruler", "pairs"]

QUICK = frozenset({torch.float32, torch.float64, torch.float16, torch.bfloat16})
"""Dtypes that it can measure."""

QUICK_BLOCK = 1 << 15
"""Elements of a block in double precision: 256 KiB."""

_SHARE, _SHARES = 1 << 16, 16
"""Elements of a block in single precision for each thread, 256 KiB, and for how many at most."""

_LEAST, _MOST = 1e-27, 1e36
"""Sums of squares of a block between which float32 loses nothing that matters to them."""

Found = tuple[float, float, float, float, float, float, float, int, int, int, int, int]


class Ruler:
    """Room for the measures of one block after the other; taking it anew costs as much as they.

    Args:
        size: Elements of the largest vector, where it is known.
        brief: Leave out relative errors, representable values and signs.
        single: Measure large vectors in single precision where that is enough.
    """

    def __init__(
        self, size: int | None = None, *, brief: bool = False, single: bool = False
    ) -> None:
        """Take the room."""
        block = QUICK_BLOCK if size is None else min(size, QUICK_BLOCK)
        self._brief, self._single = brief, single
        self._room = np.empty((3, block))
        self._integers = np.empty((2, block), dtype=np.int64)
        self._truths = np.empty(block, dtype=np.bool_)
        width = _SHARE * min(torch.get_num_threads(), _SHARES) if single else 0
        width = width if size is None else min(size, width)
        self._singles = np.empty((4, width), dtype=np.float32)  # no call that a mode would see

    def measure(self, golden: torch.Tensor, faulty: torch.Tensor) -> list[Found]:
        """Measure one vector against another of the same size and dtype, without gaps.

        Returns:
            For each block sums of squares of difference, golden and faulty, the sum of
            products, largest absolute and relative difference and distance in representable
            values, how many elements changed, how many signs, how many new NaNs and
            infinities, and in place of how many there is a number or the other infinity.
        """
        with np.errstate(all="ignore"):
            if self._single and golden.numel() > EXACT and golden.dtype != torch.float64:
                large = pairs(golden, faulty, self._singles.shape[1])
                return [found for a, b in large for found in self._preferably_single(a, b)]
            return self._all_in_double(golden, faulty)

    def _preferably_single(self, golden: torch.Tensor, faulty: torch.Tensor) -> list[Found]:
        """A block in single precision, or its parts in double precision."""
        found = self._in_single(golden, faulty)
        return self._all_in_double(golden, faulty) if found is None else [found]

    def _all_in_double(self, golden: torch.Tensor, faulty: torch.Tensor) -> list[Found]:
        return [self._in_double(a, b) for a, b in pairs(golden, faulty, QUICK_BLOCK)]

    def _in_single(self, golden: torch.Tensor, faulty: torch.Tensor) -> Found | None:
        """None where that is not enough."""
        rooms = torch.from_numpy(self._singles[:, : golden.numel()])
        first, second, third, fourth = rooms.unbind()
        a = golden if golden.dtype == torch.float32 else first.copy_(golden)
        if same_memory(golden, faulty):
            before = torch.dot(a, a).item()
            fits = _LEAST < before < _MOST
            return _same(before) if fits else None
        b = faulty if faulty.dtype == torch.float32 else second.copy_(faulty)
        apart = torch.sub(b, a, out=third)
        squares, before, after = (torch.dot(side, side).item() for side in (apart, a, b))
        if not all(_LEAST < found < _MOST for found in (squares, before, after)):
            return None
        far, product, relative = _farthest_by_threads(apart), math.nan, math.nan
        if not self._brief:
            near = squares <= min(before, after)  # then the sums say it, to more digits
            product = (before + after - squares) / 2 if near else torch.dot(a, b).item()
            relative = _farthest_by_threads(torch.div(apart, a, out=fourth))
        changed, steps, flips = self._of_single_bits(raw(golden), raw(faulty))
        return (squares, before, after, product, far, relative, steps, changed, flips, 0, 0, 0)

    def _of_single_bits(self, golden: torch.Tensor, faulty: torch.Tensor) -> tuple[int, float, int]:
        """How many elements changed, the largest distance, and how many signs flip."""
        sides = (array_over(golden), array_over(faulty))
        steps, across = (row.view(sides[0].dtype)[: sides[0].size] for row in self._singles[2:])
        apart = torch.sub(faulty, golden, out=torch.from_numpy(steps))
        changed = int(torch.count_nonzero(apart))
        if self._brief:
            return changed, math.nan, 0
        torch.bitwise_xor(faulty, golden, out=torch.from_numpy(across))
        return changed, *_far_by_bits(*sides, steps, across)

    def _in_double(self, golden: torch.Tensor, faulty: torch.Tensor) -> Found:
        """Whatever the numbers are."""
        a, b, _ = (row[: golden.numel()] for row in self._room)
        np.copyto(a, _numbers(golden))
        if same_memory(golden, faulty) and math.isfinite(before := _dot(a, a)):
            return _same(before)
        np.copyto(b, _numbers(faulty))
        sums = self._sums(a, b)
        odd = None if math.isfinite(sum(sums[:3])) else _Odd.of(a, b)
        if odd is not None:
            a[odd.places] = b[odd.places] = 0
            sums = self._sums(a, b)
        apart = self._room[2][: a.size]
        far = _farthest(apart)
        relative = math.nan if self._brief else _farthest(np.divide(apart, a, out=b))
        changed, steps, flips = self._of_bits(_bits(golden), _bits(faulty), odd)
        new = (0, 0, 0) if odd is None else odd.new
        return (*sums, far, relative, steps, changed, flips, *new)

    def _sums(self, a: np.ndarray, b: np.ndarray) -> tuple[float, float, float, float]:
        """Squares of the difference, which stays in the room, of each, and the product."""
        apart = np.subtract(b, a, out=self._room[2][: a.size])
        squares, before, after = (_dot(side, side) for side in (apart, a, b))
        return squares, before, after, math.nan if self._brief else _dot(a, b)

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
        return _far_by_bits(golden, faulty, steps, across, odd)


def _same(squares: float) -> Found:
    """What is found of a block and itself."""
    return (0.0, squares, squares, squares, 0.0, 0.0, math.nan, 0, 0, 0, 0, 0)


def pairs(
    golden: torch.Tensor, faulty: torch.Tensor, size: int
) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
    """Two vectors block by block."""
    return zip(golden.split(size), faulty.split(size), strict=True)


def _far_by_bits(
    golden: np.ndarray,
    faulty: np.ndarray,
    steps: np.ndarray,
    across: np.ndarray,
    odd: _Odd | None = None,
) -> tuple[float, int]:
    """Largest distance in representable values, and how many signs of finite numbers flip.

    Args:
        golden: Bits of the one block, as integers.
        faulty: Those of the other.
        steps: Their difference; it is written.
        across: Which of them differ; below zero where the sign does.
        odd: What is not finite.
    """
    if across.min() >= 0:
        most = max(int(steps.max()), -int(steps.min()))
        return (float(most) if most else math.nan), 0  # no number changed
    flipped = np.flatnonzero(across < 0)
    steps[flipped] = 0
    most = max(int(steps.max()), -int(steps.min()))
    flips = flipped if odd is None else flipped[~odd.places[flipped]]
    return max(float(most), _across(golden[flipped], faulty[flipped])), int(flips.size)


def _farthest(values: np.ndarray) -> float:
    """Largest magnitude; NaN counts as nothing (0 / 0, where neither run has anything)."""
    found = float(max(np.fmax.reduce(values), -np.fmin.reduce(values)))
    return 0.0 if math.isnan(found) else found + 0.0  # not -0


def _farthest_by_threads(values: torch.Tensor) -> float:
    """The same, by torch where none is NaN."""
    low, high = (found.item() for found in torch.aminmax(values))
    return _farthest(array_over(values)) if math.isnan(low) else max(high, -low) + 0.0


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
        new: How many NaNs and infinities golden does not have, and in place of how many of
            its own there is a number or the other infinity.
    """

    places: np.ndarray
    no_number: np.ndarray
    new: tuple[int, int, int]

    @classmethod
    def of(cls, a: np.ndarray, b: np.ndarray) -> _Odd:
        """Look for it."""
        nans, infinities = (np.isnan(a), np.isnan(b)), (np.isinf(a), np.isinf(b))
        finite = (np.isfinite(a), np.isfinite(b))
        lost = (~finite[0] & finite[1]) | (infinities[0] & (a == -b))
        new = (*(theirs & ~mine for mine, theirs in (nans, infinities)), lost)
        nan, inf, gone = (int(np.count_nonzero(found)) for found in new)
        return cls(~(finite[0] & finite[1]), nans[0] | nans[1], (nan, inf, gone))


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    """Sum of products by torch: numpy's BLAS has threads of its own, which fight with torch's."""
    return torch.dot(torch.from_numpy(a), torch.from_numpy(b)).item()


def _bits(tensor: torch.Tensor) -> np.ndarray:
    """The bits as integers of their width."""
    return array_over(raw(tensor))


def _numbers(tensor: torch.Tensor) -> np.ndarray:
    """The values as numpy knows them."""
    values = tensor.float() if tensor.element_size() == 2 else tensor
    return array_over(values)
