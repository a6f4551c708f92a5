from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook.analysis.align import align, describe
from fi_notebook.core.trace import ModuleInfo
from tests.traces import Call, build, digits_step, large

RELU = Call("relu", "act", line=5)
MM = Call("mm", "fc", line=6)


def test_a_trace_with_itself_is_matched_row_by_row() -> None:
    """Every site is its own counterpart, and there is no structural divergence."""
    trace = digits_step()
    alignment = align(trace, trace)
    assert alignment.golden_rows.tolist() == list(range(len(trace)))
    assert alignment.faulty_rows.tolist() == list(range(len(trace)))
    assert alignment.structural == ""


def test_a_call_that_only_the_faulty_run_makes_shifts_nothing() -> None:
    """An extra relu of module act leaves the relu of module head matched."""
    golden = build(RELU, MM, Call("relu", "head", line=7))
    faulty = build(RELU, replace(RELU, line=9), MM, Call("relu", "head", line=7))
    alignment = align(golden, faulty)
    assert alignment.golden_rows.tolist() == [0, -1, 1, 2]
    assert alignment.faulty_rows.tolist() == [0, 1, 2, 3]
    assert alignment.only_faulty.tolist() == [1]
    assert alignment.structural == (
        "only the faulty run makes relu*2:0 (forward, act, run.py:9); "
        "in all, sites: 1 only in the faulty run"
    )


def test_a_call_that_only_the_golden_run_makes_stands_after_its_predecessor() -> None:
    """The lost mm comes between its neighbours, and before everything where it was first."""
    golden = build(MM, RELU, Call("mm", "fc2"), Call("relu", "head"))
    faulty = build(RELU, Call("relu", "head"))
    alignment = align(golden, faulty)
    assert alignment.golden_rows.tolist() == [0, 1, 2, 3]
    assert alignment.faulty_rows.tolist() == [-1, 0, -1, 1]
    assert alignment.structural.startswith("only the golden run makes mm*1:0 (forward, fc, run.py")
    assert alignment.structural.endswith("2 only in the golden run")


def test_another_shape_is_a_structural_divergence_but_matched() -> None:
    """A site whose shape differs is matched and named."""
    golden, faulty = build(RELU), build(replace(RELU, outputs=((2, 4),)))
    alignment = align(golden, faulty)
    assert alignment.matched.tolist() == [0]
    assert "has the shape (2, 3) in the golden run and (2, 4) in the faulty" in alignment.structural


def test_the_shape_tells_which_of_unequally_many_calls_is_which() -> None:
    """Two detaches before the third: only that has the shape of the golden one."""
    row, table = Call("detach", "act", outputs=((3,),)), Call("detach", "act", outputs=((4, 3),))
    alignment = align(build(table, MM), build(row, row, table, MM))
    assert alignment.golden_rows.tolist() == [-1, -1, 0, 1]
    assert alignment.structural == ""  # a detach alone means nothing


def test_what_is_left_of_unequally_many_calls_is_matched_in_order() -> None:
    """The mm of (4, 3) is found; of the other two the first has the place of that of (3, 4)."""
    shapes = [(3, 4), (4, 3)], [(4, 4), (3, 3), (4, 3)]
    traces = (build(*(replace(MM, outputs=(shape,)) for shape in each)) for each in shapes)
    alignment = align(*traces)
    assert alignment.golden_rows.tolist() == [0, -1, 1]
    assert alignment.faulty_rows.tolist() == [0, 1, 2]


def test_equally_many_calls_are_matched_in_order_whatever_their_shape() -> None:
    """A batch of twice the size, in which one call has the shape that another had before."""
    shapes = [(2, 3), (4, 3)], [(4, 3), (8, 3)]
    traces = (build(*(replace(MM, outputs=(shape,)) for shape in each)) for each in shapes)
    assert align(*traces).golden_rows.tolist() == [0, 1]


def test_wrappers_in_module_names_do_not_matter() -> None:
    """A model wrapped by DDP is matched with the bare one."""
    golden = build(MM, modules=(ModuleInfo("fc"),))
    faulty = build(replace(MM, module="module.fc"), modules=(ModuleInfo("module.fc"),))
    assert align(golden, faulty).matched.tolist() == [0]


def test_list_outputs_are_matched_by_their_index() -> None:
    """A list of three against a list of two leaves one site without counterpart."""
    golden = build(Call("_foreach_add_", "fc", indices=3))
    faulty = build(Call("_foreach_add_", "fc", indices=2))
    alignment = align(golden, faulty)
    assert alignment.golden_rows.tolist() == [0, 1, 2]
    assert alignment.faulty_rows.tolist() == [0, 1, -1]


@pytest.mark.parametrize("which", ["golden", "faulty", "both"])
def test_an_empty_trace_matches_nothing(which: str) -> None:
    """A run that crashed before its first call has no counterpart for anything."""
    empty, full = build(), build(RELU, MM)
    golden = empty if which in ("golden", "both") else full
    faulty = empty if which in ("faulty", "both") else full
    alignment = align(golden, faulty)
    assert len(alignment) == max(len(golden), len(faulty))
    assert not len(alignment.matched)


def test_describe_names_phase_module_and_line() -> None:
    """What is empty is left out."""
    trace = build(RELU, Call("mul", "", "optimizer", line=0))
    assert describe(trace, 0) == "relu*1:0 (forward, act, run.py:5)"
    assert describe(trace, 1) == "mul*1:0 (optimizer)"


CALLS = st.lists(
    st.tuples(st.sampled_from(["relu", "mm", "add"]), st.sampled_from(["a", "b", ""])), max_size=12
)


@given(CALLS, CALLS)
def test_every_site_of_either_run_stands_once(first: list, second: list) -> None:
    """Both row columns hold every row once, the faulty run's in execution order."""
    golden, faulty = (build(*(Call(op, module) for op, module in c)) for c in (first, second))
    alignment = align(golden, faulty)
    rows = alignment.faulty_rows[alignment.faulty_rows >= 0]
    assert rows.tolist() == list(range(len(faulty)))
    mine = alignment.golden_rows[alignment.golden_rows >= 0]
    assert sorted(mine.tolist()) == list(range(len(golden)))
    for row in alignment.matched:
        g, f = golden.site(alignment.golden_rows[row]), faulty.site(alignment.faulty_rows[row])
        assert (g.op, g.module) == (f.op, f.module)


def test_a_hundred_thousand_calls_are_aligned() -> None:
    """Size is no reason to fail: all but the one lost call are matched."""
    golden, faulty = large(100_000), large(100_000)
    faulty.calls["op"][70_000] = (faulty.calls["op"][70_000] + 1) % 60
    alignment = align(golden, faulty)
    assert len(alignment.only_faulty) == len(alignment.only_golden) <= 2
    assert np.all(np.diff(alignment.faulty_rows[alignment.faulty_rows >= 0]) == 1)


def test_bare_memory_outside_the_model_is_no_structural_difference() -> None:
    """An `empty` and a `set_` of phase other are lone and silent; in the model they count."""
    bare = [Call("empty", "", phase="other"), Call("set_", "", phase="other", counted=False)]
    alignment = align(build(RELU, MM), build(*bare, RELU, MM))
    assert alignment.golden_rows.tolist() == [-1, -1, 0, 1]
    assert alignment.structural == ""
    both = align(build(RELU, MM, *bare), build(RELU, MM, MM))
    assert both.structural.startswith("only the faulty run makes mm*2:0")
    assert both.structural.endswith("in all, sites: 1 only in the faulty run")
    inside = align(build(RELU), build(RELU, Call("set_", "act")))
    assert inside.structural.startswith("only the faulty run makes set_*1:0")
