"""A tensor element by element: its values, where it changed, and golden against faulty.

Limits: without the tensors (headless, or read from a file) only the changed elements
that the injection kept can be shown, and the figure says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from fi_notebook.core.injection import ElementChange, Injection
from fi_notebook.core.site import Site
from fi_notebook.core.words import among
from fi_notebook.report.arrays import (
    Values,
    array_of,
    elements_of,
    fold,
    keep_extremes,
    largest_in_blocks,
    values_of,
)
from fi_notebook.report.figures.look import (
    DOT,
    FAULTY,
    GOLDEN,
    LEGEND_BELOW,
    OPPOSITE,
    SIGNED_SCALE,
    message,
    plain,
    points,
    set_title,
    short,
)
from fi_notebook.report.figures.struck import changed_words, title_of, values_and_note
from fi_notebook.report.numbers import (
    changed_bits,
    exact,
    hexadecimal,
    index_text,
    number,
    shape_text,
)
from fi_notebook.report.scale import SymLog

__all__ = ["difference_heatmap", "element_text", "scatter", "values"]

_CELLS = 160
_CROWD = 300  # from here on marks are small
_MARKED = 500
_POINTS = {"unchanged": 1500, "changed": 4000}


def difference_heatmap(injection: Injection, *, dark: bool = False) -> go.Figure:
    """Where in the tensor the values changed, and by how much.

    Args:
        injection: One strike.
        dark: Whether the page is dark.
    """
    whole, title = values_of(injection), title_of(injection, "difference")
    if whole is None:
        return message(title, "the tensors of this injection were not kept", dark=dark)
    if not whole[0].size:
        return message(title, "the tensor has no elements", dark=dark)
    matrix = _difference(whole).reshape(fold(injection.before.shape))
    bad = int((~np.isfinite(matrix)).sum())
    cells, block = largest_in_blocks(np.where(np.isfinite(matrix), matrix, np.nan), _CELLS)
    scale = SymLog.fitting(cells[np.isfinite(cells) & (cells != 0)])
    figure = go.Figure(_heatmap(cells, block, scale, "difference", "after - before"))
    after = whole[1].ravel()
    _add_marks(figure, injection, matrix, after)
    _set_axes(figure, injection.before.shape)
    said = [changed_words(injection)]
    if words := _broken_words(after[~np.isfinite(matrix).ravel()], "new "):
        said.append(words)
    if block != (1, 1):
        said.append(f"a cell is the largest change among {block[0]} × {block[1]} elements")
    if bad > _MARKED:
        said.append(f"the first {_MARKED:,} of them marked")
    figure.update_layout(height=380, showlegend=False)
    set_title(figure, title, DOT.join(said), dark=dark)
    return figure


def values(site: Site, tensor: Any, *, dark: bool = False) -> go.Figure:
    """The values of one output, as a matrix.

    Args:
        site: The output.
        tensor: Its values, as a tensor or an array.
        dark: Whether the page is dark.
    """
    elements, title = elements_of(tensor), f"{short(site)} values"
    array, what = array_of(elements), "absolute value" if np.iscomplexobj(elements) else "value"
    if not array.size:
        return message(title, "the tensor has no elements", dark=dark)
    matrix = array.reshape(fold(array.shape))
    cells, block = largest_in_blocks(np.where(np.isfinite(matrix), matrix, np.nan), _CELLS)
    scale = SymLog.fitting(cells[np.isfinite(cells) & (cells != 0)])
    figure = go.Figure(_heatmap(cells, block, scale, what, what))
    broken = np.flatnonzero(~np.isfinite(matrix))
    shown = matrix.ravel()[broken[:_MARKED]].tolist()
    _add_symbols(figure, matrix, broken[:_MARKED], shown, list(map(number, shown)), len(shown))
    _set_axes(figure, array.shape)
    said = [f"{plain(site.dtype)}, {shape_text(array.shape)}"]
    if np.iscomplexobj(elements):
        said.append("absolute values")
    if words := _broken_words(matrix.ravel()[broken]):
        said.append(words)
    if block != (1, 1):
        said.append(f"a cell is the furthest from zero of {block[0]} × {block[1]} elements")
    if len(broken) > _MARKED:
        said.append(f"the first {_MARKED:,} of them marked")
    figure.update_layout(height=380, showlegend=False)
    set_title(figure, title, DOT.join(said), dark=dark)
    return figure


def _set_axes(figure: go.Figure, shape: tuple[int, ...]) -> None:
    rows, columns = _dimensions(shape)
    figure.update_xaxes(title_text=columns, showgrid=False, mirror=True, showline=True)
    figure.update_yaxes(
        title_text=rows, autorange="reversed", showgrid=False, mirror=True, showline=True
    )


def _difference(whole: Values) -> np.ndarray:
    """After minus before: 0 where both are the same, NaN or Inf where after is not finite."""
    before, after = whole
    with np.errstate(invalid="ignore", over="ignore"):
        difference = after - before
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    largest = np.finfo(np.float64).max
    finite = np.isfinite(before) & np.isfinite(after)
    difference[finite] = np.clip(difference[finite], -largest, largest)
    return np.where(same, 0.0, difference)


def _heatmap(
    cells: np.ndarray, block: tuple[int, int], scale: SymLog, what: str, title: str
) -> go.Heatmap:
    shown = scale.forward(np.where(np.isfinite(cells), cells, 0.0))
    limit = float(np.abs(shown).max()) or 1.0
    far = float(np.nanmax(np.abs(np.where(np.isfinite(cells), cells, 0.0))))
    positions, labels = scale.ticks(-far, far, gap=0.12)
    return go.Heatmap(
        z=shown.astype(np.float32),
        x=np.arange(cells.shape[1]) * block[1],
        y=np.arange(cells.shape[0]) * block[0],
        customdata=cells,
        zmin=-limit,
        zmax=limit,
        colorscale=SIGNED_SCALE,
        hovertemplate=f"row %{{y}}, column %{{x}}<br>{what} %{{customdata:.4g}}<extra></extra>",
        colorbar={
            "tickvals": positions,
            "ticktext": labels,
            "tickfont": {"size": 11},
            "title": {"text": title, "side": "right", "font": {"size": 11}},
            "thickness": 10,
            "outlinewidth": 0,
        },
    )


def _add_marks(
    figure: go.Figure, injection: Injection, matrix: np.ndarray, after: np.ndarray
) -> None:
    """Marks where values became NaN or Inf; rings around few changed elements."""
    shape, dtype = injection.before.shape, injection.site.dtype
    kept = {
        int(np.ravel_multi_index(change.index, shape)) if shape else 0: change
        for change in injection.elements
    }
    broken = np.flatnonzero(~np.isfinite(matrix))[:_MARKED].tolist()
    rings = kept if injection.changed <= len(kept) else {}
    flat = np.asarray([*broken, *(n for n in rings if n not in set(broken))], dtype=np.int64)
    struck = after[flat].tolist()
    texts = [
        element_text(kept[n], dtype) if n in kept else f"after {number(value)}"
        for n, value in zip(flat.tolist(), struck)
    ]
    _add_symbols(figure, matrix, flat, struck, texts, len(broken))


def _add_symbols(
    figure: go.Figure,
    matrix: np.ndarray,
    flat: np.ndarray,
    shown: Sequence[float],
    texts: Sequence[str],
    broken: int,
) -> None:
    """Marks at flat places of a matrix; the first of them, so many, are not finite."""
    rows, columns = np.divmod(flat, max(matrix.shape[1], 1))
    colours = [OPPOSITE if value == -np.inf else FAULTY for value in shown]
    figure.add_scatter(
        x=columns,
        y=rows,
        mode="markers",
        marker={
            "symbol": [_symbol(value, n < broken) for n, value in enumerate(shown)],
            "size": 10,
            "color": colours,
            "line": {"width": 1.5, "color": colours},
        },
        text=texts,
        hovertemplate="%{text}<extra></extra>",
    )


def _symbol(after: float, broken: bool) -> str:
    """What marks an element: a triangle up or down at an infinity, × at NaN, else a ring."""
    if not broken:
        return "circle-open"
    return {np.inf: "triangle-up", -np.inf: "triangle-down"}.get(after, "x-thin")


def _broken_words(after: np.ndarray, new: str = "") -> str:
    """How many elements are not finite, each kind with its mark; ``new`` stands before a kind."""
    counts = {
        "NaN ×": int(np.isnan(after).sum()),
        "Inf ▲": int(np.isposinf(after).sum()),
        "-Inf ▼": int(np.isneginf(after).sum()),
    }
    told = [f"{count:,} {new}{name}" for name, count in counts.items() if count]
    was = int(np.isfinite(after).sum())
    return ", ".join([*told, f"{was:,} no longer ×"] if was else told)


def element_text(change: ElementChange, dtype: str) -> str:
    """One changed element: exact values, raw bits and the bits that differ."""
    return (
        f"element {index_text(change.index)}<br>"
        f"before {exact(change.before, dtype)}  {hexadecimal(change.before_bits, dtype)}<br>"
        f"after  {exact(change.after, dtype)}  {hexadecimal(change.after_bits, dtype)}<br>"
        f"{changed_bits(change, dtype)}"
    )


def _dimensions(shape: tuple[int, ...]) -> tuple[str, str]:
    """Axis titles that say which dimensions run along rows and columns."""
    if len(shape) < 2:
        return "", "element"
    split = 2 if len(shape) >= 4 else len(shape) - 1
    names = [str(n) for n in range(len(shape))]
    titles = [
        f"{'dim' if len(part) == 1 else 'dims'} {', '.join(part)} ({shape_text(shape[start:end])})"
        for part, start, end in ((names[:split], 0, split), (names[split:], split, len(shape)))
    ]
    return titles[0], titles[1]


def scatter(injection: Injection, *, dark: bool = False) -> go.Figure:
    """Golden against faulty values of the struck tensor; what did not change is on the line.

    Args:
        injection: One strike.
        dark: Whether the page is dark.
    """
    before, after, note = values_and_note(injection)
    if not len(before):
        return message(title_of(injection, "golden against faulty"), "no element", dark=dark)
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    scale = SymLog.fitting(before, after)
    ends = _ends(before), _ends(np.concatenate([before, after]))
    figure, drawn = go.Figure(_diagonal(scale, ends[0])), 0
    for name, rows in (("unchanged", np.flatnonzero(same)), ("changed", np.flatnonzero(~same))):
        kept = rows[keep_extremes(_sortable(after[rows]), _POINTS[name])]
        drawn += len(kept)
        figure.add_trace(_cloud(name, before[kept], after[kept], scale, ends, len(rows)))
    _set_lanes(figure, scale, ends)
    if drawn < len(before):
        note += f"{DOT}{among(drawn, len(before), 'point')} drawn, extremes kept"
    figure.update_layout(height=400, margin={"b": 84}, legend=LEGEND_BELOW)
    set_title(figure, title_of(injection, "golden against faulty"), note, dark=dark)
    return figure


def _ends(values: np.ndarray) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)


def _diagonal(scale: SymLog, ends: tuple[float, float]) -> go.Scatter:
    """The line on which both runs have the same value."""
    at = scale.forward(ends)
    line = {"color": GOLDEN, "width": 1}
    return go.Scatter(x=at, y=at, mode="lines", line=line, showlegend=False, hoverinfo="skip")


def _sortable(values: np.ndarray) -> np.ndarray:
    return np.nan_to_num(values, nan=np.inf, posinf=np.inf, neginf=-np.inf)


def _cloud(
    name: str,
    before: np.ndarray,
    after: np.ndarray,
    scale: SymLog,
    ends: tuple[tuple[float, float], tuple[float, float]],
    total: int,
) -> go.Scatter | go.Scattergl:
    changed = name == "changed"
    return points(
        len(before),
        x=_lanes(scale, before, *ends[0]),
        y=_lanes(scale, after, *ends[1]),
        mode="markers",
        name=f"{name} ({total:,})",
        marker={
            "symbol": "diamond" if changed else "circle",
            "size": (8 if len(before) <= _CROWD else 4) if changed else 5,
            "color": FAULTY if changed else GOLDEN,
            "opacity": 0.9 if changed else 0.5,
        },
        customdata=np.stack([before, after], axis=1).astype(str),
        hovertemplate="golden %{customdata[0]}<br>faulty %{customdata[1]}<extra></extra>",
    )


def _lane_positions(scale: SymLog, low: float, high: float) -> dict[str, float]:
    """Where -Inf, +Inf and NaN stand, outside the range of finite values."""
    left, right = (float(p) for p in scale.forward([low, high]))
    step = 0.08 * max(right - left, 1.0)
    return {"-Inf": left - step, "+Inf": right + step, "NaN": right + 2 * step}


def _lanes(scale: SymLog, values: np.ndarray, low: float, high: float) -> np.ndarray:
    lanes = _lane_positions(scale, low, high)
    finite = scale.forward(np.where(np.isfinite(values), values, 0.0))
    tests = [np.isneginf(values), np.isposinf(values), np.isnan(values)]
    return np.select(tests, list(lanes.values()), finite)


def _set_lanes(
    figure: go.Figure, scale: SymLog, ends: tuple[tuple[float, float], tuple[float, float]]
) -> None:
    """Ticks of both axes, those of the lanes only where something stands there."""
    for axis, title, (low, high) in zip("xy", ("golden value", "faulty value"), ends):
        drawn = np.concatenate([np.asarray(trace[axis], dtype=float) for trace in figure.data])
        lanes = _lane_positions(scale, low, high)
        used = {name: at for name, at in lanes.items() if (drawn == at).any()}
        positions, labels = scale.ticks(low, high)
        figure.update_layout(
            {
                f"{axis}axis": {
                    "title": {"text": title},
                    "tickvals": [*positions, *used.values()],
                    "ticktext": [*labels, *used],
                }
            }
        )
