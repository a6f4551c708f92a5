"""What a watched run shows: where it is not finite, and where it leaves the golden runs.

    band = golden_band(golden_runs, "relu*2:0", "norm")     # lowest and highest, by step
    departure(run.series["relu*2:0"], band, "norm")         # first step outside, or None
    alerts(run)                                             # NaN and Inf

A band of one golden run has no width: leaving it is any difference at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from fi_notebook.core.watched import NONFINITE_COLUMNS, Alert, Series, WatchedRun, column_of

__all__ = ["Band", "alerts", "departure", "golden_band"]


class Band(NamedTuple):
    """Where the golden runs were.

    Attributes:
        steps: Steps in which any golden run was read, ascending.
        low: Lowest finite value in each; NaN where there was none.
        high: Highest finite value in each.
        runs: How many golden runs there are.
    """

    steps: np.ndarray
    low: np.ndarray
    high: np.ndarray
    runs: int


def golden_band(golden: Sequence[WatchedRun], site: str, statistic: str) -> Band:
    """The range of one statistic of one site over golden runs."""
    column = column_of(statistic)
    found = [run.series[site] for run in golden if site in run.series]
    steps = np.unique(np.concatenate([s.steps for s in found] or [np.zeros(0, dtype=np.int64)]))
    low, high = np.full(len(steps), np.inf), np.full(len(steps), -np.inf)
    for series in found:
        at, values = np.searchsorted(steps, series.steps), series.values[:, column]
        finite = np.isfinite(values)
        np.minimum.at(low, at[finite], values[finite])
        np.maximum.at(high, at[finite], values[finite])
    nowhere = low > high
    low[nowhere] = high[nowhere] = np.nan
    return Band(steps, low, high, len(found))


def departure(series: Series, band: Band, statistic: str) -> int | None:
    """The first step in which a series is outside a band; None where it never is."""
    if not len(band.steps):
        return None
    values = series.statistic(statistic)
    at = np.minimum(np.searchsorted(band.steps, series.steps), len(band.steps) - 1)
    known = (band.steps[at] == series.steps) & np.isfinite(band.low[at])
    inside = (values >= band.low[at]) & (values <= band.high[at])
    outside = np.flatnonzero(known & ~inside)
    return int(series.steps[outside[0]]) if len(outside) else None


def alerts(run: WatchedRun) -> tuple[Alert, ...]:
    """The steps in which a site began to hold NaN, +Inf or -Inf; in each the NaN first."""
    return tuple(sorted(_alerts(run), key=lambda alert: (alert.step, not alert.nan)))


def _alerts(run: WatchedRun) -> Iterable[Alert]:
    for name, series in run.series.items():
        bad = series.values[:, NONFINITE_COLUMNS] > 0
        before = np.concatenate([np.zeros_like(bad[:1]), bad[:-1]])
        begins = np.flatnonzero(np.any(bad & ~before, axis=1))
        for row in begins.tolist():
            counts = np.nan_to_num(series.values[row, NONFINITE_COLUMNS]).astype(int).tolist()
            yield Alert(int(series.steps[row]), name, *counts)
