"""The live view of a watch: the widget that draws it while the loop runs.

Everything that it shows is the state of the widget itself, in two parts: the figure,
which changes seldom, and the frame, which holds the points that move, the table and the
alerts. So nothing is asked of the page, a frame that comes late is overtaken by the next,
and a page that is opened again has the last one.

Limits: at most ten frames a second, and as many as take a tenth of the time.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anywidget
import numpy as np
import traitlets

from fi_notebook import assets
from fi_notebook.analysis.watched import alerts
from fi_notebook.core.stats import STATISTICS
from fi_notebook.core.watched import DRAWN
from fi_notebook.report.figures.watched import (
    bands_of,
    rows_of,
    watched,
    watched_points,
    watched_words,
)
from fi_notebook.report.figures_json import templates
from fi_notebook.report.text_watched import alert_lines, rows
from fi_notebook.ui.executor import Coalescer
from fi_notebook.ui.plotly_source import plotly_source
from fi_notebook.ui.shown import drawing

if TYPE_CHECKING:
    from fi_notebook.analysis.watched import Band
    from fi_notebook.core.watched import WatchedRun
    from fi_notebook.watching import Watching

__all__ = ["MOST_STEPS", "WatchView"]

MOST_STEPS = 300
"""Steps that a frame shows at most; the last one is always in."""


class WatchView(anywidget.AnyWidget):
    """The widget of one watch."""

    _esm = assets.page("watch")
    _css = assets.style("watch")
    _plotly = traitlets.Unicode().tag(sync=True)
    _templates = traitlets.Unicode().tag(sync=True)
    _statistics = traitlets.List(list(STATISTICS)).tag(sync=True)
    _figure = traitlets.Unicode("").tag(sync=True)
    _frame = traitlets.Unicode("{}").tag(sync=True)
    statistic = traitlets.Enum(STATISTICS, DRAWN).tag(sync=True)

    def __init__(self, watching: Watching) -> None:
        """Show a watch.

        Args:
            watching: The watch.
        """
        self._watching = watching
        self._drawn: tuple[Any, ...] = ()
        self._bands: dict[str, Band] = {}
        self._updates = Coalescer(drawing(self, self._send_frame), sparing=True)
        super().__init__(_plotly=plotly_source().model_id, _templates=json.dumps(templates()))
        self._end = watching.subscribe(self._changed)
        self.observe(self._changed, "statistic")
        self.flush()

    def flush(self) -> None:
        """Draw what there is now."""
        self._changed()
        self._updates.flush()

    def close(self) -> None:
        """Let go of the watch and of the page."""
        self._end()
        self._updates.flush()
        super().close()

    def _changed(self, _change: Any = None) -> None:
        self._updates.put("frame", True)

    def _send_frame(self) -> None:
        """Send a frame, and before it the figure where that is another one."""
        run, golden = self._watching.thinned(MOST_STEPS), self._watching.golden
        names, statistic = rows_of(run, golden), self.statistic
        drawn = (run.name, names, statistic, golden, self._looks(run))
        with self.hold_sync():  # both in one message: points are of this figure
            if drawn != self._drawn:
                self._drawn = drawn
                self._bands = bands_of(golden, names, statistic)
                self._figure = _bare_figure(run, golden, statistic)
            self._frame = json.dumps(self._frame_of(run, golden, statistic))

    def _looks(self, run: WatchedRun) -> list[tuple[bool, ...]]:
        """For each site what its axis and the legend depend on.

        Whether its values are far apart, whether any is finite, whether it held NaN or Inf.
        """
        found: list[tuple[bool, ...]] = []
        for one in run.series.values():
            v = one.statistic(self.statistic)
            far = bool(v.min(initial=1) > 0 and v.max(initial=1) > 100 * v.min())
            found.append((far, bool(np.isfinite(v).any()), bool((one.nonfinite > 0).any())))
        return found

    def _frame_of(
        self, run: WatchedRun, golden: tuple[WatchedRun, ...], statistic: str
    ) -> dict[str, Any]:
        header, lines = rows(run, golden, statistic)
        return {
            "points": watched_points(run, self._bands, statistic, runs=len(golden)),
            "words": watched_words(run, golden),
            "header": header,
            "rows": lines,
            "names": [[name, one.site.module] for name, one in run.series.items()],
            "alerts": alert_lines(run, most=4),
            "count": len(alerts(run)),
            "unread": [f"{what}: {why}" for what, why in self._watching.unread.items()],
            "notes": list(self._watching.notes),
            "closed": self._watching.closed,
        }


def _bare_figure(run: WatchedRun, golden: tuple[WatchedRun, ...], statistic: str) -> str:
    """The figure as JSON, without the title and the look, which the page has."""
    figure = watched(run, golden, statistic=statistic)
    figure.update_layout(title=None, template=None, margin={"t": 26})
    figure.layout.height -= 58
    return str(figure.to_json())
