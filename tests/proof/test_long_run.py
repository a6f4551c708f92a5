"""Twenty thousand small steps with an injector: the planned ones are struck, and no others."""

from __future__ import annotations

import gc
import json
import random
from pathlib import Path

import psutil
import pytest
import torch
from torch import nn

from fi_notebook import Injector

_GROWTH_BYTES = 20_000_000


def _train(steps: int, struck: list[int], path: Path) -> tuple[Injector, list[int]]:
    """Train a small model; gives the injector and the memory in use at every tenth."""
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(4, 3)
    plan = {
        "version": 2,
        "faults": [
            {"id": "weight", "target": "addmm*1:0", "model": "bitflip", "steps": struck}
            | {"parameters": {"bit": 3}, "elements": {"index": [0, 0]}}
        ],
    }
    process, memory = psutil.Process(), list[int]()
    with Injector(plan, model=model, events=path) as injector:
        for step in range(steps):
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            if step % (steps // 10) == steps // 10 - 1:
                gc.collect()
                memory.append(process.memory_info().rss)
    return injector, memory


def _check(steps: int, faults: int, path: Path) -> list[int]:
    struck = sorted(random.Random(7).sample(range(steps), faults))
    injector, memory = _train(steps, struck, path)
    assert [injection.step for injection in injector.injections] == struck
    assert all(injection.changed == 1 for injection in injector.injections)
    assert injector.not_injected == ()
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [line["step"] for line in lines] == [*struck, steps - 1]
    assert [line["event"] for line in lines] == ["injection"] * faults + ["end"]
    return memory


def test_exactly_the_planned_steps_are_struck(tmp_path: Path) -> None:
    """300 steps, 20 of them struck: as many injections, as many lines, in order."""
    _check(300, 20, tmp_path / "events.jsonl")


@pytest.mark.soak
def test_a_long_training_is_struck_as_planned_and_memory_stays_flat(tmp_path: Path) -> None:
    """20,000 steps, 500 of them struck; from the second tenth on, no more than 20 MB are added."""
    memory = _check(20_000, 500, tmp_path / "events.jsonl")
    assert memory[-1] - memory[1] < _GROWTH_BYTES
