"""Mixed precision, gradient accumulation and activation checkpointing."""

from __future__ import annotations

import pytest
import torch

from fi_notebook import Injector
from tests import models
from tests.injector.helpers import plan, sites, training_bits


def _autocast_step(case: models.Case) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = case.criterion(case.model(case.x).float(), case.y)
    loss.backward()
    case.optimizer.step()
    case.optimizer.zero_grad()
    return loss.detach()


def test_autocast_calls_are_struck_in_bfloat16() -> None:
    """Bit 15 of a bfloat16 is its sign: one element of addmm*1 changes sign."""
    case = models.mlp()
    config = plan("addmm*1:0", "bitflip", parameters={"bit": 15}, elements={"index": [0, 0]})
    with Injector(config, model=case.model) as injector:
        _autocast_step(case)
    (injection,) = injector.injections
    assert injection.site.dtype == "bfloat16"
    (change,) = injection.elements
    assert change.after == -change.before
    assert change.before_bits is not None
    assert change.after_bits == change.before_bits ^ (1 << 15)


@pytest.mark.parametrize("scale", [1.0, 1024.0])
def test_autocast_with_a_scaler_is_bit_equal_without_a_fault(scale: float) -> None:
    """Watched and unwatched, training with autocast and GradScaler has the same bits."""
    results = []
    for watched in (True, False):
        case = models.mlp()
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        config = {"version": 2, "modules": [""], "log_steps": "0-", "verbosity": "verbose"}
        injector = Injector(config, model=case.model) if watched else None
        for _ in range(3):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = case.criterion(case.model(case.x).float(), case.y)
            scaler.scale(loss).backward()
            scaler.unscale_(case.optimizer)
            torch.nn.utils.clip_grad_norm_(case.model.parameters(), 1.0)
            scaler.step(case.optimizer)
            scaler.update()
            case.optimizer.zero_grad()
        if injector is not None:
            injector.close()
        results.append(training_bits(case.model, case.optimizer))
    assert results[0] == results[1]


@pytest.mark.parametrize("name", ["checkpointed", "checkpointed_reentrant"])
@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        (["forward"], [("tanh*1:0", "forward")]),
        (["recompute"], [("tanh*2:0", "recompute")]),
        (["forward", "recompute"], [("tanh*1:0", "forward"), ("tanh*2:0", "recompute")]),
    ],
    ids=["original", "recompute", "both"],
)
def test_a_checkpointed_call_is_struck(
    name: str, phases: list[str], expected: list[tuple[str, str]]
) -> None:
    """The original forward, its recompute, or both; the module is the same."""
    case = models.CASES[name]()
    with Injector(plan("tanh", "zero", phases=phases), model=case.model) as injector:
        case.step()
    assert [(str(i.site), i.site.phase) for i in injector.injections] == expected
    assert {i.site.module for i in injector.injections} == {"block.1"}


def test_a_corrupted_recompute_changes_the_gradient_and_not_the_loss() -> None:
    """The loss is that of a clean run, no error is raised, the update differs."""
    case, twin = models.checkpointed(), models.checkpointed()
    start = torch.get_rng_state()
    with Injector(plan("tanh", "zero", phases=["recompute"]), model=case.model):
        loss = case.step()
    torch.set_rng_state(start)
    assert loss.item() == twin.step().item()
    assert training_bits(case.model, case.optimizer) != training_bits(twin.model, twin.optimizer)


def test_numbers_run_on_through_accumulation() -> None:
    """Four micro batches of 2 relu: relu*7 is the first of the fourth."""
    case = models.mlp()
    config = plan("relu*7:0", "zero", steps=[1])
    with Injector(config, model=case.model, micro_batch_per_step=4) as injector:
        for _ in range(2):
            for _ in range(4):
                case.forward_backward()
            case.optimizer.step()
            case.optimizer.zero_grad()
    assert sites(injector) == [("relu*7:0", 1)]
    assert injector.injections[0].site.module == "1"
