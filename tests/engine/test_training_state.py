from __future__ import annotations

import math

import torch
from torch import nn, optim

from fi_notebook import Session
from fi_notebook.engine.replay import StepResult
from fi_notebook.engine.training_state import TrainingState
from tests import models


def test_state_of_parameters_that_are_not_the_models_is_all_kept() -> None:
    """Two of them, with momenta of ones and of twos; the model's own has its name."""
    model, others = nn.Linear(2, 1, bias=False), [nn.Parameter(torch.zeros(2)) for _ in range(2)]
    optimizer = optim.SGD([model.weight, *others], lr=1.0, momentum=0.9)
    for n, parameter in enumerate((model.weight, *others)):
        parameter.grad = torch.full_like(parameter, n)
    optimizer.step()
    state = TrainingState.take(model, [optimizer]).optimizer_state
    assert {name: value.flatten().tolist() for name, value in state.items()} == {
        "weight.momentum_buffer": [0.0, 0.0],
        "parameter.momentum_buffer": [1.0, 1.0],
        "parameter.momentum_buffer (2)": [2.0, 2.0],
    }


def test_state_that_two_optimizers_keep_of_one_parameter_is_all_kept() -> None:
    """Each in its order."""
    model = nn.Linear(1, 1, bias=False)
    optimizers = [optim.SGD(model.parameters(), lr=1.0, momentum=0.9) for _ in range(2)]
    for n, optimizer in enumerate(optimizers, 1):
        model.weight.grad = torch.full((1, 1), float(n))
        optimizer.step()
    state = TrainingState.take(model, optimizers).optimizer_state
    assert {name: value.item() for name, value in state.items()} == {
        "weight.momentum_buffer": 1.0,
        "weight.momentum_buffer (2)": 2.0,
    }


def test_a_fault_in_the_state_of_a_parameter_outside_the_model_is_found() -> None:
    """Of two such parameters the momentum of the first is compared too."""
    model, outside = nn.Linear(2, 2), [nn.Parameter(torch.ones(2)) for _ in range(2)]
    optimizer = optim.SGD([*model.parameters(), *outside], lr=0.1, momentum=0.9)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = ((model(torch.ones(1, 2)) * outside[0].exp()).sum() + outside[1].sum()) ** 2
        loss.backward()
        optimizer.step()
        return loss

    session = Session(step, model=model, optimizer=optimizer)
    step()
    state = session.replay().comparison.optimizer_state
    assert [d.name for d in state] == [
        "weight.momentum_buffer",
        "bias.momentum_buffer",
        "parameter.momentum_buffer",
        "parameter.momentum_buffer (2)",
    ]


def test_norms_that_are_not_known_are_nan() -> None:
    """A step that raised left no parameters to measure."""
    case = models.mlp()
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    session.trace()
    assert session._golden is not None
    result = StepResult(session._golden.result.recorder)
    assert math.isnan(result.record(0).parameter_norm)
