"""What neutrality is proved on: a model, its optimizers and a step, made anew each time.

    recipe = RECIPES["gpt2"].make(torch.bfloat16, "AdamW fused")
    loss = recipe.step()

Two recipes that are made alike train alike, bit for bit, from the same random numbers.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn, optim
from torch.nn import functional
from torch.nn.utils import parametrizations

from tests import models, models_graph
from tests.models import seeded
from tests.proof.architectures import ARCHITECTURES

__all__ = ["OPTIMIZERS", "RECIPES", "Kind", "Recipe"]

Step = Callable[[], Tensor]

OPTIMIZERS: Mapping[str, Callable[[Any], optim.Optimizer]] = {
    "SGD": lambda p: optim.SGD(p, lr=0.01, momentum=0.9),
    "AdamW for-loop": lambda p: optim.AdamW(p, lr=1e-3, foreach=False),
    "AdamW foreach": lambda p: optim.AdamW(p, lr=1e-3, foreach=True),
    "AdamW fused": lambda p: optim.AdamW(p, lr=1e-3, fused=True),
    "Adafactor": lambda p: optim.Adafactor(p, lr=1e-3),
    "LBFGS": lambda p: optim.LBFGS(p, lr=1e-2, max_iter=2),
}
"""The optimizers by name."""

_OWN = ("its own",)


@dataclass
class Recipe:
    """What trains.

    Attributes:
        model: The model.
        optimizers: Its optimizers.
        step: One step; gives the loss.
        called: The modules that the step calls: what a person would compile.
    """

    model: nn.Module
    optimizers: list[optim.Optimizer]
    step: Step
    called: tuple[nn.Module, ...]


@dataclass(frozen=True)
class Kind:
    """One way to make a recipe.

    Attributes:
        family: What it stands for.
        make: Makes it, in a dtype and with an optimizer of `OPTIMIZERS`.
        optimizers: Those that it may be made with.
        dtypes: Those that it may be made in.
        backend: What compiles it; torch's own compilers do not do double backward.
    """

    family: str
    make: Callable[[torch.dtype, str], Recipe]
    optimizers: tuple[str, ...] = tuple(OPTIMIZERS)
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.bfloat16)
    backend: str = "aot_eager"


def _recipe(
    model: nn.Module, loss_of: Step, optimizer: optim.Optimizer, clip: float | None = None
) -> Recipe:
    """A step of forward, loss, backward, clipping and update, by closure where it must be."""

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        return loss

    def step() -> Tensor:
        if isinstance(optimizer, optim.LBFGS):
            loss: Any = optimizer.step(closure)
        else:
            loss = closure()
            optimizer.step()
        return loss.detach()

    return Recipe(model, [optimizer], step, (model,))


def _in(dtype: torch.dtype, tensor: Tensor) -> Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def _of_case(maker: Callable[[], models.Case], dtype: torch.dtype, optimizer: str) -> Recipe:
    case = maker()
    case.model.to(dtype)
    x, y = _in(dtype, case.x), _in(dtype, case.y)
    made = OPTIMIZERS[optimizer](case.model.parameters())
    return _recipe(case.model, lambda: case.criterion(case.model(x), y), made, case.clip)


def _of_custom(maker: Callable[[], models.Case], dtype: torch.dtype, _optimizer: str) -> Recipe:
    """A case whose step is its own."""
    case = maker()
    case.model.to(dtype)
    case.x, case.y = _in(dtype, case.x), _in(dtype, case.y)
    return Recipe(case.model, [case.optimizer], case.step, (case.model,))


def _of_architecture(name: str, dtype: torch.dtype, optimizer: str) -> Recipe:
    model, inputs = ARCHITECTURES[name].make(dtype)
    made = OPTIMIZERS[optimizer](model.parameters())
    return _recipe(model, lambda: model(**inputs).loss, made)


class Gan(nn.Module):
    """A generator and a discriminator."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3))
        self.discriminator = nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(), nn.Linear(4, 1))


def _gan(dtype: torch.dtype, _optimizer: str) -> Recipe:
    with seeded(0):
        model, real = Gan().to(dtype), torch.randn(4, 3, dtype=dtype)
    optimizers: list[optim.Optimizer] = [
        optim.Adam(model.generator.parameters()),
        optim.SGD(model.discriminator.parameters(), lr=0.1, momentum=0.9),
    ]

    def step() -> Tensor:
        fake = model.generator(torch.randn(4, 2, dtype=dtype))
        judged = model.discriminator(real).mean() - model.discriminator(fake.detach()).mean()
        judged.backward()
        optimizers[1].step()
        model.zero_grad()
        loss = -model.discriminator(fake).mean()
        loss.backward()
        optimizers[0].step()
        model.zero_grad()
        return loss.detach()

    return Recipe(model, optimizers, step, (model.generator, model.discriminator))


def _bag(dtype: torch.dtype, _optimizer: str) -> Recipe:
    with seeded(0):
        model = nn.Sequential(nn.EmbeddingBag(9, 4, sparse=True), nn.Linear(4, 2)).to(dtype)
        x = torch.randint(9, (3, 4))
    return _recipe(model, lambda: model(x).square().sum(), optim.SGD(model.parameters(), lr=0.1))


def _gru(dtype: torch.dtype, optimizer: str) -> Recipe:
    with seeded(0):
        model = nn.GRU(4, 5, num_layers=2, dropout=0.2, batch_first=True).to(dtype)
        x = torch.randn(3, 6, 4, dtype=dtype)
    return _recipe(
        model, lambda: model(x)[0].square().mean(), OPTIMIZERS[optimizer](model.parameters())
    )


def _encoder(dtype: torch.dtype, optimizer: str) -> Recipe:
    with seeded(0):
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        model = nn.TransformerEncoder(layer, 2).to(dtype)
        x = torch.randn(3, 5, 8, dtype=dtype)
    padded = torch.arange(5).expand(3, 5) > 3
    return _recipe(
        model,
        lambda: model(x, src_key_padding_mask=padded).square().mean(),
        OPTIMIZERS[optimizer](model.parameters()),
    )


def _double(_module: nn.Module, inputs: Any, _outputs: Any) -> Any:
    return tuple(None if gradient is None else gradient * 2 for gradient in inputs)


def _hooked(dtype: torch.dtype, optimizer: str) -> Recipe:
    """Hooks of its own in either direction, and Python and numpy random numbers."""
    with seeded(0):
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)).to(dtype)
        x = torch.randn(3, 4, dtype=dtype)
    model[2].register_forward_pre_hook(lambda _m, inputs: (inputs[0] * 2,))
    model[1].register_forward_hook(lambda _m, _i, output: output + 1)
    model[0].register_full_backward_hook(_double)

    def loss() -> Tensor:
        noise = random.random() + float(np.random.rand())  # noqa: NPY002  # it is the subject
        return model((x + noise).requires_grad_()).square().sum()

    return _recipe(model, loss, OPTIMIZERS[optimizer](model.parameters()))


def _parametrized(dtype: torch.dtype, optimizer: str) -> Recipe:
    """A spectral norm, whose buffers change in training, and a weight norm."""
    with seeded(0):
        model = nn.Sequential(
            parametrizations.spectral_norm(nn.Linear(4, 4)),
            nn.Tanh(),
            parametrizations.weight_norm(nn.Linear(4, 2)),
        ).to(dtype)
        x = torch.randn(3, 4, dtype=dtype)
    return _recipe(
        model, lambda: model(x).square().sum(), OPTIMIZERS[optimizer](model.parameters())
    )


def _autocast(_dtype: torch.dtype, optimizer: str) -> Recipe:
    """Parameters of float32, computed with in bfloat16."""
    with seeded(0):
        model = nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 3))
        x, y = torch.randn(4, 5), torch.randn(4, 3)

    def loss() -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return functional.mse_loss(model(x), y)

    return _recipe(model, loss, OPTIMIZERS[optimizer](model.parameters()))


_CUSTOM = {"gradient_penalty", "retained_graph", "hand_written_loss"}
_TWICE = {"gradient_penalty", "gradient_inside"}
"""What torch's compilers refuse: double backward."""
_FAMILY = {
    "seed_mlp": "MLP",
    "mlp": "MLP",
    "cnn": "ConvNet",
    "embedding_first": "embedding",
    "shared_module": "one layer called three times",
    "tied_weights": "tied weights",
    "inplace_relu": "in-place calls",
    "checkpointed": "checkpointing",
    "checkpointed_reentrant": "checkpointing, reentrant",
    "lstm": "LSTM",
    "transformer": "encoder layer",
    "in_place_slices": "in-place calls on slices",
    "in_place_divide": "in-place calls on views",
    "custom_function": "custom autograd function",
    "gradient_penalty": "double backward",
    "retained_graph": "two backward passes of one graph",
    "gradient_inside": "gradients within the forward",
    "hand_written_loss": "a loss of plain arithmetic",
    "checkpointed_function": "checkpointing of a function",
    "checkpointed_function_reentrant": "the same, reentrant",
}

_PLAIN: dict[str, Kind] = {
    name: Kind(
        _FAMILY[name],
        partial(_of_custom if name in _CUSTOM else _of_case, maker),
        _OWN if name in _CUSTOM else tuple(OPTIMIZERS),
        backend="eager" if name in _TWICE else "aot_eager",
    )
    for name, maker in (models.CASES | models_graph.GRAPHS).items()
}

_WRITTEN: dict[str, Kind] = {
    "gan": Kind("GAN with two optimizers", _gan, _OWN),
    "embedding bag": Kind("EmbeddingBag, sparse gradients", _bag, _OWN),
    "gru": Kind("GRU", _gru),
    "encoder": Kind("TransformerEncoder", _encoder),
    "hooks": Kind("forward and backward hooks of its own", _hooked),
    "parametrized": Kind("parametrizations", _parametrized),
    "autocast": Kind("autocast", _autocast, dtypes=(torch.float32,)),
}

_OF_TRANSFORMERS: dict[str, Kind] = {
    name: Kind(each.family, partial(_of_architecture, name), dtypes=each.dtypes)
    for name, each in ARCHITECTURES.items()
    if sys.version_info >= (3, 11)  # transformers needs it
}

RECIPES: dict[str, Kind] = _PLAIN | _WRITTEN | _OF_TRANSFORMERS
"""Every kind by name."""
