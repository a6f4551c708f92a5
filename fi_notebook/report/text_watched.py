"""The text twin of a watched run: where it is, where the golden runs were, what went wrong.

    training: 2 sites, up to step 9; norm, against 1 golden run
    site      phase    module  step    norm  golden  left at  NaN or Inf
    relu*2:0  forward  act        9   1.234   1.234       –            0

Limits: it shows the last step of each site; the figure and the table have all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fi_notebook.analysis.watched import Band, alerts, departure, golden_band
from fi_notebook.core.watched import DRAWN, Series, WatchedRun, column_of
from fi_notebook.core.words import counted
from fi_notebook.report.names import told_apart
from fi_notebook.report.numbers import number
from fi_notebook.report.table import table

__all__ = ["alert_lines", "rows", "watched"]

HEADER = ("site", "phase", "module", "step", "golden", "left at", "NaN or Inf")


def watched(run: WatchedRun, golden: Sequence[WatchedRun] = (), *, statistic: str = DRAWN) -> str:
    """The last step of every site, and the alerts.

    Args:
        run: The current run.
        golden: The golden runs.
        statistic: Which statistic.

    Raises:
        SiteError: There is no such statistic.
    """
    column_of(statistic)
    if not run.series and not golden:
        return "nothing was read yet"
    against = f", against {counted(len(golden), 'golden run')}" if golden else ""
    if not run.series:
        return f"{run.name}: no step was read yet{against}"
    sites = counted(len(run.series), "site")
    head = f"{run.name}: {sites}, up to step {run.last_step}; {statistic}{against}"
    header, lines = rows(run, golden, statistic)
    return "\n".join([head, table(header, lines, right={3, 4, 5, 6, 7}), *alert_lines(run)])


def alert_lines(run: WatchedRun, most: int = 8) -> list[str]:
    """The first alerts of a run, one line each."""
    found = alerts(run)
    more = [f"… and {len(found) - most} more"] if len(found) > most else []
    return [*map(str, found[:most]), *more]


def rows(
    run: WatchedRun, golden: Sequence[WatchedRun], statistic: str
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and one row per site, at its last step."""
    header = (*HEADER[:4], statistic, *HEADER[4:])
    names = told_apart(run.series, 36)
    modules = told_apart([series.site.module for series in run.series.values()], 28)
    return header, [
        (
            name,
            series.site.phase,
            module,
            *_numbers(series, golden_band(golden, whole, statistic), statistic),
        )
        for name, module, (whole, series) in zip(names, modules, run.series.items(), strict=True)
    ]


def _numbers(series: Series, band: Band, statistic: str) -> tuple[str, ...]:
    step = int(series.steps[-1])
    left = departure(series, band, statistic)
    return (
        f"{step:,}",
        _value(float(series.statistic(statistic)[-1])),
        _golden(band, step),
        "–" if left is None else f"{left:,}",
        _count(float(series.nonfinite[-1])),
    )


def _golden(band: Band, step: int) -> str:
    at = np.flatnonzero(band.steps == step)
    if not len(at):
        return "–"
    low, high = float(band.low[at[0]]), float(band.high[at[0]])
    return _value(low) if low == high or np.isnan(low) else f"{number(low)} to {number(high)}"


def _count(count: float) -> str:
    """How many elements; a dash where none was read."""
    return "–" if np.isnan(count) else number(int(count))


def _value(value: float) -> str:
    """A statistic; a dash where no element was finite."""
    return "–" if np.isnan(value) else number(value)
