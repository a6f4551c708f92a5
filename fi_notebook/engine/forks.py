"""What is on in a process is off in every process that it forks.

    forks.add(watch)        # in a child, watch.forked() is called, before anything else
    forks.discard(watch)    # it is off; a child need not know of it

A fork copies hooks and dispatch modes, so that a worker of a data loader would be struck
and counted as training is, and nobody would ever be told.

Limits: a child that is meant to train needs an injector of its own.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

__all__ = ["add", "discard"]


class Forked(Protocol):
    """What is to be undone in a child process."""

    def forked(self) -> None:
        """This process is a child; be off in it."""


_on: WeakSet[Forked] = WeakSet()  # registry: what is on in this process


def add(one: Forked) -> None:
    """Something is on; it is to be off in children."""
    _on.add(one)


def discard(one: Forked) -> None:
    """Something is off."""
    _on.discard(one)


def _in_child() -> None:
    for one in list(_on):
        one.forked()
    _on.clear()


if hasattr(os, "register_at_fork"):  # there are no forks on Windows
    os.register_at_fork(after_in_child=_in_child)
