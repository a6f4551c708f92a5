"""One run at a time on a model: a lock for each, whoever made a session of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from torch import nn

from fi_notebook.errors import SessionError

__all__ = ["exclusive"]

_locks: WeakKeyDictionary[nn.Module, threading.Lock] = WeakKeyDictionary()  # registry


@contextmanager
def exclusive(model: nn.Module) -> Iterator[None]:
    """Hold the model's lock.

    Raises:
        SessionError: Another trace or replay is running this model.
    """
    lock = _locks.setdefault(model, threading.Lock())
    if not lock.acquire(blocking=False):
        raise SessionError(
            "another trace or replay is running this model; wait until it is done, or cancel it"
        )
    try:
        yield
    finally:
        lock.release()
