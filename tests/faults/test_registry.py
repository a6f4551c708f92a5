"""The registry: names, parameters, a person's own fault models, entry points."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest
import torch

from fi_notebook import faults
from fi_notebook.errors import FaultError
from fi_notebook.faults import registry

BUILT_IN = [
    "light",
    "heavy",
    "random",
    "delete",
    "bitflip",
    "burst",
    "stuck_at_0",
    "stuck_at_1",
    "xor_mask",
    "scale",
    "add",
    "set",
    "zero",
    "nan",
    "inf",
    "negate",
    "random_finite",
    "random_uniform",
    "noise",
    "clamp",
    "round_decimals",
    "round_to",
    "stale",
    "wrong_address",
    "shift",
    "swap_rows",
    "permute",
    "drop",
    "duplicate",
    "skip_update",
    "drop_rank",
    "duplicate_rank",
    "corrupt_rank",
    "stale_buffer",
    "wrong_reduction",
]


@pytest.fixture
def own() -> Iterator[None]:
    """Take the models that a test registers out again."""
    before = set(faults.names())
    yield
    for name in set(faults.names()) - before:
        faults.unregister(name)


def test_every_model_is_there() -> None:
    """The names of the library, each once."""
    assert sorted(faults.names()) == sorted(BUILT_IN)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_model_says_what_it_is(name: str) -> None:
    """One sentence, what it does to integers, where it is from, and an example that is valid."""
    model = faults.get(name)
    assert model.summary.endswith(".")
    assert model.integers.endswith(".")
    assert model.source
    assert faults.check(name, model.example) == model.example
    assert all(parameter.summary.endswith(".") for parameter in model.parameters)
    assert (model.kind == "call") == bool(model.needs)


def test_an_unknown_model_is_refused_with_near_names() -> None:
    """A slip is answered with the right name."""
    with pytest.raises(FaultError, match="no fault model 'bitflop'; did you mean 'bitflip'"):
        faults.get("bitflop")
    with pytest.raises(FaultError, match=r"no fault model 'zzz'; expected one of light, heavy"):
        faults.get("zzz")


def test_defaults_are_not_filled_in_by_a_check() -> None:
    """What a person did not write is not in the plan."""
    assert faults.check("noise", {"std": 2}) == {"std": 2}
    assert faults.get("noise").with_defaults({"std": 2}) == {"std": 2, "relative": False}


def test_a_model_without_parameters_says_so() -> None:
    """Nothing to suggest where there is nothing."""
    with pytest.raises(FaultError, match="zero has no parameter 'value'; it has none"):
        faults.check("zero", {"value": 1})


@pytest.mark.usefixtures("own")
def test_a_person_s_own_model() -> None:
    """Keyword-only arguments become its parameters, the docstring its summary."""

    @faults.register("my_fault")
    def my_fault(values: torch.Tensor, ctx: Any, *, gain: float = 2.0) -> torch.Tensor:
        """Every chosen value times a gain."""
        return values * gain

    model = faults.get("my_fault")
    assert (model.group, model.kind) == ("own", "value")
    assert model.summary == "Every chosen value times a gain."
    assert [(p.name, p.type, p.default) for p in model.parameters] == [("gain", "float", 2.0)]
    assert faults.apply(torch.tensor([1.0, 3.0]), "my_fault", {"index": 1}).tolist() == [1.0, 6.0]
    with pytest.raises(FaultError, match="gain='x' cannot be; expected a finite number"):
        faults.check("my_fault", {"gain": "x"})


@pytest.mark.usefixtures("own")
def test_a_name_is_given_once() -> None:
    """A second model of a name is refused; one's own may be replaced by saying so."""
    faults.register("mine")(lambda values, ctx: values)
    with pytest.raises(FaultError, match=r"'mine' exists already.*replace=True"):
        faults.register("mine")(lambda values, ctx: values)
    faults.register("mine", replace=True)(lambda values, ctx: -values)
    assert faults.apply(torch.ones(1), "mine").item() == -1.0


@pytest.mark.parametrize("replace", [False, True])
def test_a_built_in_model_is_never_replaced_or_removed(replace: bool) -> None:
    """Plans mean the same everywhere."""
    with pytest.raises(FaultError, match="'scale' exists already"):
        faults.register("scale", replace=replace)(lambda values, ctx: values)
    with pytest.raises(FaultError, match="cannot be removed"):
        faults.unregister("scale")


@pytest.mark.parametrize(
    ("details", "message"),
    [
        ({"name": "no name"}, "is not a plain word"),
        ({"name": "x", "group": "bitz"}, "no group 'bitz'; did you mean 'bits'"),
        ({"name": "x", "needs": ("input",)}, "cannot need 'input'; did you mean 'inputs'"),
    ],
)
def test_a_model_that_cannot_be_is_refused(details: dict[str, Any], message: str) -> None:
    """Bad names, groups and needs are found when it is registered."""
    with pytest.raises(FaultError, match=message):
        faults.register(**details)(lambda values, ctx: values)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda values, ctx: values.double(), "returned float64; expected float32"),
        (lambda values, ctx: values[:1], r"returned \(1,\); expected a tensor of shape \(3,\)"),
        (lambda values, ctx: 3, "returned int"),
    ],
)
def test_a_model_that_returns_something_else_is_refused(function: Any, message: str) -> None:
    """The dtype and shape of a tensor never change."""
    faults.register("odd")(function)
    with pytest.raises(FaultError, match=message):
        faults.apply(torch.ones(3), "odd")


@pytest.mark.usefixtures("own")
def test_a_model_may_write_in_place() -> None:
    """Its values are a copy: what is recorded as before stays so."""
    faults.register("in_place")(lambda values, ctx: values.zero_())
    tensor = torch.ones(3)
    found = faults.corrupt(tensor, "in_place", {}, "all", faults.generator(0))
    assert (found.before.tolist(), found.after.tolist(), found.changed) == ([1] * 3, [0] * 3, 3)
    assert tensor.tolist() == [1, 1, 1]


@pytest.mark.usefixtures("own")
def test_entry_points_are_loaded_when_first_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that a package offers becomes a model under the entry point's name."""
    entry = EntryPoint("average", "statistics:mean", "fi_notebook.faults")
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
    registry._load_entry_points.cache_clear()
    assert "average" in faults.names()
    assert faults.get("average").group == "own"


@pytest.mark.parametrize("value", ["no_such_module:f", "torch:no_such_name"])
def test_a_broken_entry_point_is_reported_and_left_out(
    value: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One broken package does not take the other fault models away."""
    entry = EntryPoint("broken", value, "fi_notebook.faults")
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
    registry._load_entry_points.cache_clear()
    with caplog.at_level(logging.WARNING, logger="fi_notebook"):
        assert sorted(faults.names()) == sorted(BUILT_IN)
    assert "fault model 'broken'" in caplog.text


def test_a_taken_entry_point_name_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A package cannot take the name of a built-in model."""
    entry = EntryPoint("scale", "statistics:mean", "fi_notebook.faults")
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
    registry._load_entry_points.cache_clear()
    with caplog.at_level(logging.WARNING, logger="fi_notebook"):
        assert faults.get("scale").group == "values"
    assert "exists already" in caplog.text
