"""What a live watch has seen: statistics of chosen tensors, step by step.

    run.name                      'training', 'golden', 'faulty'
    run.series["relu*2:0"]        steps and statistics of one site
    run.series["grad:fc.weight"].statistic("norm")

Records are plain data, so that a run of yesterday can be the golden run of today.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fi_notebook.core.site import Site
from fi_notebook.core.stats import NONFINITE, NONFINITE_NAMES, STATISTICS
from fi_notebook.core.words import counted
from fi_notebook.errors import SiteError, did_you_mean

__all__ = ["DRAWN", "NONFINITE_COLUMNS", "Alert", "Series", "WatchedRun", "column_of"]

DRAWN = "norm"
"""The statistic that is drawn unless another one is asked for."""

NONFINITE_COLUMNS = [STATISTICS.index(name) for name in NONFINITE]
"""Columns of a series that count what is not finite."""


def column_of(statistic: str) -> int:
    """Column of a statistic in a series.

    Raises:
        SiteError: There is no such statistic; names the nearest.
    """
    if statistic not in STATISTICS:
        raise SiteError(f"no statistic {statistic!r}{did_you_mean(str(statistic), STATISTICS)}")
    return STATISTICS.index(statistic)


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """The statistics of one site, one row for each step in which it was read.

    Attributes:
        site: The site, as it was when it was first read.
        steps: Numbers of the steps, ascending.
        values: One row for each step, in the order of ``STATISTICS``; NaN where the
            tensor had no finite element, or no statistics at all.
    """

    site: Site
    steps: np.ndarray
    values: np.ndarray

    def statistic(self, name: str) -> np.ndarray:
        """One statistic, step by step."""
        return np.asarray(self.values[:, column_of(name)])

    @property
    def nonfinite(self) -> np.ndarray:
        """How many elements were NaN or infinite, step by step; NaN where none was read."""
        return np.asarray(self.values[:, NONFINITE_COLUMNS].sum(axis=1))


@dataclass(frozen=True, slots=True)
class Alert:
    """A step in which a tensor began to hold NaN, +Inf or -Inf, and what it held of each.

    Attributes:
        step: Number of the step.
        site: Text of the site.
        nan: How many elements were NaN.
        posinf: How many were +Inf.
        neginf: How many were -Inf.
    """

    step: int
    site: str
    nan: int
    posinf: int
    neginf: int

    def __str__(self) -> str:
        """``step 7: relu*2:0 holds 3 NaN, 1 +Inf``."""
        counts = ((getattr(self, key), name) for key, name in NONFINITE_NAMES.items())
        held = ", ".join(f"{n:,} {name}" for n, name in counts if n)
        return f"step {self.step}: {self.site} holds {held}"


@dataclass(frozen=True, slots=True, eq=False)
class WatchedRun:
    """One run, as it was watched.

    Attributes:
        name: ``training``, or of a session's replay ``golden`` or ``faulty``.
        series: What was read at each site, by its text.
        every: Which part of the steps is here: every so many-th, and the last.
    """

    name: str
    series: Mapping[str, Series]
    every: int = 1

    @property
    def last_step(self) -> int:
        """Number of the last step that was read, -1 before the first."""
        return max((int(s.steps[-1]) for s in self.series.values() if len(s.steps)), default=-1)

    def __repr__(self) -> str:
        """``<WatchedRun training: 3 sites, up to step 99>``."""
        sites = counted(len(self.series), "site")
        return f"<WatchedRun {self.name}: {sites}, up to step {self.last_step}>"
