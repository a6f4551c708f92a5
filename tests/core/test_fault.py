from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fi_notebook.core.fault import Anchor, Fault, FaultPlan
from fi_notebook.core.site import Site, Target
from fi_notebook.core.steps import Steps

RELU = Fault("f1", Target.parse("relu*2:0"), "bitflip", {"bit": 31}, {"index": [0, 3]})


def test_a_fault_is_one_line_for_people() -> None:
    """Name, model, parameters, elements, target and steps stand in it."""
    fault = Fault("f1", RELU.target, "bitflip", {"bit": 31}, {"index": [0, 3]}, Steps.parse(0))
    assert str(fault) == "f1: bitflip(bit=31) on element [0, 3] of relu*2:0, step 0"


@pytest.mark.parametrize(
    ("model", "parameters", "expected"),
    [
        ("bitflip", {}, "bitflip(random bit)"),
        ("bitflip", {"bit": 0}, "bitflip(bit=0)"),
        ("bitflip", {"part": "imag"}, "bitflip(part='imag', random bit)"),
        ("bitflip", {"ber": 0.5}, "bitflip(ber=0.5)"),
        ("burst", {"length": 3}, "burst(length=3, random bit)"),
        ("zero", {}, "zero"),
    ],
)
def test_a_bit_that_is_drawn_is_named(
    model: str, parameters: dict[str, object], expected: str
) -> None:
    """The line says so where no bit is given; the parameters stay as they are."""
    fault = Fault("f1", Target.parse("relu*1:0"), model, parameters)
    assert str(fault) == f"f1: {expected} at relu*1:0, every step"
    assert fault.parameters == parameters
    assert str(Fault("f2", RELU.target, "zero")) == "f2: zero at relu*2:0, every step"


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ("all", "at"),
        ("nonzero", "on nonzero of"),
        ({"index": [0, 3]}, "on element [0, 3] of"),
        ({"index": [[0, 1], [2, 3]]}, "on elements [0, 1], [2, 3] of"),
        ({"count": 1}, "on 1 drawn element of"),
        ({"count": 5}, "on 5 drawn elements of"),
        ({"fraction": 0.1}, "on fraction 0.1 of"),
        ({"row": 3}, "on row 3 of"),
        ({"row": [5, 7]}, "on row 5, 7 of"),
        ({"block": {"shape": [3, 3]}}, "on block of 3 × 3 of"),
        ({"block": {"shape": [3, 3], "at": [0, 2, 0, 0]}}, "on block of 3 × 3 at [0, 2, 0, 0] of"),
        ({"run": {"length": 16, "start": 4}}, "on run of 16 from 4 of"),
    ],
)
def test_elements_are_told_in_the_words_of_the_page(elements: Any, expected: str) -> None:
    """A plan names a selection as the explorer's bar does, which arms it."""
    fault = Fault("f1", RELU.target, "nan", elements=elements, steps=Steps.parse(0))
    assert str(fault) == f"f1: nan {expected} relu*2:0, step 0"


def test_faults_can_be_kept_in_sets() -> None:
    """Equal faults have one hash, though their parameters are a mapping."""
    assert len({RELU, Fault("f1", RELU.target, "bitflip", {"bit": 31}, {"index": [0, 3]})}) == 1


def test_a_plan_is_changed_by_making_another() -> None:
    """Adding appends or replaces in place; removing keeps the rest in order."""
    other = Fault("f2", Target.parse("mm"), "zero")
    plan = FaultPlan().with_fault(RELU).with_fault(other)
    louder = Fault("f1", RELU.target, "scale", {"factor": 2.0})
    assert [fault.model for fault in plan.with_fault(louder)] == ["scale", "zero"]
    assert list(plan.without("f1")) == [other]
    assert len(plan) == 2
    assert plan[0] is plan["f1"] is RELU
    with pytest.raises(KeyError, match=r"^the plan holds no fault"):
        plan["f3"]


def test_a_bit_has_its_field_where_the_dtype_is_known() -> None:
    """The dtype is no part of the fault: equal without it, and in no file."""
    bare = Fault("f1", RELU.target, "bitflip", {"bit": 30, "part": None})
    known = replace(bare, dtype="float32")
    assert str(known) == "f1: bitflip(bit=30 (exponent), part=None) at relu*2:0, every step"
    assert (known == bare, FaultPlan((known,)).to_dict()) == (True, FaultPlan((bare,)).to_dict())


def test_a_plan_is_a_line_for_each_fault() -> None:
    """Faults that are switched off say so, and an empty plan says that it is empty."""
    off = Fault("f2", Target.parse("mm"), "zero", enabled=False)
    assert str(FaultPlan((RELU, off))).splitlines()[1] == "f2: zero at mm, every step (off)"
    assert str(FaultPlan()) == "no fault is armed"


def test_the_anchor_of_a_site() -> None:
    """Phase, module, module call and ordinal are kept, and nothing else."""
    site = Site("relu", 2, phase="forward", module="act", module_call=2, ordinal=1)
    assert Anchor.of(site) == Anchor("forward", "act", 2, 1)


def test_plans_go_through_files(tmp_path: Path) -> None:
    """`save` and `load` are inverse, and so are `to_dict` and `load`."""
    plan = FaultPlan((RELU,), modules=("act",), log_steps=Steps.parse("0-3"))
    plan.save(tmp_path / "injector.json")
    assert FaultPlan.load(tmp_path / "injector.json") == plan
    assert FaultPlan.load(plan.to_dict()) == plan
    assert FaultPlan.load(plan) is plan
