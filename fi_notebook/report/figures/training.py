"""What the fault did to training: loss, gradient norm, parameters, metrics over steps.

One row per quantity, golden and faulty in each, a dotted line where a fault struck. A
NaN or Inf of the faulty run stands as a cross at the upper edge, with its name. Bounds
of detectors are dashed, and an open square is where one would have raised an alarm.

Limits: with a single step there is one point for each run, written out beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fi_notebook.analysis.clipping import clips_gradients
from fi_notebook.analysis.words import told_apart
from fi_notebook.core.run import Run, StepRecord
from fi_notebook.core.words import among
from fi_notebook.report.figures.look import (
    DOT,
    FAULTY,
    GOLDEN,
    OPPOSITE,
    message,
    plain,
    set_title,
)
from fi_notebook.report.numbers import number

__all__ = ["training"]

_WRITTEN_OUT = 3  # up to this many steps every point carries its number
_METRICS = 4


class _Quantity(NamedTuple):
    title: str
    read: Callable[[StepRecord], float]
    name: str


_BELOW = {"x": 0, "xanchor": "left", "y": 0, "yanchor": "bottom", "yref": "container"}


def training(run: Run, *, dark: bool = False) -> go.Figure:
    """Loss, gradient norm, parameters and metrics, golden against faulty.

    Args:
        run: A replay of one or more steps.
        dark: Whether the page is dark.
    """
    title = f"training, golden against faulty: {plain(run.outcome.name)}"
    quantities = _quantities(run)
    if not quantities:
        return message(title, "no step was completed", dark=dark)
    figure = make_subplots(rows=len(quantities), cols=1, shared_xaxes=True, vertical_spacing=0.06)
    for row, quantity in enumerate(quantities, start=1):
        _add_quantity(figure, run, quantity, row)
    struck = sorted({injection.step for injection in run.injections})
    for step in struck[:20]:
        figure.add_vline(x=step, line={"color": FAULTY, "width": 1, "dash": "dot"}, opacity=0.7)
    steps = [record.step for record in run.golden]
    room = max(0.5, 0.03 * (max(steps) - min(steps)))
    figure.update_xaxes(range=[min(steps) - room, max(steps) + room], showgrid=False)
    figure.update_xaxes(
        title_text="step", row=len(quantities), col=1, tickformat="d", **_whole_ticks(steps)
    )
    figure.update_layout(
        height=160 + 130 * len(quantities),
        hovermode="x unified",
        legend=_BELOW,
        margin={"b": 92},
    )
    set_title(figure, title, _subtitle(run, struck), dark=dark)
    return figure


def _whole_ticks(steps: Sequence[int]) -> dict[str, int]:
    return {"dtick": 1, "tick0": 0} if len(steps) <= 12 else {}


def _subtitle(run: Run, struck: Sequence[int]) -> str:
    said = [f"{among(len(run.faulty), len(run.golden), 'step')} made"]
    if struck:
        said.append(f"dotted: a fault struck (first in step {struck[0]})")
    if len(struck) > 20:
        said.append(f"the first 20 of {len(struck):,} such steps marked")
    return DOT.join(said)


def _quantities(run: Run) -> list[_Quantity]:
    """The rows that have a number in them."""
    clipped = clips_gradients(run.comparison.golden)
    measured = any(np.isfinite(record.parameter_distance) for record in run.faulty)
    rows = [
        _Quantity("loss", lambda record: record.loss, "loss"),
        _Quantity(
            "gradient norm<br>(after clipping)" if clipped else "gradient norm",
            lambda record: record.gradient_norm,
            "gradient_norm",
        ),
        _Quantity(
            "parameter distance<br>(relative L2)",
            lambda record: record.parameter_distance,
            "parameter_distance",
        )
        if measured
        else _Quantity("parameter norm", lambda record: record.parameter_norm, "parameter_norm"),
    ]
    names = dict.fromkeys(name for record in run.golden for name in record.metrics)
    rows += [_metric(name) for name in list(names)[:_METRICS]]
    records = (*run.golden, *run.faulty)
    return [row for row in rows if any(not np.isnan(row.read(record)) for record in records)]


def _metric(name: str) -> _Quantity:
    return _Quantity(plain(name), lambda record: record.metrics.get(name, float("nan")), name)


def _add_quantity(figure: go.Figure, run: Run, quantity: _Quantity, row: int) -> None:
    series = {"golden": run.golden, "faulty": run.faulty}
    values = {name: np.asarray([quantity.read(r) for r in rs]) for name, rs in series.items()}
    finite = np.concatenate([v[np.isfinite(v)] for v in values.values()])
    texts = _texts(values)
    for name, records in series.items():
        steps = np.asarray([record.step for record in records])
        figure.add_scatter(
            x=steps,
            y=np.where(np.isfinite(values[name]), values[name], np.nan),
            text=texts[name],
            showlegend=row == 1,
            legendgroup=name,
            row=row,
            col=1,
            **_line(name, len(records)),
        )
    _add_nonfinite(figure, series["faulty"], values["faulty"], finite, row)
    bounds = _add_bounds(figure, run, quantity.name, row)
    finite = np.concatenate([finite, bounds])
    positive = len(finite) and (finite > 0).all()
    wide = positive and finite.max() > 100 * finite.min()
    figure.update_yaxes(title_text=quantity.title, nticks=5, row=row, col=1)
    if wide:
        stride = int(np.ceil(np.log10(finite.max() / finite.min()) / 4))
        figure.update_yaxes(type="log", dtick=stride, exponentformat="power", row=row, col=1)


def _add_bounds(figure: go.Figure, run: Run, quantity: str, row: int) -> np.ndarray:
    """The bounds of detectors on a quantity, and where it was beyond them; gives the bounds."""
    drawn = [np.zeros(0)]
    for found in run.detections:
        bounds = [b for b in found.bounds if b.quantity == quantity and np.isfinite(b.value)]
        if not bounds:
            continue
        at = {b.step: b.value for b in bounds}
        loud = [a for a in found.alarms if not a.site and a.threshold == at.get(a.step)]
        name = plain(found.name)
        figure.add_scatter(
            x=list(at),
            y=list(at.values()),
            mode="lines" if len(at) > 1 else "markers",
            line={"color": OPPOSITE, "width": 1.5, "dash": "dash"},
            marker={"symbol": "line-ew-open", "size": 24, "color": OPPOSITE},
            name=f"bound of {name}",
            hovertemplate=f"bound of {name} %{{y:.4g}}<extra></extra>",
            row=row,
            col=1,
        )
        if loud:
            figure.add_scatter(
                x=[alarm.step for alarm in loud],
                y=[alarm.value if np.isfinite(alarm.value) else None for alarm in loud],
                mode="markers",
                marker={"symbol": "square-open", "size": 13, "color": OPPOSITE},
                name=f"alarm of {name}",
                hovertemplate=f"{name} would alarm<extra></extra>",
                row=row,
                col=1,
            )
        drawn.append(np.asarray(list(at.values())))
    return np.concatenate(drawn)


def _texts(values: Mapping[str, np.ndarray]) -> dict[str, list[str]]:
    """The numbers of both runs, with enough digits to tell them apart."""
    golden, faulty = values["golden"].tolist(), values["faulty"].tolist()
    both = [told_apart(g, f) for g, f in zip_longest(golden, faulty, fillvalue=float("nan"))]
    return {
        "golden": [first for first, _ in both[: len(golden)]],
        "faulty": [second for _, second in both[: len(faulty)]],
    }


def _line(name: str, count: int) -> dict[str, object]:
    golden = name == "golden"
    written = count <= _WRITTEN_OUT
    return {
        "name": name,
        "mode": "lines+markers" + "+text" * written,
        "textposition": "middle left" if golden else "middle right",
        "line": {"color": GOLDEN if golden else FAULTY, "width": 3.5 if golden else 1.5},
        "marker": {
            "symbol": "circle" if golden else "diamond",
            "size": 8 if written else 6 if count <= 60 else 3,
        },
        "hovertemplate": f"{name} %{{text}}<extra></extra>",
    }


def _add_nonfinite(
    figure: go.Figure,
    records: Sequence[StepRecord],
    values: np.ndarray,
    finite: np.ndarray,
    row: int,
) -> None:
    """Crosses where the faulty run has NaN or Inf in a quantity that exists."""
    bad = np.flatnonzero(~np.isfinite(values)).tolist()
    if not len(finite) or not bad:
        return
    figure.add_scatter(
        x=[records[n].step for n in bad],
        y=[float(finite.max())] * len(bad),
        mode="markers+text" if len(bad) <= 12 else "markers",
        text=[number(float(values[n])) for n in bad],
        textposition="bottom center",
        marker={"symbol": "x", "size": 9, "color": FAULTY},
        name="NaN or Inf (faulty)",
        showlegend=row == 1,
        hovertemplate="faulty %{text}<extra></extra>",
        row=row,
        col=1,
    )
