from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

from fi_notebook.analysis.effects import NONFINITE, assign_effects, nonfinite, producers
from fi_notebook.core.run import EFFECTS
from tests.records import comparison
from tests.traces import Call, build

CHAIN = build(
    Call("mm", "a"),
    Call("relu", "b", inputs=(0,)),
    Call("mul", "c", inputs=(1,)),
    Call("sum", "d", inputs=(2,)),
)


def effects(errors: list[float], growth: float = 2.0) -> list[str]:
    """The effects along the chain mm, relu, mul, sum for these errors."""
    names = ("mm*1:0", "relu*1:0", "mul*1:0", "sum*1:0")
    compared = comparison(dict(zip(names, errors, strict=True)), CHAIN)
    return [EFFECTS[code] for code in assign_effects(CHAIN, compared.columns, growth=growth)]


def test_an_error_is_introduced_passed_on_and_masked() -> None:
    """It enters at relu, mul keeps its size within a factor of 2, sum is bit-equal."""
    assert effects([0, 0.1, 0.11, 0]) == ["equal", "introduced", "passed on", "masked"]


def test_an_error_is_amplified_and_attenuated() -> None:
    """0.1 to 0.3 is 3 times larger; 0.3 to 0.1 is 3 times smaller; both beyond 2."""
    assert effects([0.1, 0.3, 0.1, 0.1]) == ["introduced", "amplified", "attenuated", "passed on"]


def test_what_was_struck_is_introduced_whatever_came_in() -> None:
    """The error at mul is that of a second fault, and no growth of the first; sum stays equal."""
    compared = comparison({"relu*1:0": 0.01, "mul*1:0": 0.5}, CHAIN)
    struck = np.array([False, True, True, True])
    found = assign_effects(CHAIN, compared.columns, struck=struck)
    assert [EFFECTS[code] for code in found] == ["equal", "introduced", "introduced", "masked"]


def test_the_factor_is_an_argument() -> None:
    """With a factor of 5 the same errors are passed on; below 1 is refused."""
    assert effects([0.1, 0.3, 0.1, 0.1], growth=5.0)[1:] == ["passed on"] * 3
    with pytest.raises(ValueError, match=r"growth is 0\.5; expected a factor of at least 1"):
        effects([0, 0, 0, 0], growth=0.5)


def test_an_infinite_relative_error_is_the_largest() -> None:
    """Where the golden norm is 0 the relative error is infinite: amplified, then passed on."""
    assert effects([0.1, inf, inf, 0.1]) == [
        "introduced", "amplified", "passed on", "attenuated",
    ]  # fmt: skip


def test_an_unmeasured_input_is_passed_on() -> None:
    """Nothing is claimed about an error that was not measured."""
    compared = comparison({"mm*1:0": 0.1, "relu*1:0": 0.9}, CHAIN)
    compared.columns["relative_l2"][0] = nan
    assert EFFECTS[assign_effects(CHAIN, compared.columns)[1]] == "passed on"


def test_new_nan_counts_before_the_finite_error() -> None:
    """A first NaN is an amplification whatever the finite elements do; losing it attenuates."""
    compared = comparison(dict.fromkeys(("mm*1:0", "relu*1:0", "mul*1:0"), 0.1), CHAIN)
    compared.columns["new_nan"][1] = 1
    codes = assign_effects(CHAIN, compared.columns)
    assert [EFFECTS[code] for code in codes] == ["introduced", "amplified", "attenuated", "masked"]


def test_a_site_without_counterpart_is_structural() -> None:
    """A row of only one run is neither equal nor introduced."""
    compared = comparison({}, CHAIN)
    compared.columns["golden"][2], compared.columns["equal"][2] = -1, False
    assert EFFECTS[assign_effects(CHAIN, compared.columns)[2]] == "structural"


def test_the_worst_of_several_inputs_counts() -> None:
    """An add of errors 0.1 and 0.01 that gives 0.15 passes on the larger."""
    trace = build(Call("mm", "a"), Call("mm", "b"), Call("add", "c", inputs=(0, 1)))
    compared = comparison({"mm*1:0": 0.1, "mm*2:0": 0.01, "add*1:0": 0.15}, trace)
    assert [compared.effect(row) for row in range(3)] == ["introduced", "introduced", "passed on"]


def test_producers_of_nan_are_told_from_those_that_pass_it_on() -> None:
    """The mm is finite, relu makes an Inf, mul a NaN of it, sum gives a finite number."""
    CHAIN.site_columns["posinf"][1] = CHAIN.site_columns["nan"][2] = 1
    words = [NONFINITE[code] for code in nonfinite(CHAIN)]
    made = producers(CHAIN)
    CHAIN.site_columns["posinf"][1] = CHAIN.site_columns["nan"][2] = 0
    assert words == ["finite", "produced", "passed on", "absorbed"]
    assert made.tolist() == [1]


def test_statistics_that_were_not_taken_count_as_finite() -> None:
    """-1 is no NaN."""
    trace = build(Call("mm", "a"))
    trace.site_columns["nan"][:] = trace.site_columns["posinf"][:] = -1
    assert np.array_equal(nonfinite(trace), [0])


def test_an_output_of_which_nothing_is_known_masks_nothing() -> None:
    """Memory that was never written has no statistics: neither masked nor different."""
    compared = comparison({"mm*1:0": 0.1}, CHAIN)
    compared.columns["relative_l2"][1] = nan
    assert EFFECTS[assign_effects(CHAIN, compared.columns)[1]] == "equal"


def test_what_was_not_looked_at_is_not_said_to_absorb_nan() -> None:
    """The neg of a NaN is finite: it absorbs it. Of the abs no statistics were taken."""
    trace = build(Call("log", "a"), Call("neg", "b", inputs=(0,)), Call("abs", "c", inputs=(0,)))
    trace.site_columns["nan"][:] = [1, 0, -1]
    assert [NONFINITE[code] for code in nonfinite(trace)] == ["produced", "absorbed", "finite"]
