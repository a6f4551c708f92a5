"""A watched run at a glance without a widget: a static table, and a curve for each site.

    watched_html(run, golden)      shown by a saved notebook, and by nbconvert

Grey is where the golden runs were, blue (orange where faulty) the current run. Every name
and value is escaped; there is no script in it.

Limits: one statistic, and at most `MOST_SITES` sites, of which the text twin has all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from fi_notebook.analysis.watched import golden_band
from fi_notebook.core.watched import DRAWN, Series, WatchedRun
from fi_notebook.report.html import html_table
from fi_notebook.report.palette import FAULTY, GOLDEN, OPPOSITE
from fi_notebook.report.snapshot import STYLE
from fi_notebook.report.text_watched import alert_lines, rows

__all__ = ["MOST_SITES", "watched_html"]

MOST_SITES = 48
"""How many sites a snapshot shows at most."""

_WIDTH, _HEIGHT, _POINTS = 220, 34, 110
_COLOURS = {"golden": GOLDEN, "faulty": FAULTY}


def watched_html(
    run: WatchedRun, golden: Sequence[WatchedRun] = (), *, statistic: str = DRAWN
) -> str:
    """The last step of every site, the alerts, and a curve of each site over the steps."""
    header, lines = rows(run, golden, statistic)
    shown = lines[:MOST_SITES]
    curves = [_curve(run, golden, name, statistic) for name in list(run.series)[:MOST_SITES]]
    sites = f"{len(shown)} of {len(lines)} sites" if len(lines) > len(shown) else ""
    head = f"{run.name}: up to step {run.last_step}" if run.series else "nothing was read yet"
    parts = [
        STYLE,
        '<div class="fi-snapshot">',
        f"<p><b>{escape(head)}</b> <span class='fi-quiet'>{escape(sites)}</span></p>",
        *(f"<p>⚠ {escape(line)}</p>" for line in alert_lines(run)),
        html_table((*header, statistic + " over the steps"), shown, curves) if shown else "",
        "</div>",
    ]
    return "\n".join(part for part in parts if part)


def _curve(run: WatchedRun, golden: Sequence[WatchedRun], name: str, statistic: str) -> str:
    """The golden runs and the current one as lines in one small picture."""
    band, series = golden_band(golden, name, statistic), run.series[name]
    lines = [
        (band.steps, band.low, GOLDEN),
        (band.steps, band.high, GOLDEN),
    ]
    lines.append((series.steps, series.statistic(statistic), _COLOURS.get(run.name, OPPOSITE)))
    finite = np.concatenate([values[np.isfinite(values)] for _, values, _ in lines])
    if not len(finite):
        return ""
    last = max((int(steps[-1]) for steps, _, _ in lines if len(steps)), default=0)
    scale = _Scale(last, float(finite.min()), float(finite.max()))
    drawn = "".join(_polyline(scale, *line) for line in lines)
    drawn += "".join(_crosses(scale, series))
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(name)}, {escape(statistic)} over the steps">{drawn}</svg>'
    )


class _Scale:
    """Where a step and a value stand in the picture."""

    def __init__(self, last: int, low: float, high: float) -> None:
        self._last, self._low, self._span = max(last, 1), low, high - low or 1.0

    def x(self, step: float) -> float:
        return 3 + step / self._last * (_WIDTH - 6)

    def y(self, value: float) -> float:
        return _HEIGHT - 4 - (value - self._low) / self._span * (_HEIGHT - 8)


def _polyline(scale: _Scale, steps: np.ndarray, values: np.ndarray, colour: str) -> str:
    every = max(1, len(steps) // _POINTS)
    first = (len(steps) - 1) % every  # so that the last one is in
    pairs = zip(steps[first::every].tolist(), values[first::every].tolist())
    points = [f"{scale.x(s):.1f},{scale.y(v):.1f}" for s, v in pairs if np.isfinite(v)]
    if len(points) < 2:
        return ""
    return (
        f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    )


def _crosses(scale: _Scale, series: Series) -> Iterator[str]:
    """The first steps in which the tensor held NaN or Inf."""
    for step in series.steps[series.nonfinite > 0][:20].tolist():
        x = scale.x(step)
        yield (f'<path d="M{x - 3:.1f} 1l6 6m0 -6l-6 6" stroke="{FAULTY}" stroke-width="1.5"/>')
