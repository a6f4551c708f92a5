"""The small models that the tests share: each gives a model, an optimizer and a step.

    case = models.cnn(seed=3)
    loss = case.step()            # forward, loss, backward, optimizer step, zero_grad
    case.model, case.optimizer

A step may be run any number of times; it returns the loss, reads the same batch each
time, and leaves no gradients. Parameters and data come from generators seeded with
``seed``; making a case draws nothing from the global generators, though running
one with dropout does. `CASES` lists every maker by name for parametrised tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

__all__ = [
    "CASES",
    "Case",
    "checkpointed",
    "checkpointed_reentrant",
    "cnn",
    "embedding_first",
    "inplace_relu",
    "lstm",
    "mlp",
    "seed_mlp",
    "shared_module",
    "tied_weights",
    "transformer",
]


@dataclass
class Case:
    """A model, its optimizer, one batch, and the step over them.

    Attributes:
        model: The model, in training mode.
        optimizer: Its optimizer.
        x: Inputs.
        y: Targets.
        criterion: Loss of the model's output and the targets.
        clip: Largest gradient norm, or None where gradients are not clipped.
        notes: What a test may want to know of it.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    x: Tensor
    y: Tensor
    criterion: Callable[[Tensor, Tensor], Tensor]
    clip: float | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    def step(self) -> Tensor:
        """One training step; returns the loss."""
        loss = self.forward_backward()
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def forward_backward(self) -> Tensor:
        """Forward, loss and backward; the gradients stay."""
        loss = self.criterion(self.model(self.x), self.y)
        loss.backward()
        return loss.detach()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's generator inside, put it back as it was after."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def _sgd(model: nn.Module, lr: float = 0.1) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=lr)


def _adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


class Layered(nn.Module):
    """The ``layer`` of the seed's log: Linears with Sigmoids between, then one Linear."""

    def __init__(self, width: int) -> None:
        """Make the layers."""
        super().__init__()
        pairs = [m for _ in range(3) for m in (nn.Linear(width, width), nn.Sigmoid())]
        self.layers = nn.Sequential(*pairs, nn.Linear(width, width))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """All layers in turn."""
        return self.out(self.layers(x))


class SeedNet(nn.Module):
    """The model of the seed's log: ``layer``, a root ``out`` and LogSoftmax."""

    def __init__(self, width: int, classes: int) -> None:
        """Make the layers."""
        super().__init__()
        self.layer = Layered(width)
        self.out = nn.Linear(width, classes)
        self.act = nn.LogSoftmax(dim=1)

    def forward(self, x: Tensor) -> Tensor:
        """Log probabilities."""
        return self.act(self.out(self.layer(x)))


def seed_mlp(seed: int = 0) -> Case:
    """The MLP of the seed's log; its forward ends with ``layer.out*step0*addmm*5``."""
    with seeded(seed):
        model = SeedNet(8, 4)
        x, y = torch.randn(6, 8), torch.randint(4, (6,))
    return Case(model, _sgd(model), x, y, functional.nll_loss)


def mlp(seed: int = 0) -> Case:
    """Two Linears with a ReLU after each, SGD: the least that has a second ``relu``."""
    with seeded(seed):
        model = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3), nn.ReLU())
        x, y = torch.randn(4, 5), torch.randn(4, 3)
    return Case(model, _sgd(model), x, y, functional.mse_loss)


class Cnn(nn.Module):
    """Two convolutions with BatchNorm and ReLU, dropout and a Linear."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.norm2 = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.25)
        self.fc = nn.Linear(8 * 4 * 4, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of ten classes."""
        x = torch.relu(self.norm1(self.conv1(x)))
        x = torch.relu(self.norm2(self.conv2(x)))
        return self.fc(self.drop(x.flatten(1)))


def cnn(seed: int = 0) -> Case:
    """A small CNN with BatchNorm and dropout on 8 × 8 pictures, AdamW, clipping."""
    with seeded(seed):
        model = Cnn()
        x, y = torch.randn(6, 1, 8, 8), torch.randint(10, (6,))
    return Case(model, _adamw(model), x, y, functional.cross_entropy, clip=1.0)


class EmbeddingFirst(nn.Module):
    """An Embedding before everything else: the input takes no gradient."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.hidden = nn.Linear(6, 6)
        self.out = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Logits from the mean over the tokens."""
        return self.out(torch.tanh(self.hidden(self.embed(x))).mean(dim=1))


def embedding_first(seed: int = 0) -> Case:
    """Tokens through an Embedding; its backward is the last call of the backward pass."""
    with seeded(seed):
        model = EmbeddingFirst()
        x, y = torch.randint(11, (4, 5)), torch.randint(3, (4,))
    return Case(model, _adamw(model), x, y, functional.cross_entropy)


class SharedModule(nn.Module):
    """One Linear called three times, known by two names."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.first = nn.Linear(5, 5)
        self.again = self.first

    def forward(self, x: Tensor) -> Tensor:
        """The same Linear three times."""
        for layer in (self.first, self.again, self.first):
            x = torch.tanh(layer(x))
        return x


def shared_module(seed: int = 0) -> Case:
    """One Linear called three times: three calls, one module, two names."""
    with seeded(seed):
        model = SharedModule()
        x, y = torch.randn(4, 5), torch.randn(4, 5)
    return Case(model, _sgd(model), x, y, functional.mse_loss, notes={"calls": 3})


class TiedWeights(nn.Module):
    """An Embedding and a Linear that share one parameter."""

    def __init__(self) -> None:
        """Make the layers and tie them."""
        super().__init__()
        self.embed = nn.Embedding(9, 6)
        self.head = nn.Linear(6, 9, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        """Logits of each token's next token."""
        return self.head(torch.tanh(self.embed(x))).flatten(0, 1)


def tied_weights(seed: int = 0) -> Case:
    """A language model's tied weights: one parameter, two gradient contributions."""
    with seeded(seed):
        model = TiedWeights()
        x, y = torch.randint(9, (3, 4)), torch.randint(9, (12,))
    return Case(model, _adamw(model), x, y, functional.cross_entropy)


def inplace_relu(seed: int = 0) -> Case:
    """ReLUs that write in place: their calls are ``relu_``."""
    with seeded(seed):
        layers = [nn.Linear(5, 6), nn.ReLU(inplace=True), nn.Linear(6, 3), nn.ReLU(inplace=True)]
        model = nn.Sequential(*layers)
        x, y = torch.randn(4, 5), torch.randn(4, 3)
    return Case(model, _sgd(model), x, y, functional.mse_loss)


class Checkpointed(nn.Module):
    """A block that backward computes again."""

    def __init__(self, *, reentrant: bool) -> None:
        """Make the layers; ``reentrant`` chooses the kind of checkpoint."""
        super().__init__()
        self.inp = nn.Linear(5, 5)
        self.block = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 5))
        self.reentrant = reentrant

    def forward(self, x: Tensor) -> Tensor:
        """The block under a checkpoint."""
        return checkpoint(self.block, self.inp(x), use_reentrant=self.reentrant)


def checkpointed(seed: int = 0, *, reentrant: bool = False) -> Case:
    """A checkpointed block with dropout; reentrant or not."""
    with seeded(seed):
        model = Checkpointed(reentrant=reentrant)
        x, y = torch.randn(4, 5), torch.randn(4, 5)
    return Case(model, _sgd(model), x, y, functional.mse_loss)


def checkpointed_reentrant(seed: int = 0) -> Case:
    """The same under a reentrant checkpoint, whose backward runs inside backward."""
    return checkpointed(seed, reentrant=True)


class Recurrent(nn.Module):
    """An LSTM and a Linear on its last output."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.lstm = nn.LSTM(4, 5, batch_first=True)
        self.out = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Logits from the last time step."""
        return self.out(self.lstm(x)[0][:, -1])


def lstm(seed: int = 0) -> Case:
    """An LSTM over six time steps."""
    with seeded(seed):
        model = Recurrent()
        x, y = torch.randn(3, 6, 4), torch.randint(3, (3,))
    return Case(model, _adamw(model), x, y, functional.cross_entropy)


class Encoder(nn.Module):
    """One transformer encoder layer and a Linear."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Logits from the mean over the positions."""
        return self.out(self.encoder(x).mean(dim=1))


def transformer(seed: int = 0) -> Case:
    """Attention, LayerNorm and dropout; AdamW and clipping."""
    with seeded(seed):
        model = Encoder()
        x, y = torch.randn(3, 5, 8), torch.randint(3, (3,))
    return Case(model, _adamw(model), x, y, functional.cross_entropy, clip=1.0)


CASES: dict[str, Callable[..., Case]] = {
    maker.__name__: maker
    for maker in (
        seed_mlp,
        mlp,
        cnn,
        embedding_first,
        shared_module,
        tied_weights,
        inplace_relu,
        checkpointed,
        checkpointed_reentrant,
        lstm,
        transformer,
    )
}
"""Every maker by name."""
