"""How the error ran through the step: call by call, by gradient, by module, by rank.

Every compared site that differs has its place in `propagation`: on the axis by its
relative L2, else on a lane that says why it has none (new NaN or Inf, not measured,
other bits but no distance, bit-equal again).

Limits: beyond about 4,000 sites the smallest and largest of each stretch are drawn, and the
subtitle says how many; introduced errors and lanes lose no first or last site.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from fi_notebook.core.detection import Detection
from fi_notebook.core.run import EFFECTS, Comparison
from fi_notebook.core.site import PHASES, Site
from fi_notebook.core.words import agreed, among, counted
from fi_notebook.report.arrays import keep_extremes
from fi_notebook.report.figures.look import (
    DOT,
    FAULTY,
    GOLDEN,
    OPPOSITE,
    message,
    plain,
    points,
    set_title,
    short,
)
from fi_notebook.report.numbers import effect_text, number, share
from fi_notebook.report.scale import tick_label

__all__ = ["EFFECT_MARKS", "propagation"]

EFFECT_MARKS: Mapping[str, tuple[str, str, int]] = {
    "introduced": ("star", FAULTY, 12),
    "amplified": ("triangle-up", FAULTY, 9),
    "attenuated": ("triangle-down", FAULTY, 9),
    "passed on": ("circle", FAULTY, 5),
    "masked": ("x-thin-open", GOLDEN, 7),
    "structural": ("square-open", GOLDEN, 7),
}
"""Symbol, colour and size of each effect."""

_POINTS = 4000
_SEGMENTS = 40
_BELOW = {"x": 0, "xanchor": "left", "y": -0.24, "yanchor": "top"}
_CROWD = 300  # from here on marks are small and let each other through


def propagation(
    comparison: Comparison, *, detections: Sequence[Detection] = (), dark: bool = False
) -> go.Figure:
    """The error of every call in execution order.

    Args:
        comparison: The faulty run against the golden run.
        detections: What detectors said; the first alarm of each at a call is marked.
        dark: Whether the page is dark.
    """
    total, differing = len(comparison), len(comparison.diverged)
    title = f"{among(differing, total, 'output')} {agreed(differing, 'differ')}"
    effects = comparison.columns["effect"]
    rows = np.flatnonzero(effects != EFFECTS.index("equal"))
    if not len(rows):
        return message(title, "every output of every call is bit-equal", dark=dark)
    places, ticks = _places(comparison, rows)
    figure, drawn = go.Figure(), 0
    for name in EFFECT_MARKS:
        mine = effects[rows] == EFFECTS.index(name)
        kept = keep_extremes(places[mine], _room(int(mine.sum()), len(rows)))
        if mine.any():
            drawn += len(kept)
            chosen, at = rows[mine][kept], places[mine][kept]
            figure.add_trace(_marks(comparison, name, chosen, at, int(mine.sum())))
    _add_first(figure, comparison, rows, places)
    _add_alarms(figure, comparison, detections, ticks["range"][1])
    _add_phases(figure, comparison)
    figure.update_xaxes(
        title_text=f"output of a call, in execution order (1 to {total:,})",
        range=[0.5 - 0.01 * total, total * 1.01 + 0.5],
        showgrid=False,
    )
    figure.update_yaxes(title_text="relative L2 error", **ticks)
    figure.update_layout(height=420, hovermode="closest", legend=_BELOW)
    set_title(figure, title, _subtitle(comparison, len(rows), drawn), dark=dark, room=90)
    return figure


def _room(mine: int, every: int) -> int:
    """How many points one effect may have: its share, and enough to be seen."""
    return max(400, _POINTS * mine // max(every, 1))


def _subtitle(comparison: Comparison, count: int, drawn: int) -> str:
    sampled = int((~comparison.columns["exact"]).sum())
    said = [f"first: {short(comparison.first)}" if comparison.first else "masked everywhere"]
    if sampled:
        said.append(f"{counted(sampled, 'output')} judged on a sample or statistics")
    if drawn < count:
        said.append(f"{drawn:,} of {count:,} drawn, extremes kept")
    if comparison.structural:
        said.append("the runs make different calls")
    return DOT.join(said)


def _places(comparison: Comparison, rows: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """Height of each row in log10, lanes included, and the ticks of the axis."""
    columns = comparison.columns
    relative, effect = columns["relative_l2"][rows], columns["effect"][rows]
    bad = (columns["new_nan"][rows] > 0) | (columns["new_inf"][rows] > 0)
    measured = ~bad & np.isfinite(relative) & (relative > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        height = np.log10(relative)
    shown = height[measured]
    low, high = (np.floor(shown.min()), np.ceil(shown.max())) if len(shown) else (-1.0, 0.0)
    high = max(high, low + 1)
    lane = max(0.09 * (high - low), 0.12)
    lanes = {
        "not measured": (np.isnan(relative) & ~bad, high + 3 * lane),
        "golden is 0": (np.isposinf(relative) & ~bad, high + 2 * lane),
        "new NaN, Inf": (bad, high + lane),
        "other bits only": ((relative == 0) & ~bad, low - lane),
        "masked": (effect == EFFECTS.index("masked"), low - 2 * lane),
    }
    places = np.where(measured, height, low)
    for inside, at in lanes.values():
        places[inside] = at
    used = {name: at for name, (inside, at) in lanes.items() if inside.any()}
    stride = max(1, int(np.ceil((high - low) / 6)))
    powers = np.arange(low, high + 1, stride).tolist()
    edges = [low, high, *used.values()]
    ticks = {
        "tickvals": [*powers, *used.values()],
        "ticktext": [*(tick_label(10.0**p) for p in powers), *used],
        "range": [min(edges) - lane, max(edges) + lane],
    }
    return places, ticks


def _marks(
    comparison: Comparison, effect: str, rows: np.ndarray, places: np.ndarray, total: int
) -> go.Scatter | go.Scattergl:
    symbol, colour, size = EFFECT_MARKS[effect]
    return points(
        len(rows),
        x=rows + 1,
        y=places,
        mode="markers",
        name=f"{effect} ({total:,})",
        marker={
            "symbol": symbol,
            "color": colour,
            "size": size if len(rows) <= _CROWD else size / 2,
            "opacity": 0.6 if effect == "passed on" or len(rows) > _CROWD else 1.0,
            "line": {"width": 1.5 if "open" in symbol else 0, "color": colour},
        },
        text=[
            _hover(comparison, row, site)
            for row, site in zip(rows.tolist(), comparison.sites(rows), strict=True)
        ],
        hovertemplate="%{text}<extra></extra>",
        customdata=rows,
    )


def _hover(comparison: Comparison, row: int, site: Site) -> str:
    columns = comparison.columns
    names = {"relative L2": "relative_l2", "max |Δ|": "max_abs"}
    measure = {name: columns[column][row].item() for name, column in names.items()}
    counts = {name: int(columns[name][row]) for name in ("changed", "numel", "new_nan", "new_inf")}
    changed = share(counts["changed"], counts["numel"]) if counts["changed"] >= 0 else "unknown"
    bad = counts["new_nan"] > 0 or counts["new_inf"] > 0  # no distance to what is not finite
    far = "".join(f"{name} {value!r}<br>" for name, value in measure.items() if not bad)
    return (
        f"{short(site)}  {plain(site.phase)}  {short(site.module)}<br>{far}"
        f"changed {changed}<br>new NaN {number(counts['new_nan'])}, "
        f"new Inf {number(counts['new_inf'])}<br>{effect_text(comparison, row)}"
    )


def _add_first(
    figure: go.Figure, comparison: Comparison, rows: np.ndarray, places: np.ndarray
) -> None:
    """Name the first site that differs, beside its mark."""
    if not len(comparison.diverged):
        return
    first = int(comparison.diverged[0])
    right = first < 0.7 * len(comparison)
    figure.add_annotation(
        x=first + 1,
        y=float(places[rows == first][0]),
        text=short(comparison.site(first), 32),
        showarrow=False,
        xanchor="left" if right else "right",
        xshift=8 if right else -8,
        yshift=11,
        font={"size": 11},
    )


def _add_alarms(
    figure: go.Figure, comparison: Comparison, detections: Sequence[Detection], top: float
) -> None:
    """Where each detector would have caught the error first, at the upper edge."""
    alarms = [(d.name, d.first) for d in detections if d.first is not None and d.first.site]
    if not alarms:
        return
    position = np.full(len(comparison.faulty), -1)
    made = comparison.columns["faulty"] >= 0
    position[comparison.columns["faulty"][made]] = np.flatnonzero(made)
    places = [int(position[comparison.faulty.row(alarm.site)]) for _, alarm in alarms]
    figure.add_scatter(
        x=[place + 1 for place in places],
        y=[top] * len(places),
        mode="markers",
        marker={"symbol": "triangle-down-open", "size": 11, "color": OPPOSITE},
        name="a detector's first alarm",
        text=[
            f"{plain(name)} would alarm at {short(alarm.site)}<br>"
            f"value {number(alarm.value)}, bound {number(alarm.threshold)}"
            for name, alarm in alarms
        ],
        hovertemplate="%{text}<extra></extra>",
        cliponaxis=False,
    )


def _add_phases(figure: go.Figure, comparison: Comparison) -> None:
    """A strip above the plot that says which phase is where."""
    codes = _phase_codes(comparison)
    edges = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1], True])
    lengths = np.diff(edges)
    least = np.sort(lengths)[-_SEGMENTS] if len(lengths) > _SEGMENTS else 0
    for n, (start, length) in enumerate(zip(edges[:-1].tolist(), lengths.tolist())):
        if length < least:
            continue
        wide = length > 0.07 * len(codes)
        figure.add_shape(
            type="rect",
            x0=start + 0.5,
            x1=start + length + 0.5,
            y0=1.01,
            y1=1.075,
            yref="paper",
            fillcolor="rgba(128,128,128,0.26)" if n % 2 else "rgba(128,128,128,0.13)",
            line={"width": 0},
            label={"text": PHASES[codes[start]] if wide else "", "font": {"size": 11}},
        )


def _phase_codes(comparison: Comparison) -> np.ndarray:
    """The phase of every row, from whichever run made it."""
    columns, codes = comparison.columns, np.zeros(len(comparison), dtype=np.uint8)
    for trace, rows in (
        (comparison.faulty, columns["faulty"]),
        (comparison.golden, columns["golden"]),
    ):
        made = rows >= 0
        codes[made] = trace.calls["phase"][trace.site_columns["call"][rows[made]]]
    return codes
