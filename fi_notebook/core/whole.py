"""Whole numbers that a person gives: what counts as one, and how one that is none is refused.

    is_whole(True, 0)              # False: it is a bool
    check_whole("steps", 0, 1)     # ArgumentError: steps is 0; expected a whole number from 1

Limits: numbers of numpy are none here, since a plan or a journal could not hold them; the
selections of elements take them (`faults.elements.whole`).
"""

from __future__ import annotations

from typing import Any, TypeGuard

from fi_notebook.errors import ArgumentError, short

__all__ = ["check_whole", "is_whole"]


def is_whole(value: object, low: int) -> TypeGuard[int]:
    """Whether it is a whole number from ``low`` on; True is none.

    Args:
        value: What was given.
        low: The smallest that is one.

    Returns:
        Whether it is.
    """
    return isinstance(value, int) and not isinstance(value, bool) and value >= low


def check_whole(name: str, value: Any, low: int, error: type[Exception] = ArgumentError) -> None:
    """Refuse what is no whole number from ``low`` on.

    Args:
        name: What it is for, as a person gave it.
        value: What was given.
        low: The smallest that is one.
        error: What is raised.

    Raises:
        Exception: ``error``; says what was given and what was expected.
    """
    if not is_whole(value, low):
        raise error(f"{name} is {short(value)}; expected a whole number from {low}")
