"""Dispatch modes of a person's own stay on for as long as their ``with`` says, no longer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from fi_notebook import Injector, watch
from tests.injector.helpers import plan


def _idle(model: nn.Module) -> Any:
    return Injector(plan("tanh*1:0", "zero", probability=0.0), model=model)


def _watching(model: nn.Module) -> Any:
    return watch(model, ["tanh"])


def _flops(begin: Any, *, faults: int = 0) -> list[int]:
    """What a counter that is open around the forward alone counts in each of two steps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    inputs, counted = torch.randn(6, 4), []
    attached = None if begin is None else begin(model)
    for _ in range(2):
        with FlopCounterMode(display=False) as counter:
            loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        counted.append(counter.get_total_flops())
    if attached is not None:
        attached.close()
        assert not faults or len(attached.injections) == faults
    return counted


@pytest.mark.parametrize("begin", [None, _idle, _watching])
def test_a_mode_around_the_forward_is_not_on_in_the_backward(begin: Any) -> None:
    """Two products of a forward cost 2 * 6 * 4 * 5 + 2 * 6 * 5 * 3 = 420, whoever looks on."""
    assert _flops(begin) == [420, 420]


def test_a_fault_strikes_the_backward_after_a_mode_around_the_forward() -> None:
    """The first step's backward is seen too: ``tanh_backward`` is struck in both steps, 2."""

    def begin(model: nn.Module) -> Any:
        return Injector(plan("tanh_backward*1:0", "zero"), model=model)

    assert _flops(begin, faults=2) == [420, 420]
