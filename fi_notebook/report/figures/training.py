"""What the fault did to training: loss, gradient norm, parameters, metrics over steps.

One row per quantity, golden and faulty in each, a dotted line where a fault struck. A
NaN or Inf of the faulty run stands as a cross at the upper edge, with its name. Bounds of
detectors are dashed where the values come near, else words at the edge (`bounds`).

Limits: with a single step there is one point for each run, written out beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fi_notebook.analysis.clipping import clips_gradients
from fi_notebook.analysis.words import told_apart
from fi_notebook.core.run import Run, StepRecord
from fi_notebook.core.words import among, spoken
from fi_notebook.report.figures.bounds import add_bound, bounds_of, say_far
from fi_notebook.report.figures.look import (
    DOT,
    FAULTY,
    GOLDEN,
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
    title = f"training: {plain(spoken(run.outcome.name))}"
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
        said.append(f"upright lines: a fault struck (first in step {struck[0]})")
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
            "gradient norm,<br>clipped" if clipped else "gradient norm",
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
    texts, places = _texts(values), _places(values)
    for name, records in series.items():
        steps = np.asarray([record.step for record in records])
        figure.add_scatter(
            x=steps,
            y=np.where(np.isfinite(values[name]), values[name], np.nan),
            text=texts[name],
            textposition=places[name],
            showlegend=row == 1,
            legendgroup=name,
            row=row,
            col=1,
            **_line(name, len(records)),
        )
    near, far = bounds_of(run, quantity.name, finite)
    for bound in near:
        add_bound(figure, bound, row)
    figure.update_yaxes(title_text=quantity.title, nticks=5, row=row, col=1)
    if quantity.name == "parameter_distance" and not finite.any() and len(finite):
        _say_equal(figure, int((values["faulty"] == 0).sum()), len(run.faulty), row)
        _add_nonfinite(figure, series["faulty"], values["faulty"], 1.0, row)
        return
    shown = np.concatenate([finite, *(np.asarray(bound.values) for bound in near)])
    axis = _axis(shown, written=len(run.golden) <= _WRITTEN_OUT)
    figure.update_yaxes(**axis, row=row, col=1)
    if len(finite):
        top = _top(axis, float(finite.max()))
        _add_nonfinite(figure, series["faulty"], values["faulty"], top, row)
    say_far(figure, far, row)


def _say_equal(figure: go.Figure, equal: int, steps: int, row: int) -> None:
    """Words in place of an axis, from -1 to 1, on which no number but 0 could stand."""
    figure.update_traces(visible=False, row=row, col=1, selector={"showlegend": False})
    figure.update_yaxes(
        showticklabels=False, ticks="", showgrid=False, range=[-1, 1], row=row, col=1
    )
    figure.add_annotation(
        text=f"bit-equal in {among(equal, steps, 'step')}",
        showarrow=False,
        x=0.5,
        y=0,
        xref="x domain",
        row=row,
        col=1,
    )


def _top(axis: Mapping[str, Any], largest: float) -> float:
    """The value at the upper edge of a row."""
    if "range" not in axis:
        return largest
    edge = float(axis["range"][1])
    return float(10.0**edge) if axis.get("type") == "log" else edge


def _axis(shown: np.ndarray, *, written: bool) -> dict[str, Any]:
    """The range of a row, with room for what is written beside its points."""
    if not len(shown):
        return {}
    low, high = float(shown.min()), float(shown.max())
    axis: dict[str, Any] = {}
    if low > 0 and high > 100 * low:
        low, high = np.log10([low, high]).tolist()
        axis = {"type": "log", "dtick": int(np.ceil((high - low) / 4))}
    if written:
        room = 0.4 * (high - low) or 0.4 * abs(high) or 1.0
        axis |= {"range": [low - room, high + room], **_ticks(low, high, log="type" in axis)}
    return axis


def _ticks(low: float, high: float, *, log: bool) -> dict[str, Any]:
    """Few round numbers between two ends: none in the room beyond them, where no value can be."""
    least = (high - low) / 4
    if log:
        step = float(np.ceil(least))
    else:
        power = 10.0 ** np.floor(np.log10(least)) if least else 1.0
        step = next(power * n for n in (1, 2, 5, 10) if power * n >= least)
    counts = np.arange(np.ceil(low / step), np.floor(high / step) + 1) if least else np.empty(0)
    ends = (counts * step + 0.0).tolist() or [low]
    values = [float(10.0**end) for end in ends] if log else ends
    return {
        "tickmode": "array",
        "tickvals": values,
        "ticktext": [number(value) for value in values],
    }


def _texts(values: Mapping[str, np.ndarray]) -> dict[str, list[str]]:
    """The numbers of both runs, with enough digits to tell them apart."""
    golden, faulty = values["golden"].tolist(), values["faulty"].tolist()
    both = [told_apart(g, f) for g, f in zip_longest(golden, faulty, fillvalue=float("nan"))]
    return {
        "golden": [first for first, _ in both[: len(golden)]],
        "faulty": [second for _, second in both[: len(faulty)]],
    }


def _places(values: Mapping[str, np.ndarray]) -> dict[str, list[str]]:
    """Where the numbers stand: of each step the larger above its point, the other below.

    Below a cross, which stands at the upper edge, the golden number stands below its point.
    """
    above = [
        golden >= faulty
        for golden, faulty in zip_longest(
            values["golden"].tolist(), values["faulty"].tolist(), fillvalue=float("nan")
        )
    ]
    places = ("bottom center", "top center")
    return {
        "golden": [places[up] for up in above[: len(values["golden"])]],
        "faulty": [places[not up] for up in above[: len(values["faulty"])]],
    }


def _line(name: str, count: int) -> dict[str, object]:
    golden = name == "golden"
    written = count <= _WRITTEN_OUT
    return {
        "name": name,
        "mode": "lines+markers" + "+text" * written,
        "textfont": {"size": 11},
        "cliponaxis": not written,
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
    top: float,
    row: int,
) -> None:
    """Crosses where the faulty run has NaN or Inf in a quantity that exists."""
    bad = np.flatnonzero(~np.isfinite(values)).tolist()
    if not bad:
        return
    figure.add_scatter(
        x=[records[n].step for n in bad],
        y=[top] * len(bad),
        mode="markers+text" if len(bad) <= 12 else "markers",
        text=[number(float(values[n])) for n in bad],
        textposition="bottom center",
        marker={"symbol": "x", "size": 9, "color": FAULTY},
        cliponaxis=False,
        name="NaN or Inf (faulty)",
        showlegend=row == 1,
        hovertemplate="faulty %{text}<extra></extra>",
        row=row,
        col=1,
    )
