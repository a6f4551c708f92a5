from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
import pytest

from fi_notebook.core.detection import Bound, Detection
from fi_notebook.core.fault import Fault, FaultPlan
from fi_notebook.core.run import EFFECTS, Difference
from fi_notebook.core.site import Target
from fi_notebook.report import figures
from fi_notebook.report.figures import campaign
from fi_notebook.report.figures.histogram import special_counts
from fi_notebook.report.figures.look import plain
from fi_notebook.report.figures.spread import EFFECT_MARKS
from fi_notebook.report.figures_json import templates
from fi_notebook.report.palette import BAD, BITS, FAULTY, GOLDEN, OPPOSITE, PHASES
from tests.records import comparison, flipped, injection, run, steps
from tests.tools import modebar
from tests.tools.offline import opened
from tests.traces import Call, build, large

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HOSTILE = "<img src=x onerror=alert(1)>\n\u202e$\\alpha$ & 🔥"


def _everything(**changes: Any) -> dict[str, go.Figure]:
    whole = run(**changes)
    struck = whole.injections[0]
    return {
        "tensor_diff": figures.tensor_diff(struck),
        "difference_heatmap": figures.difference_heatmap(struck),
        "scatter": figures.scatter(struck),
        "propagation": figures.propagation(whole.comparison),
        "gradients": figures.gradients(whole.comparison),
        "tree_heat": figures.tree_heat(whole.comparison),
        "ranks": figures.ranks({0: whole.comparison}),
        "training": figures.training(whole),
        "values": figures.values(struck.site, struck.tensors()[1]),
    }


def _title(figure: go.Figure) -> str:
    return str(figure.layout.title.text)


def _subtitle(figure: go.Figure) -> str:
    return str(figure.layout.title.subtitle.text)


def _words(figure: go.Figure) -> str:
    """The subtitle in one line."""
    return _subtitle(figure).replace("<br>", " · ")


def test_every_figure_of_the_contract_is_drawn() -> None:
    """And each is plain JSON that a page can draw."""
    drawn = _everything()
    assert set(drawn) == set(figures.__all__) - {"theme", "Figure", "watched"}  # of other records
    for figure in drawn.values():
        assert json.loads(figure.to_json())["data"]


def test_names_of_a_model_are_text() -> None:
    """Neither markup nor a formula nor an override survives in any figure."""
    trace = build(Call("mm", HOSTILE), Call("mm", HOSTILE, phase="backward"))
    struck = flipped()
    struck = replace(struck, fault=HOSTILE, site=replace(struck.site, op="mm", module=HOSTILE))
    object.__setattr__(struck, "_tensors", flipped().tensors())
    names = (Difference(HOSTILE, False, 1, 6, 0.1, 0.1),)
    drawn = _everything(
        plan=FaultPlan((Fault(HOSTILE, Target.parse("mm*1:0"), "zero"),)),
        injections=[struck],
        comparison=comparison({"mm*1:0": 0.1}, trace, gradients=names, parameters=names),
        golden=steps([1.0], metrics={HOSTILE: 0.5}),
    )
    for figure in drawn.values():
        text = json.dumps(json.loads(figure.to_json()), ensure_ascii=False)
        assert "<img" not in text
        assert "\u202e" not in text
        assert "$" not in text
    assert plain("a<b>&$x$") == "a&lt;b&gt;&amp;&#36;x&#36;"


def test_a_very_long_name_is_shortened() -> None:
    """100,000 characters of module name make a figure of a few kilobytes."""
    trace = build(Call("mm", "x" * 100_000))
    assert len(figures.propagation(comparison({"mm*1:0": 0.1}, trace)).to_json()) < 20_000


def test_light_and_dark_differ_in_the_template_alone() -> None:
    """So a page changes its theme by replacing the template."""
    light, dark = (figures.propagation(run().comparison, dark=d) for d in (False, True))
    assert light.layout.template != dark.layout.template
    light.layout.template = dark.layout.template = None
    assert light == dark


def test_no_figure_offers_to_upload_itself(chromium: Browser, tmp_path: Path) -> None:
    """Shown by plotly's own means, and in another template too."""
    for n, figure in enumerate(_everything().values()):
        figure.update_layout(template="plotly_white" if n % 2 else figures.theme(dark=True))
        names = set(figure.layout.modebar.remove)
        assert {"sendChartToCloud", "sendDataToCloud", "editInChartStudio"} <= names
    path = tmp_path / "figure.html"
    figure.write_html(path, config={"displaylogo": False})
    with opened(chromium, path) as page:
        assert modebar.buttons(page) == modebar.LOCAL


def test_a_page_shows_through_its_figures() -> None:
    """Both templates that are sent to a page are transparent."""
    assert set(templates()) == {"light", "dark"}
    for template in templates().values():
        layout = template["layout"]
        assert layout["paper_bgcolor"] == layout["plot_bgcolor"] == "rgba(0,0,0,0)"


def test_a_figure_brings_the_paper_that_its_ink_is_read_on() -> None:
    """A contrast of at least 4.5 on whatever page, as none of its own shows through."""
    for dark, paper in ((False, "#ffffff"), (True, "#1b1e23")):
        layout = figures.propagation(run().comparison, dark=dark).layout.template.layout
        assert layout.paper_bgcolor == paper
        inks = (layout.font, layout.title.font, layout.title.subtitle.font, layout.legend.font)
        for ink in (*inks, layout.xaxis.tickfont, layout.yaxis.title.font):
            assert _contrast(ink.color, paper) >= 4.5


def _contrast(ink: str, paper: str) -> float:
    """The contrast of two colours as WCAG defines it: 1 to 21."""
    light, dark = sorted((_luminance(ink), _luminance(paper)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_values_are_a_matrix_with_marks_for_what_is_not_finite() -> None:
    """2 × 3 × 2 as six rows of two; NaN, Inf and -Inf each with a mark and a count of its own."""
    array = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    array[0, 0], array[1, 2, 1] = (np.nan, np.inf), -np.inf
    figure = figures.values(replace(flipped().site, dtype="float32"), array)
    grid, marks = figure.data
    assert np.nan_to_num(np.asarray(grid.customdata)).tolist() == [
        [0, 0], [2, 3], [4, 5], [6, 7], [8, 9], [10, 0],
    ]  # fmt: skip
    assert list(zip(marks.y, marks.x, marks.marker.symbol)) == [
        (0, 0, "x-thin"), (0, 1, "triangle-up"), (5, 1, "triangle-down"),
    ]  # fmt: skip
    assert _words(figure) == "float32, 2 × 3 × 2 · 1 NaN ×, 1 Inf ▲, 1 -Inf ▼"
    assert figures.values(flipped().site, np.zeros((0, 3))).layout.annotations[0].text == (
        "the tensor has no elements"
    )


def test_the_values_say_what_a_cell_is() -> None:
    """Of many elements the furthest from zero, negative too; of complex ones absolute values."""
    site = replace(flipped().site, dtype="float32")
    figure = figures.values(site, np.tile([[1.0], [-7.0]], (200, 1)))
    assert _words(figure).endswith("a cell is the furthest from zero of 3 × 1 elements")
    assert set(np.ravel(figure.data[0].customdata)) == {-7.0}
    figure = figures.values(replace(site, dtype="complex64"), np.asarray([[3 + 4j]]))
    assert _words(figure) == "complex64, 1 × 1 · absolute values"
    assert figure.data[0].hovertemplate.endswith("absolute value %{customdata:.4g}<extra></extra>")
    assert np.ravel(figure.data[0].customdata).tolist() == [5.0]


def test_histograms_count_every_element_once() -> None:
    """Bins and special bars together are all six elements, before and after."""
    figure = figures.tensor_diff(injection())
    bins, specials = figure.data[0], [trace for trace in figure.data if trace.xaxis == "x2"]
    assert sum(bins.y) + sum(specials[0].y) == 6
    assert list(specials[0].customdata) == ["zero", "-Inf", "+Inf", "NaN"]
    assert [list(trace.y) for trace in specials] == [[2, 0, 0, 0], [2, 0, 1, 0]]
    assert _title(figure) == "relu*2:0 before and after"
    assert _subtitle(figure).startswith("1 of 6 elements changed")


def test_histograms_show_the_faulty_run_where_it_differs() -> None:
    """One element moved: one bin lost it, another has it, if they are not the same bin."""
    figure = figures.tensor_diff(injection(after=(0.0, 0.5, -8.0, 2.0, 0.0, 3.0)))
    after = figure.data[1]
    assert list(after.y) == [1]
    assert after.x[0] == min(x for trace in figure.data[:2] for x in trace.x)


def test_an_extreme_is_neither_dropped_nor_clipped() -> None:
    """3e38 stands in the axis title and has a bin of its own."""
    huge = float(np.float32(3e38))
    figure = figures.tensor_diff(injection(after=(0.0, 0.5, huge, 2.0, 0.0, 3.0)))
    assert figure.layout.xaxis.title.text == "value, from 0.5 to 3e+38"
    assert list(figure.data[1].y)[-1] == 1


def test_subnormal_numbers_have_a_bar_of_their_own() -> None:
    """1e-40 is below the smallest normal float32; of int32 nothing is."""
    values = np.asarray([0.0, 1e-40, 1.0, nan, -inf])
    counted = special_counts(values, values, 2.0**-126)
    assert [(s.name, s.before) for s in counted] == [
        ("zero", 1), ("subnormal", 1), ("-Inf", 1), ("+Inf", 0), ("NaN", 1),
    ]  # fmt: skip
    assert "subnormal" not in [s.name for s in special_counts(values, values, 0.0)]


@pytest.mark.parametrize("values", [(nan,) * 6, (0.0,) * 6, (5.0,) * 6])
@pytest.mark.parametrize("draw", [figures.tensor_diff, figures.scatter, figures.difference_heatmap])
def test_degenerate_tensors_are_drawn(draw: Callable[..., go.Figure], values: tuple) -> None:
    """All NaN, all zero, all the same."""
    found = flipped()
    array = np.asarray(values).reshape(2, 3)
    object.__setattr__(found, "_tensors", (array, array))
    assert draw(found).to_json()


@pytest.mark.parametrize("draw", [figures.tensor_diff, figures.scatter, figures.difference_heatmap])
def test_without_tensors_the_kept_elements_are_shown(draw: Callable[..., go.Figure]) -> None:
    """And the figure says that these are not all."""
    found = injection()
    object.__setattr__(found, "_tensors", None)
    figure = draw(found)
    said = [_subtitle(figure), *(a.text for a in figure.layout.annotations)]
    assert any("kept" in text for text in said)


def test_the_heatmap_tells_nan_from_each_infinity() -> None:
    """By the mark, by its colour and in words; an infinity that became finite is marked too."""
    struck = injection((1, 1, 1, inf, 0.0, 1), (inf, -inf, nan, 2, 0.0, inf))
    figure = figures.difference_heatmap(struck)
    assert _words(figure).endswith("1 new NaN ×, 2 new Inf ▲, 1 new -Inf ▼, 1 no longer ×")
    marks = figure.data[1].marker
    assert marks.symbol == ("triangle-up", "triangle-down", "x-thin", "x-thin", "triangle-up")
    assert marks.color == (FAULTY, OPPOSITE, FAULTY, FAULTY, FAULTY)


def test_the_heatmap_marks_and_counts_what_became_infinite() -> None:
    """A mark for the element that became Inf, with its exact values and bits on hover."""
    figure = figures.difference_heatmap(injection())
    assert "1 new Inf ▲" in _words(figure)
    marks = figure.data[1]
    assert marks.marker.symbol == ("triangle-up",)
    assert (marks.x[0], marks.y[0]) == (2, 0)
    assert "before 1.0  0x3f800000" in marks.text[0]
    assert "bit 30 (exponent)" in marks.text[0]


def test_many_changed_elements_have_no_rings() -> None:
    """Of 100 changed elements 64 were kept: marks on some would mislead."""
    figure = figures.difference_heatmap(injection(np.zeros(100), np.ones(100), shape=(10, 10)))
    assert len(figure.data[1].x) == 0


def test_a_large_heatmap_says_what_a_cell_is() -> None:
    """1,000 rows in at most 160 cells: blocks of 7."""
    before, after = np.zeros(2000), np.zeros(2000)
    after[777] = 4.0
    figure = figures.difference_heatmap(injection(before, after, shape=(1000, 2)))
    assert "a cell is the largest change among 7 × 1 elements" in _words(figure)
    assert np.nanmax(figure.data[0].customdata) == 4.0


def test_scatter_puts_nan_on_a_lane() -> None:
    """The lane has a name on the axis, and only where something stands on it."""
    figure = figures.scatter(injection())
    assert "+Inf" in figure.layout.yaxis.ticktext
    assert "NaN" not in figure.layout.yaxis.ticktext
    assert "+Inf" not in figure.layout.xaxis.ticktext


def test_propagation_has_a_trace_for_each_effect() -> None:
    """Heights are log10 of the relative L2; masked has its lane."""
    figure = figures.propagation(run().comparison)
    heights = {trace.name: list(trace.y) for trace in figure.data}
    assert heights["introduced (3)"] == pytest.approx(np.log10([0.01, 0.05, 0.001]))
    assert heights["amplified (1)"] == pytest.approx([np.log10(0.2)])
    assert "masked" in figure.layout.yaxis.ticktext
    assert "new NaN, Inf" not in figure.layout.yaxis.ticktext
    assert _title(figure) == "5 of 18 sites differ"
    assert _words(figure) == "first: relu*2:0"


def test_every_kind_of_error_has_a_place() -> None:
    """NaN, an error of a golden zero, other bits without distance, not measured."""
    compared = run().comparison
    rows = compared.diverged
    compared.columns["new_nan"][rows[0]] = 1
    compared.columns["relative_l2"][rows[1:4]] = [inf, 0.0, nan]
    labels = set(figures.propagation(compared).layout.yaxis.ticktext)
    assert {"new NaN, Inf", "golden is 0", "other bits only", "not measured", "masked"} <= labels


def test_no_axis_is_drawn_for_distances_where_there_are_none() -> None:
    """Where every error is NaN the lanes stand alone."""
    compared = comparison({"relu*2:0": 0.5})
    compared.columns["new_nan"][compared.diverged] = 1
    ticks = set(figures.propagation(compared).layout.yaxis.ticktext)
    assert ticks == {"new NaN, Inf", "masked"}


def test_the_first_new_nan_or_inf_is_marked_and_named() -> None:
    """A ring around its own mark, in a colour and with an entry of its own; else none."""
    compared = comparison({"relu*2:0": 0.5, "nll_loss_forward*1:0": 0.2})
    assert "NaN" not in _words(figures.propagation(compared))
    second = int(compared.diverged[1])
    compared.columns["new_inf"][second:] = 1
    figure = figures.propagation(compared)
    (ring,) = [trace for trace in figure.data if trace.name == "first new NaN or Inf"]
    assert (list(ring.x), list(ring.customdata), ring.marker.color) == ([second + 1], [second], BAD)
    (mark,) = [trace for trace in figure.data if trace.name == "attenuated (1)"]
    assert (list(mark.customdata), list(mark.y)) == ([second], list(ring.y))
    assert f"first new NaN or Inf: {compared.site(second)}" in _subtitle(figure)


def test_the_name_of_a_phase_that_has_no_room_is_hidden() -> None:
    """Each phase is a bar over its calls, in its hue; plotly hides a text that is too wide."""
    figure = figures.propagation(run().comparison)
    (strip,) = [trace for trace in figure.data if trace.type == "bar"]
    assert figure.layout.uniformtext.mode == "hide"
    assert list(strip.text) == ["forward", "loss", "backward", "optimizer", "other"]
    assert list(strip.marker.color) == [PHASES[name] for name in strip.text]
    ends = [start + length for start, length in zip(strip.base, strip.x)]
    assert list(strip.base[1:]) == ends[:-1]
    assert (strip.base[0], ends[-1]) == (0.5, 18.5)


def test_every_effect_has_a_mark() -> None:
    """Symbols differ, so that colour is not needed."""
    assert set(EFFECT_MARKS) == set(EFFECTS) - {"equal"}
    assert len({symbol for symbol, _, _ in EFFECT_MARKS.values()}) == len(EFFECT_MARKS)


def test_equal_runs_are_said_in_words() -> None:
    """Instead of an empty plot."""
    figure = figures.propagation(comparison({}))
    assert figure.layout.annotations[0].text == "every site is bit-equal"


def test_a_hundred_thousand_calls_are_decimated_and_said() -> None:
    """Under 1 MB, with the largest error drawn."""
    trace = large(100_000)
    errors = np.random.default_rng(0).lognormal(-8, 2, 100_000)
    compared = comparison({}, trace)
    compared.columns["relative_l2"][:] = errors
    compared.columns["equal"][:] = False
    compared.columns["effect"][:] = EFFECTS.index("passed on")
    figure = figures.propagation(compared)
    marks = [trace for trace in figure.data if trace.type != "bar"]
    assert max(max(t.y) for t in marks) == pytest.approx(np.log10(errors.max()))
    assert "of 100,000 drawn, extremes kept" in _words(figure)
    assert len(figure.to_json()) < 1_000_000


def test_gradients_stand_by_name_with_numbers() -> None:
    """The bar's text is the relative L2; equal is =, NaN is counted."""
    found = (
        Difference("a", equal=True, numel=6),
        Difference("b", False, 6, 6, 0.0123456, 0.1),
        Difference("c", False, 6, 6, 0.5, 0.1, new_nan=2),
    )
    figure = figures.gradients(comparison({}, gradients=found))
    assert list(figure.data[0].text) == ["=", "0.01235", "2 NaN"]
    assert list(figure.layout.yaxis.ticktext) == ["a", "b", "c"]
    assert _title(figure) == "gradients: 2 of 3 differ"


def test_hovers_give_no_distance_to_nan() -> None:
    """Neither the bar of a gradient nor the mark of a call; how many NaN there are stands there."""
    gone = (Difference("a", False, 6, 6, 0.0, 0.0, new_nan=6),)
    compared = comparison({"relu*2:0": 0.5}, gradients=gone)
    compared.columns["new_nan"][compared.diverged[0]] = 6
    bar = figures.gradients(compared).data[0].hovertext[0]
    assert bar == "a<br>newly 6 NaN<br>changed 6 of 6"
    marks = [text for trace in figures.propagation(compared).data for text in trace.text or ()]
    assert "new NaN 6" in marks[0]
    assert "relative L2" not in marks[0]


def test_gradients_and_parameters_have_the_hues_of_their_phases() -> None:
    """Not grey and orange, which are the golden and the faulty run."""
    moved = (Difference("a", False, 6, 6, 0.5, 0.1),)
    figure = figures.gradients(comparison({}, gradients=moved, parameters=moved))
    assert [bar.marker.color for bar in figure.data] == [PHASES["backward"], PHASES["optimizer"]]


def test_equal_gradients_are_said_in_words() -> None:
    """In place of an axis on which nothing could stand."""
    same = tuple(Difference(name, equal=True, numel=6) for name in "ab")
    figure = figures.gradients(comparison({}, gradients=same, parameters=same[:1]))
    assert not figure.data
    assert figure.layout.annotations[0].text == (
        "bit-equal: 2 of 2 gradients<br>and 1 of 1 parameter"
    )


def test_of_many_gradients_the_worst_are_drawn() -> None:
    """40 of 50, and the subtitle says so."""
    found = tuple(Difference(f"p{n}", False, 6, 6, (n + 1) / 100, 0.1) for n in range(50))
    figure = figures.gradients(comparison({}, gradients=found))
    assert figure.layout.yaxis.ticktext[0] == "p10"
    assert _words(figure) == "the 40 worst of 50"


def test_training_has_a_row_for_each_quantity() -> None:
    """Loss, gradient norm, distance and a metric; a NaN loss stands as a cross."""
    figure = figures.training(
        run(
            golden=steps([2.0] * 5, metrics={"accuracy": 0.9}),
            faulty=steps([2.0, 3.0, nan, 2.0, 2.0], distances=0.1, metrics={"accuracy": 0.8}),
        )
    )
    titles = [figure.layout[f"yaxis{n}"].title.text for n in ("", 2, 3, 4)]
    assert titles == ["loss", "gradient norm", "parameter distance<br>(relative L2)", "accuracy"]
    crosses = [trace for trace in figure.data if trace.name == "NaN or Inf (faulty)"]
    assert [(list(t.x), list(t.text)) for t in crosses] == [([2], ["NaN"])]


def test_numbers_stand_where_no_line_strikes_them_through() -> None:
    """The larger of both above its point, the other below, with room in the axis for both."""
    figure = figures.training(run(golden=steps([2.0, 3.0]), faulty=steps([2.5, 2.0])))
    golden, faulty = figure.data[:2]
    assert golden.textposition == ("bottom center", "top center")
    assert faulty.textposition == ("top center", "bottom center")
    assert figure.layout.yaxis.range == pytest.approx([2 - 0.4, 3 + 0.4])


@pytest.mark.parametrize(
    ("losses", "ticks"),
    [
        ([0.0, 1.2e34], ["0", "5e+33", "1e+34"]),  # 1.2e34 / 4 is rounded up to steps of 5e33
        ([1.0, 1e34], ["1", "1e+09", "1e+18", "1e+27"]),  # 34 / 4 decades, rounded up to 9
        ([2.0, 2.0], ["2"]),
        ([-3.0, 7.0], ["0", "5"]),  # 10 / 4 is rounded up to 5
    ],
)
def test_no_tick_stands_in_the_room_beside_the_values(
    losses: list[float], ticks: list[str]
) -> None:
    """The room for what is written beside the points holds no value, and so no number."""
    figure = figures.training(run(golden=steps(losses), faulty=steps(losses)))
    assert list(figure.layout.yaxis.ticktext) == ticks


def test_parameters_that_never_moved_have_no_axis() -> None:
    """A distance of 0 in every step is said in words."""
    same = steps([2.0, 1.0], distances=0.0)
    figure = figures.training(run(golden=same, faulty=same))
    assert [note.text for note in figure.layout.annotations] == ["bit-equal in 2 of 2 steps"]
    assert figure.layout.yaxis3.showticklabels is False


def test_parameters_that_become_nan_are_not_called_equal() -> None:
    """Equal in the 2 steps with a distance of 0; the 3 with NaN stand as crosses."""
    golden = steps([2.0] * 5, distances=0.0)
    faulty = steps([2.0] * 5, distances=[0.0, 0.0, nan, nan, nan])
    figure = figures.training(run(golden=golden, faulty=faulty))
    assert [note.text for note in figure.layout.annotations] == ["bit-equal in 2 of 5 steps"]
    (crosses,) = [trace for trace in figure.data if trace.name == "NaN or Inf (faulty)"]
    assert (crosses.yaxis, crosses.x, crosses.text) == ("y3", (2, 3, 4), ("NaN",) * 3)


def test_a_far_bound_is_said_and_a_near_one_drawn() -> None:
    """A bound of 100 would make a line of 1 flat; of several each has its own dash."""
    near = tuple(Bound(step, "loss", 3.0) for step in range(5))
    far = tuple(Bound(step, "gradient_norm", 100.0) for step in range(5))
    below = (Bound(0, "loss", -50.0),)
    figure = figures.training(
        run(
            golden=steps([2.0, 1.5, 1.2, 1.1, 1.0]),
            faulty=steps([2.0, 1.5, 1.2, 1.1, 1.0]),
            detections=(
                Detection("loss_spike", bounds=near),
                Detection("gradient_norm", bounds=far),
                Detection("low", bounds=below),
                Detection("again", bounds=near),
            ),
        )
    )
    drawn = {t.name: t.line.dash for t in figure.data if str(t.name).startswith("bound")}
    assert drawn == {"bound of loss spike": "dash", "bound of again": "longdashdot"}
    assert [note.text for note in figure.layout.annotations] == [
        "↓ bound of low: -50", "↑ bound of gradient norm: 100",
    ]  # fmt: skip


def test_long_titles_are_broken_and_make_room() -> None:
    """Between words, so that the buttons at the right cover nothing in 400 pixels."""
    long, short = (
        figures.tensor_diff(injection(site=f"{op}*1:0"))
        for op in ("max_pool2d_with_indices_backward", "relu")
    )
    assert _title(long) == "max_pool2d_with_indices_backward*1:0<br>before and after"
    assert long.layout.margin.t == short.layout.margin.t + 18
    assert long.layout.legend.yref == "container"  # below, where it meets no subtitle


def test_the_hues_of_a_meaning_are_seen_on_either_paper() -> None:
    """A contrast of 3 at least, on white and on the dark paper."""
    for colour in (GOLDEN, FAULTY, OPPOSITE, *PHASES.values(), *BITS.values()):
        assert min(_contrast(colour, paper) for paper in ("#ffffff", "#1b1e23")) >= 3


def test_a_run_without_a_step_says_so() -> None:
    """A crash in the first step of both."""
    assert "no step" in figures.training(run(golden=(), faulty=())).layout.annotations[0].text


def test_legends_of_a_campaign_lie_below_and_fans_let_each_other_through() -> None:
    """Outcomes are many; above they would cover the title in 400 pixels."""
    columns = {
        "outcome": np.array(["changed", "masked_exact"]),
        "bit": np.array([1, 2]),
        "layer": np.array(["a", "b"]),
        "phase": np.array(["forward", "forward"]),
        "order": np.array([0, 1]),
        "site": np.array(["mm*1:0", "mm*2:0"]),
        "losses": np.array([[1.0, 2.0], [1.0, 3.0]]),
    }
    drawn = [draw(columns) for draw in (campaign.outcomes, campaign.timeline, campaign.losses)]
    assert all(figure.layout.legend.y < 0 for figure in drawn)
    assert [bar.name for bar in drawn[0].data] == ["masked exact", "changed"]
    fans = [trace.fillcolor for trace in drawn[2].data if trace.fill == "tonexty"]
    assert fans == ["rgba(122,130,142,0.12)", "rgba(232,89,12,0.12)"]
