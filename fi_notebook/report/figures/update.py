"""Where the error ended: gradients and parameters by name, modules by phase, ranks.

Limits: of many names the worst are drawn, and the subtitle says how many are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from fi_notebook.analysis.words import nonfinite_words
from fi_notebook.core.run import Comparison, Difference
from fi_notebook.core.words import agreed, among
from fi_notebook.report.figures.look import (
    LEGEND_BELOW,
    heat,
    message,
    set_title,
    short,
)
from fi_notebook.report.heat import HeatTable, by_module, by_rank
from fi_notebook.report.numbers import number, share
from fi_notebook.report.palette import PHASES
from fi_notebook.report.scale import tick_label

__all__ = ["gradients", "ranks", "tree_heat"]

_BARS = 40
_NAME = 28  # characters of a name, so that the bars have room in a narrow pane
_ROWS = 60
_KINDS = ("gradient", "parameter after the update")
_PHASE_OF = {_KINDS[0]: "backward", _KINDS[1]: "optimizer"}


def gradients(comparison: Comparison, *, dark: bool = False) -> go.Figure:
    """How far each gradient, and each parameter after the update, is from the golden one.

    Args:
        comparison: The faulty run against the golden run.
        dark: Whether the page is dark.
    """
    pairs = _pairs(comparison)
    moved = sum(not gradient.equal for gradient in comparison.gradients)
    title = f"gradients: {moved:,} of {len(comparison.gradients):,} {agreed(moved, 'differ')}"
    if not pairs:
        return message(title, "the step left no gradients", dark=dark)
    if all(difference.equal for difference in (*comparison.gradients, *comparison.parameters)):
        return message(title, _all_equal(comparison), dark=dark)
    kept = _worst(pairs)
    names = [short(pairs[n][0], _NAME) for n in kept]
    figure = go.Figure()
    low, high = _decades([d for pair in pairs for d in pair[1:] if d is not None])
    figure.add_bar(**_bars([pairs[n][1] for n in kept], _KINDS[0], low, high))
    figure.add_bar(**_bars([pairs[n][2] for n in kept], _KINDS[1], low, high))
    powers = np.arange(low, high + 1, max(1, round((high - low) / 6)))
    figure.update_xaxes(
        title_text="relative L2",
        tickvals=powers,
        ticktext=[tick_label(10.0**p) for p in powers],
        range=[low, high + 0.22 * (high - low)],
    )
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=names, autorange="reversed", showgrid=False
    )
    left_out = f"the {len(kept)} worst of {len(pairs)}" if len(kept) < len(pairs) else ""
    figure.update_layout(height=182 + 34 * len(kept), barmode="group", bargap=0.3, bargroupgap=0.1)
    set_title(figure, title, left_out or "in the model's order; = is bit-equal", dark=dark)
    margin = {"r": 56, "b": 80}  # at the right stands the text of the longest bar
    figure.update_layout(margin=margin, legend=LEGEND_BELOW)
    return figure


def _all_equal(comparison: Comparison) -> str:
    kinds = {"gradient": comparison.gradients, "parameter": comparison.parameters}
    named = [among(len(found), len(found), kind) for kind, found in kinds.items() if found]
    return f"bit-equal: {'<br>and '.join(named)}"


def _pairs(
    comparison: Comparison,
) -> list[tuple[str, Difference | None, Difference | None]]:
    """Gradient and parameter of each name, in the model's order."""
    known = [{d.name: d for d in kind} for kind in (comparison.gradients, comparison.parameters)]
    names = dict.fromkeys([*known[1], *known[0]])
    return [(name, known[0].get(name), known[1].get(name)) for name in names]


def _worst(pairs: Sequence[tuple[str, Difference | None, Difference | None]]) -> list[int]:
    def badness(n: int) -> tuple[int, float]:
        found = [d for d in pairs[n][1:] if d is not None]
        return sum(d.new_nan + d.new_inf for d in found), max(d.relative_l2 for d in found)

    return sorted(sorted(range(len(pairs)), key=badness, reverse=True)[:_BARS])


def _decades(differences: Sequence[Difference]) -> tuple[float, float]:
    """Ends of the axis in log10."""
    found = [difference.relative_l2 for difference in differences]
    shown = [value for value in found if 0 < value < np.inf]
    if not shown:
        return -1.0, 0.0
    return float(np.floor(np.log10(min(shown)) - 0.3)), float(np.ceil(np.log10(max(shown)) + 1e-9))


def _bars(
    differences: Sequence[Difference | None], kind: str, low: float, high: float
) -> dict[str, object]:
    lengths = [_length(d, low, high) for d in differences]
    return {
        "orientation": "h",
        "name": kind,
        "y": list(range(len(differences))),
        "x": lengths,
        "base": low,
        "text": [_bar_text(d) for d in differences],
        "textposition": "outside",
        "textfont": {"size": 11},
        "constraintext": "none",
        "cliponaxis": False,
        "marker": {
            "color": PHASES[_PHASE_OF[kind]],
            "pattern": {
                "shape": ["/" if _is_bad(d) else "" for d in differences],
                "fillmode": "overlay",
                "solidity": 0.3,
            },
        },
        "hovertext": [_bar_hover(d) for d in differences],
        "hovertemplate": f"%{{hovertext}}<br>{kind}<extra></extra>",
    }


def _is_bad(difference: Difference | None) -> bool:
    return difference is not None and bool(difference.new_nan or difference.new_inf)


def _length(difference: Difference | None, low: float, high: float) -> float:
    """Length of a bar: the whole axis for NaN and Inf, nothing for what is equal."""
    if difference is None:
        return 0.0
    if _is_bad(difference) or np.isinf(difference.relative_l2):
        return high - low
    return float(np.log10(difference.relative_l2)) - low if difference.relative_l2 > 0 else 0.0


def _bar_text(difference: Difference | None) -> str:
    if difference is None:
        return "none"
    if difference.equal:
        return "="
    bad = nonfinite_words(difference.new_nan, difference.new_inf)
    return bad or number(difference.relative_l2)


def _bar_hover(difference: Difference | None) -> str:
    if difference is None:
        return "none"
    bad = nonfinite_words(difference.new_nan, difference.new_inf)
    far = (
        f"newly {bad}"
        if bad
        else f"relative L2 {difference.relative_l2!r}<br>max |Δ| {difference.max_abs!r}"
    )
    changed = share(difference.changed, difference.numel)
    return f"{short(difference.name)}<br>{far}<br>changed {changed}"


def tree_heat(comparison: Comparison, *, dark: bool = False) -> go.Figure:
    """The largest error at or below each module, phase by phase.

    Args:
        comparison: The faulty run against the golden run.
        dark: Whether the page is dark.
    """
    table = by_module(comparison)
    keep = _worst_rows(table)
    left_out = len(table.rows) - len(keep)
    said = "largest relative L2 at or below each module · = is bit-equal"
    if left_out:
        said += f" · {among(left_out, len(table.rows), 'module')} with smaller errors left out"
    return _heat_figure(table.take(keep), "where the error went, by module", said, dark=dark)


def _worst_rows(table: HeatTable) -> np.ndarray:
    if len(table.rows) <= _ROWS:
        return np.arange(len(table.rows))
    order = np.lexsort((-np.nan_to_num(table.errors).max(axis=1), -table.bad.sum(axis=1)))
    return np.sort(order[:_ROWS])


def ranks(comparisons: Mapping[int, Comparison], *, dark: bool = False) -> go.Figure:
    """The largest error of each rank, phase by phase.

    Args:
        comparisons: The comparison of each rank.
        dark: Whether the page is dark.
    """
    said = "largest relative L2 of each rank · = is bit-equal"
    return _heat_figure(by_rank(comparisons), "where the error went, by rank", said, dark=dark)


def _heat_figure(table: HeatTable, title: str, said: str, *, dark: bool) -> go.Figure:
    if not len(table.rows):
        return message(title, "no call was compared", dark=dark)
    names = [short(name, 40) for name in table.rows]
    figure = go.Figure(heat(_exponents(table), names, table.columns, table.texts()))
    figure.update_xaxes(side="top", showgrid=False, ticks="", showline=False, type="category")
    figure.update_yaxes(
        tickvals=list(range(len(names))),
        ticktext=names,
        autorange="reversed",
        showgrid=False,
        ticks="",
    )
    figure.update_layout(height=130 + 26 * len(names), margin={"b": 16})
    set_title(figure, title, said, dark=dark, room=96)
    return figure


def _exponents(table: HeatTable) -> np.ndarray:
    """Shade of each cell: log10 of the error, NaN and Inf darkest, equal empty."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shade = np.log10(table.errors)
    finite = shade[np.isfinite(shade)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 1.0)
    shade = np.where(np.isneginf(shade), np.where(table.differing > 0, low, np.nan), shade)
    shade[np.isposinf(shade) | (table.bad > 0)] = high + 1
    return shade
