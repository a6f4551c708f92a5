# ruff: noqa: E501 - a table of cases reads best with one case a line
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fi_notebook import config
from fi_notebook.core.fault import Anchor, Fault, FaultPlan
from fi_notebook.core.site import PHASES, Target
from fi_notebook.core.steps import Steps
from fi_notebook.errors import PlanError

FIRST: dict[str, Any] = {
    "targets": ["addmm", "t"],
    "modules": ["layer.layers"],
    "code": ["run.py[83]"],
    "steps": [4],
    "error_type": "zero",
    "direction": "both",
}
FAULT: dict[str, Any] = {"target": "relu*2:0", "model": "bitflip", "parameters": {"bit": 31}}


def second(*faults: dict[str, Any], **plan: Any) -> dict[str, Any]:
    """A plan of version 2 with these faults, each on top of a valid one."""
    return {"version": 2, "faults": [FAULT | fault for fault in faults], **plan}


def test_the_first_form_is_one_fault_for_each_target() -> None:
    """Every key of the documentation's example arrives in each fault."""
    plan = config.load(FIRST)
    assert [str(fault.target) for fault in plan] == ["addmm", "t"]
    assert [fault.id for fault in plan] == ["f1", "f2"]
    for fault in plan:
        assert (fault.model, fault.parameters, fault.elements) == ("zero", {}, "all")
        assert (fault.modules, fault.code) == (("layer.layers",), ("run.py[83]",))
        assert (fault.steps, fault.phases) == (Steps.parse(4), ("forward", "loss", "backward"))
    assert (plan.modules, plan.code) == (("layer.layers",), ("run.py[83]",))
    assert plan.log_steps == Steps.parse(4)


@pytest.mark.parametrize("model", ["light", "heavy", "random", "delete"])
def test_the_first_forms_error_types_are_fault_models(model: str) -> None:
    """Each can be named, and takes no parameters."""
    assert config.load(FIRST | {"error_type": model})[0].model == model


@pytest.mark.parametrize(
    ("held", "known"),
    [
        (json.dumps(FIRST), True),
        (json.dumps(second({})), True),
        (json.dumps(second({"model": "one_of_my_own"})), True),
        ('{"version": 2, "faults": []}', True),
        ('{"version": 2}', False),
        ('{"faults": [], "name": "x"}', False),
        ("{}", False),
        ("[]", False),
        ("", False),
        ("\x89PNG", False),
    ],
)
def test_a_file_that_holds_a_plan_is_known_by_its_keys(
    tmp_path: Path, held: str, *, known: bool
) -> None:
    """A plan's keys and no others, whether or not it can be loaded here."""
    path = tmp_path / "a.json"
    path.write_text(held)
    assert config.is_plan(path) is known
    assert not config.is_plan(tmp_path)
    assert not config.is_plan(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("direction", "phases"),
    [
        ("forward", ("forward", "loss")),
        ("backward", ("backward",)),
        ("both", ("forward", "loss", "backward")),
        ("optimizer", ("optimizer",)),
        ("recompute", ("recompute",)),
    ],
)
def test_directions(direction: str, phases: tuple[str, ...]) -> None:
    """A direction is its phases and nothing else, in both forms."""
    assert config.load(FIRST | {"direction": direction})[0].phases == phases
    assert config.load(second({"direction": direction}))[0].phases == phases


def test_empty_lists_of_the_first_form() -> None:
    """Empty modules choose nothing, empty code is everywhere, empty targets only log."""
    assert config.load(FIRST | {"modules": []})[0].modules == ()
    assert config.load(FIRST | {"code": []})[0].code == ()
    logging = config.load(FIRST | {"targets": []})
    assert (len(logging), logging.modules, logging.log_steps) == (
        0,
        ("layer.layers",),
        Steps.parse(4),
    )
    assert config.load({"steps": [0], "modules": [], "targets": []}).modules == ()


def test_what_the_first_form_leaves_out() -> None:
    """No filter on modules or code, both directions, every step."""
    fault = config.load({"targets": ["mm"], "error_type": "zero"})[0]
    assert (fault.modules, fault.code, str(fault.steps)) == (None, (), "0-")
    assert fault.phases == ("forward", "loss", "backward")
    assert config.load({"steps": [0]}).modules == ("",)  # only log: the whole model


def test_a_call_that_two_targets_name_is_struck_once() -> None:
    """Targets that another one covers, or that stand twice, make no fault of their own."""
    plan = config.load(
        FIRST | {"targets": ["mm*1:0", "addmm*1", "mm", "mm", "addmm*1:0", "add.out"]}
    )
    assert [str(fault.target) for fault in plan] == ["addmm*1", "mm", "add.out"]


def test_version_2_holds_everything_that_a_fault_has() -> None:
    """Each key arrives in its attribute."""
    plan = config.load(
        second(
            {
                "id": "sign",
                "elements": {"index": [0, 3]},
                "steps": "2,5-7",
                "seed": 7,
                "modules": ["act"],
                "code": ["In [5][3]"],
                "phases": ["forward", "recompute"],
                "scope": "storage",
                "micro_batches": [0],
                "probability": 0.5,
                "times": 3,
                "ranks": "0,2-3",
                "anchor": {"phase": "forward", "module": "act", "module_call": 2, "ordinal": 1},
                "enabled": False,
            },
            modules=["act"],
            code=["run.py"],
            log_steps=[0],
            ignore=["detach", "c10d::monitored_barrier_"],
            verbosity="verbose",
        )
    )
    assert plan == FaultPlan(
        (
            Fault(
                "sign",
                Target.parse("relu*2:0"),
                "bitflip",
                {"bit": 31},
                {"index": [0, 3]},
                Steps.parse("2,5-7"),
                seed=7,
                modules=("act",),
                code=("In [5][3]",),
                phases=("forward", "recompute"),
                scope="storage",
                micro_batches=Steps.parse(0),
                probability=0.5,
                times=3,
                ranks=Steps.parse("0,2-3"),
                anchor=Anchor("forward", "act", 2, 1),
                enabled=False,
            ),
        ),
        modules=("act",),
        code=("run.py",),
        log_steps=Steps.parse(0),
        ignore=("detach", "c10d::monitored_barrier_"),
        verbosity="verbose",
    )


def test_ids_that_are_left_out_are_numbered_around_those_that_are_given() -> None:
    """``f1`` is taken, so the first free one is ``f2``."""
    plan = config.load(second({}, {"id": "f1"}, {}))
    assert [fault.id for fault in plan] == ["f2", "f1", "f3"]


def test_what_has_its_default_is_not_written() -> None:
    """A short plan is a short file."""
    plan = FaultPlan((Fault("f1", Target.parse("mm"), "zero", steps=Steps.parse([])),))
    assert config.to_dict(plan) == {
        "version": 2,
        "faults": [{"id": "f1", "target": "mm", "model": "zero", "steps": []}],
    }


TEXTS = st.text(max_size=8)
STEPS = st.one_of(
    st.lists(st.integers(0, 50), max_size=4).map(Steps.parse),
    st.sampled_from(["0-", "2,5-7,10-", "0-100:10", "5-5:3"]).map(Steps.parse),
)
MODELS = st.sampled_from(
    [
        ("bitflip", {"bit": 31}),
        ("bitflip", {"field": "sign"}),
        ("scale", {"factor": 1.5}),
        ("set", {"value": "nan"}),
        ("set", {"value": -0.0}),
        ("zero", {}),
    ]
)
FAULTS = st.builds(
    lambda model, **rest: Fault(model=model[0], parameters=model[1], **rest),
    model=MODELS,
    id=st.text(min_size=1, max_size=6),
    target=st.sampled_from(["mm", "relu*2:0", "add.Tensor*1", "param:fc.weight"]).map(Target.parse),
    elements=st.sampled_from(["all", {"index": [0, 3]}, {"count": 5}, {"index": 5}]),
    steps=STEPS,
    seed=st.integers(0, 2**63 - 1),
    modules=st.none() | st.lists(TEXTS, max_size=2).map(tuple),
    code=st.sampled_from([(), ("run.py[83]", "In [5][3]")]),
    phases=st.lists(st.sampled_from(PHASES), max_size=2).map(tuple),
    scope=st.sampled_from(["value", "storage"]),
    micro_batches=st.none() | STEPS,
    probability=st.floats(0, 1),
    times=st.none() | st.integers(1, 100),
    ranks=st.none() | STEPS.filter(lambda found: bool(found.ranges)),
    anchor=st.none() | st.builds(Anchor, st.sampled_from(PHASES), TEXTS, st.integers(0, 9), st.integers(0, 9)),
    enabled=st.booleans(),
)  # fmt: skip
PLANS = st.builds(
    FaultPlan,
    faults=st.lists(FAULTS, max_size=3, unique_by=lambda fault: fault.id).map(tuple),
    modules=st.none() | st.lists(TEXTS, max_size=2).map(tuple),
    code=st.sampled_from([(), ("run.py",)]),
    log_steps=st.none() | STEPS,
    ignore=st.none() | st.sampled_from([(), ("detach", "view")]),
    verbosity=st.sampled_from(["quiet", "normal", "verbose"]),
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PLANS)
def test_plans_come_back_exactly(tmp_path: Path, plan: FaultPlan) -> None:
    """Through a mapping, through JSON and through a file."""
    mapping = config.to_dict(plan)
    assert config.load(mapping) == plan
    assert config.load(json.loads(json.dumps(mapping, allow_nan=False))) == plan
    config.save(plan, tmp_path / "injector.json")
    assert config.load(tmp_path / "injector.json") == plan


def test_numbers_that_json_does_not_have_are_written_as_text_or_plainly() -> None:
    """Infinities become text, numpy's and torch's numbers become Python's."""
    parameters = {"value": float("-inf"), "bit": np.int64(3), "bits": (1, 2)}
    written = config.to_dict(FaultPlan((Fault("f1", Target("mm"), "set", parameters),)))
    assert written["faults"][0]["parameters"] == {"value": "-inf", "bit": 3, "bits": [1, 2]}
    assert type(written["faults"][0]["parameters"]["bit"]) is int


def test_what_json_cannot_hold_is_refused(tmp_path: Path) -> None:
    """The attribute is named, and no file is written."""
    plan = FaultPlan((Fault("f1", Target("mm"), "set", {"value": {1, 2}}),))
    with pytest.raises(PlanError, match=r"parameters: \{1, 2\} cannot be written as JSON"):
        config.save(plan, tmp_path / "injector.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (second({"stepz": 1}), r"the plan: faults\[0\]\.stepz: unknown key; did you mean 'steps'\?"),
        (second({}, {"model": "bitflp"}), r"faults\[1\]\.model: no fault model 'bitflp'; did you mean"),
        (second({}, {}, {"elements": {"indx": 1}}), r"faults\[2\]\.elements: .*'indx'; did you mean 'index'"),
        (second({"parameters": {"bits": 3}}), r"faults\[0\]\.parameters: bitflip has no parameter 'bits'"),
        (second({"parameters": {"bit": "x"}}), r"faults\[0\]\.parameters: bitflip: bit='x' cannot be"),
        (second({"parameters": 5}), r"faults\[0\]\.parameters: got 5; expected a mapping"),
        (second({"target": "relu*"}), r"faults\[0\]\.target: cannot read the target 'relu\*'; expected"),
        (second({"steps": -1}), r"faults\[0\]\.steps: cannot read -1 as steps; expected a number"),
        (second({"ranks": True}), r"faults\[0\]\.ranks: cannot read True as ranks; expected a"),
        (second({"ranks": []}), r"faults\[0\]\.ranks: ranks is an empty list, and would strike"),
        (second({"micro_batches": "x"}), r"micro_batches: cannot read 'x' as micro_batches"),
        (second({"modules": "act"}), r"faults\[0\]\.modules: 'act' is no list of texts; expected one such"),
        (second({"modules": [1]}), r"faults\[0\]\.modules: \[1\] is no list of texts"),
        (second({"code": [""]}), r"faults\[0\]\.code: cannot read '' as a source line"),
        (second({"phases": ["forwrd"]}), r"faults\[0\]\.phases: no phase 'forwrd'; did you mean 'forward'"),
        (second({"direction": "boht"}), r"faults\[0\]\.direction: no direction 'boht'; did you mean 'both'"),
        (second({"direction": "both", "phases": ["loss"]}), r"either phases or a direction"),
        (second({"scope": 3}), r"faults\[0\]\.scope: no scope 3; expected one of 'value', 'storage'"),
        (second({"probability": 1.5}), r"faults\[0\]\.probability: got 1\.5; expected less than or equal"),
        (second({"probability": float("nan")}), r"faults\[0\]\.probability: got nan"),
        (second({"times": 0}), r"faults\[0\]\.times: got 0; expected greater than or equal to 1"),
        (second({"seed": True}), r"faults\[0\]\.seed: got True; expected a valid integer"),
        (second({"seed": -1}), r"faults\[0\]\.seed: got -1"),
        (second({"enabled": 1}), r"faults\[0\]\.enabled: got 1; expected a valid boolean"),
        (second({"id": ""}), r"faults\[0\]\.id: got ''"),
        (second({"id": "a"}, {"id": "a"}), r"faults\[0\]\.id: 'a' stands twice; ids are unique"),
        (second({"anchor": {"phas": "x"}}), r"anchor\.phas: unknown key; did you mean 'phase'"),
        ({"version": 2, "faults": [{"model": "zero"}]}, r"faults\[0\]\.target: missing in \{'model': 'zero'\}"),
        ({"version": 2, "faults": {"a": 1}}, r"faults: got \{'a': 1\}; expected a list"),
        ({"version": 2, "faults": [3]}, r"faults\[0\]: got 3; expected a mapping"),
        (second(ignore=["add*1"]), r"ignore: 'add\*1' is more than an operator"),
        (second(verbosity="loud"), r"verbosity: no verbosity 'loud'; expected one of"),
        ({"faults": []}, r'version: missing; a plan with a list of faults has "version": 2'),
        ({"version": 3}, r"version: 3 is newer than this fi_notebook, .* update fi_notebook"),
        ({"version": "2"}, r"version: got '2'; expected a valid integer"),
        ({"version": 1}, r"version: got 1; expected"),
        ({}, r"the plan: \{\} is no plan; expected a mapping such as"),
        ([1], r"the plan: \[1\] is no plan"),
        (None, r"the plan: None is no plan"),
        (FIRST | {"step": [4]}, r"the plan: step: unknown key; did you mean 'steps'"),
        (FIRST | {"a\nb": [4]}, r"the plan: 'a\\nb': unknown key"),
        (FIRST | {"x" * 10**6: [4]}, r"the plan: 'xxxx.{0,40}': unknown key"),
        (FIRST | {"ranks": [0]}, r'ranks: unknown key; it belongs to a plan with "version": 2'),
        (FIRST | {"error_type": "zeroo"}, r"error_type: no fault model 'zeroo'; did you mean 'zero'"),
        (FIRST | {"error_type": None}, r"error_type: missing; expected a fault model such as 'light'"),
        (FIRST | {"targets": "addmm"}, r"targets: 'addmm' is no list of texts"),
        (FIRST | {"steps": "x"}, r"steps: cannot read 'x' as steps"),
    ],
)  # fmt: skip
def test_refusals_name_the_place_what_stood_there_and_what_was_expected(
    source: Any, message: str
) -> None:
    """Each message is enough to mend the file."""
    with pytest.raises(PlanError, match=message):
        config.load(source)


def test_all_problems_are_named_at_once() -> None:
    """One line each, unknown keys first, and no more than eight."""
    with pytest.raises(PlanError) as caught:
        config.load(second({"targt": "mm", "seed": -1, "times": 0, "scope": 1}))
    places = [line.split(": ")[1] for line in str(caught.value).splitlines()]
    assert places == [f"faults[0].{key}" for key in ("targt", "seed", "scope", "times")]
    with pytest.raises(PlanError, match="and 4 more"):
        config.load(second(*[{"seed": -1}] * 12))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"a": 1,\n  "b": }', "no JSON at line 2, column 8: Expecting value"),
        (b"", "no JSON at line 1, column 1"),
        (b'{"steps": 1, "steps": 2}', "the key 'steps' stands twice in one mapping"),
        (b"\xff\xfe\xfa", "no JSON that can be read"),
        (b"[" * 100_000, "no JSON that can be read: maximum recursion"),
        (b"9" * 10_000, "no JSON that can be read: Exceeds the limit"),
        (b"[]", r"\[\] is no plan"),
    ],
)
def test_files_that_are_no_json(tmp_path: Path, text: bytes, message: str) -> None:
    """The file is named, and line and column where there is one."""
    path = tmp_path / "injector.json"
    path.write_bytes(text)
    with pytest.raises(PlanError, match=message) as caught:
        config.load(path)
    assert str(caught.value).startswith(str(path))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    """A missing file and a folder are refused by name."""
    with pytest.raises(PlanError, match=r"injector\.json: cannot be read: No such file"):
        config.load(str(tmp_path / "injector.json"))
    with pytest.raises(PlanError, match="not a file; expected a JSON file"):
        config.load(tmp_path)


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        TEXTS,
        st.sampled_from(
            ["all", "relu*1:0", "bitflip", "zero", "both", "forward", "0-3", "run.py[1]"]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            TEXTS | st.sampled_from(["index", "count", "bit", "row"]), inner, max_size=3
        ),
    ),
    max_leaves=8,
)
FAULT_KEYS = st.sampled_from(["id", "target", "model", "parameters", "elements", "steps", "seed", "modules", "code", "phases", "direction", "scope", "micro_batches", "probability", "times", "ranks", "anchor", "enabled"])  # fmt: skip
ALMOST_FAULTS = st.dictionaries(FAULT_KEYS | TEXTS, JSON, max_size=4).map(lambda d: FAULT | d)
ALMOST_PLANS = st.one_of(
    JSON,
    st.dictionaries(st.sampled_from([*FIRST]) | TEXTS, JSON, max_size=5),
    st.dictionaries(st.sampled_from([*FIRST]), JSON, max_size=1).map(lambda d: FIRST | d),
    st.builds(
        lambda faults, rest: {"version": 2, "faults": faults} | rest,
        st.lists(ALMOST_FAULTS, max_size=3) | JSON,
        st.dictionaries(st.sampled_from(["modules", "code", "log_steps", "ignore", "verbosity", "version"]), JSON, max_size=1),
    ),
)  # fmt: skip


@settings(max_examples=400)
@given(ALMOST_PLANS)
@example({"version": 2, "faults": [FAULT | {"elements": {"index": [10**30]}}]})
@example({"version": 2, "faults": [FAULT | {"parameters": {"bit": 10**30}}]})
def test_any_json_is_a_plan_or_refused(source: Any) -> None:
    """Nothing but a plan or `PlanError` comes out, and a plan can be written again."""
    try:
        plan = config.load(source)
    except PlanError as error:
        assert str(error)  # noqa: PT017
        return
    assert config.to_dict(config.load(config.to_dict(plan))) == config.to_dict(plan)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60))
def test_any_file_is_a_plan_or_refused(tmp_path: Path, data: bytes) -> None:
    """No bytes raise anything but `PlanError`."""
    path = tmp_path / "injector.json"
    path.write_bytes(data)
    with pytest.raises(PlanError):
        config.load(path)


def test_a_path_that_cannot_be_looked_at_is_refused() -> None:
    """A name that is too long for a file."""
    with pytest.raises(PlanError, match="cannot be read: File name too long"):
        FaultPlan.load("x" * 300 + ".json")
