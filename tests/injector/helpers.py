"""What the tests of the injector share: plans in one line, twins, and bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from tests import models

__all__ = ["bits", "lines", "plan", "same_training", "sites", "training_bits"]


def plan(target: str, model: str = "light", **parts: Any) -> dict[str, Any]:
    """A plan with one fault, ``f1``."""
    return {"version": 2, "faults": [{"id": "f1", "target": target, "model": model, **parts}]}


def sites(injector: Any) -> list[tuple[str, int]]:
    """Site and step of every injection."""
    return [(str(i.site), i.step) for i in injector.injections]


def lines(caplog: Any) -> list[str]:
    """What was logged."""
    return [record.getMessage() for record in caplog.records]


def bits(tensor: Tensor) -> bytes:
    """The bits of a tensor."""
    return tensor.detach().contiguous().numpy().tobytes()


def training_bits(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, bytes]:
    """Bits of everything that training changes, and of torch's generator."""
    named = [
        *model.named_parameters(),
        *model.named_buffers(),
        *((f"{n}.grad", p.grad) for n, p in model.named_parameters() if p.grad is not None),
        *(
            (f"state {n}.{key}", value)
            for n, state in enumerate(optimizer.state.values())
            for key, value in state.items()
            if isinstance(value, Tensor)
        ),
        ("torch generator", torch.get_rng_state()),
    ]
    return {name: bits(tensor) for name, tensor in named}


@contextmanager
def same_training(maker: Callable[..., models.Case]) -> Iterator[tuple[models.Case, models.Case]]:
    """A case and its twin; after the block the case's training must have the twin's bits.

    The block trains the case; the twin is trained after it with the same random numbers
    for as many steps as ``notes["steps"]`` of the case says.
    """
    case, twin = maker(), maker()
    start = torch.get_rng_state()
    yield case, twin
    mine = training_bits(case.model, case.optimizer)
    torch.set_rng_state(start)
    for _ in range(case.notes["steps"]):
        twin.step()
    assert mine == training_bits(twin.model, twin.optimizer)
