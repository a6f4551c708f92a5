"""The session leaves training as plain PyTorch would: compared with a twin that it never saw."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fi_notebook import Session
from fi_notebook.core.site import OUTSIDE
from tests import models

_ROUNDS = 2


def _bits(tensor: Tensor) -> bytes:
    return tensor.detach().contiguous().numpy().tobytes()


def _tensors(value: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _tensors(item, f"{name}.{key}")


def _state(case: models.Case) -> dict[str, Any]:
    """Bits of everything that training changes, and of the generators."""
    named = [
        *case.model.named_parameters(),
        *case.model.named_buffers(),
        *((f"{n}.grad", p.grad) for n, p in case.model.named_parameters() if p.grad is not None),
    ]
    for number, state in enumerate(case.optimizer.state.values()):
        named += _tensors(state, f"state {number}")
    numbers: Any = np.random.get_state()  # noqa: NPY002  (the global generator is the subject)
    rng = (torch.get_rng_state(), numbers[1], random.getstate())
    return {name: _bits(tensor) for name, tensor in named} | {
        "torch generator": _bits(rng[0]),
        "numpy generator": rng[1].tobytes(),
        "python generator": rng[2],
    }


def _objects(case: models.Case) -> list[int]:
    groups = [id(group) for group in case.optimizer.param_groups]
    states = [id(t) for s in case.optimizer.state.values() for _, t in _tensors(s, "")]
    return [id(p) for p in case.model.parameters()] + groups + states


@pytest.mark.parametrize("name", models.CASES)
@pytest.mark.parametrize("trained", [0, 2], ids=["first step", "third step"])
def test_trace_and_replay_leave_everything_as_it_was(name: str, trained: int) -> None:
    """After a trace and a replay with a fault, every bit and every object is as before."""
    case = models.CASES[name]()
    for _ in range(trained):
        case.step()
    before, objects = _state(case), _objects(case)
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    trace = session.trace()
    assert _state(case) == before
    site = next(s for s in trace.sites if s.dtype == "float32" and s.phase == "forward")
    session.arm(site, "bitflip", bit=30, elements={"index": 0})
    session.replay(steps=2)
    assert _state(case) == before
    assert _objects(case) == objects


@pytest.mark.parametrize("name", models.CASES)
def test_training_goes_on_as_if_nobody_had_looked(name: str) -> None:
    """Steps after a trace and a replay give the bits of a twin that was never observed."""
    case, twin = models.CASES[name](), models.CASES[name]()
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    session.arm(session.trace().sites[0], "zero", steps="0-")
    session.replay()
    session.disarm()
    session.replay()
    start = torch.get_rng_state()
    losses = [case.step() for _ in range(_ROUNDS)]
    torch.set_rng_state(start)
    expected = [twin.step() for _ in range(_ROUNDS)]
    assert [_bits(a) for a in losses] == [_bits(b) for b in expected]
    assert _state(case) == _state(twin)


@pytest.mark.parametrize("name", models.CASES)
def test_golden_against_golden_is_equal(name: str) -> None:
    """A replay without faults reports no divergence: calls, loss, gradients and update."""
    case = models.CASES[name]()
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    run = session.replay()
    assert run.noise is None or run.noise.equal
    assert run.comparison.equal
    assert not run.injections


@pytest.mark.parametrize("name", models.CASES)
def test_the_golden_loss_and_gradient_norm_are_those_of_plain_training(name: str) -> None:
    """The recorded loss is the twin's bit for bit, the norm that of its stacked gradients."""
    case, twin = models.CASES[name](), models.CASES[name]()
    start = torch.get_rng_state()
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    record = session.replay().golden[0]
    torch.set_rng_state(start)
    assert record.loss == twin.forward_backward().item()
    if twin.clip is not None:
        torch.nn.utils.clip_grad_norm_(twin.model.parameters(), twin.clip)
    gradients = [p.grad.double().norm() for p in twin.model.parameters() if p.grad is not None]
    assert record.gradient_norm == pytest.approx(torch.stack(gradients).norm().item(), rel=1e-5)


@pytest.mark.parametrize("name", models.CASES)
def test_every_backward_call_has_its_forward_calls_module(name: str) -> None:
    """Backward calls of a module's operators carry that module and a line of the model."""
    case = models.CASES[name]()
    trace = Session(case.step, model=case.model, optimizer=case.optimizer).trace()
    backward = [site for site in trace.sites if site.phase == "backward"]
    assert backward
    lost = [site for site in backward if not site.code or site.module == OUTSIDE]
    assert not [str(site) for site in lost if site.op not in ("ones_like", "detach")]
