from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest
import torch

from fi_notebook.core.detection import Alarm, Detection
from fi_notebook.core.injection import NotInjected
from fi_notebook.core.run import Difference, Outcome
from fi_notebook.core.site import Site
from fi_notebook.report import figures, text, text_watched
from fi_notebook.report.snapshot import snapshot_html
from tests.records import PLAN, comparison, flipped, injection, run, steps
from tests.traces import Call, build, digits_step, large


def test_every_figure_has_a_twin() -> None:
    """The same name, but for the theme; that of ``watched`` has a module of its own."""
    assert set(figures.__all__) - {"theme", "Figure"} <= {*text.__all__, *text_watched.__all__}


def test_the_tree_shows_calls_down_to_a_depth() -> None:
    """What is deeper is counted, not shown."""
    trace = build(Call("mm", "fc"), Call("relu", "fc"), modules={"": "Net", "fc": "Linear"})
    lines = text.tree(trace.tree(), depth=2).splitlines()
    assert [line.split() for line in lines] == [
        ["step", "2", "calls"],
        ["Net", "Net", "2", "calls"],
        ["fc", "Linear", "(+2", "below)", "2", "calls"],
    ]


def test_an_injection_shows_values_and_bits() -> None:
    """1.0 to 1.125 by bit 20, grouped by field under the names of the fields."""
    assert text.tensor_diff(flipped()) == (
        "f1 at relu*2:0 (forward, act) in step 0\n"
        "  changed 1 of 6 elements (16.67 %)\n"
        "  float32, 2 × 3, functional\n"
        "         before  after\n"
        "  min         0      0\n"
        "  max         3      3\n"
        "  mean    1.083  1.104  *\n"
        "  std     1.096  1.095  *\n"
        "  norm    3.775   3.81  *\n"
        "  NaN         0      0\n"
        "  +Inf        0      0\n"
        "  -Inf        0      0\n"
        "  zeros       2      2\n"
        "  element          value  hex         sign|exponent|mantissa\n"
        "  (0, 2)   before    1.0  0x3f800000  0|01111111|00000000000000000000000  1,048,576 ULP\n"
        "           after   1.125  0x3f900000  0|01111111|00100000000000000000000"
        "  bit 20 (mantissa)"
    )


def test_statistics_of_what_is_not_finite_are_dashes() -> None:
    """Of six infinities there is no smallest; equal to four digits is told apart."""
    found = flipped()
    gone = replace(found.after, min=nan, norm=nan)
    lines = text.tensor_diff(replace(found, after=gone)).splitlines()
    assert [line.split() for line in lines if "min" in line] == [["min", "0", "-", "*"]]
    near = text.tensor_diff(injection(after=(0.0, 0.5, 1.0, 2.0, 0.0, 3.00001))).splitlines()
    assert [line.split() for line in near if "max" in line] == [["max", "3", "3.00001", "*"]]


def test_more_elements_than_shown_are_counted() -> None:
    """6 changed, 2 shown."""
    found = injection(after=(1.0, 1.0, 9.0, 1.0, 1.0, 1.0))
    assert text.tensor_diff(found, 2).endswith("… and 4 more changed elements")
    assert text.injections(()) == "no fault struck"


def test_the_largest_differences_come_first() -> None:
    """A NaN before 3, then 0.5."""
    found = injection(after=(0.0, 1.0, 4.0, nan, 0.0, 3.0))
    assert text.difference_heatmap(found).splitlines() == [
        "element  before  after  difference",
        "(1, 0)      2.0    NaN           -",
        "(0, 2)      1.0    4.0           3",
        "(0, 1)      0.5    1.0         0.5",
    ]


def test_scatter_counts_what_went_where() -> None:
    """One of six is larger."""
    assert "larger      1 of 6 (16.67 %)" in text.scatter(flipped())
    found = flipped()
    object.__setattr__(found, "_tensors", None)
    assert "were not kept" in text.scatter(found)


def test_propagation_lists_effects_in_execution_order() -> None:
    """Counts of effects, then a row per site that differs or masks."""
    lines = text.propagation(run().comparison).splitlines()
    assert lines[0] == "5 of 18 sites differ"
    assert lines[1] == "3 introduced, 1 amplified, 2 masked, 1 passed on"
    assert lines[3].split() == ["8", "relu*2:0", "forward", "act", "0.01", "1/6", "introduced"]


def test_the_first_new_nan_or_inf_is_named() -> None:
    """Below the table, where there is one."""
    compared = comparison({"relu*2:0": 0.5, "nll_loss_forward*1:0": 0.2})
    assert "first new NaN or Inf" not in text.propagation(compared)
    compared.columns["new_nan"][compared.diverged[1]] = 1
    lines = text.propagation(compared).splitlines()
    assert "first new NaN or Inf: nll_loss_forward*1:0" in lines


def test_a_long_propagation_keeps_first_and_worst() -> None:
    """Of seven rows four are shown: the first two and the two largest of the rest."""
    lines = text.propagation(run().comparison, limit=4).splitlines()
    names = [line.split()[1] for line in lines[3:7]]
    assert names == ["relu*2:0", "nll_loss_forward*1:0", "threshold_backward*1:0", "mm*1:0"]
    assert lines[7] == "  … 3 more, none with a larger error"


def test_rows_that_nobody_measured_are_not_called_smaller() -> None:
    """How far an unread output is off is not known: it is left out, and not counted as 0."""
    compared = run().comparison
    compared.columns["relative_l2"][compared.diverged[2]] = nan
    line = text.propagation(compared, limit=4).splitlines()[7]
    assert line == "  … 3 more, none of those that are measured with a larger error"


def test_equal_runs_say_so() -> None:
    """No row, one sentence."""
    assert text.propagation(comparison({})) == ("0 of 18 sites differ; every site is bit-equal")


def test_gradients_name_the_worst_and_count_nan() -> None:
    """NaN before the larger error."""
    found = (
        Difference("a", False, 1, 4, 0.5, 0.1),
        Difference("b", False, 1, 4, 0.1, 0.1, new_nan=1),
    )
    lines = text.gradients(comparison({}, gradients=found)).splitlines()
    assert lines[0] == "loss: bit-equal"
    assert [line.split()[:3] for line in lines[4:]] == [["b", "-", "-"], ["a", "0.5", "0.1"]]


def test_how_far_a_nan_is_away_is_not_said() -> None:
    """2.5 → NaN is no number of times its value; 2.5 → 3 is 20 % away."""
    loss = Difference("loss", False, 1, 1, new_nan=1, golden=2.5, faulty=nan)
    assert text.gradients(comparison({}, loss=loss)).splitlines()[0] == "loss: 2.5 → NaN"
    loss = Difference("loss", False, 1, 1, relative_l2=0.2, golden=2.5, faulty=3.0)
    first = text.gradients(comparison({}, loss=loss)).splitlines()[0]
    assert first == "loss: 2.5 → 3 (apart by 20 %)"


@pytest.mark.parametrize("note", ["within the noise floor", "no loss was found"])
def test_what_counts_as_equal_is_not_called_bit_equal(note: str) -> None:
    """The note stands instead, in the text and in the static result."""
    loss = Difference("loss", equal=True, golden=2.5, faulty=2.50001, note=note)
    told = comparison({}, loss=loss)
    assert note in text.gradients(told).splitlines()[0]
    assert "bit-equal" not in text.gradients(told).splitlines()[0]
    assert note in snapshot_html(None, PLAN, run(comparison=told))


def test_training_marks_the_struck_step() -> None:
    """Step 0 has a star; the crash left one step out."""
    records = run(golden=steps([2.5, 2.4]), faulty=steps([3.0], distances=0.25))
    lines = text.training(records).splitlines()
    assert lines[1].split() == ["*", "0", "2.5", "3", "1", "1", "0.25"]
    assert lines[-1] == "the faulty run made 1 step fewer than the golden run"
    assert text.training(run(golden=(), faulty=())) == "no step was completed"


def test_many_steps_keep_both_ends() -> None:
    """Of 100 steps the first and last 12."""
    lines = text.training(run(golden=steps([1.0] * 100), faulty=steps([1.0] * 100))).splitlines()
    assert len(lines) == 1 + 12 + 1 + 12 + 1
    assert lines[-2].split()[0] == "99"


def test_the_outcome_names_its_detectors() -> None:
    """A line of its own."""
    judged = Outcome("changed", "why", detected_by=("loss spike",))
    assert text.outcome(judged) == "changed: why\ndetected by: loss spike"


def test_the_summary_has_every_section_and_fits() -> None:
    """At most 100 columns, outcome first."""
    missed = (NotInjected("f2", "asked for call 7 of relu, 3 were made"),)
    whole = text.summary(run(not_injected=missed, messages=("RNG diverged at call 7",)))
    heads = [line for line in whole.splitlines() if line and not line.startswith(" ")]
    assert heads == [
        "outcome", "plan", "not injected", "injections", "propagation", "update", "training",
        "notes",
    ]  # fmt: skip
    assert max(map(len, whole.splitlines())) <= 100
    assert f"{PLAN[0]} [struck]" in whole


def test_long_sentences_are_wrapped() -> None:
    """No line of a summary is longer than 100 columns, whatever the reason says."""
    judged = Outcome("changed", "f1 struck relu*2:0 in step 0; " * 10, 0)
    whole = text.summary(run(outcome=judged, error="ValueError: " + "bad " * 100))
    assert max(map(len, whole.splitlines())) <= 100


def test_names_cannot_move_the_cursor() -> None:
    """A module name with an escape sequence is text."""
    trace = build(Call("mm", "evil\x1b[2J\nname"))
    assert "\x1b" not in text.tree(trace.tree())
    assert "\x1b" not in text.propagation(comparison({"mm*1:0": 0.1}, trace))


def test_heat_by_module_and_rank() -> None:
    """A table with phases as columns."""
    compared = comparison({"relu*2:0": 0.01}, digits_step())
    assert text.tree_heat(compared).splitlines()[0].split()[:3] == ["module", "forward", "loss"]
    assert text.ranks({0: compared}).splitlines()[1].split()[:3] == ["rank", "0", "0.01"]


def test_a_hundred_thousand_calls_stay_a_page() -> None:
    """The table keeps 20 rows."""
    trace = large(100_000)
    trace.site_columns["norm"][:] = 1
    compared = comparison({}, trace)
    compared.columns["effect"][:] = 5
    compared.columns["equal"][:] = False
    assert len(text.propagation(compared).splitlines()) == 24


def test_detections_say_where_and_how_often() -> None:
    """First alarm with value and bound, false alarms counted, a failure named."""
    found = (
        Detection(
            "guard", (Alarm(1, "log*1:0", inf, 2.0),), (Alarm(0, "", 3.0), Alarm(1, "", 3.0))
        ),
        Detection("quiet"),
        Detection("broken", error="KeyError: 'x'"),
    )
    lines = text.detections(run(detections=found)).splitlines()
    assert lines[1].split() == ["guard", "step", "1", "at", "log*1:0", "Inf", "2", "1", "2"]
    assert lines[2].split() == ["quiet", "none", "0", "0"]
    assert lines[3].split() == ["broken", "failed:", "KeyError:", "'x'", "0", "0"]
    assert text.detections(run()) == ""


def test_memory_says_what_was_kept_and_what_it_took() -> None:
    """3 MiB of 4 MiB, and 2 KiB of training state beside them."""
    kept = {
        "asked": "auto", "budget": 4 << 20, "used": 3 << 20, "always": 0, "spilled": 0,
        "whole": 7, "sampled": 2, "hashed": 0, "state": 2048, "exact": False,
    }  # fmt: skip
    assert text.memory(run(memory=kept)).splitlines() == [
        "golden outputs: 7 whole, 2 as a hash of all bits and a sample",
        "3 MiB of a budget of 4 MiB (auto)",
        "2 KiB of copies of training state",
    ]
    assert text.memory(run()) == ""


def test_values_tell_what_is_furthest_from_zero() -> None:
    """What is not finite first, then by size; of no element there is the shape alone."""
    site = Site("relu", 2, dtype="float32")
    lines = text.values(site, np.asarray([[1.0, -4.0], [np.nan, 0.5]]), limit=3).splitlines()
    assert lines[0] == "relu*2:0: float32, 2 × 2"
    assert [line.split()[-1] for line in lines[2:]] == ["NaN", "-4", "1"]
    assert text.values(site, np.zeros((0, 3))) == "relu*2:0: float32, 0 × 3"


@pytest.mark.parametrize(
    ("tensor", "rows"),
    [
        (torch.tensor(1.5), ["() 1.5"]),
        (torch.tensor([2**60, 2**60 + 1]), [f"(1) {2**60 + 1:,}", f"(0) {2**60:,}"]),
        (torch.tensor([2**63 - 1, -(2**63)]), [f"(1) {-(2**63):,}", f"(0) {2**63 - 1:,}"]),
        (torch.tensor([1 + 2j, -3 - 0.5j]).conj(), ["(1) -3+0.5j", "(0) 1-2j"]),
        (torch.tensor([0.5, -2.0, 2.0], dtype=torch.bfloat16), ["(1) -2", "(2) 2", "(0) 0.5"]),
        (torch.tensor([False, True]), ["(1) 1", "(0) 0"]),
    ],
)
def test_values_are_those_of_their_dtype(tensor: torch.Tensor, rows: list[str]) -> None:
    """A scalar's index is ``()``; integers stand in full, complex numbers by their parts."""
    lines = text.values(Site("relu", 2, dtype="any"), tensor).splitlines()[2:]
    assert [" ".join(line.split()) for line in lines] == rows


def test_values_of_equal_size_come_in_their_order() -> None:
    """Of a thousand equal elements the first eight."""
    lines = text.values(Site("relu", 2, dtype="float32"), torch.ones(10, 100)).splitlines()[2:]
    assert [" ".join(line.split()) for line in lines] == [f"(0, {n}) 1" for n in range(8)]
