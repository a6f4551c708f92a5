"""Operators whose results say nothing of values: bare memory, and what is made from a shape.

    "empty_like" in UNWRITTEN       it gives memory as it finds it
    "zeros_like" in MADE_LIKE       what it makes depends on the shape of its input alone
    3 in WORKSPACES["_cudnn_rnn"]   that output is a kernel's own memory

Every other list of such operators is made from these two, with what is its own beside them.
"""

from __future__ import annotations

__all__ = ["MADE_LIKE", "UNWRITTEN", "WORKSPACES"]

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
