from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf, isnan, nan

import numpy as np
import pytest

from fi_notebook.analysis import detectors
from fi_notebook.analysis.compare import compare
from fi_notebook.analysis.detectors import Alarm, Detection, Observed
from fi_notebook.core.run import Comparison, StepRecord
from fi_notebook.errors import FaultError
from tests.records import steps
from tests.traces import digits_step

STEPS = steps([2.0, 2.0])


def tried(
    name: str,
    comparison: Comparison | None = None,
    faulty: Sequence[StepRecord] = STEPS,
    **parameters: float,
) -> Detection:
    """One detector, tried on a replay."""
    compared = comparison or compare(digits_step(), digits_step())
    (found,) = detectors.detect(compared, STEPS, faulty, detectors={name: parameters})
    return found


def test_a_clean_replay_sets_off_nothing() -> None:
    """No detector alarms on the faulty or on the golden run."""
    found = detectors.detect(compare(digits_step(), digits_step()), STEPS, STEPS)
    assert [d.name for d in found] == [
        "nan_guard", "loss_spike", "gradient_norm", "activation_range", "optimizer_bound",
    ]  # fmt: skip
    assert all(d.first is None and not d.false_alarms for d in found)


def test_the_nan_guard_names_the_first_call_and_each_step() -> None:
    """relu*2:0 holds an Inf, addmm*1:0 after it a NaN; the loss of step 1 is NaN."""
    faulty = digits_step()
    faulty.site_columns["posinf"][7] = 1
    faulty.site_columns["nan"][8] = 1
    found = tried("nan_guard", compare(digits_step(), faulty), steps([2.0, nan]))
    assert found.alarms[0].site == "relu*2:0"
    assert found.alarms[0].value == inf
    assert (found.alarms[1].step, found.alarms[1].site) == (1, "")
    assert isnan(found.alarms[1].value)


def test_the_nan_guard_looks_past_what_the_golden_run_holds() -> None:
    """A mask of relu*1:0 is -Inf in both runs; an Inf more there, or any later, is the first."""
    golden, later, there = (digits_step() for _ in range(3))
    mask, relu = golden.row("relu*1:0"), golden.row("relu*2:0")
    for trace in (golden, later, there):
        trace.site_columns["neginf"][mask] = 3
    later.site_columns["neginf"][relu] = 1
    there.site_columns["neginf"][mask], there.site_columns["posinf"][mask] = 2, 1
    found = [tried("nan_guard", compare(golden, faulty)) for faulty in (golden, later, there)]
    assert [[(alarm.site, alarm.value) for alarm in each.caught] for each in found] == [
        [], [("relu*2:0", -inf)], [("relu*1:0", inf)],
    ]  # fmt: skip
    assert not any(each.false_alarms for each in found)


def test_a_nan_of_the_golden_run_is_a_false_alarm() -> None:
    """No mask is NaN: the guard would stop the golden run too."""
    golden = digits_step()
    golden.site_columns["nan"][golden.row("relu*2:0")] = 2
    found = tried("nan_guard", compare(golden, golden))
    assert [alarm.site for alarm in (*found.alarms, *found.false_alarms)] == ["relu*2:0"] * 2
    assert isnan(found.alarms[0].value)
    assert found.first is None


def test_a_loss_spike_is_above_the_median_before() -> None:
    """5 is more than 2 times 2; 3.9 is not."""
    assert tried("loss_spike", faulty=steps([2.0, 5.0])).first == Alarm(1, "", 5.0, 4.0)
    assert tried("loss_spike", faulty=steps([2.0, 3.9])).first is None
    assert tried("loss_spike", faulty=steps([2.0, 3.9]), factor=1.5).first is not None


def test_a_negative_loss_has_the_same_room_above() -> None:
    """Around -2 the limit is -2 + (2 - 1) * 2 = 0, and with a factor of 1.5 it is -1."""
    golden = steps([-2.0, -2.0])
    faulty = steps([-2.0, 0.5])
    compared = compare(digits_step(), digits_step())
    wide, narrow = (
        detectors.detect(compared, golden, faulty, detectors={"loss_spike": {"factor": factor}})[0]
        for factor in (2.0, 1.5)
    )
    assert wide.alarms == (Alarm(1, "", 0.5, 0.0),)
    assert narrow.alarms == (Alarm(1, "", 0.5, -1.0),)
    assert not wide.false_alarms
    assert not narrow.false_alarms


def test_the_gradient_norm_has_a_limit() -> None:
    """101 is above 100, and 100 is not."""
    assert tried("gradient_norm", faulty=steps([2.0], gradients=100.0)).first is None
    assert tried("gradient_norm", faulty=steps([2.0], gradients=101.0)).first == Alarm(
        0, "", 101.0, 100.0
    )


def test_an_activation_leaves_the_golden_range() -> None:
    """Golden -1 to 1 with a margin of a tenth of 2: 1.2 is the bound, 1.3 is beyond."""
    faulty = digits_step()
    faulty.site_columns["max"][7] = 1.3
    found = tried("activation_range", compare(digits_step(), faulty))
    assert found.first == Alarm(0, "relu*2:0", 1.3, 1.2)
    wider = tried("activation_range", compare(digits_step(), faulty), margin=0.2)
    assert wider.first is None


def test_an_optimizer_value_is_far_beyond_the_golden_one() -> None:
    """Golden at most 1, ten times that is 10: -11 is beyond it."""
    faulty = digits_step()
    row = faulty.row("add_*1:0")
    faulty.site_columns["min"][row] = -11.0
    found = tried("optimizer_bound", compare(digits_step(), faulty))
    assert found.first == Alarm(0, "add_*1:0", -11.0, -10.0)


@pytest.mark.parametrize(("low", "high"), [(-10.0, 1.0), (-1.0, 10.0)])
@pytest.mark.parametrize(("value", "alarms"), [(-101, 1), (-99, 0), (99, 0), (101, 1)])
def test_the_bound_of_the_optimizer_is_the_same_on_both_sides(
    low: float, high: float, value: float, alarms: int
) -> None:
    """The largest golden magnitude is 10: from -10 * 10 to 10 * 10 is allowed."""
    golden, faulty = digits_step(), digits_step()
    row = golden.row("add_*1:0")
    for trace in (golden, faulty):
        trace.site_columns["min"][row], trace.site_columns["max"][row] = low, high
    faulty.site_columns["min" if value < 0 else "max"][row] = value
    found = tried("optimizer_bound", compare(golden, faulty)).alarms
    assert found == (Alarm(0, "add_*1:0", value, np.copysign(100.0, value)),) * alarms


@pytest.mark.parametrize(
    ("name", "site", "limit"),
    [("activation_range", "relu*2:0", 1.2), ("optimizer_bound", "add_*1:0", 10.0)],
)
@pytest.mark.parametrize(("kind", "sign"), [("posinf", 1.0), ("neginf", -1.0)])
def test_an_infinity_is_outside_of_every_range(
    name: str, site: str, limit: float, kind: str, sign: float
) -> None:
    """The finite elements stay in the range of -1 to 1; one more Inf than in golden is outside."""
    golden, same, more = (digits_step() for _ in range(3))
    row = golden.row(site)
    for trace, count in ((golden, 1), (same, 1), (more, 2)):
        trace.site_columns[kind][row] = count
    assert tried(name, compare(golden, same)).alarms == ()
    found = tried(name, compare(golden, more)).alarms
    assert found == (Alarm(0, site, sign * inf, sign * limit),)


def test_an_infinity_in_place_of_every_finite_element_is_outside() -> None:
    """Of no finite element there is no minimum and no maximum."""
    faulty = digits_step()
    row = faulty.row("relu*2:0")
    faulty.site_columns["min"][row] = faulty.site_columns["max"][row] = nan
    faulty.site_columns["posinf"][row] = 6
    found = tried("activation_range", compare(digits_step(), faulty)).alarms
    assert found == (Alarm(0, "relu*2:0", inf, 1.2),)


def test_alarms_on_the_golden_run_are_false() -> None:
    """A limit below what training does every day."""
    found = tried("gradient_norm", limit=0.5)
    assert len(found.false_alarms) == 2


def test_a_person_can_register_one() -> None:
    """It is tried like the others; a second of its name is refused."""

    @detectors.register("own")
    def own(observed: Observed, *, limit: float = 1.0) -> Iterable[Alarm]:
        return [detectors.alarm_at_step(r, r.loss, limit) for r in observed.steps if r.loss > limit]

    try:
        assert tried("own").alarms[0] == Alarm(0, "", 2.0, 1.0)
        with pytest.raises(FaultError, match=r"'own' exists already; .*with replace=True"):
            detectors.register("own")(own)
        detectors.register("own", replace=True)(lambda _observed: [])
        assert tried("own").alarms == ()
    finally:
        detectors.unregister("own")
    assert "own" not in detectors.names()


def test_what_is_not_a_persons_own_stays() -> None:
    """It is neither replaced nor removed, and what is not there is named with the nearest."""
    with pytest.raises(FaultError, match=r"'nan_guard' exists already; choose another name$"):
        detectors.register("nan_guard", replace=True)(lambda _observed: [])
    with pytest.raises(FaultError, match="'nan_guard' belongs to fi_notebook and cannot be rem"):
        detectors.unregister("nan_guard")
    with pytest.raises(FaultError, match="no detector 'nan_gard'; did you mean 'nan_guard'"):
        detectors.unregister("nan_gard")
    with pytest.raises(FaultError, match="detector name 'my own' is not a plain word"):
        detectors.register("my own")(lambda _observed: [])


def test_an_unknown_detector_is_refused_with_the_nearest() -> None:
    """The name that was meant is given."""
    with pytest.raises(ValueError, match="no detector 'nan_gard'; did you mean 'nan_guard'"):
        tried("nan_gard")


def test_alarms_come_in_order_of_steps() -> None:
    """Whatever order the detector gives them in."""
    faulty = replace(STEPS[0], loss=nan), replace(STEPS[1], loss=nan)
    assert [alarm.step for alarm in tried("nan_guard", faulty=faulty[::-1]).alarms] == [0, 1]
