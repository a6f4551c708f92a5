"""What a watch has recorded so far: golden runs, and the run that is going on.

    recordings = Recordings()
    recordings.add("training", 0, readings)
    recordings.keep_as_golden()
    recordings.current(most=300)        # a `WatchedRun`, thinned for drawing

Written by the thread that trains and read by the one that draws; a lock keeps them apart.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterable, Sequence

import numpy as np

from fi_notebook.core.site import Site
from fi_notebook.core.stats import STATISTICS
from fi_notebook.core.watched import Series, WatchedRun

__all__ = ["Recordings"]

_WIDTH = len(STATISTICS)

Readings = Iterable[tuple[Site, np.ndarray]]


class _Growing:
    """One site of a run that goes on."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.steps, self.values = array("q"), array("d")

    def add(self, step: int, values: np.ndarray) -> None:
        if not self.steps or self.steps[-1] < step:
            self.steps.append(step)
            self.values.extend(values.tolist())

    def series(self, every: int) -> Series:
        """What is there, as copies: a view would keep the arrays from growing."""
        steps = np.frombuffer(self.steps, dtype=np.int64)
        values = np.frombuffer(self.values, dtype=np.float64).reshape(-1, _WIDTH)
        rows = np.arange(len(steps) - 1, -1, -every)[::-1] if every > 1 else slice(None)
        return Series(self.site, np.array(steps[rows]), np.array(values[rows]))


class _Run:
    """A run that goes on; it is ``golden`` once it is a golden run that came to its end."""

    def __init__(self, name: str) -> None:
        self.name, self.last, self.golden = name, -1, False
        self.sites: dict[str, _Growing] = {}

    def add(self, step: int, found: Readings) -> None:
        self.last = max(self.last, step)
        for site, values in found:
            name = str(site)
            if name not in self.sites:
                self.sites[name] = _Growing(site)
            self.sites[name].add(step, values)

    def run(self, most: int | None) -> WatchedRun:
        longest = max((len(one.steps) for one in self.sites.values()), default=0)
        every = 1
        while most is not None and longest > most * every:
            every *= 2
        series = {name: one.series(every) for name, one in self.sites.items()}
        return WatchedRun(self.name, series, every)


class Recordings:
    """Golden runs, and the run that is going on.

    Args:
        golden: Golden runs of before.
    """

    def __init__(self, golden: Sequence[WatchedRun] = ()) -> None:
        """Begin with nothing but the golden runs."""
        self._lock = threading.Lock()
        self._given = list(golden)
        self._replayed: WatchedRun | None = None
        self._run = _Run("training")

    def add(
        self, run: str, step: int, found: Readings, *, anew: bool = False, golden: bool = False
    ) -> None:
        """Keep what was read in a step.

        Args:
            run: Name of the run; another name, or a step before the last, begins another.
            step: Number of the step.
            found: What was read.
            anew: Whether another run begins in any case.
            golden: Whether this is the last step of a session's golden run.
        """
        with self._lock:
            if anew or run != self._run.name or step < self._run.last:
                self._begin(run)
            self._run.add(step, found)
            self._run.golden = golden

    def _begin(self, run: str) -> None:
        if self._run.golden:
            self._replayed = self._run.run(None)
        self._run = _Run(run)

    def keep_as_golden(self) -> WatchedRun:
        """Make a golden run of the one that is going on, and begin another."""
        with self._lock:
            kept = self._run.run(None)
            self._given.append(kept)
            self._run = _Run("training")
        return kept

    def set_replayed(self, run: WatchedRun) -> None:
        """Take the golden run of a session, in place of its last one."""
        with self._lock:
            self._replayed = run

    @property
    def golden(self) -> tuple[WatchedRun, ...]:
        """The golden runs that a person gave or kept, then that of the session."""
        with self._lock:
            replayed = () if self._replayed is None else (self._replayed,)
            return (*self._given, *replayed)

    def current(self, most: int | None = None) -> WatchedRun:
        """The run that is going on.

        Args:
            most: How many steps of it at most; every so many-th is left then, and the
                last one always.
        """
        with self._lock:
            return self._run.run(most)
