"""Everything that neutrality is proved on: architectures × dtypes × optimizers.

    verdict = prove(CASES["gpt2 bfloat16 Adafactor"])
    verdict.changed        # {"traced": [], "idle": [], …}

Each architecture has one optimizer in each dtype, in turn; two have them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import torch

from tests.proof.courses import ARMS, Make, course, differences
from tests.proof.placing import Placed, placed
from tests.proof.recipes import RECIPES

__all__ = ["CASES", "INDUCTOR", "TOLD", "UNREPEATABLE", "ProofCase", "Verdict", "prove"]

TOLD = ("traced", "idle", "watching", "armed", "replayed")
"""What is done to a training, of `tests.proof.courses.ARMS`."""

UNREPEATABLE = ("reformer",)
"""What seeds itself from the system in each step (``torch.seed()``): no two runs are alike."""

_WITH_EVERY_OPTIMIZER = ("mlp", "gpt2")
INDUCTOR = ("mlp", "cnn", "lstm", "gpt2", "vit", "convnext")
"""What torch's own compiler is tried on; for all others it would take hours."""


@dataclass(frozen=True)
class ProofCase:
    """One architecture in one dtype with one optimizer.

    Attributes:
        name: Of the architecture.
        dtype: Of its parameters.
        optimizer: Of `tests.proof.recipes.OPTIMIZERS`, or its own.
        backends: What it is compiled with.
    """

    name: str
    dtype: torch.dtype
    optimizer: str
    backends: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What it is called."""
        return f"{self.name} {str(self.dtype).removeprefix('torch.')} {self.optimizer}"

    @property
    def make(self) -> Make:
        """Makes the recipe."""
        return partial(RECIPES[self.name].make, self.dtype, self.optimizer)


@dataclass(frozen=True)
class Verdict:
    """What was found of one case.

    Attributes:
        placed: How its calls were placed.
        changed: What was not bit-equal, by what was done.
    """

    placed: Placed
    changed: Mapping[str, list[str]]


def prove(case: ProofCase) -> Verdict:
    """Do everything to a case but compile it, and look at every bit."""
    plain = course(case.make, ARMS["plain"])
    changed = {name: differences(course(case.make, ARMS[name]), plain) for name in TOLD}
    return Verdict(placed(case.make), changed)


def _cases() -> Iterator[ProofCase]:
    for number, (name, kind) in enumerate(RECIPES.items()):
        if name in UNREPEATABLE:
            continue
        for place, dtype in enumerate(kind.dtypes):
            optimizer = kind.optimizers[(number + place) % len(kind.optimizers)]
            backends = () if place else (kind.backend, *["inductor"] * (name in INDUCTOR))
            yield ProofCase(name, dtype, optimizer, backends)
        if name in _WITH_EVERY_OPTIMIZER:
            rest = set(kind.optimizers) - {kind.optimizers[number % len(kind.optimizers)]}
            yield from (ProofCase(name, torch.float32, each) for each in sorted(rest))


CASES: Mapping[str, ProofCase] = {case.title: case for case in _cases()}
"""Every case by name."""
