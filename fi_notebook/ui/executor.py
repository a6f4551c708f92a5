"""One worker thread per session: replays run there, and only there.

A job waits while a cell of the person runs, and a cell that starts during a job waits
for the job to end, so that the model is never stepped by two threads at once. A Ctrl-C in
the waiting cell stops the jobs; a second one gives the cell up, which then does not run.
Where there is no IPython, nothing waits.

Updates on the way (progress, curves) go through a `Coalescer`: at most ten messages a
second, the latest of each kind wins, the last one is always sent.

Limits: cells of another frontend on the same kernel are seen, threads that a person
starts are not.
"""

from __future__ import annotations

import contextvars
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from fi_notebook.ui.shells import accept_cells, refuse_cell, running_shell

__all__ = ["Coalescer", "Executor"]

_LOG = logging.getLogger("fi_notebook")

_SHARE = 10
"""A sparing `Coalescer` sends for one part in so many of the time."""

_STOPPING = (
    "the cell waits until the explorer's run has stopped and everything is put back; "
    "interrupt again to give the cell up"
)
_REFUSED = (
    "the cell was not run: the explorer still steps the model, and would put its state back "
    "over what the cell does; run the cell again, which waits, or restart the kernel"
)

Job = Callable[[], None]


def _nothing() -> None:
    """What is told where nobody asked to be told."""


class Executor:
    """Runs jobs one after another on a thread of its own, between the person's cells."""

    def __init__(self, cancel: Job = _nothing, shell: Any = None) -> None:
        """Start no thread yet.

        Args:
            cancel: Hurries a job that is to stop, from any thread; see `stop`.
            shell: IPython shell whose cells are waited for; None looks for the running one,
                False waits for none.
        """
        self._cancel = cancel
        self._jobs: deque[tuple[Job, Job]] = deque()
        self._runs = self._stopping = False
        self._lock = threading.Condition()
        self._thread: threading.Thread | None = None
        self._context = contextvars.copy_context()
        self._shell = running_shell() if shell is None else shell or None
        self._cell = "the running cell" if self._shell is not None and _in_a_cell() else ""
        self._cells_run = 0
        self._watch(True)

    @property
    def cell(self) -> str:
        """Label of the cell that is running, or ``""``."""
        return self._cell

    @property
    def stopping(self) -> bool:
        """Whether the job that runs is to stop; it asks for itself, now and then."""
        return self._stopping

    def submit(self, job: Job, dropped: Job = _nothing) -> None:
        """Run a job as soon as nothing else runs; the call returns at once.

        Args:
            job: What is run, on the worker's thread.
            dropped: Called instead, where the job is dropped before it began.
        """
        with self._lock:
            self._jobs.append((job, dropped))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._context.copy().run, args=(self._work,), name="fi_notebook"
                )
                self._thread.daemon = True
                self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until every job is done; False where the time ran out."""
        with self._lock:
            return self._lock.wait_for(lambda: self._thread is None, timeout)

    def drop(self) -> None:
        """Drop the jobs that wait; the one that runs goes on."""
        with self._lock:
            waiting = list(self._jobs)
            self._jobs.clear()
            self._lock.notify_all()
        for _, dropped in waiting:
            dropped()

    def stop(self) -> None:
        """Drop the jobs that wait, and ask the one that runs to stop."""
        self.drop()
        with self._lock:
            self._stopping = self._runs
        self._cancel()

    def close(self) -> None:
        """Drop the jobs that wait and let go of the shell."""
        self.drop()
        self._watch(False)

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                job()
            except BaseException:  # noqa: BLE001 - the thread goes on, even after sys.exit
                _LOG.exception("a job of the explorer failed")

    def _next(self) -> Job | None:
        with self._lock:
            self._runs = self._stopping = False
            self._lock.wait_for(lambda: not self._cell or not self._jobs)
            if self._jobs:
                self._runs = True
                return self._jobs.popleft()[0]
            self._thread = None
            self._lock.notify_all()
            return None

    def _watch(self, on: bool) -> None:
        if self._shell is None:
            return
        act = self._shell.events.register if on else self._shell.events.unregister
        act("pre_run_cell", self._cell_begins)
        act("post_run_cell", self._cell_ended)

    def _cell_begins(self, _info: Any = None) -> None:
        """Wait for the jobs. IPython runs the cell whatever is raised here, so nothing is."""
        try:
            self._let_jobs_end()
        except KeyboardInterrupt:
            refuse_cell(self._shell, _REFUSED)
        finally:
            self._label_cell()

    def _let_jobs_end(self) -> None:
        """Wait for the jobs; after a Ctrl-C, until they have stopped.

        Raises:
            KeyboardInterrupt: A second one came before that.
        """
        try:
            self._until_idle()
        except KeyboardInterrupt:  # the person wants the cell, not the replay
            _LOG.warning(_STOPPING)
            self.stop()
            self._until_idle()

    def _until_idle(self) -> None:
        with self._lock:
            self._lock.wait_for(lambda: self._thread is None or bool(self._cell))
            self._label_cell()  # before another job can begin

    def _label_cell(self) -> None:
        with self._lock:
            number = self._cells_run + 1  # the shell's own count differs by version here
            self._cell = f"In [{number}]" if self._cells_run else "the running cell"

    def _cell_ended(self, result: Any = None) -> None:
        with self._lock:
            self._cell = ""
            self._cells_run = getattr(result, "execution_count", None) or self._cells_run
            self._lock.notify_all()
        accept_cells(self._shell)


class Coalescer:
    """Sends at most so many updates a second; the latest of each kind wins."""

    def __init__(
        self,
        send: Callable[[Mapping[str, Any]], None],
        interval: float = 0.1,
        *,
        sparing: bool = False,
    ) -> None:
        """Keep the sender.

        Args:
            send: Called with the pending updates by kind, from any thread.
            interval: Seconds between two calls, at least.
            sparing: Whether to wait longer where sending takes its time: a tenth of it at most.
                One that takes long alone, such as the first, which loads what draws, delays none.
        """
        self._send = send
        self._least = self._interval = interval
        self._sparing, self._taken = sparing, 0.0
        self._pending: dict[str, Any] = {}
        self._last = float("-inf")
        self._timer: threading.Timer | None = None
        self._lock = threading.RLock()  # of what is pending; never held while something is sent
        self._turn = threading.RLock()  # whose turn it is to send

    def put(self, kind: str, update: Any) -> None:
        """Send an update now, or with the next batch; waits for no other thread's sending."""
        with self._lock:
            self._pending[kind] = update
            wait = self._wait()
            if wait > 0 or not self._turn.acquire(blocking=False):
                self._send_after(wait if wait > 0 else self._interval)
                return
        try:
            self._send_pending()
        finally:
            self._turn.release()

    def flush(self) -> None:
        """Send what is pending without waiting, unless another thread is sending."""
        with self._turn:
            self._send_pending()

    def _wait(self) -> float:
        return self._last + self._interval - time.monotonic()

    def _send_after(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = threading.Timer(seconds, self._send_late)
            self._timer.daemon = True
            self._timer.start()

    def _send_late(self) -> None:
        """Send in the timer's thread, or later where another has just sent for long."""
        with self._turn:
            with self._lock:
                self._timer, wait = None, self._wait()
                if wait > 0:
                    self._send_after(wait)
                    return
            try:
                self._send_pending()
            except Exception:  # noqa: BLE001 - nobody would see it in this thread
                _LOG.exception("an update of a widget could not be sent")

    def _send_pending(self) -> None:
        """Send in this thread, whose turn it is."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            pending, self._pending = self._pending, {}
            if not pending:
                return
            self._last = began = time.monotonic()
        try:
            self._send(pending)
        finally:
            if self._sparing:
                before, self._taken = self._taken, time.monotonic() - began
                self._interval = max(self._least, _SHARE * min(before, self._taken))


def _in_a_cell() -> bool:
    """Whether this very thread is running a cell: IPython's own frame is on its stack."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - the documented way to look at the stack
    while frame is not None:
        where = frame.f_globals.get("__name__")
        if frame.f_code.co_name == "run_code" and where == "IPython.core.interactiveshell":
            return True
        frame = frame.f_back
    return False
