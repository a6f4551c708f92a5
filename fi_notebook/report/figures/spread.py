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
from fi_notebook.core.words import agreed, among, counted, spoken
from fi_notebook.report.arrays import keep_extremes
from fi_notebook.report.figures.look import (
    DOT,
    FAULTY,
    GOLDEN,
    LEGEND_UNDER,
    OPPOSITE,
    message,
    plain,
    points,
    set_title,
    short,
)
from fi_notebook.report.numbers import effect_text, number, share
from fi_notebook.report.palette import BAD
from fi_notebook.report.palette import PHASES as HUES
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
_TINT = 0.3  # how strong the hue of a phase is behind its name
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
    title = f"{among(differing, total, 'site')} {agreed(differing, 'differ')}"
    effects = comparison.columns["effect"]
    rows = np.flatnonzero(effects != EFFECTS.index("equal"))
    if not len(rows):
        return message(title, "every site is bit-equal", dark=dark)
    places, ticks = _places(comparison, rows)
    figure, drawn = go.Figure(), 0
    for name in EFFECT_MARKS:
        mine = effects[rows] == EFFECTS.index(name)
        kept = keep_extremes(places[mine], _room(int(mine.sum()), len(rows)))
        if mine.any():
            drawn += len(kept)
            chosen, at = rows[mine][kept], places[mine][kept]
            figure.add_trace(_marks(comparison, name, chosen, at, int(mine.sum())))
    _add_first_bad(figure, comparison, rows, places)
    _add_alarms(figure, comparison, detections, ticks["range"][1])
    _add_phases(figure, comparison)
    figure.update_xaxes(
        title_text=f"site, in execution order (1 to {total:,})",
        range=[0.5 - 0.01 * total, total * 1.01 + 0.5],
        showgrid=False,
    )
    figure.update_layout(yaxis={"title": {"text": "relative L2"}, **ticks})
    figure.update_layout(height=450, hovermode="closest", legend=LEGEND_UNDER)
    set_title(figure, title, _subtitle(comparison, len(rows), drawn), dark=dark, room=90)
    return figure


def _room(mine: int, every: int) -> int:
    """How many points one effect may have: its share, and enough to be seen."""
    return max(400, _POINTS * mine // max(every, 1))


def _subtitle(comparison: Comparison, count: int, drawn: int) -> str:
    sampled = int((~comparison.columns["exact"]).sum())
    said = [f"first: {short(comparison.first)}" if comparison.first else "masked everywhere"]
    if comparison.first_bad:
        said.append(f"first new NaN or Inf: {short(comparison.first_bad)}")
    if sampled:
        said.append(f"{counted(sampled, 'site')} judged on a sample or statistics")
    if drawn < count:
        said.append(f"{drawn:,} of {count:,} drawn, extremes kept")
    if comparison.structural:
        said.append("the runs make different calls")
    return DOT.join(said)


def _places(comparison: Comparison, rows: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """Height of each row in log10, lanes included, and the ticks of the axis."""
    columns = comparison.columns
    relative, effect = columns["relative_l2"][rows], columns["effect"][rows]
    masked = effect == EFFECTS.index("masked")
    bad = np.isin(rows, comparison.bad)
    measured = ~bad & np.isfinite(relative) & (relative > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        height = np.log10(relative)
    shown = height[measured]
    low, high = (np.floor(shown.min()), np.ceil(shown.max())) if len(shown) else (0.0, 0.0)
    high = max(high, low + 1) if len(shown) else high
    lane = max(0.09 * (high - low), 0.12)
    lanes = {
        "not measured": (np.isnan(relative) & ~bad, high + 3 * lane),
        "golden is 0": (np.isposinf(relative) & ~bad, high + 2 * lane),
        "new NaN, Inf": (bad, high + lane),
        "other bits only": ((relative == 0) & ~bad & ~masked, low - lane),
        "masked": (masked, low - 2 * lane),
    }
    places = np.where(measured, height, low)
    for inside, at in lanes.values():
        places[inside] = at
    used = {name: at for name, (inside, at) in lanes.items() if inside.any()}
    stride = max(1, int(np.ceil((high - low) / 6)))
    powers = np.arange(low, high + 1, stride).tolist() if len(shown) else []
    edges = [*([low, high] if len(shown) else []), *used.values()]
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


def _add_first_bad(
    figure: go.Figure, comparison: Comparison, rows: np.ndarray, places: np.ndarray
) -> None:
    """A ring around the first site with a new NaN or Inf, if there is one."""
    for row in comparison.bad[:1].tolist():
        figure.add_scatter(
            x=[row + 1],
            y=places[rows == row],
            mode="markers",
            marker={"symbol": "circle-open", "size": 16, "color": BAD, "line": {"width": 2}},
            name="first new NaN or Inf",
            text=[_hover(comparison, row, comparison.site(row))],
            hovertemplate="%{text}<extra></extra>",
            customdata=[row],
            cliponaxis=False,
        )


def _hover(comparison: Comparison, row: int, site: Site) -> str:
    columns = comparison.columns
    names = {"relative L2": "relative_l2", "max |Δ|": "max_abs"}
    measure = {name: columns[column][row].item() for name, column in names.items()}
    counts = {name: int(columns[name][row]) for name in ("changed", "numel", "new_nan", "new_inf")}
    changed = share(counts["changed"], counts["numel"]) if counts["changed"] >= 0 else "unknown"
    known = {name: number(n) if n >= 0 else "unknown" for name, n in counts.items()}
    bad = counts["new_nan"] > 0 or counts["new_inf"] > 0  # no distance to what is not finite
    far = "".join(f"{name} {value!r}<br>" for name, value in measure.items() if not bad)
    return (
        f"{short(site)}  {plain(site.phase)}  {short(site.module)}<br>{far}"
        f"changed {changed}<br>new NaN {known['new_nan']}, "
        f"new Inf {known['new_inf']}<br>{effect_text(comparison, row)}"
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
        name="first alarm",
        text=[
            f"{plain(spoken(name))} would alarm at {short(alarm.site)}<br>"
            f"value {number(alarm.value)}, bound {number(alarm.threshold)}"
            for name, alarm in alarms
        ],
        hovertemplate="%{text}<extra></extra>",
        cliponaxis=False,
    )


def _add_phases(figure: go.Figure, comparison: Comparison) -> None:
    """A strip above the plot that says which phase is where; a name that has no room is hidden."""
    codes = _phase_codes(comparison)
    edges = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1], True])
    starts, lengths = edges[:-1], np.diff(edges)
    least = np.sort(lengths)[-_SEGMENTS] if len(lengths) > _SEGMENTS else 0
    starts, lengths = starts[lengths >= least], lengths[lengths >= least]
    names = [PHASES[code] for code in codes[starts]]
    figure.add_bar(
        orientation="h",
        x=lengths,
        y=[0] * len(starts),
        base=starts + 0.5,
        width=1,
        yaxis="y2",
        text=names,
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        marker={"color": [HUES[name] for name in names], "opacity": _TINT, "line": {"width": 0}},
        customdata=starts,
        hovertemplate="%{text}<extra></extra>",
        showlegend=False,
    )
    figure.update_layout(
        barmode="overlay",
        uniformtext={"minsize": 9, "mode": "hide"},
        yaxis={"domain": [0, 0.88]},
        yaxis2={"domain": [0.9, 1], "range": [-0.5, 0.5], "visible": False, "anchor": "x"},
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
