from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from fi_notebook.analysis.align import align
from fi_notebook.analysis.compare import build as put_together
from fi_notebook.analysis.evidence import Evidence
from fi_notebook.analysis.outcome import judge
from fi_notebook.analysis.tolerance import Tolerance
from fi_notebook.core.fault import FaultPlan
from fi_notebook.core.injection import NotInjected
from fi_notebook.core.masking import DIED_OF
from fi_notebook.core.run import NO_LOSS, OUTCOMES, RESULT, Comparison, Difference, Outcome
from fi_notebook.core.stats import STATISTICS
from tests.records import (
    CHANGED_LOSS,
    EQUAL_LOSS,
    FLIPPED,
    PLAN,
    comparison,
    flipped,
    injection,
    steps,
)
from tests.traces import Call, build

MOVED = Difference("fc.weight", False, 6, 6, relative_l2=0.001, max_abs=0.002)
SPREAD = {"relu*2:0": 0.01, "mm*1:0": 0.06, "_foreach_add_*1:0[0]": 0.001}
GOLDEN = steps([2.0] * 8)
CHANGED_RESULT = replace(CHANGED_LOSS, name=RESULT)
SAME = (0.0, 0.5, 1.0, 2.0, 0.0, 3.0)  # the values before, and after a fault that changed none


def case(**changes: Any) -> Outcome:
    """Judge a run of one step in which a flip reached the weights, but for the changes."""
    return judged((), **changes)


def judged(detected_by: Sequence[str], **changes: Any) -> Outcome:
    """The same, where detectors would have alarmed."""
    given: dict[str, Any] = {
        "plan": PLAN,
        "injections": (flipped(),),
        "not_injected": (),
        "comparison": comparison(SPREAD, loss=EQUAL_LOSS, parameters=(MOVED,)),
        "golden": steps([2.5]),
        "faulty": steps([2.5]),
    }
    return judge(Evidence(**(given | changes)), detected_by)


def course(losses: list[float], **changes: Any) -> Outcome:
    """Judge a run of several steps beside a golden loss of 2 in each of 8."""
    records = steps(losses, distances=changes.pop("distances", 0.1))
    return case(golden=GOLDEN, faulty=records, **changes)


def test_crash_names_step_and_exception() -> None:
    """The faulty run made one of two steps, so it stopped in step 1."""
    error = "Traceback (most recent call last):\n  …\nIndexError: index 9 is out of range"
    outcome = case(error=error, golden=steps([2.5, 2.4]))
    assert outcome == Outcome(
        "crash",
        "the faulty run stopped in step 1 with IndexError: index 9 is out of range, "
        "after f1 struck relu*2:0 in step 0",
        1,
    )


def test_a_crash_before_any_strike_is_no_work_of_the_fault() -> None:
    """And the sentence says so."""
    outcome = case(error="ValueError: bad", injections=())
    assert outcome.reason.endswith("ValueError: bad, before any fault had struck")


def test_not_injected_gives_the_reason_and_is_not_masked() -> None:
    """An unmet fault tests nothing."""
    missed = (NotInjected("f1", "asked for call 7 of relu, 3 were made"),)
    outcome = case(injections=(), not_injected=missed)
    assert outcome.name == "not_injected"
    assert outcome.reason == (
        "no fault struck, so nothing was tested (f1: asked for call 7 of relu, 3 were made)"
    )
    assert "(nothing is armed)" in case(injections=(), plan=FaultPlan()).reason
    off = FaultPlan(tuple(replace(fault, enabled=False) for fault in PLAN))
    assert "(every fault of the plan is switched off)" in case(injections=(), plan=off).reason


ELSEWHERE = (NotInjected("f1", "it is for rank 1, this is rank 0", elsewhere=True),)


def test_what_struck_another_rank_is_judged_where_it_reached_this_one() -> None:
    """The weights differ though no fault struck here; without a difference nothing came of it."""
    outcome = case(injections=(), not_injected=ELSEWHERE)
    assert outcome.name == "changed"
    assert outcome.reason.startswith(
        "f1 struck another rank, and what came of it reached this one; "
    )
    equal = case(injections=(), not_injected=ELSEWHERE, comparison=comparison({}))
    assert str(equal) == (
        "not_injected: no fault struck this rank, and nothing on it differs "
        "(f1: it is for rank 1, this is rank 0)"
    )


def test_a_rank_that_another_ones_fault_stopped_says_so() -> None:
    """It was not struck itself."""
    outcome = case(error="ValueError: bad", injections=(), not_injected=ELSEWHERE)
    assert outcome.reason.endswith("ValueError: bad, before any fault had struck this rank")


def test_inactive_struck_but_changed_nothing() -> None:
    """Zero set to zero: 0 of 6 elements changed a bit."""
    same = injection(after=(0.0, 0.5, 1.0, 2.0, 0.0, 3.0))
    outcome = case(injections=(same,))
    assert outcome.name == "inactive"
    assert "but changed no bit of its 6 elements: " in outcome.reason


def test_nan_immediate_in_the_struck_step() -> None:
    """The loss is NaN where the golden one is 2.5."""
    outcome = case(faulty=steps([nan]))
    assert outcome == Outcome(
        "nan_immediate",
        "f1 struck relu*2:0 in step 0, and in the same step "
        "the loss became NaN (2.5 in the golden run)",
        0,
    )


def test_nan_immediate_in_the_gradients_alone() -> None:
    """A NaN gradient counts though loss and norms are finite."""
    bad = Difference("fc.weight", False, 6, 6, 0.0, 0.0, new_nan=2)
    outcome = case(comparison=comparison(SPREAD, loss=EQUAL_LOSS, gradients=(bad, MOVED)))
    assert outcome.name == "nan_immediate"
    assert "1 of 2 gradients holds new NaN or Inf (fc.weight)" in outcome.reason


def test_a_gradient_that_is_rounding_noise_is_not_named() -> None:
    """Of a bias before BatchNorm, at most 2e-9 · √4 / 1.2 = 3.3e-9 beside 0.002 / 0.001 = 2; its
    parameter, which Adam moves all the same, is not either. Where nothing else moved, it is.
    """
    noise = Difference("conv.bias", False, 4, 4, relative_l2=1.2, max_abs=2e-9)
    pushed = Difference("conv.bias", False, 4, 4, relative_l2=0.5, max_abs=0.1)
    both = comparison(SPREAD, loss=EQUAL_LOSS, gradients=(noise, MOVED), parameters=(pushed, MOVED))
    reason = case(comparison=both).reason
    assert "2 of 2 gradients differ, most fc.weight (relative L2 0.001)" in reason
    assert "2 of 2 parameters differ, most fc.weight (relative L2 0.001)" in reason
    reason = case(
        comparison=comparison(SPREAD, loss=EQUAL_LOSS, gradients=(noise,), parameters=(MOVED,))
    ).reason
    assert "1 of 1 gradient differs, most conv.bias (relative L2 1.2)" in reason


def test_nan_delayed_names_the_step() -> None:
    """The fault strikes in step 0, the loss overflows in step 3."""
    outcome = course([2, 9, 1e30, inf, nan, nan, nan, nan])
    assert (outcome.name, outcome.step) == ("nan_delayed", 3)
    assert "3 steps later, in step 3, the loss became Inf (2 in the golden run)" in outcome.reason


def test_nan_in_the_last_parameters_is_no_proof_of_an_immediate_one() -> None:
    """Parameters are compared after step 7; the record of step 3 shows the first NaN."""
    bad = replace(MOVED, new_nan=3)
    compared = comparison(SPREAD, loss=EQUAL_LOSS, parameters=(bad,))
    faulty = steps([2.0] * 8, norms=[10, 10, 10, nan, nan, nan, nan, nan])
    outcome = case(golden=GOLDEN, faulty=faulty, comparison=compared)
    assert (outcome.name, outcome.step) == ("nan_delayed", 3)
    late = case(golden=GOLDEN, faulty=steps([2.0] * 8), comparison=compared)
    assert (late.name, late.step) == ("nan_delayed", 7)
    assert case(comparison=compared, updated_step=0).name == "nan_immediate"


def test_the_nan_policy_is_an_argument() -> None:
    """A NaN in an activation that dies out counts only where calls are asked for."""
    compared = comparison(SPREAD, loss=EQUAL_LOSS, parameters=(MOVED,))
    compared.columns["new_nan"][7] = 1
    assert case(comparison=compared).name == "changed"
    outcome = case(comparison=compared, tolerance=Tolerance(nonfinite=("calls",)))
    assert outcome.name == "nan_immediate"
    assert "first relu*2:0" in outcome.reason
    with pytest.raises(ValueError, match="no place 'los' for NaN; did you mean 'loss'"):
        Tolerance(nonfinite=("los",))


def test_a_nan_that_the_golden_run_has_too_is_not_new() -> None:
    """A step whose loss could not be found has NaN in both runs."""
    assert case(golden=steps([nan]), faulty=steps([nan])).name == "changed"


def test_a_nan_that_the_golden_run_has_earlier_is_not_blamed_on_the_fault() -> None:
    """Golden weights are NaN from step 0 on, the faulty ones from step 1, in other elements."""
    bad = replace(MOVED, new_nan=3)
    compared = comparison(SPREAD, loss=CHANGED_LOSS, parameters=(bad,))
    golden, faulty = steps([2.0] * 8, norms=[nan] * 8), steps([3.0] * 8, norms=[10] + [nan] * 7)
    outcome = case(golden=golden, faulty=faulty, comparison=compared)
    assert outcome.name == "slow_degrade"
    assert outcome.reason.endswith(
        "; the golden run itself holds NaN or Inf in step 0 (parameter norm NaN)"
    )
    both = case(golden=golden, faulty=golden, comparison=compared)
    assert (both.name, both.step) == ("nan_delayed", 7)  # not later, and in more elements


def test_that_the_golden_run_is_not_finite_is_said() -> None:
    """Its gradients are NaN and those of the faulty run are not: the fault takes the NaN away."""
    golden, faulty = steps([2.0]), steps([3.0])
    golden = (replace(golden[0], gradient_norm=nan),)
    compared = comparison(SPREAD, loss=CHANGED_LOSS, gradients=(MOVED,))
    outcome = case(golden=golden, faulty=faulty, comparison=compared)
    assert outcome.name == "changed"
    assert outcome.reason.endswith(
        "; the golden run itself holds NaN or Inf in step 0 (gradient norm NaN), and the faulty "
        "run holds none"
    )


@pytest.mark.parametrize("loss", [CHANGED_RESULT, replace(EQUAL_LOSS, note=NO_LOSS)])
def test_a_step_without_a_loss_holds_no_nan_for_it(loss: Difference) -> None:
    """Its records have NaN where a loss would stand; a result's norm, 2.5 and 3, is finite."""
    none = steps([nan])
    compared = comparison(SPREAD, loss=loss, parameters=(MOVED,))
    outcome = case(golden=none, faulty=none, comparison=compared)
    assert outcome.name == "changed"
    assert "NaN" not in outcome.reason


def test_masked_exact_names_the_last_call_that_differs() -> None:
    """relu*2:0 differs, everything after it and the update are bit-equal."""
    outcome = case(comparison=comparison({"relu*2:0": 0.01}))
    assert outcome == Outcome(
        "masked_exact",
        "f1 struck relu*2:0 in step 0; the error died in nll_loss_forward*1 (it lies outside the "
        "part that the call takes); the last call that differs is relu*2:0, and every later "
        "call and the whole update are bit-equal to the golden run",
        0,
    )


def test_masked_exact_names_a_call_that_the_tree_shows() -> None:
    """A folded detach of it differs later; every later call of the tree is bit-equal."""
    trace = build(
        Call("relu", "act"),
        Call("detach", "act", inputs=(0,), flags=("folded",)),
        Call("sum", "", inputs=(0,)),
        Call("_foreach_add_", "", phase="optimizer"),
    )
    died = comparison({"relu*1:0": 0.1, "detach*1:0": 0.1}, trace)
    reason = case(comparison=died).reason
    assert (
        "the last call of the tree that differs is relu*1:0, and every later call of it" in reason
    )


LOST = (
    Call("relu", "act"),
    Call("_to_sparse", inputs=(0,)),
    Call("sum", inputs=(1,)),
    Call("clamp", inputs=(0,)),
    Call("_foreach_add_", phase="optimizer"),
)


def unread(errors: list[float], struck: int = 0, calls: tuple[Call, ...] = LOST) -> Comparison:
    """A step of which row 1 is not read, and the others have these relative L2 errors."""
    trace = build(*calls)
    for name in STATISTICS:
        trace.site_columns[name][1] = -1 if name in STATISTICS[5:] else nan
    measures = {"changed": np.sign(errors), "relative_l2": np.array(errors)}
    hit = np.arange(len(trace)) == struck
    return put_together(trace, trace, align(trace, trace), measures, loss=EQUAL_LOSS, struck=hit)


@pytest.mark.parametrize(
    ("errors", "struck", "expected"),
    [
        (
            [0.1, nan, 0, 0, 0],
            0,
            (
                f"part of the error died in clamp*1 ({DIED_OF['clipping']}); the rest was last "
                "followed into _to_sparse*1:0, which is not read; the last call that differs is "
                "relu*1:0, and every later call that is read and the whole update are bit-equal to "
                "the golden run"
            ),
        ),
        (
            [0, nan, 0, 0, 0],
            1,
            (
                "its error was last followed into _to_sparse*1:0, which is not read; every call "
                "that is read and the whole update are bit-equal to the golden run"
            ),
        ),
        (
            [0.1, nan, 0.1, 0, 0],
            0,
            (
                f"the error died in clamp*1 ({DIED_OF['clipping']}); the last call that differs is "
                "sum*1:0, and every later call and the whole update are bit-equal to the golden run"
            ),
        ),
    ],
)
def test_an_error_in_what_is_not_read_was_not_seen_to_end(
    errors: list[float], struck: int, expected: str
) -> None:
    """It is no call that differs; where one that reads it does, it was followed further."""
    outcome = case(comparison=unread(errors, struck))
    assert outcome.name == "masked_exact"
    assert outcome.reason == f"f1 struck relu*2:0 in step 0; {expected}"


def test_a_step_that_ends_in_what_is_not_read_says_so() -> None:
    """Whether the error ended there is not known, and the last site that differs is another."""
    lost = unread([0.1, nan], calls=LOST[:2])
    outcome = case(comparison=lost)
    assert outcome.name == "masked_tolerance"
    assert outcome.reason == (
        "f1 struck relu*2:0 in step 0, and its error was last followed into _to_sparse*1:0, which "
        "is not read; nothing that the step leaves behind differs"
    )
    none = replace(lost, loss=Difference("loss", False, note=NO_LOSS))
    reason = case(comparison=none).reason
    assert "2 of 2 sites differ, the last relu*1:0" in reason


def test_masked_exact_of_a_loss_that_is_only_shown() -> None:
    """A loss that was scaled after all is masked where backward and update are equal."""
    outcome = case(comparison=comparison({"nll_loss_forward*1:0": 0.2}, loss=CHANGED_LOSS))
    assert outcome.name == "masked_exact"
    assert "(only the loss that is shown differs: 3 instead of 2.5)" in outcome.reason


def test_masked_exact_of_faults_that_cancel_says_which_undid_which() -> None:
    """f1 turns 1 to 1.125, f2 turns it back: no call differs."""
    back = injection(before=FLIPPED, after=SAME, fault="f2")
    outcome = case(comparison=comparison({}), injections=(flipped(), back))
    assert outcome == Outcome(
        "masked_exact",
        "f1 struck relu*2:0 in step 0 and f2 relu*2:0 in step 0; f2 gave relu*2:0 back the bits "
        "that it had before f1; every call that was compared and the whole update are bit-equal "
        "to the golden run",
        0,
    )


def test_a_changed_buffer_is_not_masked() -> None:
    """Running statistics belong to the update."""
    moved = replace(MOVED, name="norm.running_var")
    assert case(comparison=comparison({"relu*2:0": 0.01}, buffers=(moved,))).name == "changed"


def test_a_later_strike_is_masked_exact_only_by_a_measured_distance() -> None:
    """The comparison is about step 0, the fault strikes in step 1 of two."""
    golden = steps([2.5, 2.4])
    same = {
        "comparison": comparison({}),
        "injections": (flipped(1),),
        "golden": golden,
        "compared_step": 0,
    }
    assert case(**same, faulty=golden).name == "masked_tolerance"
    measured = steps([2.5, 2.4], distances=0.0)
    assert case(**same, faulty=measured).name == "masked_exact"
    shown = case(**same, faulty=steps([2.5, 2.6], distances=0.0))
    assert shown.name == "masked_exact"
    assert shown.reason.endswith(
        "every call that was compared and the whole update are bit-equal to the golden run "
        "(only the loss that is shown differs: 2.6 instead of 2.4)"
    )


LATE: dict[str, Any] = {
    "injections": (flipped(1),),
    "golden": steps([2.5, 2.4]),
    "faulty": steps([2.5, 2.4], distances=0.0),
    "compared_step": 0,
}
"""The comparison is about step 0, the fault strikes in step 1, and no record shows it."""


def _keeping(kind: str, difference: Difference) -> Comparison:
    """A step of which this kind of what training keeps differs."""
    kept: dict[str, Any] = {kind: (difference,)}
    return comparison({}, **kept)


@pytest.mark.parametrize("kind", ["parameters", "buffers", "optimizer_state"])
def test_a_later_strike_is_not_masked_where_what_training_keeps_differs(kind: str) -> None:
    """By 3000 times, by new NaN, or by a rounding: whatever the distance of the parameters is."""
    far = replace(MOVED, name="kept", relative_l2=3e3)
    kinds = {"parameters": "parameter", "buffers": "buffer", "optimizer_state": "optimizer tensor"}
    outcome = case(**LATE, comparison=_keeping(kind, far))
    assert outcome == Outcome(
        "changed",
        "f1 struck relu*2:0 in step 1; after step 1 "
        f"1 of 1 {kinds[kind]} differs, most kept (relative L2 3000)",
        1,
    )
    bad = replace(far, relative_l2=0.0, new_nan=8)
    named = case(**LATE, comparison=_keeping(kind, bad)).name
    assert named == ("nan_immediate" if kind == "parameters" else "changed")
    near = replace(far, relative_l2=1e-7)
    assert case(**LATE, comparison=_keeping(kind, near)).name == "masked_tolerance"


def test_a_later_strike_of_a_step_without_an_update_is_judged_by_its_loss() -> None:
    """An evaluation, whose loss is all that there is; of a result nothing is known."""
    forward = comparison({}, build(Call("mm"), Call("sum", inputs=(0,))))
    assert case(**LATE, comparison=forward).name == "masked_exact"
    other = LATE | {"faulty": steps([2.5, 2.6], distances=0.0)}
    assert case(**other, comparison=forward).name == "slow_degrade"  # 0.2 / 2.4 = 8 %
    none = LATE | {"golden": steps([nan, nan]), "faulty": steps([nan, nan], distances=0.0)}
    result = replace(forward, loss=replace(EQUAL_LOSS, name=RESULT))
    assert case(**none, comparison=result) == Outcome(
        "changed",
        "f1 struck relu*2:0 in step 1; calls and results were compared in step 0 alone, and the "
        "records show nothing",
        1,
    )


def test_masked_exact_is_not_claimed_of_an_update_that_nobody_looked_at() -> None:
    """Without a tensor after the update, a gradient that differs is no masked error."""
    assert case(comparison=comparison({"mm*1:0": 0.06})).name != "masked_exact"


def test_masked_tolerance_shows_the_tolerance() -> None:
    """1e-7 is below 1e-5, and both are named."""
    small = replace(MOVED, relative_l2=1e-7)
    outcome = case(comparison=comparison(SPREAD, parameters=(small,)))
    assert outcome.name == "masked_tolerance"
    assert outcome.reason.endswith(
        "the largest relative difference is 1e-07 (fc.weight), 1e-05 counts"
    )
    tight = Tolerance(relative=1e-8)
    assert (
        case(comparison=comparison(SPREAD, parameters=(small,)), tolerance=tight).name == "changed"
    )


@pytest.mark.parametrize(
    "lost",
    [
        replace(MOVED, name="mask", relative_l2=inf),
        replace(MOVED, name="mask", relative_l2=nan),
        replace(MOVED, name="mask", relative_l2=0.0, note="only in the faulty run"),
    ],
)
def test_what_has_no_distance_is_not_within_the_tolerance(lost: Difference) -> None:
    """A -inf that became a number, what was not measured, and what one run alone has."""
    near = replace(MOVED, name="near", relative_l2=1e-7)
    for buffers in ((near, lost), (lost, near), (lost,)):
        outcome = case(comparison=comparison(SPREAD, buffers=buffers))
        assert outcome.name == "changed"


def test_other_bits_of_the_same_number_are_named() -> None:
    """0 became -0 in a buffer: a distance of 0, but something that the step leaves differs."""
    sign = replace(MOVED, name="mask", relative_l2=0.0, max_abs=0.0)
    outcome = case(comparison=comparison(SPREAD, buffers=(sign,)))
    assert outcome.name == "masked_tolerance"
    assert outcome.reason.endswith(
        "its error is not gone but stays below the tolerance: the largest relative difference is "
        "0 (mask), 1e-05 counts"
    )
    reason = case(comparison=comparison(SPREAD)).reason
    assert reason.endswith("but nothing that it leaves behind does")


def test_what_is_below_the_noise_floor_is_masked() -> None:
    """Golden differs from golden by 0.01, the fault by 0.001."""
    noise = comparison({}, parameters=(replace(MOVED, relative_l2=0.01),))
    assert case(noise=noise).name == "masked_tolerance"


def test_changed_says_what_changed_in_one_step() -> None:
    """The loss is bit-equal (a fault after it), 1 of 1 parameters differs."""
    assert case().name == "changed"
    assert case().reason == (
        "f1 struck relu*2:0 in step 0; this step's loss is bit-equal to the golden one; "
        "1 of 1 parameter differs, most fc.weight (relative L2 0.001)"
    )
    other = case(
        comparison=comparison(SPREAD, loss=CHANGED_LOSS, parameters=(MOVED,)),
        faulty=steps([3.0]),
    )
    assert "the loss is 3 instead of 2.5 (relative difference 0.2)" in other.reason


def test_no_distance_to_nan_is_told() -> None:
    """A NaN policy that looks at nothing leaves NaN to the words: no number stands beside it."""
    blind = Tolerance(nonfinite=())
    gone = replace(MOVED, relative_l2=0.0, new_nan=6)
    loss = Difference("loss", False, 1, 1, new_nan=1, golden=2.5, faulty=nan)
    told = case(
        comparison=comparison(SPREAD, loss=loss, parameters=(gone,)),
        faulty=steps([nan]),
        tolerance=blind,
    )
    assert "the loss is NaN instead of 2.5; " in told.reason
    assert "most fc.weight (6 NaN)" in told.reason
    result = Difference(RESULT, False, 4, 4, new_inf=4, golden=2.5, faulty=inf)
    told = case(comparison=comparison(SPREAD, loss=result), tolerance=blind)
    assert "the norm of the result is Inf instead of 2.5 (4 Inf)" in told.reason


def test_spike_degrade_rises_and_stays() -> None:
    """2 to 5 is an excess of 150 % in one step; it ends at 3, 50 % above."""
    outcome = course([2, 5, 4, 3, 3, 3, 3, 3])
    assert (outcome.name, outcome.step) == ("spike_degrade", 1)
    assert (
        "by step 1 the loss rose beside the golden one by 150 % within 2 steps, and in the end it "
        "exceeds it by 50 %"
    ) in outcome.reason


def test_a_rise_is_not_called_the_excess() -> None:
    """From 1.4 times golden to 2.6 times it rose by 120 %, and is 160 % above; 60 % of rise lead
    from below golden to what it is.
    """
    golden = steps([1.0] * 4)
    outcome = case(golden=golden, faulty=steps([1.0, 1.4, 1.8, 2.6], distances=0.1))
    assert outcome.name == "spike_degrade"
    assert (
        "by step 3 the loss rose beside the golden one by 120 % within 2 steps, and in the end it "
        "exceeds it by 160 %"
    ) in outcome.reason
    outcome = case(golden=golden, faulty=steps([1.0, 0.4, 1.0, 1.0], distances=0.1))
    assert outcome.name == "spike_recover"
    assert (
        "by step 2 the loss rose beside the golden one by 60 % within 2 steps, and it came back to "
        "within 5 % (0 %)"
    ) in outcome.reason
    slow = case(
        golden=golden,
        faulty=steps([1.0, 1.4, 1.8, 2.6], distances=0.1),
        tolerance=Tolerance(sudden=1),
    )
    assert "by step 3 the loss rose beside the golden one by 80 % within 1 step, " in slow.reason


def test_spike_recover_comes_back() -> None:
    """The last two of eight steps are 1 % above."""
    outcome = course([2, 5, 4, 3, 2.5, 2.2, 2.02, 2.02])
    assert outcome.name == "spike_recover"
    assert "came back to within 5 % (1 %)" in outcome.reason


def test_slow_degrade_has_no_spike() -> None:
    """10 % more each step: 20 % in two steps is no spike of 50 %, 65 % at the end."""
    outcome = course([2, 2.2, 2.4, 2.6, 2.8, 3.0, 3.2, 3.4])
    assert (outcome.name, outcome.step) == ("slow_degrade", 1)
    assert (
        "in the end exceeds the golden one by 65 % (more than 5 % from step 1 on)" in outcome.reason
    )


def test_silent_drift_has_a_good_loss_and_other_parameters() -> None:
    """The loss is 1 % away, the parameters 0.1."""
    outcome = course([2, 2.02, 2.02, 2, 2, 2, 2, 2])
    assert (outcome.name, outcome.step) == ("silent_drift", 7)
    assert "at most 1 % away" in outcome.reason
    assert outcome.reason.endswith("after step 7 the parameters are 0.1 away (relative L2)")


def test_a_drift_that_evaluate_sees_says_so() -> None:
    """By the metrics of the last step, and only by more than 1 % of the golden one."""
    drifted = "the parameters are 0.1 away (relative L2)"
    golden = steps([2.0, 2.0], metrics={"accuracy": 1.0})
    for last, said in (
        (0.5, f"{drifted}, and evaluate gives accuracy 0.5 instead of 1"),
        (0.995, drifted),
    ):
        first, _ = steps([2.0, 2.0], metrics={"accuracy": 0.0})
        _, second = steps([2.0, 2.0], distances=0.1, metrics={"accuracy": last})
        outcome = case(golden=golden, faulty=(first, second))
        assert outcome.name == "silent_drift"
        assert outcome.reason.endswith(said)


def test_a_step_without_a_loss_is_told_as_that() -> None:
    """None in both runs, or in one alone."""
    none = replace(EQUAL_LOSS, note=NO_LOSS)
    for loss, said in (
        (none, "the step has no loss to compare"),
        (replace(none, equal=False), "one run alone has a loss"),
    ):
        assert said in case(comparison=comparison(SPREAD, loss=loss, parameters=(MOVED,))).reason


def test_metric_degraded_is_seen_by_evaluate_alone() -> None:
    """Equal loss and parameters, a broken running variance, accuracy 0.61 for 0.97."""
    broken = Difference("norm.running_var", False, 1, 3, new_inf=1)
    outcome = case(
        comparison=comparison({"relu*2:0": 0.01}, buffers=(broken,)),
        golden=steps([2.0, 2.0], metrics={"accuracy": 0.97, "eval loss": 0.1}),
        faulty=steps([2.0, 2.0], metrics={"accuracy": 0.61, "eval loss": 0.05}),
    )
    assert (outcome.name, outcome.step) == ("metric_degraded", 1)
    assert outcome.reason.partition("; new NaN or Inf in buffer")[0].endswith(
        "but evaluate gives accuracy 0.61 instead of 0.97"
    )


def test_several_steps_without_any_class_are_changed() -> None:
    """A buffer that moved a little, with everything else equal, is still told."""
    moved = replace(MOVED, name="norm.running_var")
    compared = comparison({"relu*2:0": 0.01}, buffers=(moved,))
    outcome = course([2.0] * 8, comparison=compared, distances=0.0)
    assert outcome.name == "changed"


def test_hidden_damage_is_named_in_the_outcome() -> None:
    """An infinite second moment stands in the sentence, whatever the class."""
    frozen = Difference("fc.weight.exp_avg_sq", False, 1, 6, new_inf=1)
    compared = comparison(SPREAD, parameters=(MOVED,), optimizer_state=(frozen,))
    outcome = case(comparison=compared)
    assert outcome.name == "changed"
    assert "fc.weight.exp_avg_sq holds 1 new Inf in 6 elements" in outcome.reason


def test_detectors_are_a_flag_beside_the_outcome() -> None:
    """The class is the same."""
    outcome = judged(["loss spike"])
    assert (outcome.name, outcome.detected_by) == ("changed", ("loss spike",))


def test_a_parameter_of_the_tolerance_cannot_be_negative() -> None:
    """The name and the value are given."""
    with pytest.raises(ValueError, match="spike is -1; expected a number from 0"):
        Tolerance(spike=-1)
    assert "relative 1e-05; loss within 5 %; spike 50 %" in str(Tolerance())
    assert Tolerance(relative=0, noise=0).relative == 0


def test_several_strikes_of_a_fault_are_one_outcome() -> None:
    """The first that changed a value is named, the others counted."""
    same = injection(after=SAME)
    outcome = case(injections=(same, flipped(step=1), flipped(step=2)))
    assert outcome.reason.startswith("f1 struck relu*2:0 in step 1 (and 2 more times); ")


def test_each_of_a_few_faults_is_named() -> None:
    """First the one that changed a value first; of many the first three."""
    struck = [injection(site="mm*1:0", fault=f"f{n}", step=n) for n in range(2, 6)]
    two = case(injections=(flipped(), struck[0], struck[0]))
    assert two.reason.startswith(
        "f1 struck relu*2:0 in step 0 and f2 mm*1:0 in step 2 (and 1 more time); "
    )
    quiet = injection(after=SAME, fault="f0")
    many = case(injections=(quiet, flipped(), *struck))
    assert many.reason.startswith(
        "f1 struck relu*2:0 in step 0, f0 relu*2:0 in step 0, f2 mm*1:0 in step 2 and 3 more; "
    )


def test_of_several_inactive_faults_no_one_tensor_is_told() -> None:
    """Neither changed a bit, whatever the sizes of their tensors."""
    outcome = case(
        injections=(injection(after=SAME), injection(after=SAME, site="mm*1:0", fault="f2"))
    )
    assert outcome.reason == (
        "f1 struck relu*2:0 in step 0 and f2 mm*1:0 in step 0, but changed no bit: each element "
        "that was chosen already had the value that the fault gives it"
    )


def test_every_class_has_a_case_here() -> None:
    """The names that this file expects are all the outcomes there are."""
    import pathlib

    text = pathlib.Path(__file__).read_text(encoding="utf-8")
    assert [name for name in OUTCOMES if f'"{name}"' not in text] == []
    assert np.unique(OUTCOMES).size == 13


def test_what_moved_is_named_where_no_parameter_did() -> None:
    """A buffer, or a tensor of the optimizer; beside a parameter neither is worth a word."""
    buffer, state = replace(MOVED, name="norm.mean"), replace(MOVED, name="fc.weight.step")
    kept: dict[str, Any] = {
        "parameters": (),
        "buffers": (buffer,),
        "optimizer_state": (state,),
    }
    reason = case(comparison=comparison(SPREAD, loss=EQUAL_LOSS, **kept)).reason
    assert "1 of 1 buffer differs, most norm.mean" in reason
    assert "1 of 1 optimizer tensor differs, most fc.weight.step" in reason
    both = kept | {"parameters": (MOVED,)}
    assert "norm.mean" not in case(comparison=comparison(SPREAD, loss=EQUAL_LOSS, **both)).reason


def test_shares_of_the_mean_loss_are_called_that() -> None:
    """Golden falls from 4 to 0.5, its mean is 1.25: 0.75 instead of 0.5 at the end is 20 % of it.

    (0.75 - 0.5) / max(0.5, 1.25) = 0.2, in the last quarter of 8 steps.
    """
    golden = steps([4.0, 2.0, 1.0, 0.75, 0.75, 0.5, 0.5, 0.5])
    faulty = steps([4.0, 2.0, 1.0, 0.75, 0.75, 0.5, 0.75, 0.75], distances=0.1)
    outcome = case(golden=golden, faulty=faulty)
    assert outcome.name == "slow_degrade"
    assert (
        "exceeds the golden one by 20 % of the mean golden loss (more than 5 % from step 6 on)"
        in (outcome.reason)
    )


def test_a_rise_that_does_not_last_is_not_from_then_on() -> None:
    """Above 5 % in step 1, below it in step 2, above again to the end."""
    outcome = course([2.0, 2.2, 2.0, 2.2, 2.2, 2.2, 2.2, 2.2])
    assert outcome.name == "slow_degrade"
    assert "by 10 % (more than 5 % first in step 1)" in outcome.reason


def test_a_spike_that_ends_below_golden_says_so() -> None:
    """8 % below the golden loss is not within 5 % of it."""
    outcome = course([2.0, 6.0, 3.0, 1.84, 1.84, 1.84, 1.84, 1.84])
    assert outcome.name == "spike_recover"
    assert "in the end it is below it by 8 %" in outcome.reason


def test_a_loss_far_away_does_not_look_fine_beside_a_worse_metric() -> None:
    """10 % below golden, so no rise; the accuracy fell."""
    golden = tuple(replace(step, metrics={"accuracy": 0.9}) for step in GOLDEN)
    faulty = [
        replace(s, metrics={"accuracy": 0.5}) for s in steps([2.0] * 4 + [1.8] * 4, distances=0.1)
    ]
    outcome = case(golden=golden, faulty=tuple(faulty))
    assert outcome.name == "metric_degraded"
    assert "the loss has no lasting rise (at most 10 % away), but evaluate gives" in outcome.reason


def test_of_several_steps_it_is_said_what_is_of_which() -> None:
    """The loss of the struck step, then the loss and the parameters after the last."""
    golden, faulty = steps([2.5, 2.0, 1.0]), steps([2.5, 2.0, 0.5], distances=0.1)
    outcome = case(golden=golden, faulty=faulty, compared_step=0, updated_step=2)
    assert outcome.name == "changed"
    assert (
        "this step's loss is bit-equal to the golden one; after step 2 the loss is 0.5 instead of "
        "1 (relative difference 0.5); 1 of 1 parameter differs"
    ) in outcome.reason


def test_a_loss_within_the_noise_is_not_called_bit_equal() -> None:
    """It counts as equal, and the sentence says why."""
    quiet = Difference("loss", equal=True, golden=2.5, faulty=2.5001, note="within the noise floor")
    outcome = case(comparison=comparison(SPREAD, loss=quiet, parameters=(MOVED,)))
    assert "this step's loss is within the noise floor of the golden one" in outcome.reason
