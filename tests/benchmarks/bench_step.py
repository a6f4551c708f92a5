"""What watching one step costs, against the plain step and an empty dispatch mode.

    python -m tests.benchmarks.bench_step [layers] [--save table.json]

    what                        CPU time   of plain   of empty mode    aim
    plain step                   88.1 ms     1.00 x
    empty TorchDispatchMode      93.0 ms     1.06 x         1.00 x
    FlopCounterMode              …
    names alone                  …                                    1.2 of empty
    calls only                   …                                    1.2 of empty
    statistics                   …                                    2 of plain
    statistics and values        …
    comparison with golden       …                                    3 of plain

The step is that of a GPT-2 shape: 6 layers, 256 wide, 4 heads, batch 4 × 128, AdamW,
about 1,700 calls. The ways are run in turn, each from the same state, and the least CPU
time of each is shown: a busy machine troubles that less than the clock.

Limits: one thread. *comparison* is one faulty step that is measured against a golden one
in memory; a whole replay runs golden and faulty, and puts the state back between them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from fi_notebook.engine.intercept import Interceptor, Watch
from fi_notebook.engine.replay import Setup, StepResult, observed, run_step
from fi_notebook.engine.snapshot import Snapshot
from fi_notebook.engine.source import SourceStacks
from fi_notebook.engine.steps import StepClock
from fi_notebook.engine.store import ValueStore
from tests.benchmarks.bench_memory import Gpt

ROUNDS = 5
BUDGET = 4 << 30


class Empty(TorchDispatchMode):
    """A dispatch mode that does nothing but pass each call on."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The call as it is."""
        return func(*args, **(kwargs or {}))


class Bench:
    """One model, one step, and the ways of running it."""

    def __init__(self, layers: int) -> None:
        """Make model, optimizer and batch, and a golden run to compare with."""
        torch.manual_seed(0)
        self.model = Gpt(layers)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.x, self.y = (torch.randint(1024, (4, 128)) for _ in range(2))
        self.setup = Setup(self.step, self.model, (self.optimizer,), SourceStacks(), False)
        self.step()  # the optimizer's state is made
        self.snapshot = Snapshot.take([self.model, self.optimizer])
        self.golden: StepResult = self.keep()
        self.calls = self.golden.recorder.call_count

    def step(self) -> Tensor:
        """The plain step."""
        logits = self.model(self.x)
        loss = functional.cross_entropy(logits.flatten(0, 1), self.y.flatten())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def empty(self) -> None:
        """Under a mode that does nothing."""
        with Empty():
            self.step()

    def flops(self) -> None:
        """Under torch's own counter of operations."""
        with FlopCounterMode(display=False):
            self.step()

    def names(self) -> None:
        """Every call is named, nobody observes."""
        clock = StepClock(self.model, one_step=True)
        clock.optimizers.append(self.optimizer)
        watch = Watch(self.model, clock, self.setup.sources)
        observed(self.setup, 0, Interceptor(watch, []))

    def calls_only(self) -> None:
        """Calls are written down, nothing is looked at."""
        run_step(self.setup, 0, statistics=False, ends=False)

    def statistics(self) -> None:
        """Every output is summarised."""
        run_step(self.setup, 0)

    def keep(self) -> StepResult:
        """Every output is summarised and kept: a golden run."""
        return run_step(self.setup, 0, store=ValueStore(BUDGET))

    def compare(self) -> None:
        """Every output is measured against the golden run."""
        run_step(self.setup, 0, golden=self.golden.kept)

    @property
    def ways(self) -> dict[str, tuple[Callable[[], Any], str]]:
        """The ways by name, each with what is aimed at."""
        return {
            "plain step": (self.step, ""),
            "empty TorchDispatchMode": (self.empty, ""),
            "FlopCounterMode": (self.flops, ""),
            "names alone": (self.names, "1.2 of empty"),
            "calls only": (self.calls_only, "1.2 of empty"),
            "statistics": (self.statistics, "2 of plain"),
            "statistics and values": (self.keep, ""),
            "comparison with golden": (self.compare, "3 of plain"),
        }

    def measure(self) -> dict[str, float]:
        """The least CPU seconds of each way, run in turn from the same state."""
        least: dict[str, float] = {}
        for _ in range(ROUNDS):
            for name, (way, _aim) in self.ways.items():
                with self._from_the_start():
                    start = time.process_time()
                    way()
                    took = time.process_time() - start
                least[name] = min(took, least.get(name, took))
        return least

    @contextmanager
    def _from_the_start(self) -> Iterator[None]:
        self.snapshot.restore()
        yield
        self.snapshot.restore()


def main(arguments: list[str]) -> None:
    """Print the table, and save it where that is asked for."""
    torch.set_num_threads(1)
    layers = int(arguments[0]) if arguments[:1] and arguments[0].isdigit() else 6
    bench = Bench(layers)
    took = bench.measure()
    print(f"{layers} layers, {bench.calls} calls")
    print(f"{'what':26}{'CPU time':>10}{'of plain':>11}{'of empty mode':>16}   aim")
    plain, empty = took["plain step"], took["empty TorchDispatchMode"]
    for name, seconds in took.items():
        ratios = f"{seconds / plain:8.2f} x {seconds / empty:12.2f} x"
        print(f"{name:26}{seconds * 1e3:7.1f} ms {ratios}     {bench.ways[name][1]}")
    if "--save" in arguments:
        table = {"layers": layers, "calls": bench.calls, "seconds": took}
        path = Path(arguments[arguments.index("--save") + 1])
        path.write_text(json.dumps(table, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
