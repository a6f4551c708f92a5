"""Who is told of what a session does, and how a run of it is stopped.

    state     {"state": "idle" | "tracing" | "replaying"}
    trace     {"trace": Trace}
    plan      {"plan": FaultPlan}
    progress  {"run", "step", "steps", "call", "calls", "phase"}   at most 10 a second
    step      {"run": "golden" | "faulty", "steps", "record": StepRecord}
    run       {"run": Run}
    error     {"error", "traceback"}

Listeners are called in the thread that runs the step, between its calls. Of the runs in which a
campaign tries its faults nobody is told.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fi_notebook.core.listeners import Listeners
from fi_notebook.core.site import PHASES
from fi_notebook.engine.intercept import Call
from fi_notebook.engine.interrupts import Interrupts
from fi_notebook.errors import SessionCancelled

__all__ = ["Cancelled", "Events", "Listener", "Progress", "SessionCancelled"]

Listener = Callable[[str, Mapping[str, Any]], None]

_OF_RUNS = frozenset({"state", "progress", "step", "error"})

PERIOD = 0.1
"""Seconds between two progress events."""


class Cancelled(BaseException):
    """Raised inside a step to stop it; no `Exception`, so that no step swallows it."""


class Events:
    """The listeners of a session, and its stop flag."""

    def __init__(self) -> None:
        """Start with nobody listening."""
        self._lock = threading.RLock()  # a handler of a signal may cancel
        self._runs = self._stop = False
        self._listeners: Listeners[str, Mapping[str, Any]] = Listeners("event, payload")
        self.subscribe = self._listeners.subscribe
        self._quiet = False

    def tell(self, event: str, **payload: Any) -> None:
        """Tell everybody of an event."""
        if not (self._quiet and event in _OF_RUNS):
            self._listeners.tell(event, payload)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Tell nobody of the run that the block makes."""
        self._quiet = True
        try:
            yield
        finally:
            self._quiet = False

    @contextmanager
    def stoppable(self) -> Iterator[None]:
        """Heed `cancel` while the block lasts: a run waits for its turn, or goes on."""
        with self._lock:
            self._runs, self._stop = True, False
        try:
            yield
        finally:
            with self._lock:
                self._runs = self._stop = False

    def cancel(self) -> None:
        """Stop the run that waits or goes on; where there is none, nothing."""
        with self._lock:
            self._stop = self._runs

    def check(self) -> None:
        """Stop, where that was asked for.

        Raises:
            Cancelled: It was.
        """
        if self._stop:
            raise Cancelled


class Progress:
    """Tells of the progress of a run, and stops it where that was asked for.

    Args:
        events: Who is told.
        run: ``golden`` or ``faulty``.
        steps: How many steps the run has.
        calls: How many calls a step is expected to make, 0 where unknown.
        interrupts: Where a Ctrl-C waits for the next call.
    """

    def __init__(
        self, events: Events, run: str, steps: int, calls: int, interrupts: Interrupts
    ) -> None:
        """Start the clock."""
        self.step = 0
        self._interrupts = interrupts
        self._events, self._run, self._steps, self._calls = events, run, steps, calls
        self._told = time.monotonic()

    def __call__(self, call: Call) -> None:
        """A call is about to be made.

        Raises:
            Cancelled: The run is to stop.
            KeyboardInterrupt: A Ctrl-C waited for this call.
        """
        self._interrupts.check()
        self._events.check()
        now = time.monotonic()
        if now - self._told < PERIOD:
            return
        self._told = now
        self._events.tell(
            "progress",
            run=self._run,
            step=self.step,
            steps=self._steps,
            call=call.row,
            calls=self._calls,
            phase=PHASES[call.phase],
        )
