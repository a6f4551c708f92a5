"""Calls of the optimizer, chosen by parameter name and operator."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from fi_notebook import Injector
from fi_notebook.core.site import PHASES
from fi_notebook.engine.intercept import Call
from tests.injector.helpers import bits, plan


def _model() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    for parameter in model.parameters():
        nn.init.ones_(parameter)
    return model


def _train(config: dict[str, Any], optimizer: Any, steps: int = 1) -> tuple[list[float], Injector]:
    """Weights after training y = w2 w1 x with x = 1 from w = 1: both gradients are 1."""
    model = _model()
    made = optimizer(model.parameters())
    with Injector(config, model=model) as injector:
        for _ in range(steps):
            model(torch.ones(1, 1)).sum().backward()
            made.step()
            made.zero_grad()
    return [p.item() for p in model.parameters()], injector


def test_a_for_loop_call_of_one_parameter() -> None:
    """SGD's second add_ is that of 1.weight: (1 - 0.5) * 1.5 = 0.75 there only."""
    weights, injector = _train(
        plan("add_*2:0", "light", phases=["optimizer"]),
        lambda p: torch.optim.SGD(p, lr=0.5, foreach=False),
    )
    assert weights == [0.5, 0.75]
    (injection,) = injector.injections
    assert (injection.site.parameter, injection.site.module) == ("1.weight", "1")
    assert injection.site.phase == "optimizer"


def test_a_for_loop_call_is_chosen_by_its_module() -> None:
    """The filter modules: ["0"] chooses the update of 0.weight among all add_."""
    weights, _ = _train(
        plan("add_", "light", modules=["0"], phases=["optimizer"]),
        lambda p: torch.optim.SGD(p, lr=0.5, foreach=False),
    )
    assert weights == [0.75, 0.5]


def test_a_foreach_call_is_chosen_by_list_index() -> None:
    """The item [1] of ``_foreach_add_`` is 1.weight: 0.75, and 0.weight is 0.5."""
    weights, injector = _train(
        plan("_foreach_add_*1:0[1]", "light"), lambda p: torch.optim.SGD(p, lr=0.5, foreach=True)
    )
    assert weights == [0.5, 0.75]
    assert [str(i.site) for i in injector.injections] == ["_foreach_add_*1:0[1]"]


@pytest.mark.parametrize("target", ["_foreach_add_", "_fused_sgd_"])
def test_a_list_call_is_chosen_by_parameter(target: str) -> None:
    """Which item of the list belongs to module 1 is found by its parameter."""
    foreach = target.startswith("_foreach")
    weights, injector = _train(
        plan(f"{target}*1:0", "light", modules=["1"]),
        lambda p: torch.optim.SGD(p, lr=0.5, foreach=foreach, fused=not foreach),
    )
    assert weights == [0.5, 0.75]
    assert [(str(i.site), i.site.parameter) for i in injector.injections] == [
        (f"{target}*1:0[1]", "1.weight")
    ]


def test_a_fused_call_writes_parameters_and_state() -> None:
    """``_fused_adamw_`` gives its written arguments: parameters, both moments and more."""
    weights, injector = _train(
        plan("_fused_adamw_*1", "zero"), lambda p: torch.optim.AdamW(p, lr=0.5, fused=True)
    )
    assert weights == [0.0, 0.0]
    outputs = {(i.site.output, i.site.index) for i in injector.injections}
    assert {(0, 0), (0, 1), (2, 0), (2, 1), (3, 0), (3, 1)} <= outputs


@pytest.mark.parametrize("foreach", [False, True])
def test_the_moment_of_adam_is_struck(foreach: bool) -> None:
    """exp_avg = 0.1 * 1 set to 0 by the fault: 1.weight does not move in step 0."""
    target = "_foreach_lerp_*1:0[1]" if foreach else "lerp_*2:0"
    weights, injector = _train(
        plan(target, "zero"), lambda p: torch.optim.Adam(p, lr=0.5, foreach=foreach)
    )
    assert weights[0] == pytest.approx(0.5)
    assert weights[1] == 1.0
    assert injector.injections[0].before.max == pytest.approx(0.1)


def test_skipping_an_update_leaves_the_weight() -> None:
    """skip_update at 0.weight's add_: it stays 1; duplicate: it moves twice, to 0."""
    sgd = lambda p: torch.optim.SGD(p, lr=0.5, foreach=False)  # noqa: E731
    assert _train(plan("add_*1:0", "skip_update"), sgd)[0] == [1.0, 0.5]
    assert _train(plan("add_*1:0", "duplicate"), sgd)[0] == [0.0, 0.5]


def test_an_optimizer_of_another_model_is_not_chosen() -> None:
    """The optimizer of a second model makes calls of no phase of this one."""
    model, other = _model(), _model()
    mine, theirs = (torch.optim.SGD(m.parameters(), lr=0.5) for m in (model, other))
    before = [bits(p) for p in other.parameters()]
    with Injector(plan("add_", "zero", phases=["optimizer"]), model=model) as injector:
        model(torch.ones(1, 1)).sum().backward()
        theirs.step()
        mine.step()
    assert len(injector.injections) == 2
    assert [bits(p) for p in other.parameters()] == before


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.5, foreach=False),
        lambda p: torch.optim.SGD(p, lr=0.5, foreach=True),
        lambda p: torch.optim.SGD(p, lr=0.5, fused=True),
    ],
    ids=["for-loop", "foreach", "fused"],
)
def test_calls_are_chosen_by_the_name_of_a_parameter(make: Any) -> None:
    """The name 1.weight in the filter chooses its update and no other: 0.5 * 1.5 = 0.75."""
    faults = [
        {"id": op, "target": f"{op}*1:0", "model": "light", "modules": ["1.weight"]}
        for op in ("_foreach_add_", "_fused_sgd_")
    ]
    faults.append({"target": "add_", "model": "light", "modules": ["1.weight"]})
    weights, injector = _train({"version": 2, "faults": faults}, make)
    assert weights == [0.5, 0.75]
    assert [i.site.parameter for i in injector.injections] == ["1.weight"]


class Places:
    """An observer that notes the parameter of each optimizer call."""

    def __init__(self) -> None:
        """Start at none."""
        self.parameters: list[str] = []

    def before(self, call: Call) -> None:
        """Note it."""
        if PHASES[call.phase] == "optimizer":
            self.parameters.append(call.parameter)

    def after(self, call: Call, result: Any) -> Any:
        """Change nothing."""
        return result


def test_every_call_of_an_adamw_step_has_its_parameter() -> None:
    """Results of a parameter's calls belong to it; in the second step none is unplaced."""
    model, places = _model(), Places()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5, foreach=False)
    with Injector({"version": 2, "log_steps": [1]}, model=model) as injector:
        injector._attachment._mode.observers.append(places)
        for _ in range(2):
            model(torch.ones(1, 1)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert set(places.parameters) == {"0.weight", "1.weight"}
    half = len(places.parameters) // 2
    assert places.parameters == ["0.weight"] * half + ["1.weight"] * half
