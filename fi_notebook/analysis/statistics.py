"""What two traces tell of each other without a tensor: equal bits, and how far at least.

    relative_l2   ‖b - a‖ ≥ |‖b‖ - ‖a‖|, and ≥ √(n (Δmean² + Δstd²)), over ‖a‖
    max_abs       ≥ |Δmin| and |Δmax|

Both are lower bounds; of what they leave out (a row swap) the hash of the bits says that
it is there. Statistics are over finite elements; where there are other NaNs or infinities
they are of other elements, and nothing is known of how far these are apart. Nor is it of
outputs of other shapes.

What a statistic of many elements may be off, as it is summed in float32, is taken off the
bound: of up to about 0.0001 for ``relative_l2`` is then said to be 0.
"""

from __future__ import annotations

import math

import numpy as np

from fi_notebook.analysis.align import Alignment
from fi_notebook.analysis.incidental import is_incidental_alone
from fi_notebook.core.run import COMPARISON_COLUMNS, DISTANCES
from fi_notebook.core.stats import NONFINITE, STATISTICS, nonfinite_count
from fi_notebook.core.trace import Trace
from fi_notebook.core.valueless import UNWRITTEN, is_of

__all__ = ["EXACT", "judge_statistics", "unknown"]

EXACT = 1 << 13
"""Up to this many elements statistics are of sums in float64."""

_WIDE = ("float64", "complex128", "bool", "int", "uint")
"""How the names of dtypes begin of which every sum is in float64."""

_NORM, _MEAN = 5e-5, 2e-6
"""How far sums in float32 are off at most: a norm by this share of itself, a mean by this share
of the root mean square."""


def judge_statistics(
    golden: Trace,
    faulty: Trace,
    alignment: Alignment,
    tolerance: float = 0.0,
    measured: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Every column of a comparison, from the two traces alone.

    Args:
        golden: The trace to compare with.
        faulty: The trace to be judged.
        alignment: Which site is which.
        tolerance: Relative difference up to which outputs count as equal; 0 asks for
            the same dtype, statistics and hash.
        measured: Whether each site row of the faulty trace was measured on the tensors,
            so that nobody asks for its hash; None where none was.
    """
    count, both = len(alignment), alignment.matched
    columns: dict[str, np.ndarray] = {
        name: np.full(count, unknown(name), dtype=kind) for name, kind in COMPARISON_COLUMNS.items()
    }
    columns["golden"], columns["faulty"] = alignment.golden_rows, alignment.faulty_rows
    rows = (alignment.golden_rows[both], alignment.faulty_rows[both])
    before, after = _statistics(golden, rows[0]), _statistics(faulty, rows[1])
    numel = [_numel(t, r) for t, r in ((golden, columns["golden"]), (faulty, columns["faulty"]))]
    columns["numel"] = np.maximum(*numel)
    sized = (numel[0] == numel[1])[both]
    unwritten = is_of(golden, rows[0], UNWRITTEN)
    asked = np.ones(len(both), bool) if measured is None else ~measured[rows[1]]
    bits = _same_bits(golden, faulty, rows, before, after, asked) & sized | unwritten
    taken = (before["nan"] >= 0) & (after["nan"] >= 0) & ~unwritten
    exact = bits & (taken | unwritten | (numel[0][both] == 0))
    rounded = _is_rounded(golden, rows[0]) | _is_rounded(faulty, rows[1])
    relative = _relative(before, after, _finite(before, numel[0][both]), rounded)
    counts = np.all([before[n] == after[n] for n in NONFINITE], axis=0)
    counts &= _same(golden, faulty, rows, "shape")  # over other elements, they bound nothing
    relative = np.where(exact, 0.0, np.where(counts, relative, np.nan))
    near = sized & counts & (relative <= tolerance) if tolerance else np.zeros(len(both), bool)
    columns["equal"][both] = bits | near
    columns["exact"][both] = exact
    columns["relative_l2"][both] = relative
    ends = np.fmax(abs(after["min"] - before["min"]), abs(after["max"] - before["max"]))
    columns["max_abs"][both] = np.where(counts, ends, np.nan)
    columns["new_nan"][both] = _more(before["nan"], after["nan"])
    infinities = [stats["posinf"] + stats["neginf"] for stats in (before, after)]
    columns["new_inf"][both] = _more(*infinities)
    columns["equal"][alignment.only_golden] = is_incidental_alone(
        golden, alignment.golden_rows[alignment.only_golden]
    )
    columns["equal"][alignment.only_faulty] = is_incidental_alone(
        faulty, alignment.faulty_rows[alignment.only_faulty]
    )
    for name in DISTANCES:
        columns[name][both[exact]] = 0
    return columns


def unknown(name: str) -> float:
    """What stands in a column where nothing is known.

    Args:
        name: A column of a comparison.
    """
    kind = COMPARISON_COLUMNS[name]
    return np.nan if kind is np.float64 else -1 if kind is np.int64 else 0


def _statistics(trace: Trace, rows: np.ndarray) -> dict[str, np.ndarray]:
    return {name: trace.site_columns[name][rows] for name in STATISTICS}


def _same_bits(
    golden: Trace,
    faulty: Trace,
    rows: tuple[np.ndarray, np.ndarray],
    before: dict[str, np.ndarray],
    after: dict[str, np.ndarray],
    asked: np.ndarray,
) -> np.ndarray:
    """Whether dtype, statistics and hash are the same; so they are where none was taken.

    Hashes may be made only when they are looked at: they are where something is asked that
    the rest leaves open.
    """
    same = [_same(golden, faulty, rows, "dtype")] + [
        (before[name] == after[name]) | (np.isnan(before[name]) & np.isnan(after[name]))
        for name in before
    ]
    found = np.all(same, axis=0)
    if np.any(found & asked & (before["nan"] >= 0)):
        found &= golden.site_columns["hash"][rows[0]] == faulty.site_columns["hash"][rows[1]]
    return np.asarray(found)


def _same(
    golden: Trace, faulty: Trace, rows: tuple[np.ndarray, np.ndarray], name: str
) -> np.ndarray:
    """Whether the dtype, or the shape, of each pair is the same."""
    texts = [_texts(trace, mine, name) for trace, mine in zip((golden, faulty), rows, strict=True)]
    return np.asarray(texts[0] == texts[1], dtype=bool)


def _texts(trace: Trace, rows: np.ndarray, name: str) -> np.ndarray:
    names = [*map(str, getattr(trace.tables, f"{name}s")), ""]
    return np.asarray(names, dtype=object)[trace.site_columns[name][rows]]


def _is_rounded(trace: Trace, rows: np.ndarray) -> np.ndarray:
    """Whether the statistics of each site may be of sums in float32."""
    wide = np.asarray([*(name.startswith(_WIDE) for name in trace.tables.dtypes), True])
    return (_numel(trace, rows) > EXACT) & ~wide[trace.site_columns["dtype"][rows]]


def _finite(stats: dict[str, np.ndarray], numel: np.ndarray) -> np.ndarray:
    """How many elements the other statistics are of."""
    return np.maximum(numel - nonfinite_count(stats), 0)


def _relative(
    before: dict[str, np.ndarray],
    after: dict[str, np.ndarray],
    finite: np.ndarray,
    rounded: np.ndarray,
) -> np.ndarray:
    """A lower bound of ‖after - before‖ / ‖before‖, known from norms, means and deviations."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ranges = [_ranges(stats, finite, rounded) for stats in (before, after)]
        norm, mean, std = (_apart(*both) for both in zip(*ranges, strict=True))
        distance = np.fmax(norm, np.sqrt(finite * (np.square(mean) + np.square(std))))
        return np.where(distance == 0, 0.0, distance / before["norm"])


_Range = tuple[np.ndarray, np.ndarray]


def _ranges(
    stats: dict[str, np.ndarray], finite: np.ndarray, rounded: np.ndarray
) -> tuple[_Range, _Range, _Range]:
    """Between what norm, mean and standard deviation lie, which come from a sum and the norm."""
    norm, mean, std = (stats[name] for name in ("norm", "mean", "std"))
    size = norm / np.sqrt(finite)
    norm_off, mean_off, variance_off = (
        np.where(rounded, off, 0.0)
        for off in (_NORM * norm, _MEAN * size, 2 * (_NORM + _MEAN) * np.square(size))
    )
    low = np.where(rounded, np.sqrt(np.maximum(np.square(std) - variance_off, 0)), std)
    high = np.where(rounded, np.sqrt(np.square(std) + variance_off), std)
    return (norm - norm_off, norm + norm_off), (mean - mean_off, mean + mean_off), (low, high)


def _apart(first: _Range, second: _Range) -> np.ndarray:
    """How far two ranges are apart at least; 0 where they meet."""
    gap = np.maximum(second[0] - first[1], first[0] - second[1])
    return np.asarray(np.maximum(gap, 0))


def _more(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    return np.where((before < 0) | (after < 0), -1, np.maximum(after - before, 0))


def _numel(trace: Trace, rows: np.ndarray) -> np.ndarray:
    """Elements of each site; -1 where the trace has no such site."""
    sizes = [math.prod(shape) for shape in trace.tables.shapes]
    of_site = np.asarray([*sizes, -1], dtype=np.int64)[trace.site_columns["shape"]]
    return np.append(of_site, -1)[rows]
