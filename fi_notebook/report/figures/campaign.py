"""A campaign in pictures: where faults do harm, and how they end.

    heat_map(columns)              layer × bit, share of harm
    outcomes(columns, by="layer")  shares of the outcomes as stacked bars
    timeline(columns)              share of harm along the step
    losses(columns)                loss curves, fanned by outcome

``columns`` holds one array per column and one item per injection (`Results.columns`).
*Harm* is every outcome but the masked ones and *inactive*; *not injected* is left out. Shares and
quantiles are weighted, as rates are; counts are what was counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from fi_notebook.core.run import HARMLESS, OUTCOMES
from fi_notebook.core.words import counted, spoken
from fi_notebook.report.figures.look import (
    DOT,
    FAULTY,
    FAULTY_SCALE,
    GOLDEN,
    LEGEND_UNDER,
    message,
    plain,
    set_title,
    short,
)
from fi_notebook.report.palette import OUTCOME_COLOURS, PHASES

__all__ = ["heat_map", "losses", "outcomes", "quantiles", "timeline"]

Columns = Mapping[str, np.ndarray]

_PATTERNS = {
    "masked_tolerance": "/",
    "inactive": ".",
    "nan_immediate": "+",
    "nan_delayed": "\\",
    "crash": "x",
}
"""What tells outcomes apart where colours do not."""

_FEW = 5
"""Of fewer injections a share tells little; its cell is pale."""


def heat_map(columns: Columns, *, dark: bool = False) -> go.Figure:
    """The share of harm by layer and bit."""
    kept = _injected(columns) & (columns["bit"] >= 0)
    if not kept.any():
        return message("Harm by layer and bit", "no injection flips a single bit", dark=dark)
    layers = list(dict.fromkeys(columns["layer"][kept][np.argsort(columns["order"][kept])]))
    bits, at = _bits(columns, kept)
    cells = ([layers.index(layer) for layer in columns["layer"][kept]], at)
    harmed, weights = _harm(columns)[kept], _weights(columns)[kept]
    made, harm, whole, part = (
        _summed(each, cells, (len(layers), len(bits)))
        for each in (np.ones(len(at)), harmed, weights, harmed * weights)
    )
    with np.errstate(invalid="ignore"):
        share = part / whole
    figure = go.Figure()
    for mine, opacity in ((made >= _FEW, 1.0), (made < _FEW, 0.5)):
        figure.add_heatmap(
            z=np.where(mine, share, np.nan),
            opacity=opacity,
            x=bits,
            y=[short(layer) for layer in layers],
            customdata=np.stack([harm, made], axis=-1),
            hovertemplate=(
                "%{y}, bit %{x}<br>%{z:.0%}: %{customdata[0]:.0f} of %{customdata[1]:.0f} do harm"
                "<extra></extra>"
            ),
            hoverongaps=False,
            zmin=0,
            zmax=1,
            colorscale=FAULTY_SCALE,
            colorbar={"tickformat": ".0%", "thickness": 10},
            showscale=opacity == 1.0 or bool((made < _FEW).all()),
            xgap=1,
            ygap=1,
        )
    set_title(
        figure,
        "Harm by layer and bit",
        f"{counted(int(made.sum()), 'injection')}{DOT}bit 0 is the least significant{DOT}"
        f"empty where none was made, pale where fewer than {_FEW} were",
        dark=dark,
    )
    figure.update_xaxes(title="bit")
    figure.update_yaxes(type="category", autorange="reversed")  # a layer may be called 0
    figure.update_layout(height=140 + 26 * max(4, len(layers)))
    return figure


def _bits(columns: Columns, kept: np.ndarray) -> tuple[list[Any], list[int]]:
    """Every bit there is, and which one each injection flips; of several formats each its own."""
    bits, dtypes = columns["bit"][kept].tolist(), columns["dtype"][kept].tolist()
    most = dict.fromkeys(sorted(set(dtypes)), -1)
    for bit, dtype in zip(bits, dtypes, strict=True):
        most[dtype] = max(most[dtype], bit)
    if len(most) == 1:
        return list(range(max(bits) + 1)), bits
    names = [f"{dtype}:{bit}" for dtype, last in most.items() for bit in range(last + 1)]
    known = {name: at for at, name in enumerate(names)}
    return names, [known[f"{dtype}:{bit}"] for bit, dtype in zip(bits, dtypes, strict=True)]


def _summed(
    values: np.ndarray, cells: tuple[list[int], list[int]], shape: tuple[int, int]
) -> np.ndarray:
    """What is in each cell, together."""
    found = np.zeros(shape)
    np.add.at(found, cells, values)
    return found


def outcomes(columns: Columns, by: str = "layer", *, dark: bool = False) -> go.Figure:
    """The shares of the outcomes in each group, as stacked bars."""
    kept = _injected(columns)
    if not kept.any():
        return message("Outcomes", "nothing was injected", dark=dark)
    order = np.argsort(columns["bit" if by == "bit" else "order"][kept], kind="stable")
    names_of = columns["bit_name" if by == "bit" else by]
    groups = list(dict.fromkeys(names_of[kept][order]))
    counts = [int((names_of[kept] == group).sum()) for group in groups]
    weights = _weights(columns)
    worth = [float(weights[kept & (names_of == group)].sum()) for group in groups]
    names = [f"{short(str(g))} ({count})" for g, count in zip(groups, counts, strict=True)]
    figure = go.Figure()
    for name in OUTCOMES:
        mine = kept & (columns["outcome"] == name)
        if not mine.any():
            continue
        shares = [
            float(weights[mine & (names_of == group)].sum()) / whole
            for group, whole in zip(groups, worth, strict=True)
        ]
        figure.add_bar(
            y=names,
            x=shares,
            name=plain(spoken(name)),
            orientation="h",
            marker={
                "color": OUTCOME_COLOURS.get(name, FAULTY),
                "pattern": {"shape": _PATTERNS.get(name, "")},
            },
            hovertemplate=f"%{{y}}<br>{plain(spoken(name))} %{{x:.1%}}<extra></extra>",
        )
    height = 240 + 26 * max(4, len(groups))
    figure.update_layout(
        barmode="stack", height=height, legend=LEGEND_UNDER | {"traceorder": "normal"}
    )
    set_title(
        figure,
        f"Outcomes by {plain(by)}",
        f"{counted(int(kept.sum()), 'injection')}{DOT}"
        f"{int((~kept).sum()):,} not injected, left out",
        dark=dark,
    )
    figure.update_xaxes(tickformat=".0%", range=[0, 1])
    figure.update_yaxes(autorange="reversed")
    return figure


def timeline(columns: Columns, *, dark: bool = False) -> go.Figure:
    """The share of harm at each site, in execution order."""
    kept = _injected(columns)
    if not kept.any():
        return message("Harm along the step", "nothing was injected", dark=dark)
    harm, weights = _harm(columns)[kept], _weights(columns)[kept]
    places, inverse = np.unique(columns["order"][kept], return_inverse=True)
    made, harmed = np.bincount(inverse), np.bincount(inverse, weights=harm)
    share = np.bincount(inverse, weights=harm * weights) / np.bincount(inverse, weights=weights)
    first = [int(np.flatnonzero(kept & (columns["order"] == place))[0]) for place in places]
    texts = [
        f"{short(columns['site'][row])}<br>{plain(columns['phase'][row])}, "
        f"{short(columns['layer'][row])}"
        for row in first
    ]
    figure = go.Figure()
    for phase in dict.fromkeys(columns["phase"][first]):
        mine = columns["phase"][first] == phase
        figure.add_bar(
            x=places[mine],
            y=share[mine],
            name=plain(phase),
            marker={"color": PHASES.get(phase, GOLDEN)},
            text=[texts[n] for n in np.flatnonzero(mine)],
            customdata=np.stack([harmed, made], axis=-1)[mine],
            textposition="none",
            hovertemplate=(
                "%{text}<br>%{y:.0%}: %{customdata[0]:.0f} of %{customdata[1]:.0f} do harm"
                "<extra></extra>"
            ),
        )
    set_title(
        figure,
        "Harm along the step",
        f"{counted(len(places), 'site')} in execution order{DOT}share of injections that do harm",
        dark=dark,
    )
    figure.update_layout(legend=LEGEND_UNDER, height=380)
    figure.update_xaxes(title="site, in execution order")
    figure.update_yaxes(tickformat=".0%", range=[0, 1.02])
    return figure


def losses(columns: Columns, *, dark: bool = False) -> go.Figure:
    """The loss over the replayed steps: middle and spread of each outcome."""
    kept = _injected(columns)
    long = np.asarray([len(curve) > 1 for curve in columns["losses"]], dtype=bool)
    curves = {name: kept & long & (columns["outcome"] == name) for name in OUTCOMES}
    if not any(mine.any() for mine in curves.values()):
        text = "one step was replayed; replay several to see where the loss goes"
        return message("Losses by outcome", text, dark=dark)
    figure = go.Figure()
    for name, mine in curves.items():
        if mine.any():
            _fan(figure, name, list(columns["losses"][mine]), _weights(columns)[mine])
    set_title(
        figure,
        "Losses by outcome",
        f"median, and from the 10th to the 90th percentile{DOT}NaN and Inf leave a gap",
        dark=dark,
    )
    figure.update_layout(height=480, legend=LEGEND_UNDER)
    figure.update_xaxes(title="step", dtick=1)
    figure.update_yaxes(title="loss")
    return figure


def _fan(figure: go.Figure, name: str, curves: list[np.ndarray], weights: np.ndarray) -> None:
    """The middle of some curves, and a band around it."""
    table = np.full((len(curves), max(map(len, curves))), np.nan)
    for row, curve in enumerate(curves):
        table[row, : len(curve)] = np.where(np.isfinite(curve), curve, np.nan)
    steps = np.arange(table.shape[1])
    spread = np.stack([quantiles(column, weights, (0.1, 0.5, 0.9)) for column in table.T], axis=1)
    colour = OUTCOME_COLOURS.get(name, GOLDEN)
    band = {"mode": "lines", "line": {"width": 0, "color": colour}, "hoverinfo": "skip"}
    figure.add_scatter(x=steps, y=spread[0], showlegend=False, legendgroup=name, **band)
    figure.add_scatter(
        x=steps,
        y=spread[2],
        fill="tonexty",
        fillcolor=_faint(colour),
        showlegend=False,
        legendgroup=name,
        **band,
    )
    figure.add_scatter(
        x=steps,
        y=spread[1],
        mode="lines+markers",
        name=f"{plain(spoken(name))} ({len(curves)})",
        legendgroup=name,
        line={"color": colour},
        hovertemplate=f"{plain(spoken(name))}<br>step %{{x}}: median %{{y:.4g}}<extra></extra>",
    )


def quantiles(values: np.ndarray, weights: np.ndarray, at: Sequence[float]) -> np.ndarray:
    """Quantiles of values that stand for unlike numbers of faults; NaN is left out.

    Args:
        values: The values.
        weights: For how many each stands; where all weigh the same, they are numpy's.
        at: Which quantiles, from 0 to 1.

    Returns:
        The quantiles; NaN where no value is known.
    """
    known = ~np.isnan(values)
    if not known.any():
        return np.full(len(at), np.nan)
    order = np.argsort(values[known], kind="stable")
    mine, heavy = values[known][order], weights[known][order]
    places = np.concatenate([[0.0], np.cumsum((heavy[1:] + heavy[:-1]) / 2)])
    found: np.ndarray = np.interp(np.asarray(at) * places[-1], places, mine)
    return found


def _faint(colour: str) -> str:
    """A colour that others show through."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.12)"


def _injected(columns: Columns) -> np.ndarray:
    return np.asarray(columns["outcome"] != "not_injected", dtype=bool)


def _weights(columns: Columns) -> np.ndarray:
    """For how many faults each injection stands."""
    weights: np.ndarray = columns.get("weight", np.ones(len(columns["outcome"])))
    return weights


def _harm(columns: Columns) -> np.ndarray:
    return np.asarray(~np.isin(columns["outcome"].astype(str), HARMLESS))
