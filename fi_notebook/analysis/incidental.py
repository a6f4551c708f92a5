"""Calls that mean nothing where they differ, or where one run alone makes them.

    is_incidental(trace, rows)          memory made outside the model, and detaches
    is_incidental_alone(trace, rows)    the same, and how autograd keeps a gradient
    count_as_equal(columns, …)          those that differ though no input does, and no fault struck

What a worker of a data loader hands over comes when it comes, so that two runs take the same
batches in another order. And torch does more with a tensor that somebody holds for a moment,
as a profiler does that looks at frames: it detaches such a result, which shifts the detaches
after it, and copies such a gradient rather than taking it.
"""

from __future__ import annotations

from collections.abc import Container

import numpy as np

from fi_notebook.core.run import DISTANCES, EFFECTS
from fi_notebook.core.site import PHASES
from fi_notebook.core.trace import Trace
from fi_notebook.core.valueless import UNWRITTEN, is_of

__all__ = ["count_as_equal", "is_incidental", "is_incidental_alone"]

_BARE = UNWRITTEN | {"set_"}
_READS_NOTHING = frozenset(op for op in UNWRITTEN if op.startswith("empty"))
_KEEPS = frozenset({"clone", "new_empty_strided", "copy_"})
_OTHER, _BACKWARD = PHASES.index("other"), PHASES.index("backward")
_INTRODUCED = EFFECTS.index("introduced")


def is_incidental(trace: Trace, rows: np.ndarray) -> np.ndarray:
    """Whether each site is bare memory outside the model, or a detach; -1 is no site."""
    return _in_phase(trace, rows, _BARE, _OTHER) | is_of(trace, rows, {"detach"})


def is_incidental_alone(trace: Trace, rows: np.ndarray) -> np.ndarray:
    """Whether one run may make each site alone and mean nothing by it; -1 is no site."""
    keeps = _in_phase(trace, rows, _KEEPS, _BACKWARD)
    calls = trace.site_columns["call"][rows[keeps]]
    keeps[keeps] = trace.calls["parameter"][calls] >= 0
    return is_incidental(trace, rows) | keeps


def count_as_equal(faulty: Trace, columns: dict[str, np.ndarray], struck: np.ndarray) -> bool:
    """Count incidental sites as equal where the error seems to begin, but no fault struck.

    One that reads what no site made (a parameter that a fault struck) stays as it is.

    Args:
        faulty: Trace of the faulty run.
        columns: The columns of a comparison, with effects; changed in place.
        struck: Whether a fault struck each site of the faulty trace.

    Returns:
        Whether there were any, so that the effects are to be assigned anew.
    """
    rows = columns["faulty"]
    begins = np.flatnonzero((columns["effect"] == _INTRODUCED) & (rows >= 0))
    known = _reads_known(faulty, rows[begins])
    found = begins[is_incidental(faulty, rows[begins]) & ~struck[rows[begins]] & known]
    columns["equal"][found] = True
    for name in (*DISTANCES, "new_nan", "new_inf"):
        columns[name][found] = 0
    return bool(len(found))


def _reads_known(trace: Trace, rows: np.ndarray) -> np.ndarray:
    """Whether the call of each site reads what a site made, or nothing at all."""
    reads = np.diff(trace.input_offsets)[trace.site_columns["call"][rows]] > 0
    return reads | is_of(trace, rows, _READS_NOTHING)


def _in_phase(trace: Trace, rows: np.ndarray, ops: Container[str], phase: int) -> np.ndarray:
    """Whether each site is of one of these operators, in this phase; -1 is no site."""
    found = is_of(trace, rows, ops)
    calls = trace.site_columns["call"][rows[found]]
    found[found] = trace.calls["phase"][calls] == phase
    return found
