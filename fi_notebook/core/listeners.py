"""Who is told of what happens: one way to subscribe, to tell, and to end it.

    listeners = Listeners("event, payload")
    end = listeners.subscribe(print)
    listeners.tell("state", {"state": "idle"})
    end()

A listener that raises is logged; what it was told of goes on, and the others are told.

Limits: a Ctrl-C in a listener comes through.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

from fi_notebook.errors import short

__all__ = ["Listeners", "added"]

logger = logging.getLogger("fi_notebook")

P = ParamSpec("P")
T = TypeVar("T")


class Listeners(Generic[P]):
    """Listeners, in the order in which they came.

    Args:
        takes: What each is called with, in words for the error.
    """

    def __init__(self, takes: str = "") -> None:
        """Start with nobody listening."""
        self._takes = takes
        self._all: list[Callable[P, object]] = []

    def subscribe(self, listener: Callable[P, object]) -> Callable[[], None]:
        """Tell a listener from now on; call what is returned to tell it no more.

        Raises:
            TypeError: It cannot be called.
        """
        if not callable(listener):
            raise TypeError(f"listener is {short(listener)}; expected a callable ({self._takes})")
        return added(self._all, listener)

    def tell(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Tell everybody; whoever raises is logged."""
        for listener in list(self._all):
            try:
                listener(*args, **kwargs)
            except Exception:
                name = getattr(listener, "__qualname__", type(listener).__name__)
                logger.exception("the listener %s failed", name)


def added(to: list[T], one: T) -> Callable[[], None]:
    """Add one to a list; what is returned takes it out again, however often it is called."""
    to.append(one)
    return lambda: to.remove(one) if one in to else None
