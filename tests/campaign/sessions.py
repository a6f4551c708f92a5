"""Sessions that campaigns of the tests are on; worker processes import this file."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from fi_notebook.demo import make_demo
from fi_notebook.session import Session


def quickstart() -> Session:
    """The demonstration: a small CNN on digits, one AdamW step."""
    demo = make_demo()
    return Session(demo.step, model=demo.model, optimizer=demo.optimizer)


def inference() -> Session:
    """The demonstration's model in inference: its scores, and no loss."""
    demo = make_demo()
    demo.model.eval()

    def step() -> Tensor:
        with torch.no_grad():
            scores: Tensor = demo.model(demo.images)
        return scores

    return Session(step, model=demo.model)


def small(forward: Callable[[nn.Module, Tensor], Tensor]) -> Session:
    """A linear model, SGD, one batch, and a forward of the test's own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, data = nn.Linear(4, 3), torch.randn(5, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> Tensor:
        loss = forward(model, data)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return Session(step, model=model, optimizer=optimizer)


def hanging() -> Session:
    """Where the first value is large, a loop of plain Python never ends."""

    def forward(model: nn.Module, data: Tensor) -> Tensor:
        out: Tensor = model(data)
        while float(out.detach()[0, 0]) > 100 and not out.isnan().any():
            sum(range(1000))
        return out.square().sum()

    return small(forward)


def deadly() -> Session:
    """Where the first value is large, the process is killed."""

    def forward(model: nn.Module, data: Tensor) -> Tensor:
        out: Tensor = model(data)
        if float(out.detach()[0, 0]) > 100:
            os.kill(os.getpid(), signal.SIGKILL)
        return out.square().sum()

    return small(forward)


def dead_units() -> Session:
    """A ReLU of which the first 4 of 8 units are dead: their inputs are -1e30."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        data = torch.randn(6, 4)
    with torch.no_grad():
        cast(nn.Linear, model[0]).bias[:4] = -1e30
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> Tensor:
        loss: Tensor = model(data).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return Session(step, model=model, optimizer=optimizer)


class Normal(nn.Module):
    """A parameter of 4,096 draws from N(0, 1), multiplied by one."""

    def __init__(self) -> None:
        """Draw them."""
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            self.values = nn.Parameter(torch.randn(4096))

    def forward(self, factor: Tensor) -> Tensor:
        """The draws, in a tensor of their own."""
        return self.values * factor


def normal() -> Session:
    """One tensor of normal draws and a loss that takes it in; a step without a data set."""
    model = Normal()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)

    def step() -> Tensor:
        loss: Tensor = model(torch.ones(())).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return Session(step, model=model, optimizer=optimizer)


def accuracy(model: nn.Module) -> dict[str, float]:
    """The share of the demonstration's images that the model names rightly."""
    demo = make_demo()
    model.eval()
    with torch.no_grad():
        right = model(demo.images).argmax(1) == demo.labels
    return {"accuracy": float(right.double().mean())}
