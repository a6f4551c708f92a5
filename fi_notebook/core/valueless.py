"""Operators whose results say nothing of values: bare memory, and what is made from a shape.

    "empty_like" in UNWRITTEN       it gives memory as it finds it
    "zeros_like" in MADE_LIKE       what it makes depends on the shape of its input alone
    3 in WORKSPACES["_cudnn_rnn"]   that output is a kernel's own memory
    is_bare(trace, rows)            which sites are of the first or the last kind

Every other list of such operators is made from these, with what is its own beside them.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fi_notebook.core.trace import Trace

__all__ = ["MADE_LIKE", "UNWRITTEN", "WORKSPACES", "is_bare", "is_of"]

UNWRITTEN = frozenset(
    {
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_quantized",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
    }
)
"""Operators that give new memory as they find it: there is nothing to compare."""

MADE_LIKE = frozenset(
    {
        "empty_like",
        "new_empty",
        "new_empty_strided",
        "zeros_like",
        "new_zeros",
        "ones_like",
        "new_ones",
        "full_like",
        "new_full",
        "rand_like",
        "randn_like",
        "randint_like",
    }
)
"""Operators that make a tensor of another one's kind and never read its values."""

WORKSPACES = {
    "mkldnn_rnn_layer": (3,),
    "_cudnn_rnn": (3,),
    "miopen_rnn": (3,),
    "cudnn_batch_norm": (3,),
    "_batch_norm_with_update": (3,),
}
"""Outputs that are a kernel's own memory: no values, and not the same twice."""


def is_bare(trace: Trace, rows: np.ndarray) -> np.ndarray:
    """Whether each site holds bare memory, or memory that is a kernel's own.

    Args:
        trace: The trace.
        rows: Rows of its sites.

    Returns:
        One truth for each of them.
    """
    found = is_of(trace, rows, UNWRITTEN)
    for op, outputs in WORKSPACES.items():
        own = np.isin(trace.site_columns["output"][rows], outputs)
        found |= own & is_of(trace, rows, {op})
    return found


def is_of(trace: Trace, rows: np.ndarray, ops: Container[str]) -> np.ndarray:
    """Whether each site is of one of these operators.

    Args:
        trace: The trace.
        rows: Rows of its sites; -1 is no site.
        ops: Names of operator packets.

    Returns:
        One truth for each of them.
    """
    if not len(trace):
        return np.zeros(len(rows), dtype=bool)
    of_op = np.asarray([op in ops for op in trace.tables.ops], dtype=bool)
    calls = trace.site_columns["call"][np.maximum(rows, 0)]
    return of_op[trace.calls["op"][calls]] & (rows >= 0)
