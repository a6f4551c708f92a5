"""What is attached to training, and looks away while a session runs.

    attached.add(injector)
    with attached.looking_away(model):      # a session's run; it is put back afterwards
        …
    attached.discard(injector)

A session's run is no training: nothing that is attached may strike, count or record it.
What looks away is afterwards exactly as it was, in the middle of a step as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Protocol
from weakref import WeakSet

from torch import nn

__all__ = ["Attached", "add", "discard", "looking_away"]


class Attached(Protocol):
    """What is attached to training.

    Attributes:
        looks_only: Whether it only looks, and so is told after what strikes.
    """

    looks_only: bool

    def concerns(self, model: nn.Module) -> bool:
        """Whether a run of a model in this thread could be taken for training."""

    def look_away(self) -> None:
        """See nothing from now on."""

    def look_again(self) -> None:
        """Go on as if nothing had been in between."""

    def hook_last(self) -> None:
        """Be told of what training does after all others."""


_attached: WeakSet[Attached] = WeakSet()  # registry: what is attached and looks


def add(one: Attached) -> None:
    """Something is attached; what only looks is told after it."""
    _attached.add(one)
    for other in [other for other in _attached if other.looks_only and other is not one]:
        other.hook_last()


def discard(one: Attached) -> None:
    """Something is attached no more."""
    _attached.discard(one)


@contextmanager
def looking_away(model: nn.Module) -> Iterator[None]:
    """Let all that a run of a model concerns look away meanwhile."""
    with ExitStack() as ends:
        for one in [one for one in _attached if one.concerns(model)]:
            _attached.discard(one)  # a run within this one finds it looking away
            ends.callback(_attached.add, one)
            ends.callback(one.look_again)
            one.look_away()
        yield
