"""One run at a time: on a model, whoever made a session of it, and in the whole process.

Generators and settings of torch belong to the process, and a run puts them back. So a run
of another model, in another thread, waits for its turn; one of the same model is refused.

An open `Injector` of the model, or one that strikes in this thread, looks away meanwhile:
the run is not struck, takes no step of it, and leaves it as it was.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from torch import nn

from fi_notebook.engine import attached
from fi_notebook.errors import SessionError

__all__ = ["exclusive", "turn"]

_locks: WeakKeyDictionary[nn.Module, threading.Lock] = WeakKeyDictionary()  # registry
_turn = threading.RLock()  # a step may itself run a session of another model


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


@contextmanager
def turn(model: nn.Module) -> Iterator[None]:
    """Wait for the process's turn and hold it, with injectors of the model looking away."""
    with _turn, attached.looking_away(model):
        yield
