"""Traced, replayed, disarmed: training is bit for bit what it would have been. A small set.

Each case is a recipe of model, optimizer and step. A twin made from the same seed trains
without the tool; the other is explored between its steps; both must stay equal in loss,
gradients, parameters, buffers, optimizer state and random numbers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn, optim
from torch.nn import functional
from torch.nn.utils import parametrizations

from fi_notebook import Session
from tests import models, models_graph
from tests.models import seeded
from tests.tools.traced import same_bits


@dataclass
class Recipe:
    """A model with its optimizers and a step, as a case gives it or written here."""

    model: nn.Module
    optimizers: list[optim.Optimizer]
    step: Callable[[], Any]


def _of_case(maker: Callable[[], models.Case]) -> Callable[[], Recipe]:
    def make() -> Recipe:
        case = maker()
        return Recipe(case.model, [case.optimizer], case.step)

    return make


def _mlp_with(make: Callable[[Any], optim.Optimizer], dtype: torch.dtype = torch.float32) -> Any:
    def recipe() -> Recipe:
        with seeded(0):
            model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)).to(dtype)
            x, y = torch.randn(4, 5, dtype=dtype), torch.randn(4, 3, dtype=dtype)
        optimizer = make(model.parameters())

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = functional.mse_loss(model(x), y)
            loss.backward()
            return loss

        def step() -> Any:
            loss: Any = optimizer.step(closure)  # type: ignore[arg-type]  # it says float, and gives a tensor
            return loss.detach()

        return Recipe(model, [optimizer], step)

    return recipe


class Gan(nn.Module):
    """A generator and a discriminator."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3))
        self.discriminator = nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(), nn.Linear(4, 1))


def _gan() -> Recipe:
    with seeded(0):
        model, real = Gan(), torch.randn(4, 3)
    optimizers: list[optim.Optimizer] = [
        optim.Adam(model.generator.parameters()),
        optim.SGD(model.discriminator.parameters(), lr=0.1, momentum=0.9),
    ]

    def step() -> Tensor:
        fake = model.generator(torch.randn(4, 2))
        judged = model.discriminator(real).mean() - model.discriminator(fake.detach()).mean()
        judged.backward()
        optimizers[1].step()
        model.zero_grad()
        loss = -model.discriminator(fake).mean()
        loss.backward()
        optimizers[0].step()
        model.zero_grad()
        return loss.detach()

    return Recipe(model, optimizers, step)


def _bag() -> Recipe:
    with seeded(0):
        model = nn.Sequential(nn.EmbeddingBag(9, 4, sparse=True), nn.Linear(4, 2))
        x = torch.randint(9, (3, 4))
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step() -> Tensor:
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return Recipe(model, [optimizer], step)


def _double(_module: nn.Module, inputs: Any, _outputs: Any) -> Any:
    return tuple(None if gradient is None else gradient * 2 for gradient in inputs)


def _hooked() -> Recipe:
    """Hooks of its own, a parametrization, and Python and numpy random numbers."""
    with seeded(0):
        model = nn.Sequential(parametrizations.spectral_norm(nn.Linear(4, 4)), nn.Linear(4, 2))
        x = torch.randn(3, 4)
    model[1].register_forward_pre_hook(lambda _m, inputs: (inputs[0] * 2,))
    model[0].register_full_backward_hook(_double)
    optimizer = optim.AdamW(model.parameters())

    def step() -> Tensor:
        noise = random.random() + float(np.random.rand())  # noqa: NPY002  # it is the subject
        out = model((x + noise).requires_grad_())
        loss = out.square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return Recipe(model, [optimizer], step)


def _amp() -> Recipe:
    """Autocast to bfloat16 and a scaler whose state is in the closure."""
    with seeded(0):
        model = nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 3))
        x, y = torch.randn(4, 5), torch.randn(4, 3)
    optimizer = optim.AdamW(model.parameters(), foreach=True)

    def step() -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        return loss.detach()

    return Recipe(model, [optimizer], step)


RECIPES: dict[str, Callable[[], Recipe]] = {
    **{name: _of_case(maker) for name, maker in (models.CASES | models_graph.GRAPHS).items()},
    "sgd": _mlp_with(lambda p: optim.SGD(p, lr=0.1, momentum=0.9, foreach=True)),
    "adamw fused": _mlp_with(lambda p: optim.AdamW(p, fused=True)),
    "adamw foreach bfloat16": _mlp_with(lambda p: optim.AdamW(p, foreach=True), torch.bfloat16),
    "adafactor": _mlp_with(optim.Adafactor),
    "lbfgs": _mlp_with(lambda p: optim.LBFGS(p, max_iter=3)),
    "gan": _gan,
    "embedding bag": _bag,
    "hooks of its own": _hooked,
    "autocast": _amp,
}


def _named(recipe: Recipe) -> Iterator[tuple[str, Tensor]]:
    yield from recipe.model.named_parameters()
    yield from recipe.model.named_buffers()
    for name, parameter in recipe.model.named_parameters():
        if parameter.grad is not None:
            yield (
                f"{name}.grad",
                parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad,
            )
    for number, optimizer in enumerate(recipe.optimizers):
        for place, state in enumerate(optimizer.state.values()):
            yield from (
                (f"{number}.{place}.{key}", value)
                for key, value in state.items()
                if isinstance(value, Tensor)
            )
    yield "torch", torch.get_rng_state()
    numbers: Any = np.random.get_state()  # noqa: NPY002  # the global generator is the subject
    yield "numpy", torch.from_numpy(numbers[1].astype(np.int64))
    yield "python", torch.tensor(random.getstate()[1], dtype=torch.int64)


def _course(recipe: Recipe, between: Callable[[], None]) -> list[dict[str, Tensor]]:
    """Everything there is after each of two steps, with something done before each."""
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002  # the global generator is the subject
    seen = []
    for _ in range(2):
        between()
        loss = recipe.step()
        seen.append({name: t.detach().clone() for name, t in _named(recipe)} | {"loss": loss})
    return seen


def _assert_same(course: list[dict[str, Tensor]], expected: list[dict[str, Tensor]]) -> None:
    for mine, theirs in zip(course, expected, strict=True):
        assert mine.keys() == theirs.keys()
        assert [name for name in mine if not same_bits(mine[name], theirs[name])] == []


@pytest.mark.parametrize("name", RECIPES)
def test_explored_training_is_bit_equal_to_plain_training(name: str) -> None:
    """Trace, an armed fault that never fires, a struck replay, disarmed: nothing stays."""
    plain = _course(RECIPES[name](), lambda: None)
    recipe = RECIPES[name]()

    def explore() -> None:
        session = Session(recipe.step, model=recipe.model, optimizer=recipe.optimizers)
        site = next(
            s for s in session.trace().sites if s.phase == "forward" and s.dtype[:1] in "bf"
        )
        session.arm(site, "bitflip", bit=14, elements={"count": 3}, steps=1)
        assert not session.replay().injections
        session.disarm()
        session.arm(site, "bitflip", bit=14, elements={"count": 3})
        assert session.replay().injections
        session.disarm()
        assert session.replay().comparison.equal

    _assert_same(_course(recipe, explore), plain)
