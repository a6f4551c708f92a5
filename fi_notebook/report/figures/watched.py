"""A watched run over its golden runs: one statistic, one row per site, step by step.

Grey is where the golden runs were: a line for one of them, a band for several. A step in
which a tensor held NaN or Inf has a cross at the upper edge; the first step outside the
golden runs is an open diamond.

A live view draws the figure once and then moves its points only: `watched_points` gives
them for the traces that move, by their number in the figure.

Limits: at most `MOST_ROWS` sites are drawn, those with NaN or Inf first; the text twin
and the table have all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fi_notebook.analysis.watched import Band, departure, golden_band
from fi_notebook.core.watched import DRAWN, Series, WatchedRun, column_of
from fi_notebook.report.figures.look import (
    DOT,
    FAULTY,
    GOLDEN,
    GOLDEN_FILL,
    LEGEND_BELOW,
    OPPOSITE,
    message,
    plain,
    set_title,
    short,
)
from fi_notebook.report.names import told_apart
from fi_notebook.report.numbers import number

__all__ = ["MOST_ROWS", "bands_of", "rows_of", "watched", "watched_points", "watched_words"]

MOST_ROWS = 6
"""How many sites are drawn at most."""

_HEAD, _ROW = 84, 118
_MOVING = 3  # traces of a row that move: the current run, crosses, the diamond

_CROSSES = 1  # which of them are the crosses

Points = dict[str, Any]


def watched(
    run: WatchedRun,
    golden: Sequence[WatchedRun] = (),
    *,
    statistic: str = DRAWN,
    dark: bool = False,
) -> go.Figure:
    """One statistic of every watched site, the current run over the golden ones.

    Args:
        run: The current run.
        golden: The golden runs.
        statistic: Which statistic: ``norm``, ``mean``, ``nan`` …
        dark: Whether the page is dark.

    Raises:
        SiteError: There is no such statistic.
    """
    column_of(statistic)
    title = f"watch{DOT}{plain(statistic)} of each tensor, step by step"
    names = rows_of(run, golden)
    if not names:
        return message(title, "nothing was read yet", dark=dark)
    bands = bands_of(golden, names, statistic)
    figure = make_subplots(
        rows=len(names),
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.3 / len(names) if len(names) > 1 else 0,
        subplot_titles=list(_titles(names, run, golden)),
    )
    figure.update_annotations(x=0, xanchor="left", font={"size": 12}, yshift=2)
    for annotation, name in zip(figure.layout.annotations, names, strict=True):
        annotation.hovertext = plain(name)
    traces = [list(_traces(bands[name], run.name, len(golden), n)) for n, name in enumerate(names)]
    for n, made in enumerate(traces, start=1):
        figure.add_traces(made, rows=[n] * len(made), cols=[1] * len(made))
    for place, points in watched_points(run, bands, statistic, runs=len(golden)).items():
        figure.data[place].update(points)
    figure.update_xaxes(showgrid=False)
    figure.update_xaxes(title_text="step", tickformat="d", row=len(names), col=1)
    for n, name in enumerate(names, start=1):
        figure.update_yaxes(row=n, col=1, **_axis(run.series.get(name), bands[name], statistic))
    figure.update_yaxes(title_text=plain(statistic))
    figure.update_layout(height=_HEAD + 58 + _ROW * len(names), hovermode="x unified")
    set_title(figure, title, watched_words(run, golden), dark=dark)
    figure.update_layout(margin={"b": 66}, legend=LEGEND_BELOW)
    return figure


def _is_bad(series: Series) -> bool:
    return bool((series.nonfinite > 0).any())


def rows_of(run: WatchedRun, golden: Sequence[WatchedRun]) -> list[str]:
    """The sites that are drawn: those that are not finite first."""
    names = list(dict.fromkeys(name for one in (run, *golden) for name in one.series))
    bad = {name for name, series in run.series.items() if _is_bad(series)}
    kept = sorted(names, key=lambda name: name not in bad)[:MOST_ROWS]
    return [name for name in names if name in kept]


def bands_of(golden: Sequence[WatchedRun], names: Sequence[str], statistic: str) -> dict[str, Band]:
    """Where the golden runs were, for each row."""
    return {name: golden_band(golden, name, statistic) for name in names}


def watched_words(run: WatchedRun, golden: Sequence[WatchedRun]) -> str:
    """What must be known to read the figure; its subtitle."""
    last = run.last_step
    said = [f"{plain(run.name)}, up to step {last:,}" if last >= 0 else "no step was read yet"]
    if golden:
        runs = "the golden run" if len(golden) == 1 else f"{len(golden)} golden runs"
        said.append(f"grey: {runs}")
    if run.every > 1:
        said.append(f"one step of {run.every:,} is drawn")
    sites = len({name for one in (run, *golden) for name in one.series})
    if sites > MOST_ROWS:
        said.append(f"{MOST_ROWS} of {sites:,} sites are drawn, all are in the table")
    return DOT.join(said)


def watched_points(
    run: WatchedRun, bands: Mapping[str, Band], statistic: str, *, runs: int
) -> dict[int, Points]:
    """The points of the traces that move, by their number in the figure.

    Args:
        run: The current run.
        bands: Where the golden runs were, one for each row.
        statistic: Which statistic.
        runs: How many golden runs there are.
    """
    still = min(runs, 2)
    found: dict[int, Points] = {}
    bad = next((name for name in bands if name in run.series and _is_bad(run.series[name])), "")
    for row, (name, band) in enumerate(bands.items()):
        first = row * (still + _MOVING) + still
        series = run.series.get(name)
        if series is not None:
            for n, points in enumerate(_points(series, band, statistic)):
                found[first + n] = points
            found[first + _CROSSES]["showlegend"] = _is_bad(series) and name == bad
    return found


def _points(series: Series, band: Band, statistic: str) -> Iterator[Points]:
    """The current run; crosses where it held NaN or Inf; a diamond where it left the band."""
    steps, values = series.steps, series.statistic(statistic)
    yield {"x": steps.tolist(), "y": _plain(values)}
    bad = np.flatnonzero(series.nonfinite > 0)
    finite = np.concatenate([values, band.high])
    top = finite[np.isfinite(finite)].max(initial=-np.inf)
    edge = float(top) if np.isfinite(top) else 0.0
    counts = [f"{number(int(n))} NaN or Inf" for n in series.nonfinite[bad]]
    yield {"x": steps[bad].tolist(), "y": [edge] * len(bad), "text": counts}
    left = departure(series, band, statistic)
    at = steps == (-1 if left is None else left)
    yield {"x": steps[at].tolist(), "y": _plain(values[at])}


def _plain(values: np.ndarray) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in values.tolist()]


def _titles(names: Sequence[str], run: WatchedRun, golden: Sequence[WatchedRun]) -> Iterator[str]:
    """Site, phase and module of each row; the name of a stored tensor has its module in it."""
    sites = [
        next(one.series[name].site for one in (run, *golden) if name in one.series)
        for name in names
    ]
    modules = told_apart([site.module for site in sites], 28)
    for whole, name, site, module in zip(names, told_apart(names, 40), sites, modules, strict=True):
        where = [short(site.phase)] if site.phase else []
        if site.module and f":{site.module}." not in whole:
            where.append(f"module {plain(module)}")
        yield DOT.join([f"<b>{plain(name)}</b>", *where])


def _axis(series: Series | None, band: Band, statistic: str) -> dict[str, Any]:
    """Logarithmic where all is positive and far apart; without numbers where none is finite."""
    values = np.zeros(0) if series is None else series.statistic(statistic)
    finite = np.concatenate([values, band.low, band.high])
    finite = finite[np.isfinite(finite)]
    if series is not None and not len(finite):  # crosses alone: they stand at no value
        return {"tickvals": [0], "ticktext": ["not finite"], "range": [-1, 1], "type": "linear"}
    if len(finite) and (finite > 0).all() and finite.max() > 100 * finite.min():
        return {"nticks": 4, "type": "log", "exponentformat": "power"}
    return {"nticks": 4, "type": "linear"}


def _traces(band: Band, name: str, runs: int, row: int) -> Iterator[go.Scatter]:
    """The traces of one row: those that stand still, then those that move."""
    yield from _band(band, runs, row)
    yield go.Scatter(
        mode="lines+markers",  # the number of steps is not known yet, and one alone has no line
        line={"color": FAULTY if name == "faulty" else OPPOSITE, "width": 1.8},
        marker={"size": 3},
        name=plain(name),
        legendgroup="current",
        showlegend=row == 0,
        hovertemplate=f"{plain(name)} %{{y:.4g}}<extra></extra>",
    )
    yield go.Scatter(
        mode="markers",
        marker={"size": 6, "color": FAULTY, "symbol": "x"},
        name="NaN or Inf",
        legendgroup="bad",
        showlegend=False,
        hovertemplate="%{text}<extra></extra>",
    )
    yield go.Scatter(
        mode="markers",
        marker={"size": 11, "color": FAULTY, "symbol": "diamond-open", "line": {"width": 2}},
        name="leaves the golden runs",
        showlegend=False,
        hovertemplate="first outside the golden runs<extra></extra>",
    )


def _band(band: Band, runs: int, row: int) -> Iterator[go.Scatter]:
    """Where the golden runs were: a line, or the range of several."""
    common = {"x": band.steps, "legendgroup": "golden"}
    if runs == 1:
        yield go.Scatter(
            y=band.low,
            mode="lines" if len(band.steps) > 1 else "markers",
            line={"color": GOLDEN, "width": 3.5},
            marker={"size": 9},
            name="golden run",
            showlegend=row == 0,
            hovertemplate="golden %{y:.4g}<extra></extra>",
            **common,
        )
    elif runs:
        for edge, values in (("low", band.low), ("high", band.high)):
            yield go.Scatter(
                y=values,
                mode="lines",
                line={"color": GOLDEN, "width": 1},
                fill="tonexty" if edge == "high" else None,
                fillcolor=GOLDEN_FILL,
                name=f"{runs} golden runs",
                showlegend=row == 0 and edge == "high",
                hovertemplate=f"golden {edge} %{{y:.4g}}<extra></extra>",
                **common,
            )
