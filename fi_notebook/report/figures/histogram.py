"""The struck tensor before and after: histograms on one axis.

Zeros, subnormal numbers, NaN and Inf are counted as bars of their own; the axis of the
rest is shared and reaches exactly to the extremes of both. Bars of the faulty run are
drawn where the counts differ, so that what a fault moved stands out.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fi_notebook.core.injection import Injection
from fi_notebook.report.figures.look import (
    FAULTY,
    FAULTY_FILL,
    GOLDEN_FILL,
    LEGEND_BELOW,
    set_title,
)
from fi_notebook.report.figures.struck import title_of, values_and_note
from fi_notebook.report.numbers import number, smallest_normal
from fi_notebook.report.scale import SymLog

__all__ = ["special_counts", "tensor_diff"]

_BINS = 64
_BIN_HOVER = (
    "%{customdata[0]} to %{customdata[1]}<br>before %{customdata[2]:,} elements<br>"
    "after  %{customdata[3]:,} elements<extra></extra>"
)


def tensor_diff(injection: Injection, *, dark: bool = False) -> go.Figure:
    """Histograms of the tensor before and after on one axis.

    Args:
        injection: One strike.
        dark: Whether the page is dark.
    """
    before, after, note = values_and_note(injection)
    figure = make_subplots(
        rows=1, cols=2, column_widths=[0.62, 0.38], shared_yaxes=True, horizontal_spacing=0.03
    )
    tiny = smallest_normal(injection.site.dtype)
    counts = _add_bins(figure, before, after, tiny)
    counts += _add_specials(figure, before, after, tiny)
    top = np.log10(max(counts, default=1.0) or 1.0)
    figure.update_yaxes(type="log", range=[-0.25, max(top, 1) * 1.12], dtick=1, tickformat=",d")
    figure.update_yaxes(title_text="elements", row=1, col=1)
    set_title(figure, title_of(injection, "before and after"), note, dark=dark)
    figure.update_layout(
        height=340, barmode="overlay", bargap=0.0, margin={"b": 84}, legend=LEGEND_BELOW
    )
    return figure


def _add_bins(figure: go.Figure, before: np.ndarray, after: np.ndarray, tiny: float) -> list[float]:
    """Bars of the normal numbers; returns the counts."""
    first, second = (v[np.isfinite(v) & (np.abs(v) >= tiny) & (v != 0)] for v in (before, after))
    both = np.concatenate([first, second])
    if not len(both):
        figure.update_xaxes(title_text="no finite values but zero", row=1, col=1)
        return []
    scale = SymLog.fitting(first, second)
    low, high = float(both.min()), float(both.max())
    edges = _edges(scale, low, high)
    counts = [np.histogram(scale.forward(v), edges)[0] for v in (first, second)]
    values = scale.inverse(edges)
    values[0], values[-1] = low, high
    hover = [[number(a), number(b)] for a, b in pairwise(values.tolist())]
    differ = counts[0] != counts[1]
    for name, count, shown in (
        ("before", counts[0], counts[0] > 0),
        ("after", counts[1], (counts[1] > 0) & differ),
    ):
        figure.add_bar(
            x=((edges[:-1] + edges[1:]) / 2)[shown],
            y=count[shown],
            width=np.diff(edges)[shown],
            customdata=np.c_[np.asarray(hover, dtype=object), counts[0], counts[1]][shown],
            hovertemplate=_BIN_HOVER,
            **_bar(name),
        )
    positions, labels = scale.ticks(low, high, gap=0.13)
    figure.update_xaxes(
        title_text=f"value, from {number(low)} to {number(high)}",
        tickvals=positions,
        ticktext=labels,
        tickangle=0,
        showgrid=False,
        row=1,
        col=1,
    )
    return [float(n) for count in counts for n in count]


def _edges(scale: SymLog, low: float, high: float) -> np.ndarray:
    left, right = (float(p) for p in scale.forward([low, high]))
    if left == right:
        left, right = left - 0.5, right + 0.5
    return np.linspace(left, right, _BINS + 1)


def _bar(name: str) -> dict[str, object]:
    if name == "before":
        return {"name": "before (golden)", "marker": {"color": GOLDEN_FILL, "line": {"width": 0}}}
    line = {"color": FAULTY, "width": 1.5}
    return {
        "name": "after (faulty), where it differs",
        "marker": {"color": FAULTY_FILL, "line": line},
    }


class _Special(NamedTuple):
    name: str
    before: int
    after: int


def special_counts(before: np.ndarray, after: np.ndarray, tiny: float) -> list[_Special]:
    """How many values are zero, subnormal, -Inf, +Inf and NaN, before and after."""
    tests: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "zero": lambda v: v == 0,
        "subnormal": lambda v: (v != 0) & (np.abs(v) < tiny),
        "-Inf": np.isneginf,
        "+Inf": np.isposinf,
        "NaN": np.isnan,
    }
    found = [
        _Special(n, int(test(before).sum()), int(test(after).sum())) for n, test in tests.items()
    ]
    return [s for s in found if s.name != "subnormal" or s.before or s.after]


def _add_specials(
    figure: go.Figure, before: np.ndarray, after: np.ndarray, tiny: float
) -> list[float]:
    """Bars of what has no place on the axis, counts below; returns the counts."""
    specials = special_counts(before, after, tiny)
    places = list(range(len(specials)))
    for name, offset in (("before", -0.36), ("after", 0.0)):
        figure.add_bar(
            x=places,
            y=[getattr(special, name) for special in specials],
            customdata=[special.name for special in specials],
            showlegend=False,
            hovertemplate="%{customdata}<br>" + f"{name} %{{y:,}} elements<extra></extra>",
            width=0.36,
            offset=offset,
            row=1,
            col=2,
            **_bar(name),
        )
    figure.update_xaxes(
        tickvals=places,
        ticktext=[_special_label(special) for special in specials],
        tickfont={"size": 10},
        tickangle=0,
        range=[-0.6, len(specials) - 0.4],
        showgrid=False,
        row=1,
        col=2,
    )
    return [float(count) for special in specials for count in special[1:]]


def _special_label(special: _Special) -> str:
    """Name and counts in a narrow column: ``NaN``, ``0``, ``→``, ``14``."""
    name = "sub-<br>nor-<br>mal" if special.name == "subnormal" else special.name
    after = f"<br>→<br>{_narrow(special.after)}" if special.after != special.before else ""
    return f"{name}<br>{_narrow(special.before)}{after}"


def _narrow(count: int) -> str:
    """A count in five characters; the bar tells it exactly."""
    for power, unit in ((9, "G"), (6, "M"), (3, "k")):
        if count >= max(10_000, 0.9995 * 10**power):
            return f"{count / 10**power:.3g}{unit}"
    return f"{count:,}"
