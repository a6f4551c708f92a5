"""What two traces tell of each other without a tensor: equal bits, and how far at least.

    relative_l2   ‖b - a‖ ≥ |‖b‖ - ‖a‖|, and ≥ √(n (Δmean² + Δstd²)), over ‖a‖
    max_abs       ≥ |Δmin| and |Δmax|

Both are lower bounds; of what they leave out (a row swap) the hash of the bits says that
it is there. Statistics are over finite elements; where there are other NaNs or infinities
they are of other elements, and nothing is known of how far these are apart.
"""

from __future__ import annotations

import math

import numpy as np

from fi_notebook.analysis.align import Alignment
from fi_notebook.analysis.incidental import is_incidental_alone
from fi_notebook.core.run import COMPARISON_COLUMNS, DISTANCES
from fi_notebook.core.stats import NONFINITE, STATISTICS
from fi_notebook.core.trace import Trace
from fi_notebook.core.valueless import UNWRITTEN, is_of

__all__ = ["judge_statistics"]


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
        name: np.full(count, _unknown(name), dtype=kind)
        for name, kind in COMPARISON_COLUMNS.items()
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
    relative = np.where(exact, 0.0, _relative(before, after, numel[0][both]))
    counts = np.all([before[n] == after[n] for n in NONFINITE], axis=0)
    relative = np.where(counts, relative, np.nan)  # over other elements, they bound nothing
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


def _unknown(name: str) -> float:
    """What stands in a column where nothing is known."""
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
    dtypes = [
        np.asarray([*trace.tables.dtypes, ""], dtype=object)[trace.site_columns["dtype"][mine]]
        for trace, mine in zip((golden, faulty), rows, strict=True)
    ]
    same = [
        (before[name] == after[name]) | (np.isnan(before[name]) & np.isnan(after[name]))
        for name in before
    ]
    found = np.all([*same, dtypes[0] == dtypes[1]], axis=0)
    if np.any(found & asked & (before["nan"] >= 0)):
        found &= golden.site_columns["hash"][rows[0]] == faulty.site_columns["hash"][rows[1]]
    return np.asarray(found)


def _relative(
    before: dict[str, np.ndarray], after: dict[str, np.ndarray], numel: np.ndarray
) -> np.ndarray:
    """A lower bound of ‖after - before‖ / ‖before‖, known from norms, means and deviations."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        norms = abs(after["norm"] - before["norm"])
        moments = [np.square(after[name] - before[name]) for name in ("mean", "std")]
        distance = np.fmax(norms, np.sqrt(numel * sum(moments)))
        return np.where(distance == 0, 0.0, distance / before["norm"])


def _more(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    return np.where((before < 0) | (after < 0), -1, np.maximum(after - before, 0))


def _numel(trace: Trace, rows: np.ndarray) -> np.ndarray:
    """Elements of each site; -1 where the trace has no such site."""
    sizes = [math.prod(shape) for shape in trace.tables.shapes]
    of_site = np.asarray([*sizes, -1], dtype=np.int64)[trace.site_columns["shape"]]
    return np.append(of_site, -1)[rows]
