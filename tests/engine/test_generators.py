"""Generators of any accelerator are put back; stand-ins where this machine has none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fi_notebook.engine.generators import Generators


def xpu(state: list[int], *, started: bool = True) -> Any:
    """An accelerator of several devices, as ``torch.xpu`` and ``torch.cuda`` show it."""
    return SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: started,
        get_rng_state_all=lambda: [torch.tensor([n]) for n in state],
        set_rng_state_all=lambda new: state.__setitem__(slice(None), [int(n) for n in new]),
    )


def mps(state: list[int]) -> Any:
    """An accelerator of one device, as ``torch.mps`` shows it."""
    return SimpleNamespace(
        is_available=lambda: True,
        get_rng_state=lambda: torch.tensor(state),
        set_rng_state=lambda new: state.__setitem__(slice(None), new.tolist()),
    )


def put_in_place(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    """Let torch have an accelerator."""
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("mps"))
    monkeypatch.setattr(torch, "get_device_module", lambda _device: module)


@pytest.mark.parametrize(("make", "devices"), [(xpu, 2), (mps, 1)])
def test_those_of_an_accelerator_are_put_back(
    make: Any, devices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all its devices."""
    state = [5] * devices
    put_in_place(monkeypatch, make(state))
    before = Generators.take()
    state[:] = [9] * devices
    before.restore()
    assert state == [5] * devices


def test_an_accelerator_that_nothing_used_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading its generators would."""
    put_in_place(monkeypatch, xpu([5], started=False))
    assert Generators.take().accelerator == ()
