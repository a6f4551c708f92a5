"""The one look of every figure: colours, template, titles, escaped names.

Marks have two colours only, a neutral one for golden and an accent for faulty. Both
have a contrast of at least 3 on white and on black, so that a change between light and
dark is a change of the template alone; symbols and words say the same as the colours.
A figure brings its paper: it cannot know the page that it is shown on, and no ink reaches
a contrast of 4.5 both on white and on a dark page. A page that knows its own look takes
a template without paper.

Limits: plotly reads some markup in texts; `plain` makes any name a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go

from fi_notebook.report.names import cleaned, shortened
from fi_notebook.report.palette import FAULTY, GOLDEN, OPPOSITE

__all__ = [
    "DOT",
    "FAULTY",
    "FAULTY_FILL",
    "FAULTY_SCALE",
    "GOLDEN",
    "GOLDEN_FILL",
    "LEGEND_BELOW",
    "LEGEND_UNDER",
    "OPPOSITE",
    "SIGNED_SCALE",
    "heat",
    "message",
    "plain",
    "points",
    "set_title",
    "short",
    "theme",
]

GOLDEN_FILL = "rgba(122,130,142,0.45)"
FAULTY_FILL = "rgba(232,89,12,0.14)"
FAULTY_SCALE = [[0.0, "rgba(232,89,12,0.08)"], [1.0, "rgba(232,89,12,0.65)"]]
SIGNED_SCALE = [[0.0, OPPOSITE], [0.5, "rgba(128,128,128,0)"], [1.0, FAULTY]]

LEGEND_BELOW = {"yref": "container", "y": 0, "yanchor": "bottom"}
"""A legend at the lower edge, where it meets no title however narrow the figure is."""

LEGEND_UNDER = {"x": 0, "xanchor": "left", "y": -0.24, "yanchor": "top"}
"""A legend of many names below the axis, which makes the room that its rows need."""

DOT = " · "
"""What stands between the clauses of a subtitle."""

_FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
_NONE = "rgba(0,0,0,0)"
_TITLE, _SUBTITLE = 36, 52  # characters of a line, in a figure of 400 pixels
_MANY = 2000  # from here on points are drawn by WebGL
_REMOVED = (
    *("lasso2d", "select2d", "zoomIn2d", "zoomOut2d", "autoScale2d"),  # of no use here
    *("sendChartToCloud", "sendDataToCloud", "editInChartStudio"),  # upload what is drawn
)
"""Buttons that no figure has; under which name plotly uploads depends on its version."""


def theme(dark: bool = False, *, transparent: bool = False) -> go.layout.Template:
    """The template of every figure.

    Args:
        dark: Whether the page is dark.
        transparent: Whether the page shows through; it must then be dark where ``dark`` is
            and light where it is not.

    Returns:
        The template.
    """
    text, quiet, line, card, paper = (
        ("#e6e8eb", "#a3aab5", "rgba(255,255,255,0.12)", "#23262b", "#1b1e23")
        if dark
        else ("#1f2328", "#59626e", "rgba(0,0,0,0.10)", "#ffffff", "#ffffff")
    )
    return go.layout.Template(
        layout={
            "paper_bgcolor": _NONE if transparent else paper,
            "plot_bgcolor": _NONE,
            "font": {"family": _FONT, "size": 12, "color": text},
            "title": {
                "font": {"size": 14, "color": text},
                "subtitle": {"font": {"size": 12, "color": quiet}},
                "x": 0,
                "xref": "container",
                "xanchor": "left",
                "yref": "container",
                "y": 1,
                "yanchor": "top",
                "pad": {"t": 10, "l": 12},
            },
            "legend": {
                "orientation": "h",
                "x": 1,
                "xanchor": "right",
                "y": 1,
                "yanchor": "bottom",
                "font": {"size": 11, "color": quiet},
                "bgcolor": _NONE,
            },
            "margin": {"l": 56, "r": 16, "t": 84, "b": 48},
            "hoverlabel": {
                "align": "left",
                "bgcolor": card,
                "bordercolor": quiet,
                "font": {"color": text, "family": "ui-monospace, Menlo, Consolas, monospace"},
            },
            "xaxis": _axis(quiet, line),
            "yaxis": _axis(quiet, line),
            "modebar": {
                "bgcolor": _NONE,
                "color": quiet,
                "activecolor": text,
                "remove": _REMOVED,
            },
            "colorway": [GOLDEN, FAULTY, OPPOSITE],
        },
        data={"bar": [{"insidetextfont": {"color": text}}]},
    )


def _axis(quiet: str, line: str) -> dict[str, Any]:
    return {
        "gridcolor": line,
        "linecolor": quiet,
        "tickcolor": line,
        "zeroline": False,
        "exponentformat": "e",
        "ticks": "outside",
        "ticklen": 4,
        "tickfont": {"color": quiet, "size": 11},
        "title": {"font": {"color": quiet, "size": 12}, "standoff": 8},
        "automargin": True,
    }


def plain(text: object) -> str:
    """A name as text that plotly shows as it is and reads no markup or formula from."""
    return escape(cleaned(text), quote=False).replace("$", "&#36;")


def short(text: object, limit: int = 48) -> str:
    """A name with its middle left out where it is long, ready for a figure."""
    return plain(shortened(text, limit))


def set_title(
    figure: go.Figure, title: str, subtitle: str = "", *, dark: bool = False, room: int = 84
) -> None:
    """Give a figure its title, a quieter second line, and the template.

    Args:
        figure: The figure.
        title: What it shows, escaped by the caller; broken between words where it is long,
            so that no button of the figure covers it.
        subtitle: What must be known to read it, escaped by the caller; broken at `DOT`
            where it is long, so that a narrow figure shows all of it.
        dark: Whether the page is dark.
        room: Height above the plot, where title and subtitle are one line each.
    """
    heads, lines = _broken(title, " ", _TITLE), _broken(subtitle, DOT, _SUBTITLE)
    figure.update_layout(
        template=theme(dark),
        title={"text": "<br>".join(heads), "subtitle": {"text": "<br>".join(lines)}},
        modebar={"remove": _REMOVED},  # here too: a figure may be given another template
        margin={"t": room + 18 * (len(heads) - 1) + 15 * (len(lines) - 1)},
    )


def _broken(text: str, between: str, limit: int) -> list[str]:
    """A text in lines, broken between its clauses, or its words, only."""
    lines = [""]
    for clause in text.split(between):
        longer = between.join(part for part in (lines[-1], clause) if part)
        if len(longer) > limit and lines[-1]:
            lines.append(clause)
        else:
            lines[-1] = longer
    return lines


def message(title: str, text: str, *, dark: bool = False) -> go.Figure:
    """A figure that says in words why there is nothing to draw."""
    figure = go.Figure()
    set_title(figure, title, dark=dark)
    figure.add_annotation(
        text=text, showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper", font={"size": 13}
    )
    figure.update_layout(height=180)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    return figure


def points(count: int, **arguments: Any) -> go.Scatter | go.Scattergl:
    """Points in SVG, or in WebGL where there are many."""
    return go.Scattergl(**arguments) if count > _MANY else go.Scatter(**arguments)


def heat(
    values: np.ndarray, rows: Sequence[str], columns: Sequence[str], texts: np.ndarray
) -> list[go.Heatmap | go.Scatter]:
    """A small table of numbers, each cell shaded and with its text.

    The texts are a trace of their own, so that they take the colour of the template.

    Args:
        values: Shades, NaN where a cell is empty.
        rows: Row names, escaped.
        columns: Column names, escaped.
        texts: What stands in each cell.
    """
    names = np.repeat(np.asarray(rows, dtype=object)[:, None], len(columns), axis=1)
    shades = go.Heatmap(
        z=values,
        x=list(columns),
        y=list(range(len(rows))),
        text=texts,
        customdata=names,
        hovertemplate="%{customdata}<br>%{x}: %{text}<extra></extra>",
        hoverongaps=False,
        colorscale=FAULTY_SCALE,
        showscale=False,
        xgap=2,
        ygap=2,
    )
    words = go.Scatter(
        x=list(columns) * len(rows),
        y=np.repeat(np.arange(len(rows)), len(columns)),
        text=texts.ravel(),
        mode="text",
        hoverinfo="skip",
        showlegend=False,
    )
    return [shades, words]
