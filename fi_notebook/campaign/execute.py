"""Handing injections to an executor, and what becomes of those whose worker dies.

    maker = Here(bench) if executor is None else Elsewhere(settings, executor)
    for rows in maker.rows(Tasks(jobs, 25), stop=lambda: False):
        journal.append(rows)

Any `concurrent.futures.Executor` will do: processes, or Dask's
``Client.get_executor()``. Where a worker dies, its injections are made again, one at a
time; one that ends its worker three times, alone, is a crash.

Limits: a broken process pool is made anew as it was (workers, context, initializer);
for other executors that break, give a function that makes one.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from dataclasses import dataclass
from typing import Any, Protocol

from fi_notebook.campaign.draws import CampaignError
from fi_notebook.campaign.journal import Row
from fi_notebook.campaign.worker import Bench, Job, Settings, crashed, importable, run_chunk

__all__ = ["Elsewhere", "Here", "Maker", "Tasks"]

ATTEMPTS = 3
"""How many workers an injection must end, each time alone, to be called a crash."""

SOON = 1.0
"""Seconds that a task takes at most where nobody says how many injections it has, if it can."""

PERIOD = 0.5
"""Seconds between two looks at whether the campaign was cancelled."""

_LOST = ("KilledWorker",)  # of distributed, which need not be installed

Chunk = tuple[Job, ...]
Stop = Callable[[], bool]


class Maker(Protocol):
    """Who makes injections."""

    @property
    def workers(self) -> int:
        """How many tasks are made at a time, as far as it is known."""

    def rows(self, tasks: Tasks, stop: Stop) -> Iterator[list[Row]]:
        """Make injections, and give their rows as they come.

        Args:
            tasks: The injections.
            stop: Asked now and then; where it says so, what is running is still waited for.
        """


@dataclass(frozen=True)
class Here:
    """This process.

    Attributes:
        bench: The session with its golden run.
    """

    bench: Bench
    workers = 1

    def rows(self, tasks: Tasks, stop: Stop) -> Iterator[list[Row]]:
        """One task after another; see `Maker`."""
        while tasks.waiting and not stop():
            rows = self.bench.rows(tasks.take())
            tasks.look(rows)
            yield rows


class Elsewhere:
    """The workers of an executor.

    Args:
        settings: What is to be known of the campaign.
        executor: The executor, or what makes one.

    Raises:
        CampaignError: Other processes cannot import what they are to call.
    """

    def __init__(self, settings: Settings, executor: Executor | Callable[[], Executor]) -> None:
        """Make nothing yet."""
        self._settings, self._executor = settings, importable(settings, executor)
        self.workers = workers_of(executor)

    def rows(self, tasks: Tasks, stop: Stop) -> Iterator[list[Row]]:
        """As many tasks at a time as keep the workers busy; see `Maker`."""
        return _Dispatch(self._settings, tasks, self._executor, stop).run()


class Tasks:
    """The injections that wait, as many at a time as one task has.

    Args:
        jobs: The injections, in order.
        most: How many one task has at most.
        soon: Whether it has fewer where they would take longer than `SOON`; it begins with one.

    Attributes:
        waiting: Those that wait.
    """

    def __init__(self, jobs: Sequence[Job], most: int, *, soon: bool = False) -> None:
        """All wait."""
        self.waiting = deque(jobs)
        self._most, self._soon = most, soon
        self._size = 1 if soon else most

    def next(self) -> Chunk:
        """The next task; it still waits."""
        return tuple(itertools.islice(self.waiting, self._size))

    def take(self) -> Chunk:
        """The next task, which waits no longer."""
        return tuple(self.waiting.popleft() for _ in self.next())

    def look(self, rows: Sequence[Row]) -> None:
        """See how long injections take."""
        if self._soon and rows:
            each = sum(row.seconds for row in rows) / len(rows)
            self._size = max(1, min(self._most, int(SOON / each) if each else self._most))


def workers_of(executor: Any) -> int:
    """How many tasks an executor runs at a time, as far as it says."""
    known = getattr(executor, "_max_workers", None)
    if isinstance(known, int):
        return known
    client = getattr(executor, "_client", None)
    if client is not None:
        return max(1, sum(client.nthreads().values()))
    return os.cpu_count() or 1


class _Dispatch:
    """The tasks of one campaign on an executor."""

    def __init__(
        self,
        settings: Settings,
        tasks: Tasks,
        executor: Executor | Callable[[], Executor],
        stop: Stop,
    ) -> None:
        self.settings, self.stop = settings, stop
        self.tasks = tasks
        self.suspects: deque[tuple[Job, int]] = deque()
        self.running: dict[Future[list[Row]], Chunk] = {}
        self.deaths: dict[int, int] = {}
        self.make = None if isinstance(executor, Executor) else executor
        self.executor = executor if isinstance(executor, Executor) else executor()
        self.own = self.make is not None
        self.width = 2 * workers_of(self.executor)

    def run(self) -> Iterator[list[Row]]:
        try:
            while self.running or ((self.tasks.waiting or self.suspects) and not self.stop()):
                if not self.stop():
                    self.fill()
                done, _ = wait(self.running, timeout=PERIOD, return_when=FIRST_COMPLETED)
                for future in done:
                    rows = self.collected(future)
                    if rows:
                        yield rows
        finally:
            for future in self.running:
                future.cancel()
            if self.own:
                self.executor.shutdown(wait=True, cancel_futures=True)

    def fill(self) -> None:
        """Keep the workers busy; a suspect runs alone, so that a death is its own."""
        while not self.suspects and self.tasks.waiting and len(self.running) < self.width:
            if not self.submit(self.tasks.next()):
                return
            self.tasks.take()
        if self.suspects and not self.running and self.submit((self.suspects[0][0],)):
            self.suspects.popleft()

    def submit(self, jobs: Chunk) -> bool:
        try:
            future = self.executor.submit(run_chunk, self.settings, jobs)
        except BrokenExecutor:
            self.renew()
            return False
        self.running[future] = jobs
        return True

    def collected(self, future: Future[list[Row]]) -> list[Row]:
        """The rows of a task; where its worker died, its jobs are made again."""
        if future not in self.running:
            return []
        jobs = self.running.pop(future)
        error = future.exception()
        if error is None:
            self.tasks.look(future.result())
            return future.result()
        broken = isinstance(error, BrokenExecutor)
        if not broken and type(error).__name__ not in _LOST:
            raise error
        rows = self.lost(jobs, alone=not self.running)
        if broken:
            rows += self.everything_lost()
        return rows

    def everything_lost(self) -> list[Row]:
        """A pool breaks as a whole: what it was still running is lost too."""
        rows: list[Row] = []
        wait(self.running)
        for future, jobs in list(self.running.items()):
            del self.running[future]
            if future.exception() is None:
                rows += future.result()
            else:
                self.lost(jobs, alone=False)
        self.renew()
        return rows

    def lost(self, jobs: Chunk, *, alone: bool) -> list[Row]:
        rows = []
        for job in jobs:
            deaths = self.deaths.get(job.id, 0) + (alone and len(jobs) == 1)
            self.deaths[job.id] = deaths
            if deaths >= ATTEMPTS:
                reason = f"it ended its worker process {deaths} times, each time alone"
                rows.append(crashed(self.settings, job, reason))
            else:
                self.suspects.append((job, deaths))
        return rows

    def renew(self) -> None:
        """Make the executor anew after it broke.

        Raises:
            CampaignError: It is of a kind that only its maker can make.
        """
        broken = self.executor
        if self.make is not None:
            self.executor = self.make()
        elif isinstance(broken, ProcessPoolExecutor):
            self.executor = ProcessPoolExecutor(
                broken._max_workers,  # type: ignore[attr-defined]  # noqa: SLF001  # made as it was
                broken._mp_context,  # noqa: SLF001  # to make it as it was
                broken._initializer,  # noqa: SLF001  # to make it as it was
                broken._initargs,  # noqa: SLF001  # to make it as it was
            )
        else:
            raise CampaignError(
                f"{type(broken).__name__} broke when a worker died; give a function that makes "
                "one as executor=, so that it can be made anew"
            )
        broken.shutdown(wait=False, cancel_futures=True)
        self.own = True
