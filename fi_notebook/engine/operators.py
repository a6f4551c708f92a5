"""Which operators there are, and what was meant by one that no step calls.

    near_operators("adddmm")               # "; did you mean 'addmm'?"
    uncalled("linear", ["t", "addmm"])     # "; 'linear' is made of other operators, …"

Limits: what a composite operator is made of depends on its arguments; it is not named.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache

import torch
from torch.nn import functional

from fi_notebook.errors import did_you_mean

__all__ = ["composed", "is_operator", "near_operators", "uncalled"]


def is_operator(op: str) -> bool:
    """Whether torch, or a library that was loaded, has an operator of this name now."""
    return op in _overloads()


def _overloads() -> dict[str, list[str]]:
    """Full names of the overloads of each operator packet."""
    found: dict[str, list[str]] = {}
    for name in torch._C._dispatch_get_all_op_names():
        found.setdefault(name.partition(".")[0].removeprefix("aten::"), []).append(name)
    return found


@lru_cache(maxsize=256)
def near_operators(op: str) -> str:
    """The nearest operators there are, where an operator is none; ``""`` where it is one.

    Args:
        op: Operator packet, with its namespace unless that is aten.

    Returns:
        ``; did you mean …?``, or ``""``.
    """
    known = _overloads()
    return "" if op in known else did_you_mean(op, sorted(known))


@lru_cache(maxsize=256)
def composed(op: str) -> str:
    """That other operators are called in an operator's place, where that is so, or ``""``.

    So it is with what is composite in torch, ``linear``, and with functions that are no
    operator, ``cross_entropy``.

    Args:
        op: Operator packet, with its namespace unless that is aten.

    Returns:
        ``; 'linear' is made of other operators, which are called in its place``, or ``""``.
    """
    overloads = _overloads().get(op)
    if overloads is None:
        made_of_others = callable(getattr(functional, op, None))
    else:
        made_of_others = _any_has(overloads, "CompositeImplicitAutograd") and not _any_has(
            overloads, "CPU"
        )
    said = f"; {op!r} is made of other operators, which are called in its place"
    return said if made_of_others else ""


def _any_has(overloads: Iterable[str], key: str) -> bool:
    """Whether any overload has a kernel for a dispatch key."""
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for name in overloads)


def uncalled(op: str, called: Iterable[str]) -> str:
    """What may have been meant by an operator that was not called.

    Args:
        op: Operator packet, with its namespace unless that is aten.
        called: The operators that were.

    Returns:
        A tail for a message that says so, or ``""`` where it was called elsewhere, or nothing
        is near.
    """
    names = list(called)
    if op in names:  # elsewhere
        return ""
    near = get_close_matches(op, names, n=3, cutoff=0.6)
    other = composed(op) or composed(op.lower())  # a class of modules has an operator's name
    return other or (did_you_mean(op, near) if near else near_operators(op))
