"""Between the steps that a plan lists nothing inside the model is watched."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn.modules import module as hooks

from fi_notebook import Injector


def plan_for(steps: str) -> dict[str, object]:
    """One bit flip in the first ``addmm`` of some steps."""
    fault = {
        "target": "addmm*1:0",
        "model": "bitflip",
        "parameters": {"bit": 20},
        "elements": {"index": [0, 0]},
        "steps": steps,
    }
    return {"version": 2, "faults": [fault], "verbosity": "quiet"}


class Net(nn.Module):
    """A Linear, and what is found while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.hooked: list[bool] = []
        self.copied: Net | None = None
        self.copies = False
        self.raises: BaseException | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Look for global hooks; copy or raise where that is asked for."""
        self.hooked.append(bool(hooks._global_forward_pre_hooks))
        if self.copies:
            self.copied = copy.deepcopy(self)
        if self.raises is not None:
            raise self.raises
        return self.fc(x)


@pytest.fixture
def net() -> Net:
    """A small model."""
    return Net()


def train(net: Net, optimizer: torch.optim.Optimizer, *, micro_batches: int = 1) -> None:
    """One step."""
    optimizer.zero_grad()
    for _ in range(micro_batches):
        net(torch.ones(4, 3)).sum().backward()
    optimizer.step()


def sgd(net: Net) -> torch.optim.Optimizer:
    """Its optimizer."""
    return torch.optim.SGD(net.parameters(), lr=0.01)


def test_hooks_are_on_in_the_listed_steps_alone(net: Net) -> None:
    """Of six steps the third and fourth: they fire there, and the model has no hook left."""
    optimizer = sgd(net)
    with Injector(plan_for("2-3"), model=net) as injector:
        for _ in range(6):
            train(net, optimizer)
            assert not net._forward_hooks
        assert [found.step for found in injector.injections] == [2, 3]
    assert net.hooked == [False, False, True, True, False, False]
    assert not hooks._global_forward_pre_hooks


@pytest.mark.parametrize("count", [None, 3])
def test_every_micro_batch_is_counted(net: Net, count: int | None) -> None:
    """Three forwards a step, by the rule and by the number that was given."""
    optimizer = sgd(net)
    with Injector(plan_for("4"), model=net, micro_batch_per_step=count) as injector:
        for _ in range(6):
            train(net, optimizer, micro_batches=3)
        assert [found.step for found in injector.injections] == [4]
        assert injector.step == 5


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()], ids=str)
def test_a_forward_that_ended_in_an_error_is_a_step_too(net: Net, error: BaseException) -> None:
    """The first of four raises; the fault of step 2 strikes in the third."""
    optimizer = sgd(net)
    with Injector(plan_for("2"), model=net) as injector:
        net.raises = error
        with pytest.raises(type(error)):
            train(net, optimizer)
        net.raises = None
        for _ in range(3):
            train(net, optimizer)
        assert net.hooked == [False, False, True, False]
        assert [found.step for found in injector.injections] == [2]
    assert not net._forward_hooks
    assert not hooks._global_forward_pre_hooks


def test_a_copy_made_inside_a_forward_is_not_the_model(net: Net) -> None:
    """Its forwards count no step, and its hook does nothing."""
    optimizer = sgd(net)
    with Injector(plan_for("9"), model=net) as injector:
        net.copies = True
        train(net, optimizer)
        assert net.copied is not None
        net.copied.copies = False
        net.copied(torch.ones(4, 3))
        assert injector.step == 0


def test_validation_keeps_the_hooks_on(net: Net) -> None:
    """Its forwards are no training: one that another thread begins must still be counted."""
    optimizer = sgd(net)
    with Injector(plan_for("9"), model=net) as injector:
        train(net, optimizer)
        net.eval()
        net(torch.ones(4, 3))
        net.train()
        train(net, optimizer)
        assert injector.step == 1
    assert net.hooked == [False, True, False]


def test_hooks_of_somebody_else_keep_ours_on(net: Net) -> None:
    """Modules call hooks anyway then, and the order of the two stays as it is."""
    optimizer, seen = sgd(net), list[str]()
    handle = hooks.register_module_forward_pre_hook(
        lambda module, _inputs: seen.append(type(module).__name__)
    )
    try:
        with Injector(plan_for("2"), model=net) as injector:
            for _ in range(3):
                train(net, optimizer)
            assert [found.step for found in injector.injections] == [2]
    finally:
        handle.remove()
    assert seen == ["Net", "Linear"] * 3
