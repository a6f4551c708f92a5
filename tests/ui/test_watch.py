"""The live view of a watch: the real widget and page in Chromium, without Jupyter."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import fi_notebook as fi
from fi_notebook.core.site import Site
from fi_notebook.core.stats import STATISTICS
from fi_notebook.ui.watch import LiveWatch
from fi_notebook.ui.watch_view import MOST_STEPS, WatchView
from tests import models
from tests.tools import modebar
from tests.ui.bridge import Bridge, bridged, comms

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

SITES = ("relu", "param:0.weight", "grad:0.weight")


class Shown:
    """A watched model, its widget, and the page that shows it."""

    def __init__(self, bridge: Bridge, sites: Sequence[str] = SITES) -> None:
        """Watch a new model, and show it."""
        self.case = models.mlp(seed=1)
        self.watch = LiveWatch(self.case.model, sites)
        self.view = self.watch.view
        self.bridge = bridge
        bridge.show(self.view)
        self.root: Locator = bridge.page.locator(".fi-watch")
        self.root.wait_for()

    def train(self, steps: int) -> None:
        """So many steps; then the last frame is on its way."""
        for _ in range(steps):
            self.case.step()
        self.view.flush()

    def text(self, name: str, text: str) -> Locator:
        """A part of the view, once it holds a text."""
        found = self.root.locator(name, has_text=text).first
        found.wait_for()
        return found

    def close(self) -> None:
        """End watch and widget."""
        self.watch.close()
        self.view.close()


@pytest.fixture
def shown(chromium: Browser) -> Iterator[Shown]:
    """An open view; fails on any console error."""
    with bridged(chromium) as bridge, closing(Shown(bridge)) as made:
        yield made
        assert not bridge.errors, bridge.errors


def drawn(shown: Shown, what: str, value: object) -> None:
    """Wait until something of the plot is so; the library is loaded first, which takes a while."""
    holds = f"(value) => document.querySelector('.js-plotly-plot')?.{what} === value"
    shown.bridge.page.wait_for_function(holds, arg=value, timeout=60_000)


def points(shown: Shown, place: int) -> list[float | None]:
    """What plotly has drawn of one trace."""
    drawn: list[float | None] = shown.root.locator(".js-plotly-plot").evaluate(
        "(plot, place) => [...plot._fullData[place].y]", place
    )
    return drawn


class TestPage:
    """What a person sees."""

    def test_each_step_is_drawn_while_the_loop_runs(self, shown: Shown) -> None:
        """After 3 and after 5 steps: the curve has 3 and 5 points, the table the last value."""
        shown.text(".fi-empty", "nothing was read yet: train the model")
        values: list[float] = []
        for steps in (3, 2):
            shown.train(steps)
            last = shown.watch.current.last_step
            shown.text(".fi-words", f"up to step {last}")
            values = shown.watch.current.series["relu*1:0"].statistic("norm").tolist()
            drawn(shown, "data[3]?.y.length", last + 1)  # row 1; three traces a row, none golden
            assert points(shown, 3) == values
        assert modebar.buttons(shown.bridge.page) == modebar.LOCAL
        row = shown.root.get_by_role("row").filter(has_text="relu*1:0")
        assert row.locator("td").all_inner_texts()[3:5] == ["4", f"{values[-1]:.4g}"]

    def test_the_golden_run_stays_below(self, shown: Shown) -> None:
        """Kept as golden, it is the grey line of each row, and the words say so."""
        shown.train(4)
        norms = shown.watch.current.series["param:0.weight"].statistic("norm").tolist()
        shown.watch.keep_as_golden()
        shown.train(1)
        shown.text(".fi-words", "training, up to step 0 · grey: the golden run")
        drawn(shown, "data[0]?.name", "golden run")
        assert points(shown, 0) == norms

    def test_an_alert_is_shown_and_spoken(self, shown: Shown) -> None:
        """NaN in the weights: the first lines are there, and a live region says it."""
        shown.train(1)
        with torch.no_grad():
            next(shown.case.model.parameters())[0, 0] = torch.nan
        shown.train(1)
        shown.text(".fi-warned", "step 1: param:0.weight holds 1 NaN")
        live = shown.root.locator("[aria-live=assertive]")
        assert "new alert" in (live.text_content() or "")

    def test_another_statistic_is_drawn_when_it_is_chosen(self, shown: Shown) -> None:
        """The column of the table is that statistic, and so are the points."""
        shown.train(2)
        shown.text(".fi-words", "up to step 1")
        shown.root.get_by_label("statistic", exact=True).select_option("max")
        shown.root.get_by_role("columnheader", name="max").wait_for()
        assert shown.view.statistic == "max"
        values = shown.watch.current.series["param:0.weight"].statistic("max").tolist()
        drawn(shown, "data[0]?.y[0]", values[0])

    def test_a_name_that_may_be_cut_is_there_in_full(self, shown: Shown) -> None:
        """On hover, in the table: the site, and its module."""
        shown.train(1)
        row = shown.root.get_by_role("row").filter(has_text="grad:0.weight")
        row.locator("td > span").first.wait_for()
        titles = row.locator("td > span").evaluate_all("(all) => all.map((each) => each.title)")
        assert titles == ["grad:0.weight", "0"]

    def test_it_says_when_it_is_closed(self, shown: Shown) -> None:
        """And keeps what it showed."""
        shown.train(2)
        shown.watch.close()
        shown.text(".fi-chip", "closed")
        assert shown.root.get_by_role("row").count() == 1 + 4

    def test_what_is_not_met_is_told(self, chromium: Browser) -> None:
        """Below the table, with the reason."""
        with bridged(chromium) as bridge, closing(Shown(bridge, ["relu*1:0", "relu*9:0"])) as made:
            made.train(1)
            made.text(".fi-note", "relu*9:0: asked for call 9 of relu, 2 were made")

    @pytest.mark.parametrize("dark", [False, True])
    @pytest.mark.parametrize("width", [600, 1600])
    def test_it_fits_and_follows_the_theme(self, chromium: Browser, width: int, dark: bool) -> None:
        """No sideways scrolling of the page; light on white, dark on black; it grows with it."""
        with bridged(chromium, width=width, dark=dark) as bridge, closing(Shown(bridge)) as made:
            made.train(3)
            made.text(".fi-words", "up to step 2")
            made.root.locator(".main-svg").first.wait_for(timeout=60_000)
            assert made.root.get_attribute("data-theme") == ("dark" if dark else "light")
            wide = "() => document.scrollingElement.scrollWidth - innerWidth"
            assert bridge.page.evaluate(wide) <= 0
            box = made.root.bounding_box()
            table = made.root.locator("table").bounding_box()
            assert box is not None
            assert table is not None
            assert table["y"] + table["height"] <= box["y"] + box["height"]


class TestFrames:
    """What is sent, and how often."""

    def test_at_most_ten_frames_a_second_and_never_without_the_last(self) -> None:
        """Ten times as many steps as may be shown: fewer frames than steps, the last one last."""
        with comms() as waiting:
            case = models.mlp(seed=1)
            watch = LiveWatch(case.model, "relu*1:0")
            view = watch.view
            begun = time.monotonic()
            for _ in range(100):
                case.step()
            took = time.monotonic() - begun
            view.flush()
            frames = [m["update"]["_frame"] for m in _updates(waiting) if "_frame" in m["update"]]
            watch.close()
            view.close()
        assert len(frames) <= 10 * took + 3
        last = json.loads(frames[-1])
        assert "up to step 99" in last["words"]
        assert last["points"]["0"]["x"][-1] == 99

    def test_a_frame_stays_small_however_long_the_training(self) -> None:
        """Ten thousand steps: at most so many points a curve, under 64 KB, the last one in."""
        with comms():
            case = models.mlp(seed=1)
            watch = LiveWatch(case.model, SITES)
            case.step()
            found = [(s.site, s.values[0]) for s in watch.current.series.values()]
            for step in range(1, 10_000):
                watch._recordings.add("training", step, found)
            view = watch.view
            view.flush()
            frame = json.loads(view._frame)
            watch.close()
            view.close()
        xs = frame["points"]["0"]["x"]
        assert len(xs) <= MOST_STEPS
        assert xs[-1] == 9_999
        assert len(json.dumps(frame)) < 64_000
        assert "one step of 64 is drawn" in frame["words"]

    def test_points_and_figure_come_together(self) -> None:
        """A new figure and its points are one message, so that none is drawn over the other."""
        with comms() as waiting:
            case = models.mlp(seed=1)
            watch = LiveWatch(case.model, "relu*1:0")
            view = watch.view
            case.step()
            view.flush()
            figures = [m["update"] for m in _updates(waiting) if "_figure" in m["update"]]
            watch.close()
            view.close()
        assert figures
        assert all("_frame" in update for update in figures)

    def test_a_frame_has_the_band_of_the_last_replay(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Golden runs at 1, then at 2; the second may lie where the first lay in memory."""
        monkeypatch.setattr("fi_notebook.ui.watch_view.id", lambda _one: 7, raising=False)
        site, width = Site.parse("relu*1:0"), len(STATISTICS)
        drawn = []
        model = models.mlp(seed=1).model
        with comms(), closing(LiveWatch(model, site)) as watch, closing(watch.view) as view:
            for value in (1.0, 2.0):
                watch.add("golden", 0, [(site, np.full(width, value))], anew=True, golden=True)
                watch.add("faulty", 0, [(site, np.zeros(width))])
                view.flush()
                drawn += [band.low.tolist() for band in view._bands.values()]
        assert drawn == [[1.0], [2.0]]

    def test_a_view_is_made_once(self) -> None:
        """Shown twice, it is the same widget; all share one copy of plotly.js."""
        with comms():
            first = fi.watch(models.mlp(seed=1).model, "relu")
            second = fi.watch(models.mlp(seed=2).model, "relu")
            assert first.view is first.view
            assert isinstance(first.view, WatchView)
            assert first.view._plotly == second.view._plotly
            for watch in (first, second):
                watch.view.close()
                watch.close()


def _updates(waiting: Any) -> list[dict[str, Any]]:
    """The changes of state that wait for the page."""
    found = []
    while not waiting.empty():
        content, _ = waiting.get()
        if "update" in content:
            found.append(content)
    return found


def test_what_cannot_be_drawn_is_said_in_the_widget(monkeypatch: pytest.MonkeyPatch) -> None:
    """The training goes on; the frame says what went wrong, until one can be drawn again."""

    def broken(*_args: object, **_how: object) -> None:
        raise RuntimeError("no ink")

    case = models.mlp(seed=1)
    with comms(), closing(LiveWatch(case.model, "relu")) as watch, closing(watch.view) as view:
        with monkeypatch.context() as patch:
            patch.setattr("fi_notebook.ui.watch_view.watched_points", broken)
            case.step()
            view.flush()
            assert json.loads(view._frame)["words"] == "this could not be drawn: no ink"
        view.flush()
        assert json.loads(view._frame)["words"] == "training, up to step 0"
