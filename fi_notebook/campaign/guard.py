"""Watching over a worker: an injection that does not end, and a parent that is gone.

    with Guard(60.0, trials) as guard:
        with guard.watching():
            …                       # Overtime is raised here when the time is over

First the replay is cancelled, which stops it at its next call; if there is none, an
exception is raised in its thread, but not while it puts everything back; if that does not
help either, a worker process ends itself (the campaign then counts the injection as a crash).
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import connection
from typing import Protocol

__all__ = ["Guard", "Overtime", "end_with_parent"]

GRACE = 5.0
"""Seconds between two ever harder ways to stop an injection."""

EXIT_CODE = 86
"""Exit code of a worker that ends itself."""


class Overtime(BaseException):
    """The time of an injection is over; no `Exception`, so that no step swallows it."""


class Stoppable(Protocol):
    """What can be stopped between two calls, or anywhere."""

    def cancel(self) -> None:
        """Stop at the next call."""

    def interrupt(self, raise_in_it: Callable[[], object]) -> bool:
        """Raise an exception where it runs, or say that this is no moment for it."""


class Guard:
    """A thread that stops injections which take too long.

    Args:
        timeout: Seconds that one may take.
        running: What is stopped.
        grace: Seconds between the ways to stop it.
    """

    def __init__(self, timeout: float, running: Stoppable, grace: float = GRACE) -> None:
        """Start nothing yet."""
        self._timeout, self._running, self._grace = timeout, running, grace
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._deadline: float | None = None
        self._level, self._raised = 0, False
        self._target = 0
        self._over = False
        self._thread = threading.Thread(target=self._watch, name="campaign guard", daemon=True)

    def __enter__(self) -> Guard:  # noqa: PYI034  # Self is of Python 3.11
        """Start the thread."""
        self._target = threading.get_ident()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the thread."""
        self._over = True
        self._wake.set()
        self._thread.join()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Give the block its time.

        Raises:
            Overtime: It took longer.
        """
        with self._lock:
            self._deadline = time.monotonic() + self._timeout
            self._level, self._raised = 0, False
        try:
            yield
        finally:
            self._deadline = None  # first: waiting for the lock may raise
            with self._lock:
                if self._raised:
                    _raise_in(self._target, None)  # what was not delivered yet

    @property
    def late(self) -> bool:
        """Whether the last block took longer than its time."""
        return self._level > 0

    def _watch(self) -> None:
        period = min(0.5, self._timeout / 4)
        while not self._over:
            self._wake.wait(period)
            with self._lock:
                late = -1.0 if self._deadline is None else time.monotonic() - self._deadline
                if late >= self._level * self._grace:
                    self._stop()

    def _stop(self) -> None:
        """The next harder way; where there is none, the exception is tried until it is raised."""
        self._level += 1
        if self._level == 1:
            self._running.cancel()
        elif self._level > 2 and multiprocessing.parent_process() is not None:
            os._exit(EXIT_CODE)
        elif not self._raised:
            self._raised = self._running.interrupt(partial(_raise_in, self._target, Overtime))


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Raise in another thread between two of its bytecodes; None takes it back."""
    raised = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


_watching_parent = threading.Event()


def end_with_parent() -> None:
    """In a worker process: end when its parent is gone, whatever it is waiting for."""
    parent = multiprocessing.parent_process()
    if parent is None or _watching_parent.is_set():
        return
    _watching_parent.set()

    def wait() -> None:
        connection.wait([parent.sentinel])
        os._exit(EXIT_CODE)

    threading.Thread(target=wait, name="campaign parent", daemon=True).start()
