"""The figure, the text and the static page of a watched run."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from fi_notebook.analysis.watched import alerts, departure, golden_band
from fi_notebook.core.site import Site
from fi_notebook.core.stats import STATISTICS
from fi_notebook.core.watched import Series, WatchedRun
from fi_notebook.errors import SiteError
from fi_notebook.report.figures import watched
from fi_notebook.report.figures.watched import MOST_ROWS, bands_of, rows_of, watched_points
from fi_notebook.report.snapshot import LARGEST
from fi_notebook.report.snapshot_watched import watched_html
from fi_notebook.report.text_watched import watched as text

HOSTILE = "<img src=x onerror=alert(1)>"


def series(norms: list[float], nan: list[int] | None = None, **site: str) -> Series:
    """A series of `relu*1:0` with these norms, and so many NaNs, step by step."""
    values = np.zeros((len(norms), len(STATISTICS)))
    values[:, STATISTICS.index("norm")] = norms
    values[:, STATISTICS.index("nan")] = nan or [0] * len(norms)
    described = Site("relu", 1, phase="forward", module=site.get("module", "act"))
    return Series(described, np.arange(len(norms)), values)


def run(kind: str = "training", /, **found: Series) -> WatchedRun:
    """A run of these series; `relu` names `relu*1:0`."""
    return WatchedRun(kind, {f"{op}*1:0": one for op, one in found.items()})


class TestBand:
    """The golden band, and leaving it."""

    def test_lowest_and_highest_of_each_step(self) -> None:
        """Runs (1, 5) and (3, 2, 9): the band is 1 to 3, 2 to 5, and 9."""
        band = golden_band(
            [run(relu=series([1, 5])), run(relu=series([3, 2, 9]))], "relu*1:0", "norm"
        )
        assert band.steps.tolist() == [0, 1, 2]
        assert band.low.tolist() == [1, 2, 9]
        assert band.high.tolist() == [3, 5, 9]

    @pytest.mark.parametrize(
        ("norms", "left"),
        [([1, 5], None), ([2, 4], None), ([1, 6], 1), ([0, 6], 0), ([1, 5, 7], None)],
    )
    def test_the_first_step_outside(self, norms: list[float], left: int | None) -> None:
        """The band is 1 to 2, then 4 to 5; a step that no golden run has is not outside."""
        golden = [run(relu=series([1, 4])), run(relu=series([2, 5]))]
        band = golden_band(golden, "relu*1:0", "norm")
        assert departure(series(norms), band, "norm") == left

    def test_nan_is_outside(self) -> None:
        """A norm that is NaN, where the golden one was a number."""
        band = golden_band([run(relu=series([1, 4]))], "relu*1:0", "norm")
        assert departure(series([1, np.nan]), band, "norm") == 1

    def test_a_golden_nan_tells_nothing(self) -> None:
        """Where no golden run was finite, nothing can be outside."""
        band = golden_band([run(relu=series([np.nan, 4]))], "relu*1:0", "norm")
        assert departure(series([1, 4]), band, "norm") is None

    def test_an_alert_begins_a_stretch(self) -> None:
        """NaN in steps 1, 2 and 4: alerts at 1 and 4."""
        found = alerts(run(relu=series([1] * 5, nan=[0, 3, 2, 0, 1])))
        assert [(alert.step, alert.nan) for alert in found] == [(1, 3), (4, 1)]

    def test_a_nan_is_not_hidden_by_a_mask(self) -> None:
        """The mask holds -Inf in every step, and NaN in step 1, which is told before its Inf."""
        mask, relu = series([1, 1], nan=[0, 2]), series([1, 1], nan=[0, 1])
        mask.values[:, STATISTICS.index("neginf")] = 6
        other = series([1, 1])
        other.values[1, STATISTICS.index("posinf")] = 4
        assert [str(alert) for alert in alerts(run(other=other, mask=mask, relu=relu))] == [
            "step 0: mask*1:0 holds 6 -Inf",
            "step 1: mask*1:0 holds 2 NaN, 6 -Inf",
            "step 1: relu*1:0 holds 1 NaN",
            "step 1: other*1:0 holds 4 +Inf",
        ]


class TestFigure:
    """The figure."""

    def test_a_row_for_each_site(self) -> None:
        """One golden run: a grey line, the run, its crosses, its diamond; values as given."""
        figure = watched(run(relu=series([1, 9])), [run("golden", relu=series([1, 2]))])
        golden, current, crosses, diamond = figure.data
        axis = figure.layout.yaxis
        assert (axis.title.text, figure.layout.template.layout.yaxis.exponentformat) == (
            "norm",
            "e",
        )
        assert (golden.name, list(golden.y)) == ("golden run", [1, 2])
        assert (current.name, list(current.y)) == ("training", [1, 9])
        assert not crosses.x
        assert (list(diamond.x), list(diamond.y)) == ([1], [9])

    def test_several_golden_runs_are_a_band(self) -> None:
        """Two edges, the upper one filled down to the lower."""
        golden = [run("golden", relu=series([1, 2])), run("golden", relu=series([3, 4]))]
        low, high, *_ = watched(run(relu=series([2, 3])), golden).data
        assert (list(low.y), list(high.y)) == ([1, 2], [3, 4])
        assert high.fill == "tonexty"

    def test_nan_has_a_cross(self) -> None:
        """At the highest value that is drawn, with how many there were."""
        figure = watched(run(relu=series([1, 4, np.nan], nan=[0, 0, 2])))
        current, crosses, _ = figure.data
        assert list(current.y) == [1, 4, None]
        assert (list(crosses.x), list(crosses.y), list(crosses.text)) == (
            [2], [4], ["2 NaN or Inf"],
        )  # fmt: skip

    def test_crosses_alone_stand_at_no_value(self) -> None:
        """Where nothing is finite the axis has no numbers; the legend says once what they are."""
        gone = series([np.nan, np.nan], nan=[2, 2])
        figure = watched(run(relu=series([1, 2]), mul=gone, add=gone))
        assert list(figure.layout.yaxis2.ticktext) == ["not finite"]
        assert figure.layout.yaxis.ticktext is None
        named = [trace.showlegend for trace in figure.data if trace.name == "NaN or Inf"]
        assert named == [False, True, False]

    def test_what_is_not_finite_is_drawn_first(self) -> None:
        """Of eight sites six are drawn, the last one among them, for it holds NaN."""
        found = {f"op{n}": series([1.0]) for n in range(MOST_ROWS + 1)}
        found["bad"] = series([1.0], nan=[1])
        many = run(**found)
        names = rows_of(many, [])
        assert len(names) == MOST_ROWS
        assert names[-1] == "bad*1:0"
        said = f"{MOST_ROWS} of {MOST_ROWS + 2} sites are drawn, all are in the table"
        assert said in watched(many).layout.title.subtitle.text

    def test_moving_points_are_those_of_the_figure(self) -> None:
        """What a live view puts into the figure makes it the figure of the longer run."""
        golden = [run("golden", relu=series([1, 2, 3]), mm=series([4, 5, 6]))]
        longer = run(relu=series([1, 9, 3], nan=[0, 0, 1]), mm=series([4, 5, 6]))
        whole = json.loads(watched(longer, golden).to_json())
        live = json.loads(watched(run(relu=series([1])), golden).to_json())
        bands = bands_of(golden, ["relu*1:0", "mm*1:0"], "norm")
        for place, points in watched_points(longer, bands, "norm", runs=1).items():
            live["data"][place].update(points)
        assert live["data"] == whole["data"]

    def test_an_unknown_statistic_is_refused(self) -> None:
        """With the nearest there is."""
        with pytest.raises(SiteError, match="no statistic 'nrom'; did you mean 'norm'"):
            watched(run(relu=series([1])), statistic="nrom")

    def test_nothing_read_is_said(self) -> None:
        """An empty run has a figure that says so, and so has its text."""
        assert "nothing was read yet" in str(watched(run()).layout.annotations[0].text)
        assert text(run()) == "nothing was read yet"
        golden = [run("golden", relu=series([1]))]
        assert text(run(), golden) == "training: no step was read yet, against 1 golden run"

    def test_where_nothing_is_finite_there_is_a_dash(self) -> None:
        """A norm of four NaN is no number; how many they are stands at the end."""
        line = text(run(relu=series([1, np.nan], nan=[0, 4]))).splitlines()[2]
        assert line.split()[-5:] == ["1", "–", "–", "–", "4"]


def stored(layer: int) -> Series:
    """The gradient of a weight in a layer of a network with long names."""
    site = Site.parse(f"grad:encoder_of_the_backbone_network.{layer}.feed_forward_hidden.weight")
    module = f"encoder_of_the_backbone_network.{layer}.feed_forward_hidden"
    return Series(
        replace(site, phase="optimizer", module=module), np.arange(1), np.ones((1, len(STATISTICS)))
    )


class TestLongNames:
    """Names that differ in their middle only."""

    found = WatchedRun("training", {str(one.site): one for one in map(stored, (3, 40))})

    def test_a_table_tells_them_apart(self) -> None:
        """Without what both begin with, 26 of 36 characters."""
        names = [line.split()[0] for line in text(self.found).splitlines()[2:4]]
        assert names == [f"grad:…{n}.feed_forward_hidden.weight" for n in (3, 40)]
        modules = [line.split()[2] for line in text(self.found).splitlines()[2:4]]
        assert modules == [f"…{n}.feed_forward_hidden" for n in (3, 40)]

    def test_so_does_the_figure_which_has_them_in_full_on_hover(self) -> None:
        """Their names hold the module, which is not said again."""
        titles = watched(self.found).layout.annotations
        assert [each.text for each in titles] == [
            f"<b>grad:…{n}.feed_forward_hidden.weight</b> · optimizer" for n in (3, 40)
        ]
        assert [each.hovertext for each in titles] == list(self.found.series)


class _Tags(HTMLParser):
    """Every tag that a page has."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Remember it."""
        self.tags.add(tag)


class TestStatic:
    """The static page, and the text."""

    def test_it_tells_the_last_step_and_the_alerts(self) -> None:
        """Site, place, step, value, golden value, the step in which it left, NaNs."""
        found = run(relu=series([1, 9], nan=[0, 2]))
        golden = [run("golden", relu=series([1, 2]))]
        row = text(found, golden).splitlines()[2].split()
        assert row == ["relu*1:0", "forward", "act", "1", "9", "2", "1", "2"]
        page = watched_html(found, golden)
        assert "<td>relu*1:0</td>" in page
        assert "step 1: relu*1:0 holds 2 NaN" in page
        assert "<polyline" in page

    def test_hostile_names_are_text(self) -> None:
        """A module with markup for a name makes no tag in the page and none in the figure."""
        found = run(relu=series([1, 2], module=HOSTILE))
        parser = _Tags()
        parser.feed(watched_html(found))
        assert not {"img", "script"} & parser.tags
        assert "<img" not in watched(found).to_json()

    def test_many_sites_and_steps_stay_small(self) -> None:
        """A hundred sites over ten thousand steps: under the size of a snapshot."""
        steps = list(np.linspace(1, 2, 10_000))
        page = watched_html(run(**{f"op{n}": series(steps) for n in range(100)}))
        assert len(page.encode()) < LARGEST
        assert "48 of 100 sites" in page
