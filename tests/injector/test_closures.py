"""Stored tensors where the forward runs within the optimizer's step, as Lightning has it.

The model is y = w x with w = 2, and loss = y, so the gradient of w is x: 3, 5 and 7 in three
steps. The learning rate is 0.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim

from fi_notebook import Injector
from tests import models
from tests.injector.helpers import plan, training_bits

Step = Callable[[optim.Optimizer, Callable[[], Tensor]], Any]


def _by_position(optimizer: optim.Optimizer, closure: Callable[[], Tensor]) -> Any:
    return optimizer.step(closure)  # type: ignore[arg-type]


def _by_keyword(optimizer: optim.Optimizer, closure: Callable[[], Tensor]) -> Any:
    return optimizer.step(closure=closure)  # type: ignore[arg-type]


def _before(optimizer: optim.Optimizer, closure: Callable[[], Tensor]) -> Any:
    """Without one: the forward comes first."""
    closure()
    return optimizer.step()


class Line(nn.Module):
    """One weight, which is used twice where that is asked."""

    def __init__(self, times: int = 1) -> None:
        super().__init__()
        self.fc = nn.Linear(1, 1, bias=False)
        self.times = times
        nn.init.constant_(self.fc.weight, 2.0)

    def forward(self, x: Tensor) -> Tensor:
        """``w x``, or ``w w x``."""
        for _ in range(self.times):
            x = self.fc(x)
        return x


def _train(
    config: dict[str, Any], step: Step, model: Line | None = None, momentum: float = 0.0
) -> tuple[list[float], Injector]:
    """The weight after each of three steps."""
    model = Line() if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=momentum)
    weights = []
    with Injector(config, model=model) as injector:
        for x in (3.0, 5.0, 7.0):

            def closure(x: float = x) -> Tensor:
                optimizer.zero_grad()
                loss = model(torch.tensor([[x]])).sum()
                with torch.no_grad():
                    loss.clone().abs()  # a metric
                loss.backward()
                return loss

            step(optimizer, closure)
            weights.append(model.fc.weight.item())
    return weights, injector


@pytest.mark.parametrize("step", [_before, _by_position, _by_keyword])
@pytest.mark.parametrize("scope", ["value", "storage"])
def test_a_gradient_is_struck_that_the_closure_makes(step: Step, scope: str) -> None:
    """Of step 1 it is 5, and becomes 50: 2 - 1.5 = 0.5, 0.5 - 25 = -24.5, -24.5 - 3.5 = -28."""
    config = plan("grad:fc.weight", "scale", parameters={"factor": 10}, steps=[1], scope=scope)
    weights, injector = _train(config, step)
    assert weights == [0.5, -24.5, -28.0]
    (injection,) = injector.injections
    assert (injection.step, injection.before.max, injection.after.max) == (1, 5.0, 50.0)


@pytest.mark.parametrize("step", [_before, _by_position, _by_keyword])
@pytest.mark.parametrize(("at", "expected"), [(1, [0.5, -9.5, -18.0]), (2, [0.5, -2.75, -22.5])])
def test_state_is_struck_in_the_step_that_is_asked_for(
    step: Step, at: int, expected: list[float]
) -> None:
    """The momentum m is halved and the gradient added.

    In step 1: m = 3, w = 0.5; m = 0.5 * 30 + 5 = 20, w = 0.5 - 10 = -9.5; m = 0.5 * 20 + 7 = 17,
    w = -9.5 - 8.5 = -18. In the last: m = 0.5 * 3 + 5 = 6.5, w = 0.5 - 3.25 = -2.75;
    m = 0.5 * 65 + 7 = 39.5, w = -2.75 - 19.75 = -22.5.
    """
    config = plan("state:fc.weight.momentum_buffer", "scale", parameters={"factor": 10}, steps=[at])
    weights, injector = _train(config, step, momentum=0.5)
    assert weights == expected
    assert [injection.step for injection in injector.injections] == [at]


@pytest.mark.parametrize("step", [_before, _by_position])
def test_state_that_is_not_there_yet_is_reported(step: Step) -> None:
    """The optimizer makes it of the first gradient, after the closure."""
    config = plan("state:fc.weight.momentum_buffer", "zero", steps=[0])
    _, injector = _train(config, step, momentum=0.5)
    assert [missed.reason for missed in injector.not_injected] == [
        "SGD has no state yet in step 0: it makes it in its first step; strike a later one"
    ]


@pytest.mark.parametrize("step", [_before, _by_position])
def test_a_parameter_stays_struck_until_the_closure_is_over(step: Step) -> None:
    """Used twice: the gradient is 2 w x. Struck in step 0 it is 2 * 20 * 3 = 120: 2 - 60 = -58.

    A metric without gradients, within the closure, is not the optimizer's.
    """
    config = plan("param:fc.weight", "scale", parameters={"factor": 10}, steps=[0])
    weights, _ = _train(config, step, Line(times=2))
    assert weights[0] == -58.0


def _lbfgs(config: dict[str, Any], by_hand: int | None = None) -> tuple[Any, list[float], Injector]:
    """Two steps of three evaluations, one of whose gradients may be doubled by hand."""
    case = models.mlp()
    optimizer = torch.optim.LBFGS(case.model.parameters(), lr=0.1, max_iter=3)
    largest: list[float] = []

    def closure() -> Any:
        optimizer.zero_grad()
        loss = case.criterion(case.model(case.x), case.y)
        loss.backward()
        gradient = next(case.model.parameters()).grad
        assert gradient is not None
        largest.append(gradient.max().item())
        if len(largest) - 1 == by_hand:
            gradient.mul_(2)
        return loss

    with Injector(config, model=case.model) as injector:
        for _ in range(2):
            optimizer.step(closure)
    return training_bits(case.model, optimizer), largest, injector


def test_of_several_evaluations_the_first_gradient_is_struck() -> None:
    """In step 1 that is the fourth of six; training is as if it was struck by hand."""
    config = plan("grad:0.weight", "scale", parameters={"factor": 2}, steps=[1])
    struck, largest, injector = _lbfgs(config)
    assert len(largest) == 6
    assert [injection.before.max for injection in injector.injections] == [largest[3]]
    assert struck == _lbfgs({"version": 2}, by_hand=3)[0]


def test_a_closure_that_the_optimizer_does_not_call_is_not_struck() -> None:
    """The step goes on; the fault is reported."""

    class Deaf(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            return closure

    model = Line()
    optimizer = Deaf(model.parameters(), lr=0.5)
    with Injector(plan("grad:fc.weight", "zero", steps=[0]), model=model) as injector:
        model(torch.ones(1, 1)).sum().backward()
        optimizer.step(lambda: 1.0)
        (missed,) = injector.not_injected
    assert missed.reason == (
        "no optimizer of the model stepped in step 0, before which 'grad:fc.weight' is struck"
    )


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam, torch.optim.LBFGS])
@pytest.mark.parametrize("step", [_by_position, _by_keyword])
def test_an_idle_injector_leaves_a_closure_alone(make: Any, step: Step) -> None:
    """Weights, gradients, state and what the step returns have the bits of plain training."""
    kept = []
    for watched in (False, True):
        case = models.mlp()
        optimizer = make(case.model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        returned = []

        def closure(case: Any = case, optimizer: Any = optimizer) -> Tensor:
            assert torch.is_grad_enabled()
            optimizer.zero_grad()
            loss: Tensor = case.criterion(case.model(case.x), case.y)
            loss.backward()
            return loss

        idle = plan("grad:0.weight", "zero", steps=[9]) if watched else {"version": 2}
        with Injector(idle, model=case.model):
            for _ in range(3):
                returned.append(step(optimizer, closure).item())
                scheduler.step()
        kept.append((training_bits(case.model, optimizer), returned))
    assert kept[0] == kept[1]
