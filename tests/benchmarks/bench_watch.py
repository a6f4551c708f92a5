"""What a live watch costs per training step.

    python -m tests.benchmarks.bench_watch [names]

    model              none   empty mode   1 output   24 addmm   filtered   gradients   shown
    encoder        99.56 ms      1.04 x     1.06 x     1.15 x      1.76 x      1.01 x  1.08 x

*none* is the median CPU time of a step without a watch; *empty mode* has a dispatch mode
that does nothing, which is what any watch of outputs costs at least. *1 output* reads one
output a step, *addmm* every output of that operator, *filtered* the same of one module by
its name, for which every call is placed. *gradients* reads every gradient, without a mode.
*shown* is *1 output* with a live view that draws as often as it may. Steps are made in
turn, so that a busy machine troubles them alike.

Limits: one thread, and CPU time of the whole process, in which the view draws as well.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any

import torch

import fi_notebook as fi
from tests import models
from tests.benchmarks.bench_injector import MAKERS
from tests.benchmarks.bench_speed import Empty
from tests.ui.bridge import comms

ROUNDS = 25
STEPS = 4  # of which the first two, which have something to learn, are not timed


def watched(case: models.Case, sites: str, **options: Any) -> AbstractContextManager[Any]:
    """A watch without a view."""
    return fi.watch(case.model, sites, **options)


def shown(case: models.Case) -> AbstractContextManager[Any]:
    """A watch of one output with a live view; its messages go nowhere."""
    watch = fi.watch(case.model, "addmm*1:0")
    assert watch.view is not None
    return closing(watch)


def first_parent(case: models.Case) -> str:
    """Name of the first part of the model that has a parameter."""
    return next(name for name, _ in case.model.named_parameters()).rpartition(".")[0]


WAYS: dict[str, Callable[[models.Case], AbstractContextManager[Any]]] = {
    "none": lambda case: nullcontext(),
    "empty mode": lambda case: Empty(),
    "1 output": lambda case: watched(case, "addmm*1:0"),
    "addmm": lambda case: watched(case, "addmm"),
    "filtered": lambda case: watched(case, "addmm", modules=first_parent(case)),
    "gradients": lambda case: watched(case, "grad:*"),
    "shown": shown,
}


def step_s(case: models.Case, way: Callable[[models.Case], AbstractContextManager[Any]]) -> float:
    """CPU seconds of a step, once all is learned."""
    with way(case):
        case.step()
        case.step()
        start = time.process_time()
        for _ in range(STEPS - 2):
            case.step()
        return (time.process_time() - start) / (STEPS - 2)


def measure(name: str) -> str:
    """One line of the table."""
    case = MAKERS[name]()
    took: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(ROUNDS):
        for way, enter in WAYS.items():
            took[way].append(step_s(case, enter))
    medians = {way: statistics.median(times) for way, times in took.items()}
    bare = medians.pop("none")
    ratios = "".join(f"{seconds / bare:11.2f} x" for seconds in medians.values())
    return f"{name:12}{bare * 1e3:8.2f} ms{ratios}"


def main(names: list[str]) -> None:
    """Print the table."""
    torch.set_num_threads(1)
    heads = "".join(f"{way:>13}" for way in WAYS if way != "none")
    print(f"{'model':12}{'none':>11}{heads}")
    with comms():
        for name in names or MAKERS:
            print(measure(name), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
