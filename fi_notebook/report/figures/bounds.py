"""The bounds of detectors in the figure of a training.

A bound near the values of its row is a dashed line, each detector with a dash of its own,
and an open square is where it would have raised an alarm. One that is far from all values
would flatten them: it stands in words at the edge that it lies beyond.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from fi_notebook.core.detection import Alarm
from fi_notebook.core.run import Run
from fi_notebook.core.words import spoken
from fi_notebook.report.figures.look import OPPOSITE, plain
from fi_notebook.report.numbers import number

__all__ = ["DrawnBound", "add_bound", "bounds_of", "say_far"]

_NEAR = 2.0  # so many times the spread of the values a bound may be away to be drawn
_DASHES = ("dash", "dashdot", "longdash", "longdashdot")


@dataclass(frozen=True, slots=True)
class DrawnBound:
    """The bound of one detector on one quantity.

    Attributes:
        name: Of the detector, as a person reads it, escaped.
        dash: How its line is dashed.
        steps: The steps in which it held.
        values: The bound in each.
        alarms: Where the quantity was beyond it.
        above: Whether it lies above all values of the quantity.
    """

    name: str
    dash: str
    steps: tuple[int, ...]
    values: tuple[float, ...]
    alarms: tuple[Alarm, ...]
    above: bool


def bounds_of(
    run: Run, quantity: str, finite: np.ndarray
) -> tuple[list[DrawnBound], list[DrawnBound]]:
    """The bounds on a quantity: those near its values, and those far from all of them.

    Args:
        run: The run.
        quantity: Name of the quantity.
        finite: Its finite values in both runs.

    Returns:
        The near ones and the far ones.
    """
    near: list[DrawnBound] = []
    far: list[DrawnBound] = []
    low, high = _reach(finite)
    for n, found in enumerate(d for d in run.detections if d.bounds):
        at = {
            bound.step: bound.value
            for bound in found.bounds
            if bound.quantity == quantity and np.isfinite(bound.value)
        }
        if not at:
            continue
        close = any(low <= value <= high for value in at.values())
        bound = DrawnBound(
            name=plain(spoken(found.name)),
            dash=_DASHES[n % len(_DASHES)],
            steps=tuple(at),
            values=tuple(at.values()),
            alarms=_alarms(found.alarms, at),
            above=min(at.values()) > high,
        )
        (near if close or bound.alarms else far).append(bound)
    return near, far


def _reach(finite: np.ndarray) -> tuple[float, float]:
    """Between what a bound is near to the values."""
    if not len(finite):
        return -np.inf, np.inf
    low, high = float(finite.min()), float(finite.max())
    room = _NEAR * ((high - low) or abs(high))
    return low - room, high + room


def _alarms(alarms: Sequence[Alarm], bounds: Mapping[int, float]) -> tuple[Alarm, ...]:
    return tuple(a for a in alarms if not a.site and a.threshold == bounds.get(a.step))


def add_bound(figure: go.Figure, bound: DrawnBound, row: int) -> None:
    """Draw a bound, and where the quantity was beyond it."""
    figure.add_scatter(
        x=bound.steps,
        y=bound.values,
        mode="lines" if len(bound.steps) > 1 else "markers",
        line={"color": OPPOSITE, "width": 1.5, "dash": bound.dash},
        marker={"symbol": "line-ew-open", "size": 24, "color": OPPOSITE},
        name=f"bound of {bound.name}",
        hovertemplate=f"bound of {bound.name} %{{y:.4g}}<extra></extra>",
        row=row,
        col=1,
    )
    if not bound.alarms:
        return
    figure.add_scatter(
        x=[alarm.step for alarm in bound.alarms],
        y=[alarm.value if np.isfinite(alarm.value) else None for alarm in bound.alarms],
        mode="markers",
        marker={"symbol": "square-open", "size": 13, "color": OPPOSITE},
        name=f"alarm of {bound.name}",
        hovertemplate=f"{bound.name} would alarm<extra></extra>",
        row=row,
        col=1,
    )


def say_far(figure: go.Figure, bounds: Sequence[DrawnBound], row: int) -> None:
    """Name the bounds beyond an axis, at its upper or lower edge."""
    for upper in (True, False):
        told = [_words(bound) for bound in bounds if bound.above is upper]
        if told:
            figure.add_annotation(
                text="<br>".join(told),
                showarrow=False,
                x=1,
                xanchor="right",
                xref="x domain",
                y=1 if upper else 0,
                yanchor="bottom" if upper else "top",
                yref="y domain",
                align="right",
                font={"size": 11},
                row=row,
                col=1,
            )


def _words(bound: DrawnBound) -> str:
    low, high = number(min(bound.values)), number(max(bound.values))
    value = low if low == high else f"{low} to {high}"
    return f"{'↑' if bound.above else '↓'} bound of {bound.name}: {value}"
