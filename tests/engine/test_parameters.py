"""Calls of an optimizer name their parameter: for-loop, lists, fused, closures, in backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import nn, optim
from torch.nn import functional

from fi_notebook import Session
from tests.tools import traced

_NAMES = ["0.weight", "0.bias", "2.weight", "2.bias"]
_SCALARS = {"lift_fresh", "_local_scalar_dense"}
"""Python numbers made tensors, or read back from them (a loss, a step): of no parameter."""

Make = Callable[[Iterable[nn.Parameter]], optim.Optimizer]


class PlainSgd(optim.Optimizer):
    """An optimizer that writes ``p.data`` and does not switch gradients off."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        """No options."""
        super().__init__(parameters, {})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """The gradient times -0.1, added to the data."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data.add_(parameter.grad.data * 0.1, alpha=-1)


_OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "sgd foreach": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, foreach=True),
    "sgd fused": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "adam": lambda p: optim.Adam(p, foreach=False),
    "adamw": lambda p: optim.AdamW(p, foreach=False),
    "adamw foreach": lambda p: optim.AdamW(p, foreach=True, amsgrad=True),
    "adamw fused": lambda p: optim.AdamW(p, fused=True),
    "adafactor": optim.Adafactor,
    "adafactor foreach": lambda p: optim.Adafactor(p, foreach=True),
    "muon": lambda p: optim.Muon([x for x in p if x.dim() == 2]),
    "rprop": optim.Rprop,
    "asgd": optim.ASGD,
    "adadelta": optim.Adadelta,
    "plain": PlainSgd,
}


def _model() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    model = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3))
    return model, torch.randn(4, 5), torch.randn(4, 3)


def _trace(make: Make, trained: int) -> Any:
    model, x, y = _model()
    optimizer = make(model.parameters())

    def step() -> torch.Tensor:
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    for _ in range(trained):
        step()
    return Session(step, model=model, optimizer=optimizer).trace()


@pytest.mark.parametrize("trained", [0, 2], ids=["first step", "third step"])
@pytest.mark.parametrize("name", _OPTIMIZERS)
def test_every_call_of_an_optimizer_names_its_parameter(name: str, trained: int) -> None:
    """In the first step (state is made) and later: a name or ``*``, module of the owner."""
    trace = _trace(_OPTIMIZERS[name], trained)
    calls = [c for c in traced.calls(trace) if c.phase == "optimizer"]
    assert calls
    lost = [c.name for c in calls if not c.parameter and c.op not in _SCALARS]
    assert lost == []
    for call in calls:
        if call.parameter in _NAMES:
            assert call.module == call.parameter.partition(".")[0]
    written = {s.parameter for s in trace.sites if s.phase == "optimizer" and s.op.endswith("_")}
    expected = [n for n in _NAMES if name != "muon" or n.endswith("weight")]
    assert written == set(expected)


@pytest.mark.parametrize("name", ["adamw foreach", "adamw fused", "sgd foreach", "sgd fused"])
def test_each_item_of_a_list_has_the_parameter_at_its_place(name: str) -> None:
    """``_foreach_`` and ``_fused_`` calls are ``*``; their outputs name one parameter each."""
    trace = _trace(_OPTIMIZERS[name], 1)
    last = {"adamw foreach": "_foreach_addcdiv_", "sgd foreach": "_foreach_add_"}
    update = last.get(name, f"_fused_{name.partition(' ')[0]}_")
    parameters = [s for s in trace.find(update) if s.output == 0][-4:]
    assert [s.index for s in parameters] == [0, 1, 2, 3]
    assert [s.parameter for s in parameters] == _NAMES
    assert [s.shape for s in parameters] == [(6, 5), (6,), (3, 6), (3,)]


def test_the_outputs_of_a_fused_call_are_all_that_it_writes() -> None:
    """``_fused_adamw_`` returns nothing: its outputs are params, grads and both moments."""
    trace = _trace(_OPTIMIZERS["adamw fused"], 1)
    sites = trace.find("_fused_adamw_")
    assert sorted({s.output for s in sites}) == [0, 1, 2, 3]  # self, grads, exp_avgs, exp_avg_sqs
    assert len(sites) == 16
    assert [s.parameter for s in sites] == 4 * _NAMES


def test_the_state_that_adam_makes_is_its_parameters() -> None:
    """``zeros_like`` of the first step names the parameter whose moment it becomes."""
    trace = _trace(_OPTIMIZERS["adam"], 0)
    made = [s.parameter for s in trace.find("zeros_like", phase="optimizer")]
    assert made == [name for name in _NAMES for _ in range(2)]  # exp_avg, exp_avg_sq


def test_the_counts_of_adams_calls_are_known() -> None:
    """A later step of for-loop Adam is ten calls a parameter, and nothing beside them."""
    calls = [c for c in traced.calls(_trace(_OPTIMIZERS["adam"], 1)) if c.phase == "optimizer"]
    # add_ (step), lerp_, mul_, addcmul_, item, sqrt, div, add_ (eps), addcdiv_
    per_parameter = [c.op for c in calls if c.parameter == "0.weight"]
    assert per_parameter == [
        "add_",
        "lerp_",
        "mul_",
        "addcmul_",
        "_local_scalar_dense",
        "sqrt",
        "div",
        "add_",
        "addcdiv_",
    ]
    assert len(calls) == 4 * len(per_parameter)


def test_a_closure_keeps_its_own_phases() -> None:
    """LBFGS runs the model three times in its step: forward, loss, backward, and ``*`` calls."""
    model, x, y = _model()
    optimizer = optim.LBFGS(model.parameters(), max_iter=3, line_search_fn=None)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    trace = Session(lambda: optimizer.step(closure), model=model, optimizer=optimizer).trace()
    calls = traced.calls(trace)
    forward = [c for c in calls if c.op == "addmm"]
    assert [(c.phase, c.module) for c in forward] == 3 * [("forward", "0"), ("forward", "2")]
    assert [c.phase for c in calls if c.op == "mse_loss"] == 3 * ["loss"]
    assert [c.phase for c in calls if c.op == "mse_loss_backward"] == 3 * ["backward"]
    own = [c for c in calls if c.phase == "optimizer"]
    assert {c.parameter for c in own if c.op == "cat"} == {"*"}
    assert [c.name for c in own if not c.parameter and c.op not in _SCALARS] == []
    assert trace.info["forwards"] == 3


def test_an_optimizer_in_backward_is_phase_optimizer() -> None:
    """A step in a post-accumulate hook runs under a node, and is still the optimizer's."""
    model, x, y = _model()
    optimizers = {p: optim.SGD([p], lr=0.1) for p in model.parameters()}

    def update(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()  # type: ignore[index]
        optimizers[parameter].zero_grad()  # type: ignore[index]

    handles = [p.register_post_accumulate_grad_hook(update) for p in model.parameters()]

    def step() -> torch.Tensor:
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    trace = Session(step, model=model, optimizer=list(optimizers.values())).trace()
    updates = [c for c in traced.calls(trace) if c.op == "add_"]
    assert [(c.phase, c.parameter) for c in updates] == [
        ("optimizer", "2.bias"),
        ("optimizer", "2.weight"),
        ("optimizer", "0.bias"),
        ("optimizer", "0.weight"),
    ]
    assert trace.info["forwards"] == 1
    for handle in handles:
        handle.remove()


def test_tied_weights_belong_to_the_first_of_their_modules() -> None:
    """One parameter in two modules: its updates are the first's, as its name is."""
    embed, head = nn.Embedding(4, 3), nn.Linear(3, 4, bias=False)
    head.weight = embed.weight
    model = nn.Sequential(embed, head)
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        model(torch.tensor([0, 1])).sum().backward()
        optimizer.step()

    update = [c for c in traced.step_of(step, model, optimizer) if c.phase == "optimizer"]
    assert [(c.op, c.parameter, c.module) for c in update] == [("add_", "0.weight", "0")]
