"""Shared models whose autograd graph is not plain, and steps that are not the usual ones.

    case = models_graph.gradient_penalty(seed=3)
    loss = case.step()            # two backward passes, one through the other

Each maker gives a `tests.models.Case`; where the usual step does not fit, the case is a
`Custom` with a step of its own. `GRAPHS` lists every maker by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.models import Case, seeded

__all__ = ["GRAPHS", "Custom"]


@dataclass
class Custom(Case):
    """A case with a step of its own; the step returns the loss and leaves no gradients."""

    own_step: Callable[[Custom], Tensor] | None = None

    def step(self) -> Tensor:
        """The step of the case."""
        assert self.own_step is not None
        return self.own_step(self)


def _sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def _finish(case: Case) -> None:
    case.optimizer.step()
    case.optimizer.zero_grad()


class Net(nn.Module):
    """Two Linears around what the function does to the hidden values."""

    def __init__(self, middle: Callable[[Tensor], Tensor], width: int = 6) -> None:
        """Keep the function and make the layers."""
        super().__init__()
        self.first = nn.Linear(5, width)
        self.last = nn.Linear(width, 3)
        self.middle = middle

    def forward(self, x: Tensor) -> Tensor:
        """First layer, the function, last layer."""
        return self.last(self.middle(self.first(x)))


def _net(
    seed: int, middle: Callable[[Tensor], Tensor], kind: type[Case] = Case, **more: Any
) -> Case:
    with seeded(seed):
        model = Net(middle)
        x, y = torch.randn(4, 5), torch.randn(4, 3)
    return kind(model, _sgd(model), x, y, functional.mse_loss, **more)


def _slices(h: Tensor) -> Tensor:
    h = h.clone()
    h[:, :2].mul_(3)
    v = h[:, 2:4]
    v.add_(torch.sigmoid(h[:, 4:]))
    return h


def in_place_slices(seed: int = 0) -> Case:
    """In-place calls on slices: their nodes are ``CopySlices``."""
    return _net(seed, _slices)


def _divided(h: Tensor) -> Tensor:
    v = h * h
    v /= v.sum()
    w = v.t()
    w -= w.mean()
    return v


def in_place_divide(seed: int = 0) -> Case:
    """``v /= v.sum()``, which clones itself first, and the same through a transpose."""
    return _net(seed, _divided)


class Cubed(torch.autograd.Function):
    """x³ with several calls in either direction."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Three factors x."""
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """3 · x² · g."""
        (x,) = ctx.saved_tensors
        return grad * x.square() * 3


class CubeLayer(nn.Module):
    """A module that applies `Cubed`."""

    def forward(self, x: Tensor) -> Tensor:
        """Its cube."""
        return Cubed.apply(x)


def custom_function(seed: int = 0) -> Case:
    """A custom ``autograd.Function`` in a module of its own."""
    with seeded(seed):
        model = nn.Sequential(nn.Linear(5, 6), CubeLayer(), nn.Linear(6, 3))
        x, y = torch.randn(4, 5), torch.randn(4, 3)
    return Case(model, _sgd(model), x, y, functional.mse_loss)


def _penalty_step(case: Custom) -> Tensor:
    x = case.x.detach().clone().requires_grad_()
    out = case.model(x)
    (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    loss = case.criterion(out, case.y) + slope.square().mean()
    loss.backward()
    _finish(case)
    return loss.detach()


def gradient_penalty(seed: int = 0) -> Case:
    """Double backward: the loss holds the gradient of the output by the input."""
    return _net(seed, torch.tanh, Custom, own_step=_penalty_step)


def _retained_step(case: Custom) -> Tensor:
    loss = case.criterion(case.model(case.x), case.y)
    loss.backward(retain_graph=True)
    loss.backward()
    _finish(case)
    return loss.detach()


def retained_graph(seed: int = 0) -> Case:
    """One graph, two backward passes through it."""
    return _net(seed, torch.tanh, Custom, own_step=_retained_step)


class Energy(nn.Module):
    """Forces as the gradient of an energy, taken inside the forward."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.hidden = nn.Linear(5, 6)
        self.energy = nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        """-dE/dx."""
        x = x.detach().requires_grad_()
        energy = self.energy(torch.tanh(self.hidden(x))).sum()
        (slope,) = torch.autograd.grad(energy, x, create_graph=True)
        return -slope


def gradient_inside(seed: int = 0) -> Case:
    """``autograd.grad`` inside a forward: a node and a scope at once, and no recompute."""
    with seeded(seed):
        model = Energy()
        x, y = torch.randn(4, 5), torch.randn(4, 5)
    return Case(model, _sgd(model), x, y, functional.mse_loss)


def _hand_step(case: Custom) -> Tensor:
    out = case.model(case.x)
    error = out - case.y
    decay = sum((p * p).sum() for p in case.model.parameters())
    loss = (error * error).mean() + 0.01 * decay
    loss.backward()
    _finish(case)
    return loss.detach()


def hand_written_loss(seed: int = 0) -> Case:
    """A loss of plain arithmetic that also reads the parameters."""
    return _net(seed, torch.tanh, Custom, own_step=_hand_step)


class CheckpointedFunction(nn.Module):
    """A checkpoint around a plain function: no module is entered when it is recomputed."""

    def __init__(self, *, reentrant: bool) -> None:
        """Make the layers; ``reentrant`` chooses the kind of checkpoint."""
        super().__init__()
        self.first = nn.Linear(5, 6)
        self.last = nn.Linear(6, 3)
        self.reentrant = reentrant

    def _squash(self, h: Tensor) -> Tensor:
        return torch.tanh(h) * torch.sigmoid(h)

    def forward(self, x: Tensor) -> Tensor:
        """The function under a checkpoint."""
        return self.last(checkpoint(self._squash, self.first(x), use_reentrant=self.reentrant))


def checkpointed_function(seed: int = 0, *, reentrant: bool = False) -> Case:
    """A plain function under a checkpoint; reentrant or not."""
    with seeded(seed):
        model = CheckpointedFunction(reentrant=reentrant)
        x, y = torch.randn(4, 5), torch.randn(4, 3)
    return Case(model, _sgd(model), x, y, functional.mse_loss)


def checkpointed_function_reentrant(seed: int = 0) -> Case:
    """The same under a reentrant checkpoint."""
    return checkpointed_function(seed, reentrant=True)


GRAPHS: dict[str, Callable[..., Case]] = {
    maker.__name__: maker
    for maker in (
        in_place_slices,
        in_place_divide,
        custom_function,
        gradient_penalty,
        retained_graph,
        gradient_inside,
        hand_written_loss,
        checkpointed_function,
        checkpointed_function_reentrant,
    )
}
"""Every maker by name."""
