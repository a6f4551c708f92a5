"""Outputs that nobody could read: they differ where what their calls read differs.

    count_as_differing(faulty, columns, struck)
    last_followed(comparison)        the last of them that leads to nothing that differs

The values of a sparse, nested, quantized or meta tensor are not read, and neither is what a
collective has not finished writing. A call gives the same of the same inputs, so such an output
counts as equal where no input differs; where one does, it counts as differing by an unknown
amount, so that the error is followed through it. Its row is never ``exact``.

Limits: an error that ends in such a call is not seen to end there.
"""

from __future__ import annotations

import numpy as np

from fi_notebook.core.run import Comparison
from fi_notebook.core.trace import Trace
from fi_notebook.core.valueless import is_bare

__all__ = ["count_as_differing", "last_followed"]


def count_as_differing(
    faulty: Trace, columns: dict[str, np.ndarray], struck: np.ndarray | None = None
) -> np.ndarray:
    """Count the unread outputs of calls that read something that differs as differing.

    Args:
        faulty: Trace of the faulty run, which knows what led to what.
        columns: The columns of a comparison; changed in place.
        struck: Whether a fault struck each site of the faulty trace; None where that is not
            known.

    Returns:
        Which rows these are.
    """
    assumed = np.zeros(len(columns["faulty"]), dtype=bool)
    made = np.flatnonzero(columns["faulty"] >= 0)
    differs = np.zeros(len(faulty), dtype=bool)
    differs[columns["faulty"][made]] = ~columns["equal"][made]
    if struck is not None:
        differs |= struck
    if not differs.any():
        return assumed
    unread = made[_is_unread(faulty, columns)[made]]
    for row in unread[np.argsort(columns["faulty"][unread])].tolist():  # as they were made
        site = columns["faulty"][row]
        call = faulty.site_columns["call"][site]
        inputs = faulty.input_sites[slice(*faulty.input_offsets[call : call + 2])]
        if differs[site] or differs[inputs[inputs >= 0]].any():
            differs[site] = assumed[row] = True
    columns["equal"][assumed] = False
    return assumed


def last_followed(comparison: Comparison) -> int | None:
    """Where an error was lost sight of: in what is not read, and led to nothing that differs.

    Args:
        comparison: The faulty run against the golden run.

    Returns:
        The last row of that kind, or None.
    """
    faulty, rows = comparison.faulty, comparison.columns["faulty"]
    made = rows[comparison.diverged]
    differs = np.zeros(faulty.call_count, dtype=bool)
    differs[faulty.site_columns["call"][made[made >= 0]]] = True
    read = faulty.input_sites[np.repeat(differs, np.diff(faulty.input_offsets))]
    lost = comparison.unread[~np.isin(rows[comparison.unread], read)]
    return int(lost[-1]) if len(lost) else None


def _is_unread(faulty: Trace, columns: dict[str, np.ndarray]) -> np.ndarray:
    """Whether each output has values, of which neither run has read any."""
    both = (columns["golden"] >= 0) & (columns["faulty"] >= 0)
    found = both & columns["equal"] & ~columns["exact"] & (columns["numel"] > 0)
    rows = columns["faulty"][found]
    taken = faulty.site_columns["nan"][rows] >= 0
    unknown = np.isnan(columns["relative_l2"][found])
    found[found] = unknown & ~taken & ~is_bare(faulty, rows)
    return found
