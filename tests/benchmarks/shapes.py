"""Models that benchmarks share: a small GPT-2 and a small ResNet, each with its step.

case = gpt(layers=6, batch=4)
case.step()                     # forward, loss, backward, AdamW
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.benchmarks.bench_memory import Gpt

__all__ = ["Case", "gpt", "resnet"]


@dataclass(frozen=True)
class Case:
    """A model and its step.

    Attributes:
        name: What it is, in words.
        model: The model.
        optimizer: Its optimizer.
        x: Its batch.
        loss: The loss of its outputs.
        struck: A site in the middle of the model.
        module: A module in the middle of the model.
    """

    name: str
    model: nn.Module
    optimizer: torch.optim.Optimizer
    x: Tensor
    loss: Callable[[Tensor], Tensor]
    struck: str
    module: str

    def step(self) -> Tensor:
        """One step."""
        self.optimizer.zero_grad()
        loss = self.loss(self.model(self.x))
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def gpt(layers: int = 6, batch: int = 4) -> Case:
    """The shape of GPT-2: 256 wide, 4 heads, 128 tokens, AdamW."""
    torch.manual_seed(0)
    model = Gpt(layers)
    x, y = (torch.randint(1024, (batch, 128)) for _ in range(2))
    return Case(
        f"gpt: {layers} layers, 256 wide, batch {batch} x 128",
        model,
        torch.optim.AdamW(model.parameters(), lr=1e-4),
        x,
        lambda logits: functional.cross_entropy(logits.flatten(0, 1), y.flatten()),
        f"gelu*{max(1, layers // 2)}:0",
        f"blocks.{layers // 2}",
    )


class Residual(nn.Module):
    """Two convolutions around which the input goes too."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outer), nn.BatchNorm2d(outer)])
        self.around = nn.Identity() if stride == 1 else nn.Conv2d(inner, outer, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both ways."""
        inside = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.norms[1](self.second(inside)) + self.around(x))


def resnet(batch: int = 8) -> Case:
    """Eight residual blocks, as ResNet-18 has them, 16 to 128 channels, on 64 x 64."""
    torch.manual_seed(0)
    widths = [16, 16, 32, 32, 64, 64, 128, 128]
    blocks = [
        Residual(before, after, 1 if before == after else 2)
        for before, after in zip([16, *widths], widths, strict=False)
    ]
    stem = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)]
    model = nn.Sequential(*stem, *blocks, *head)
    x, y = torch.randn(batch, 3, 64, 64), torch.randint(10, (batch,))
    return Case(
        f"resnet: 8 blocks, batch {batch} x 3 x 64 x 64",
        model,
        torch.optim.AdamW(model.parameters(), lr=1e-4),
        x,
        lambda logits: functional.cross_entropy(logits, y),
        "convolution*9:0",
        "6",
    )
