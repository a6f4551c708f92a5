"""Where no fault fires, training has the bits of plain PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fi_notebook import Injector
from tests import models
from tests.injector.helpers import same_training, training_bits

NEVER = [{"target": "relu", "model": "zero", "steps": "100-"}]
EVERYTHING = {"version": 2, "modules": [""], "log_steps": "0-"}
IN_SCOPE = {  # watched in every step, and probability 0 keeps it from firing
    "version": 2,
    "faults": [{"target": op, "model": "zero", "probability": 0} for op in ("addmm", "mul_", "t")],
}


@pytest.mark.parametrize("name", models.CASES)
@pytest.mark.parametrize(
    "config",
    [{"version": 2, "faults": NEVER}, EVERYTHING, IN_SCOPE],
    ids=["idle", "log only", "in scope"],
)
def test_training_is_bit_equal(name: str, config: dict[str, Any]) -> None:
    """Parameters, buffers, gradients, optimizer state and generators after 4 steps."""
    with same_training(models.CASES[name]) as (case, _):
        case.notes["steps"] = 4
        with Injector(config, model=case.model) as injector:
            for _ in range(4):
                case.step()
        assert not injector.injections


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.Adam(p, lr=0.1, foreach=False),
        lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
        lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
        lambda p: torch.optim.Adagrad(p, lr=0.1),
        lambda p: torch.optim.RMSprop(p, lr=0.1, centered=True),
        lambda p: torch.optim.NAdam(p, lr=0.1),
        lambda p: torch.optim.Adafactor(p, lr=0.1),
    ],
    ids=[
        "sgd",
        "adam for-loop",
        "adamw foreach",
        "adamw fused",
        "adagrad",
        "rmsprop",
        "nadam",
        "adafactor",
    ],
)
def test_every_optimizer_steps_alike(make: Any) -> None:
    """Training with a log of every call is bit-equal for these optimizers."""
    results = []
    for config in (EVERYTHING, None):
        case = models.mlp()
        case.optimizer = make(case.model.parameters())
        injector = None if config is None else Injector(config, model=case.model)
        for _ in range(3):
            case.step()
        if injector is not None:
            injector.close()
        results.append(training_bits(case.model, case.optimizer))
    assert results[0] == results[1]


@pytest.mark.draws_nothing
def test_a_fault_draws_nothing_from_the_global_generators() -> None:
    """Random values come from the fault's own generator."""
    case = models.mlp()
    plan = {"version": 2, "faults": [{"target": "addmm", "model": "random", "probability": 0.5}]}
    with Injector(plan, model=case.model) as injector:
        case.step()
        case.step()
    assert injector.plan


def test_steps_after_the_fault_are_plain_again() -> None:
    """A run struck in step 1 and given its old state back trains on as a clean one."""
    case, twin = models.mlp(), models.mlp()
    plan = {"version": 2, "faults": [{"target": "addmm*1", "model": "zero", "steps": [1]}]}
    with Injector(plan, model=case.model):
        case.step()
        twin.step()
        kept = {name: p.detach().clone() for name, p in case.model.named_parameters()}
        case.step()
        assert training_bits(case.model, case.optimizer) != training_bits(
            twin.model, twin.optimizer
        )
        with torch.no_grad():
            for name, parameter in case.model.named_parameters():
                parameter.copy_(kept[name])
        case.step()
        twin.step()
    assert training_bits(case.model, case.optimizer) == training_bits(twin.model, twin.optimizer)
