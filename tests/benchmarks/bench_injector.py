"""What the injector costs per training step.

    python -m tests.benchmarks.bench_injector [names]

    model              none       idle   in scope     firing   calls
    encoder        99.56 ms     0.98 x     1.76 x     1.78 x    1409

*none* is the median CPU time of a step without an injector; *idle* has one whose fault is
never due, so that only its hooks are on; *in scope* looks at every call and fires none
(probability 0); *firing* flips one bit of one element in every step. The log is quiet.
Steps of the four are made in turn, so that a busy machine troubles them alike.

Limits: one thread, and CPU time, which a busy machine troubles less than the clock.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from fi_notebook import Injector, Session
from tests import models

ROUNDS = 25
FAULT = {
    "target": "addmm",
    "model": "bitflip",
    "parameters": {"bit": 0},
    "elements": {"index": 0},
}
WAYS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "idle": FAULT | {"steps": [10**9]},
    "in scope": FAULT | {"probability": 0},
    "firing": FAULT | {"target": "addmm*1:0"},
}


class Classifier(nn.Module):
    """Transformer layers over sequences and a Linear: kernels that take their time."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        layer = nn.TransformerEncoderLayer(192, 4, 384, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.out = nn.Linear(192, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits from the mean over the positions."""
        return self.out(self.layers(x).mean(dim=1))


def encoder(seed: int = 0) -> models.Case:
    """Four transformer layers of width 192 on 8 sequences of 64, AdamW."""
    with models.seeded(seed):
        model = Classifier()
        x, y = torch.randn(8, 64, 192), torch.randint(10, (8,))
    optimizer = torch.optim.AdamW(model.parameters())
    return models.Case(model, optimizer, x, y, nn.functional.cross_entropy)


MAKERS: dict[str, Callable[[], models.Case]] = {
    "mlp": models.mlp,
    "cnn": models.cnn,
    "transformer": models.transformer,
    "encoder": encoder,
}


def step_s(case: models.Case, fault: dict[str, Any] | None) -> float:
    """CPU seconds of the third of three steps, the first that has nothing to learn."""
    plan = {"version": 2, "faults": [fault], "verbosity": "quiet"}
    attached: AbstractContextManager[Any] = (
        nullcontext() if fault is None else Injector(plan, model=case.model)
    )
    with attached:
        case.step()
        case.step()
        start = time.process_time()
        case.step()
        return time.process_time() - start


def measure(name: str) -> str:
    """One line of the table."""
    cases = {way: MAKERS[name]() for way in WAYS}
    took: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(ROUNDS):
        for way, fault in WAYS.items():
            took[way].append(step_s(cases[way], fault))
    medians = {way: statistics.median(times) for way, times in took.items()}
    bare = medians.pop("none")
    ratios = "".join(f"{seconds / bare:9.2f} x" for seconds in medians.values())
    return f"{name:12}{bare * 1e3:8.2f} ms{ratios}{calls(MAKERS[name]()):8d}"


def calls(case: models.Case) -> int:
    """How many calls a step makes."""
    return Session(case.step, model=case.model).trace().call_count


def main(names: list[str]) -> None:
    """Print the table."""
    torch.set_num_threads(1)
    print(f"{'model':12}{'none':>11}{'idle':>11}{'in scope':>11}{'firing':>11}{'calls':>8}")
    for name in names or MAKERS:
        print(measure(name), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
