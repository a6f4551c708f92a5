"""No memory of a training loses what it could: each can be resized as before.

FSDP takes the memory of gathered weights away after their use, and gives it back before the
next one; memory that numpy once saw refuses that for good.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import fi_notebook as fi
from fi_notebook.engine.storages import tensors_in

_ROWS, _WIDTH = 100, 100  # 10,000 elements: more than those that are copied to be summarised


class _Every(TorchDispatchMode):
    """Keeps every tensor that a call took or gave."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: list[Tensor] = []

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.tensors += tensors_in((args, kwargs, result))
        return result


class _Training:
    """A training, and all that it touched."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.model = nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, 1))
        self.model.to(dtype)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.x = torch.ones(_ROWS, _WIDTH, dtype=dtype)
        self.every = _Every()

    def step(self) -> Tensor:
        self.optimizer.zero_grad()
        loss: Tensor = self.model(self.x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss

    @property
    def fixed(self) -> int:
        """How many tensors lie in memory that cannot be resized any more."""
        return sum(not t.untyped_storage().resizable() for t in self.every.tensors)


_STRUCK = {"addmm*1:0": "nan", "t*1:0": "zero", "param:0.weight": "zero", "grad:0.weight": "nan"}
"""Model of the fault of each target."""


def _explored(training: _Training) -> None:
    def step() -> Tensor:
        with training.every:  # without what the session itself calls
            return training.step()

    session = fi.Session(step, model=training.model, optimizer=training.optimizer)
    session.trace()
    for target, model in _STRUCK.items():
        session.arm(target, model, elements={"count": 2})
    run = session.replay(steps=2)
    assert len(run.injections) == len(_STRUCK)
    assert len(run.comparison.to_pandas())


def _injected(training: _Training) -> None:
    faults = [
        {"target": target, "model": model, "elements": {"count": 2}}
        for target, model in _STRUCK.items()
    ]
    plan = {"version": 2, "modules": [""], "log_steps": "0-", "faults": faults}
    with (
        training.every,
        fi.Injector(plan, model=training.model, verbosity="quiet") as injector,
    ):
        training.step()
    assert len(injector.injections) == len(_STRUCK)


def _watched(training: _Training) -> None:
    sites = ["addmm", "mean*1:0", "mm", "param:*", "grad:*", "state:*"]
    with training.every, fi.watch(training.model, sites, optimizer=training.optimizer):
        training.step()
        training.step()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("look", [_explored, _injected, _watched])
def test_every_memory_can_be_resized_as_before(
    look: Callable[[_Training], None], dtype: torch.dtype
) -> None:
    """Of a traced, replayed, struck and watched training, no tensor lies in fixed memory."""
    training = _Training(dtype)
    training.step()
    look(training)
    assert len(training.every.tensors) > 100
    assert training.fixed == 0
