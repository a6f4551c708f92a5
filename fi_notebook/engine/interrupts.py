"""A Ctrl-C while a session runs: let through in a person's own code, and nowhere else.

    interrupts = Interrupts()
    with interrupts:                    # from here on a Ctrl-C waits …
        with interrupts.let_through():  # … except while the step itself runs
            step()
        …                               # hooks off, everything back as it was
                                        # what waited is delivered here

Where it comes while an observer looks at a call (it may have taken modes off for a
moment), or in a finalizer (Python swallows what is raised there), it waits for the next
call, which asks by `Interrupts.check`. After one was let through, the next waits until
everything is put back.

Limits: signals reach the main thread alone; in any other there is nothing to do. A handler
that is no Python function (the system's default, one that C set) is left alone: nothing could
call it later.
"""

from __future__ import annotations

import _weakrefset
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from fi_notebook.errors import OURS

__all__ = ["Interrupts"]

_NOT_IN = (OURS, weakref.__file__, _weakrefset.__file__)
"""Our own code, and that of Python which runs when an object is gone."""


class Interrupts:
    """What becomes of a Ctrl-C; entered around a run, in the main thread."""

    def __init__(self) -> None:
        """Change nothing yet."""
        self._before: Callable[[int, FrameType | None], Any] | None = None
        self._open = False
        self._home: FrameType | None = None  # what called the code that may be interrupted
        self._waiting: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> None:
        """Let a Ctrl-C wait from here on."""
        if threading.current_thread() is not threading.main_thread():
            return
        before = signal.getsignal(signal.SIGINT)
        if callable(before):  # no constant of the system's, and not C's, which reads as None
            self._before, self._open, self._waiting = before, False, None
            signal.signal(signal.SIGINT, self._handle)

    def __exit__(self, *_: object) -> None:
        """Handle a Ctrl-C as before, and deliver the one that waits."""
        before, self._before = self._before, None
        if before is None or threading.current_thread() is not threading.main_thread():
            return
        signal.signal(signal.SIGINT, before)
        if self._waiting is not None:
            before(*self._waiting)

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """Let a Ctrl-C act at once inside the block."""
        self._home, self._open = sys._getframe(2), True
        try:
            yield
        finally:
            self._home, self._open = None, False

    def check(self) -> None:
        """Let one that waits act now; a run asks between two calls."""
        if self._waiting is not None and self._open:
            waiting, self._waiting = self._waiting, None
            self._deliver(*waiting)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._open and not self._has_to_wait(frame):
            self._deliver(number, frame)
        else:
            self._waiting = (number, frame)

    def _deliver(self, number: int, frame: FrameType | None) -> None:
        self._open = False  # the next one waits
        if self._before is not None:
            self._before(number, frame)  # raises, as a rule
        self._open = True

    def _has_to_wait(self, frame: FrameType | None) -> bool:
        """Whether code of this package, or a finalizer, runs inside the block."""
        while frame is not None and frame is not self._home:
            code = frame.f_code
            if code.co_name == "__del__" or code.co_filename.startswith(_NOT_IN):
                return True
            frame = frame.f_back
        return False
