from __future__ import annotations

from math import nan

import numpy as np
import pytest

from fi_notebook.analysis.align import align
from fi_notebook.analysis.compare import build, compare
from tests.records import EQUAL_LOSS
from tests.traces import Call, digits_step
from tests.traces import build as trace_of


def test_a_trace_compared_with_itself_is_exactly_equal() -> None:
    """The hash of every output speaks for all of its bits; how it was judged is said."""
    compared = compare(digits_step(), digits_step())
    assert compared.equal
    assert compared.columns["exact"].all()
    assert compared.notes[0] == "no site that both traces have differs"
    assert "the hash of all bits" in compared.notes[1]
    assert compared.loss.golden == compared.loss.faulty == 2.5


def test_statistics_give_lower_bounds() -> None:
    """Norms 2 and 3 are at least 0.5 apart, relative; maxima 1 and 4 at least 3."""
    golden, faulty = digits_step(), digits_step()
    golden.site_columns["norm"][4], faulty.site_columns["norm"][4] = 2.0, 3.0
    faulty.site_columns["max"][4] = 4.0
    compared = compare(golden, faulty)
    assert str(compared.first) == "relu*1:0"
    assert compared.columns["relative_l2"][4] == 0.5  # |3 - 2| / 2
    assert compared.columns["max_abs"][4] == 3.0  # |4 - 1|
    assert compared.columns["changed"][4] == -1
    assert np.isnan(compared.columns["cosine"][4])


def test_equal_nans_are_equal_and_new_ones_counted() -> None:
    """Identical runs with NaNs are equal; two more NaNs are two new ones."""
    golden, faulty = digits_step(), digits_step()
    for trace in (golden, faulty):
        trace.site_columns["nan"][0] = 1
        trace.site_columns["mean"][0] = nan
    assert compare(golden, faulty).equal
    faulty.site_columns["nan"][0] = 3
    assert compare(golden, faulty).columns["new_nan"][0] == 2


def test_measures_take_the_place_of_statistics_where_there_are_any() -> None:
    """A row swap leaves the statistics alone; the measure of the tensor finds it."""
    golden = digits_step()
    measures = {name: np.full(len(golden), nan) for name in ("changed", "relative_l2", "cosine")}
    measures["changed"][4], measures["relative_l2"][4], measures["cosine"][4] = 6, 0.3, 0.95
    measures["changed"][5] = 0
    compared = build(golden, golden, align(golden, golden), measures, loss=EQUAL_LOSS)
    columns = compared.columns
    assert compared.diverged.tolist() == [4]
    assert [columns[name][4] for name in measures] == [6, 0.3, 0.95]
    assert columns["exact"].all()  # rows 4 and 5 were measured, the others have equal hashes
    assert (columns["equal"][5], columns["changed"][5]) == (True, 0)


def test_a_sampled_row_says_so() -> None:
    """An engine that saw a sample only gives exact 0."""
    golden = digits_step()
    ones = np.ones(len(golden))
    measures = {"equal": ones, "exact": ones * 0}
    compared = build(golden, golden, align(golden, golden), measures, loss=EQUAL_LOSS)
    assert compared.equal
    assert not compared.columns["exact"].any()


def test_a_sample_that_missed_the_error_does_not_hide_it() -> None:
    """Of row 4 the sample found nothing; the norms, 1 and 101, and the largest values differ."""
    golden, faulty = digits_step(), digits_step()
    for trace, norm in ((golden, 1.0), (faulty, 101.0)):
        trace.site_columns["norm"][4] = trace.site_columns["max"][4] = norm
    measures = {name: np.zeros(len(golden)) for name in ("relative_l2", "max_abs", "exact")}
    measures |= {"equal": np.ones(len(golden)), "changed": np.zeros(len(golden))}
    measures["equal"][4], measures["changed"][4] = 0, 1
    compared = build(golden, faulty, align(golden, faulty), measures, loss=EQUAL_LOSS)
    assert compared.diverged.tolist() == [4]
    assert compared.columns["relative_l2"][4] >= 100
    assert compared.columns["max_abs"][4] == 100


@pytest.mark.parametrize(
    ("golden", "faulty", "sampled", "expected"),
    [
        (0, 5, 9, 5),  # golden has none: all that are there are new
        (0, 5, 0, 5),
        (0, 0, 3, 0),
        (4, 6, 9, 6),  # at most those that are there
        (4, 6, 0, 2),  # at least those that are more
        (4, 6, 3, 3),
    ],
)
def test_counts_of_a_sample_lie_within_what_statistics_tell(
    golden: int, faulty: int, sampled: int, expected: int
) -> None:
    """New NaNs are as many as there are more, or up to all that are there."""
    traces = digits_step(), digits_step()
    for trace, count in zip(traces, (golden, faulty), strict=True):
        trace.site_columns["nan"][4] = trace.site_columns["neginf"][4] = count
    measures = {name: np.zeros(len(traces[0])) for name in ("equal", "exact")}
    measures |= {name: np.full(len(traces[0]), sampled) for name in ("new_nan", "new_inf")}
    columns = build(*traces, align(*traces), measures, loss=EQUAL_LOSS).columns
    assert (columns["new_nan"][4], columns["new_inf"][4]) == (expected, expected)


def test_the_hash_finds_what_statistics_cannot() -> None:
    """A row swap leaves every statistic as it was; only the hash of row 4 differs."""
    golden, faulty = digits_step(), digits_step()
    faulty.site_columns["hash"][4] += 1
    compared = compare(golden, faulty)
    assert compared.diverged.tolist() == [4]
    assert not compared.columns["exact"][4]
    assert compared.columns["relative_l2"][4] == 0  # the lower bound of what is not known
    assert compared.columns["changed"][4] == -1


def test_another_dtype_is_not_bit_equal_but_may_be_within_a_tolerance() -> None:
    """Norms 2 and 2.01 are 0.005 apart: within 1 %, beyond 0.1 %."""
    golden, faulty = trace_of(Call("mm", "a")), trace_of(Call("mm", "a", dtype="bfloat16"))
    golden.site_columns["norm"][0], faulty.site_columns["norm"][0] = 2.0, 2.01
    assert not compare(golden, faulty).equal
    assert compare(golden, faulty, tolerance=0.01).columns["equal"].all()
    beyond = compare(golden, faulty, tolerance=0.001)
    assert beyond.notes[0] == (
        "the traces first differ by more than the relative tolerance 0.001 "
        "at mm*1:0 (forward, a, run.py:1); relative L2 at least 0.005"
    )
    with pytest.raises(ValueError, match="tolerance is -1; expected a number from 0"):
        compare(golden, faulty, tolerance=-1)


def test_means_and_deviations_bound_the_distance_where_norms_agree() -> None:
    """Six elements whose mean moved by 0.5: at least sqrt(6 * 0.25) = 1.2247, norm 2.4495."""
    golden, faulty = trace_of(Call("mm", "a")), trace_of(Call("mm", "a"))
    faulty.site_columns["mean"][0] = 0.5
    found = compare(golden, faulty).columns["relative_l2"][0]
    assert found == pytest.approx(0.5)  # sqrt(1.5) / sqrt(6)


def test_settings_that_differ_are_named() -> None:
    """Two machines: threads and versions, not what the runs gave."""
    golden = trace_of(Call("mm", "a"), info={"threads": 1, "torch": "2.13.0", "loss": 1.0})
    faulty = trace_of(Call("mm", "a"), info={"threads": 8, "torch": "2.13.0", "loss": 2.0})
    assert compare(golden, faulty).notes[2] == "the runs have other settings: threads 1 and 8"


@pytest.mark.parametrize("op", ["empty_like", "empty_permuted"])
def test_memory_that_was_never_written_is_no_difference(op: str) -> None:
    """What ``empty_like`` gives is whatever lay there."""
    golden, faulty = trace_of(Call(op, "a")), trace_of(Call(op, "a"))
    faulty.site_columns["hash"][0] += 1
    assert compare(golden, faulty).equal


def test_lone_sites_are_unequal_and_unmeasured() -> None:
    """A call that only the faulty run makes has no measure at all."""
    golden, faulty = trace_of(Call("mm", "a")), trace_of(Call("mm", "a"), Call("relu", "b"))
    compared = compare(golden, faulty)
    assert compared.columns["golden"].tolist() == [0, -1]
    assert compared.columns["equal"].tolist() == [True, False]
    assert compared.effect(1) == "structural"
    assert compared.structural.startswith("only the faulty run makes relu*1:0")
    assert str(compared.first) == "relu*1:0"


@pytest.mark.parametrize("op", ["set_", "empty_permuted"])
def test_lone_memory_outside_the_model_is_no_difference(op: str) -> None:
    """What a data loader's worker hands over in one run alone counts as equal."""
    bare = Call(op, phase="other")
    for golden, faulty in ((trace_of(bare), trace_of()), (trace_of(), trace_of(bare))):
        compared = compare(golden, faulty)
        assert compared.columns["equal"].tolist() == [True]
        assert compared.effect(0) == "equal"
        assert compared.structural == ""


def test_the_first_difference_may_be_a_call_that_one_run_makes() -> None:
    """The lone mean comes before the mm that both make, whose norms 2 and 3 differ by half."""
    golden = trace_of(Call("mean", "a"), Call("mm", "b"))
    faulty = trace_of(Call("sum", "a"), Call("mm", "b"))
    assert compare(golden, faulty).notes[0] == (
        "the traces first differ in their calls: only the golden run makes mean*1:0 (forward, a, "
        "run.py:1); in all, sites: 1 only in the golden run, 1 only in the faulty run"
    )
    golden.site_columns["norm"][1], faulty.site_columns["norm"][1] = 2.0, 3.0
    assert (
        compare(golden, faulty)
        .notes[0]
        .endswith(
            "1 only in the faulty run; of what both have, the first that differs is "
            "mm*1:0 (forward, b, run.py:1); relative L2 at least 0.5"
        )
    )
    beyond = compare(golden, faulty, tolerance=0.1).notes[0]
    assert "the first that differs by more than the relative tolerance 0.1 is mm*1:0" in beyond


def test_sites_of_one_name_are_told_apart_in_the_table() -> None:
    """The div of module a is the faulty run's alone; that of b is the first of the golden run."""
    golden = trace_of(Call("div", "b"))
    faulty = trace_of(Call("div", "a"), Call("relu", "a"), Call("div", "b"))
    assert compare(golden, faulty).to_pandas()["site"].tolist() == [
        "div*1:0 (faulty run)", "relu*1:0", "div*1:0",
    ]  # fmt: skip


def test_a_measure_that_could_not_be_taken_is_not_0_where_outputs_differ() -> None:
    """A row swap of bools leaves the statistics alone; a bool has no ULPs, and 2 changed."""
    golden = digits_step()
    measures = {name: np.zeros(len(golden)) for name in ("equal", "changed", "max_ulp")}
    measures["changed"][4], measures["max_ulp"][4] = 2, nan
    columns = build(golden, golden, align(golden, golden), measures, loss=EQUAL_LOSS).columns
    assert columns["changed"][4] == 2
    assert np.isnan(columns["max_ulp"][4])
    assert np.isnan(columns["max_rel"][4])
    assert columns["sign_flips"][4] == -1
    assert columns["relative_l2"][4] == 0  # the lower bound of what is not known


@pytest.mark.parametrize("shape", [(2, 4), (3, 2)])
def test_outputs_of_other_shapes_have_no_distance(shape: tuple[int, int]) -> None:
    """No element is the counterpart of another, be there as many or not."""
    golden, faulty = (trace_of(Call("mm", "a", outputs=(s,))) for s in ((2, 3), shape))
    faulty.site_columns["norm"][0], faulty.site_columns["max"][0] = 5.0, 4.0
    columns = compare(golden, faulty).columns
    assert np.isnan(columns["relative_l2"][0])
    assert np.isnan(columns["max_abs"][0])
    assert not compare(golden, faulty, tolerance=10.0).equal


def test_another_shape_is_not_equal() -> None:
    """Same statistics but 6 against 8 elements."""
    shapes = [trace_of(Call("mm", "a", outputs=(shape,))) for shape in ((2, 3), (2, 4))]
    shapes[1].site_columns["norm"][:] = shapes[0].site_columns["norm"]
    compared = compare(*shapes)
    assert not compared.equal
    assert compared.columns["numel"].tolist() == [8]


@pytest.mark.parametrize(
    ("measures", "message"),
    [
        ({"changd": np.zeros(18)}, "no measure 'changd'; did you mean 'changed'"),
        ({"changed": np.zeros(3)}, "'changed' has 3 entries; expected one per site .* 18"),
    ],
)
def test_measures_that_cannot_be_are_refused(measures: dict, message: str) -> None:
    """An unknown name and a wrong length are named."""
    golden = digits_step()
    assert len(golden) == 18
    with pytest.raises(ValueError, match=message):
        build(golden, golden, align(golden, golden), measures, loss=EQUAL_LOSS)
