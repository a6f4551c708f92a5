"""The plan of a session: arm, disarm, undo, and what may be undone."""

from __future__ import annotations

import dataclasses
import pickle
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fi_notebook.core.fault import Fault, FaultPlan
from fi_notebook.core.site import Target
from fi_notebook.core.steps import Steps
from fi_notebook.engine import arming
from fi_notebook.errors import FaultError, SessionError, SiteError
from fi_notebook.session import FaultWarning, Session
from tests.models import cnn, tied_weights


def _session() -> Session:
    made = cnn()
    session = Session(made.step, model=made.model, optimizer=made.optimizer)
    session.trace()
    return session


def test_undo_and_redo_say_whether_they_can() -> None:
    """Nothing to undo at first; after a change there is, after an undo there is to redo."""
    session = _session()
    assert (session.can_undo, session.can_redo) == (False, False)
    session.arm("relu*1:0", "zero")
    assert (session.can_undo, session.can_redo) == (True, False)
    session.undo()
    assert (session.can_undo, session.can_redo) == (False, True)
    assert len(session.plan) == 0
    session.redo()
    assert [str(fault.target) for fault in session.plan] == ["relu*1:0"]


def test_of_an_earlier_plan_what_still_fits_is_taken_over() -> None:
    """In one change, with all that the faults say; the others are left out, each with its reason.

    The model has two relu of its own, of which the first was the second of another step.
    """
    earlier, session = _session(), _session()
    fits = earlier.arm("relu*1:0", "bitflip", bit=30, steps="0-", elements={"index": [0, 1, 2, 3]})
    moved = replace(earlier.arm("relu*2:0", "zero"), target=fits.target, id="moved")
    few, gone, off = (
        Fault("few", Target.parse("relu*9:0"), "zero"),
        Fault("gone", Target.parse("param:conv9.weight"), "zero"),
        Fault("off", Target.parse("param:conv1.weight"), "zero", enabled=False),
    )
    plan = FaultPlan((fits, moved, few, gone, off), log_steps=Steps.parse(3))
    taken, unfit = session.take_over(plan)
    assert taken == session.plan
    assert [fault.id for fault in taken] == [fits.id, "off"]
    assert (taken[fits.id], taken["off"].enabled) == (earlier.plan[fits.id], False)
    assert taken.log_steps == plan.log_steps
    assert unfit[:2] == (
        "moved: relu*1:0 is another call now",
        "few: asked for call 9 of relu, 2 were made",
    )
    assert unfit[2].startswith("gone: no param 'conv9.weight'; did you mean ")
    assert len(session.undo()) == 0


def test_a_plan_is_taken_over_after_the_golden_run_alone() -> None:
    """Before it nothing tells whether a fault fits."""
    made = cnn()
    session = Session(made.step, model=made.model, optimizer=made.optimizer)
    with pytest.raises(SessionError, match=r"nothing was traced yet; call trace\(\) first"):
        session.take_over(FaultPlan())


def test_a_bit_has_its_field_once_the_step_is_traced() -> None:
    """Of calls the golden run tells the dtype, of stored tensors the model; of states nobody."""
    made = cnn()
    session = Session(made.step, model=made.model, optimizer=made.optimizer)
    assert str(session.arm("relu*1:0", "bitflip", bit=30)).startswith("f1: bitflip(bit=30) at")
    session.arm("param:*.weight", "bitflip", bit=[31, 22])
    session.arm("state:*.exp_avg", "bitflip", bit=3)
    session.trace()
    assert [str(fault).split(" ", 1)[1].rpartition(" at ")[0] for fault in session.plan] == [
        "bitflip(bit=30 (exponent))",
        "bitflip(bit=[31, 22] (sign, mantissa))",
        "bitflip(bit=3)",
    ]
    session.disarm("f2")
    assert str(session.undo()["f2"]) == str(session.plan["f2"])
    assert str(session.replay().plan["f1"]) == str(session.plan["f1"])


def test_a_bit_has_its_field_under_each_name_of_a_tied_parameter() -> None:
    """The head's weight is the embedding's: a fault on either says the same of its bit."""
    made = tied_weights()
    session = Session(made.step, model=made.model, optimizer=made.optimizer)
    names = [n for n, _ in made.model.named_parameters(remove_duplicate=False) if "weight" in n]
    assert len(names) > len([n for n, _ in made.model.named_parameters() if "weight" in n])
    for name in names:
        assert "bitflip(bit=30 (exponent))" in str(session.arm(f"param:{name}", "bitflip", bit=30))


def test_the_dtype_of_a_fault_is_looked_up_once_for_each_golden_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Arming or switching one looks up that one alone, disarming and undoing none."""
    session, looked_up = _session(), []
    plain = arming.typed

    def counting(fault: Fault, *rest: Any) -> Fault:
        looked_up.append(fault.id)
        return plain(fault, *rest)

    monkeypatch.setattr(arming, "typed", counting)
    for _ in range(4):
        session.arm("relu*1:0", "bitflip", bit=30)
    session.disarm("f1")
    session.undo()
    session.set_enabled("f2", enabled=False)
    assert looked_up == ["f1", "f2", "f3", "f4", "f2"]
    session.trace()
    assert str(session.plan[0]).startswith("f1: bitflip(bit=30 (exponent))")
    assert looked_up[5:] == ["f1", "f2", "f3", "f4"]


def test_a_parameter_may_be_called_model() -> None:
    """``corrupt_rank(model=…)`` reaches the fault model; it is no second fault model."""
    made = cnn()
    session = Session(made.step, model=made.model)
    fault = session.arm("c10d::allreduce_*1:0", "corrupt_rank", rank=0, model="negate")
    assert dict(fault.parameters) == {"rank": 0, "model": "negate"}


def test_kept_is_the_golden_tensor_and_runs_nothing() -> None:
    """What was kept is what ``trace.value`` gives; an unknown site has nothing kept."""
    session = _session()
    golden = session.golden
    assert golden is not None
    site = next(s for s in golden.sites if s.op.startswith("relu"))
    kept = session.kept(site)
    assert kept is not None
    assert torch.equal(kept, golden.value(site))
    assert session.kept("relu*99:0") is None


def test_the_values_of_a_site_are_drawn_without_a_replay() -> None:
    """The golden ones; before there is a trace the error says what to do."""
    session = _session()
    drawn = session.figures.values("relu*1:0").data[0]
    kept = session.trace().value("relu*1:0")
    assert np.array_equal(np.asarray(drawn.customdata), kept.flatten(2).flatten(0, 1).numpy())
    with pytest.raises(SiteError, match="asked for call 9 of relu"):
        session.figures.values("relu*9:0")
    made = cnn()
    with pytest.raises(SessionError, match=r"call trace\(\) first"):
        Session(made.step, model=made.model).figures.values("relu*1:0")


def test_a_text_filter_is_one_filter_and_not_its_letters() -> None:
    """``modules="10"`` is module 10, not modules 1 and 0; code and phases likewise."""
    net = nn.Sequential(*[nn.Linear(2, 2) for _ in range(12)])
    session = Session(lambda: net(torch.ones(1, 2)).sum().backward(), model=net)
    session.trace()
    fault = session.arm("addmm", "scale", factor=2.0, modules="10", phases="forward")
    assert (fault.modules, fault.phases) == (("10",), ("forward",))
    assert [i.site.module for i in session.replay().injections] == ["10"]
    assert session.arm("addmm", "zero", code="test_planned.py").code == ("test_planned.py",)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"modules": [3]}, "modules is \\[3\\]; expected a text or a list of texts"),
        ({"phases": 5}, "phases is 5; expected a text or a list of texts"),
        ({"seed": -1}, "seed is -1; expected a whole number from 0 below"),
        ({"seed": 2**70}, "expected a whole number from 0 below"),
        ({"seed": True}, "seed is True; expected a whole number"),
        ({"times": 1.5}, "times is 1.5; expected a whole number from 1"),
        ({"times": 2**63}, "times is 9223372036854775808; expected a whole number from 1 below"),
        ({"probability": "x"}, "probability is 'x'; expected a number from 0 to 1"),
        ({"probability": None}, "probability is None; expected a number from 0 to 1"),
        ({"scope": None}, "no scope None; expected one of 'value'"),
        ({"id": ""}, "id is ''; expected a text such as 'f1'"),
        ({"id": 5}, "id is 5; expected a text such as 'f1'"),
    ],
)
def test_what_no_plan_could_hold_is_refused_when_armed(given: dict[str, Any], message: str) -> None:
    """What was clicked can be saved and read again: anything else is refused at once."""
    made = cnn()
    session = Session(made.step, model=made.model)
    with pytest.raises(FaultError, match=message):
        session.arm("relu*1:0", "zero", **given)
    assert len(session.plan) == 0


def test_an_armed_fault_does_not_change_with_what_the_caller_holds() -> None:
    """The elements are copied as plain values; a tensor of coordinates is one of them."""
    made = cnn()
    session = Session(made.step, model=made.model)
    elements = {"index": [0, 0, 0, 0]}
    fault = session.arm("relu*1:0", "zero", elements=elements)
    elements["index"][0] = 2
    assert fault.elements == session.plan[0].elements == {"index": [0, 0, 0, 0]}
    fault = session.arm("relu*1:0", "zero", elements={"index": torch.tensor([0, 3, 0, 0])})
    assert fault.elements == {"index": [0, 3, 0, 0]}
    assert FaultPlan.load(session.plan.to_dict()) == session.plan


def test_a_selection_of_one_site_is_that_site() -> None:
    """What ``find`` gives can be armed where it is one site; else the error says to pass one."""
    made = cnn()
    session = Session(made.step, model=made.model)
    relu = session.trace().find("relu*1")
    assert session.arm(relu, "zero").target == relu[0].target
    with pytest.raises(SiteError, match=r"not at 2 sites; pass one of them, such as sites\[0\]"):
        session.arm([*relu, *relu], "zero")
    with pytest.raises(SiteError, match="not at 0 sites"):
        session.arm([], "zero")


def test_a_module_where_an_operator_belongs_is_told_apart() -> None:
    """``arm("conv1", …)`` says that it is a module and what that module calls."""
    made = cnn()
    session = Session(made.step, model=made.model)
    golden = session.trace()
    name = next(i.path for i in golden.tables.modules if i.kind == "Conv2d")
    with pytest.warns(FaultWarning, match=f"'{name}' is a module: name an operator, with modules"):
        session.arm(name, "zero")


def test_a_warning_stands_at_the_line_that_called() -> None:
    """Whichever way a fault that does not fit comes into the plan."""
    session = _session()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")  # each, though they stand at lines of one test
        fault = session.arm("relu*99:0", "zero")
        session.disarm()
        session.add(fault)
        session.load_plan(FaultPlan((fault,)))
    assert [each.category for each in told] == [FaultWarning] * 3
    assert [each.filename for each in told] == [__file__] * 3


def test_steps_and_evaluate_are_checked_before_anything_runs() -> None:
    """Text, fractions and booleans are no number of steps; a number is no callable."""
    session = _session()
    for steps in ("2", 1.5, True, 0):
        with pytest.raises(SessionError, match="expected a whole number from 1"):
            session.replay(steps=steps)  # type: ignore[arg-type]  # what the test is about
    with pytest.raises(SessionError, match="evaluate is 5; expected a callable"):
        session.replay(evaluate=5)  # type: ignore[arg-type]  # what the test is about


def test_what_a_cell_shows_is_short() -> None:
    """Faults, sites, outcomes and runs show what a person wants to know, in one line."""
    session = _session()
    fault = session.arm("relu*1:0", "zero")
    run = session.replay()
    assert repr(fault) == "<Fault f1: zero at relu*1:0, step 0>"
    assert repr(run).startswith("<Run of 1 of 1 step, 1 injection; changed: f1 struck relu*1:0")
    assert repr(run.outcome).startswith("<Outcome changed: ")
    assert repr(run.injections[0].site).startswith("<Site relu*1:0 forward ")
    assert repr(run.injections[0]) == (
        f"<Injection of f1 at relu*1:0 in step 0: {run.injections[0].changed} elements changed>"
    )
    assert repr(run.comparison).startswith("<Comparison: ")
    assert repr(run.comparison).endswith(" sites differ, first relu*1:0; to_pandas()>")
    told = (fault, run, run.outcome, run.comparison, run.injections[0])
    assert all("\n" not in repr(each) and len(repr(each)) < 400 for each in told)


def test_saving_into_no_folder_names_it(tmp_path: Path) -> None:
    """The error names the path that was given, not a file that the package makes."""
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nodir; make it first"):
        _session().plan.save(tmp_path / "nodir" / "injector.json")


def test_places_that_a_kernel_does_not_check_are_warned_of() -> None:
    """The indices of max pooling, which its backward reads; its values are not."""
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2))
    x = torch.randn(1, 1, 6, 6)
    session = Session(lambda: model(x).sum().backward(), model=model)
    session.trace()
    said = "max_pool2d_with_indices_backward takes unseen"
    with pytest.warns(
        FaultWarning, match=f"max_pool2d_with_indices\\*1:1 holds places that {said}"
    ):
        session.arm("max_pool2d_with_indices*1:1", "bitflip", bit=40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.arm("max_pool2d_with_indices*1:0", "bitflip", bit=30)


def test_names_that_a_person_types_lead_to_what_there_is() -> None:
    """A class of modules, a parameter, a kind that is nearly one, a call of another micro batch."""
    session = _session()
    for target, said in (
        ("Linear", "modules of class Linear make t, addmm"),
        ("fc.weight", "'fc.weight' is a parameter: write 'param:fc.weight' or 'grad:fc.weight'"),
    ):
        with pytest.warns(FaultWarning, match=said):
            session.arm(target, "zero")
    with pytest.raises(SiteError, match="did you mean 'param'"):
        session.arm("params:fc.weight", "zero")
    with pytest.warns(FaultWarning, match="numbered through the whole step"):
        session.arm("relu*1:0", "zero", micro_batches=[0], modules=["conv1"])


def test_an_operator_leads_to_its_backward_call_alone() -> None:
    """``native_layer_norm`` leads to its backward, also by number; ``add`` not to ``addmm``."""
    model, x = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4)), torch.randn(3, 4)
    session = Session(lambda: (model(x + 1) + 1).sum().backward(), model=model)
    session.trace()
    said = []
    for target, phase in (("native_layer_norm*1", "backward"), ("add", "forward")):
        with pytest.warns(FaultWarning) as warned:
            session.arm(target, "zero", phases=[phase])
        said.append(str(warned[0].message))
    assert said[0].endswith("; 'native_layer_norm_backward' has calls there")
    assert "; '" not in said[1]


def test_a_number_that_stays_zero_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """`def step(i=0)` runs without its number; ``scale=1.0`` and ``verbose=0`` are settings."""
    made = cnn()
    Session(lambda i=0: made.step(), model=made.model)
    for step in (
        lambda scale=1.0, i=0: made.step(),
        lambda verbose=0: made.step(),
        lambda step=False: made.step(),
        made.step,
    ):
        Session(step, model=made.model)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == (
        "step(i=0) is not given its number, which would be 0 in every step; "
        "write step(i) where it is to be"
    )


def test_arguments_of_a_session_are_checked() -> None:
    """A step that takes two things, and a tolerance that is a number."""
    made = cnn()
    with pytest.raises(TypeError, match="step takes a, b; expected a callable that takes nothing"):
        Session(lambda a, b: a + b, model=made.model)
    with pytest.raises(TypeError, match=r"tolerance is a float; expected fi\.Tolerance"):
        Session(made.step, model=made.model, tolerance=1e-3)  # type: ignore[arg-type]  # the test's


def test_nobody_changes_an_armed_fault() -> None:
    """Neither in the plan, in its undo history or in a past run, nor by what it was armed with."""
    session, index, bits = _session(), [0, 0, 3, 3], [30, 31]
    fault = session.arm("relu*1:0", "bitflip", elements={"index": index}, bit=bits)
    run = session.replay()
    index[0], bits[0] = 7, 7
    for held in (fault, session.plan["f1"], run.plan["f1"]):
        assert held.parameters == {"bit": [30, 31]}
        assert held.elements == {"index": [0, 0, 3, 3]}
        with pytest.raises(TypeError, match="never changed"):
            held.parameters["bit"] = 3  # type: ignore[index]
        with pytest.raises(TypeError, match="never changed"):
            held.parameters["bit"][0] = 3
        with pytest.raises(TypeError, match="never changed"):
            held.elements["index"][0] = 3
    plain = dataclasses.asdict(pickle.loads(pickle.dumps(fault)))
    assert (plain["parameters"], plain["elements"]) == (fault.parameters, fault.elements)


def test_a_fault_that_is_armed_again_strikes_the_same_drawn_elements() -> None:
    """Its id, which is part of what draws them, is given again; so bits can be compared."""
    session = _session()
    struck = set()
    for bit in (3, 20):
        session.arm("relu*1:0", "bitflip", bit=bit, elements={"count": 2})
        struck.add(str([each.index for each in session.replay().injections[0].elements]))
        session.disarm()
    assert len(struck) == 1
