"""The demonstration: handwritten digits, a small CNN, and one training step.

    demo = make_demo()
    session = Session(demo.step, model=demo.model, optimizer=demo.optimizer)

The data are scikit-learn's digits, 1,797 images of 8 × 8 that ship with it. This file
stands for a person's own script, so its source lines are shown like one's own.

Limits: needs scikit-learn, which the extra ``lab`` brings; everything is drawn from one
seed, and the global generators stay as they were.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

__all__ = ["BIT", "TARGET", "Demo", "DigitsNet", "largest_element", "load_digits", "make_demo"]

TARGET = "relu*2:0"
"""What the demonstration strikes: the output of the second ReLU."""

BIT = 27
"""The bit that it flips: one of the exponent, which makes 4.5 about 300,000."""


class DigitsNet(nn.Module):
    """Two convolutions with batch normalisation, dropout and one linear layer."""

    def __init__(self) -> None:
        """Make the layers for images of 8 × 8 and ten classes."""
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, kernel_size=3, padding=1)
        self.norm1 = nn.BatchNorm2d(8)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(8, 16, kernel_size=3, padding=1)
        self.norm2 = nn.BatchNorm2d(16)
        self.relu2 = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.dropout = nn.Dropout(0.25)
        self.out = nn.Linear(16 * 4 * 4, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Scores of the ten digits for each image."""
        x = self.relu1(self.norm1(self.conv1(images)))  # n × 8 × 8 × 8
        x = self.relu2(self.norm2(self.conv2(x)))  # n × 16 × 8 × 8
        x = self.dropout(self.pool(x))  # n × 16 × 4 × 4
        scores: Tensor = self.out(x.flatten(1))
        return scores


@dataclass(eq=False)
class Demo:
    """Model, optimizer, one batch, and the step over them.

    Attributes:
        model: The model, in training mode.
        optimizer: Its optimizer.
        images: Images of the batch.
        labels: The digits that they show.
    """

    model: DigitsNet
    optimizer: torch.optim.AdamW
    images: Tensor
    labels: Tensor

    def step(self) -> Tensor:
        """One training step; gives the loss."""
        scores = self.model(self.images)
        loss = nn.functional.cross_entropy(scores, self.labels)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.model.parameters(), max_norm=5.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss


def load_digits() -> tuple[Tensor, Tensor]:
    """The digits: images from 0 to 1 (n × 1 × 8 × 8) and labels.

    Raises:
        ModuleNotFoundError: scikit-learn is not installed; names the extra that brings it.
    """
    try:
        from sklearn.datasets import load_digits as load
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "the demonstration needs scikit-learn for its digits; "
            "install it with: pip install 'fi-notebook[lab]'"
        ) from error
    digits = load()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    return images, torch.tensor(digits.target, dtype=torch.int64)


def make_demo(batch: int = 64, seed: int = 0) -> Demo:
    """Make model, optimizer and batch from one seed.

    Args:
        batch: How many images the step sees.
        seed: Seed of the initial parameters.
    """
    images, labels = load_digits()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = DigitsNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return Demo(model, optimizer, images[:batch], labels[:batch])


def largest_element(values: Tensor) -> list[int]:
    """Coordinates of the largest element: the one that the demonstration strikes."""
    return [int(n) for n in torch.unravel_index(values.argmax(), values.shape)]
