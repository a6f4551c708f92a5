"""What watching a step costs, in one table: beside the plain step and other tools.

    python -m tests.benchmarks.bench_speed [--rounds 9] [--save test-results/speed.json]

    gpt: 6 layers, 256 wide, batch 4 x 128, 1654 calls; 2 threads
    what                             time   of plain   of empty mode   reach
    plain step                    88.1 ms     1.00 x
    empty TorchDispatchMode       93.0 ms     1.06 x         1.00 x
    calls only                    …                                    1.2 of empty
    …
    100,000 calls: tree by module 0.07 s, …

Each way is run in turn with the others, round by round. A time is the least of the rounds; a
ratio is the median of those within one round, since machines change their speed. *replay* is
a whole `Session.replay`, with snapshot, restore and comparison, once golden against golden
is known: of a bit flip in the middle of the model, so that most outputs differ, and of a
value scaled by one, so that none does. *growth* has the same at 1, 2, 4 and 8 times the
layers and batch.

Limits: times are the clock's, so run it alone. torchlens is timed where it is installed,
as by `make bench`.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import logging
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._debug_mode import DebugMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from fi_notebook import Injector, Session
from fi_notebook.core.fault import FaultPlan
from fi_notebook.core.trace import Trace
from fi_notebook.core.tree import VIEWS
from fi_notebook.engine.intercept import Interceptor, Watch
from fi_notebook.engine.replay import Setup, observed, run_step
from fi_notebook.engine.snapshot import Snapshot
from fi_notebook.engine.source import SourceStacks
from fi_notebook.engine.steps import StepClock
from fi_notebook.engine.store import ValueStore
from tests.benchmarks.shapes import Case, gpt, resnet
from tests.traces import large

BUDGET = 4 << 30
GROWTH = (1, 2, 4, 8)
PLAIN, EMPTY = "plain step", "empty TorchDispatchMode"
GROWN = (PLAIN, EMPTY, "calls only", "statistics", "trace", "replay, most differs")

Times = dict[str, list[float]]
Way = Callable[[], AbstractContextManager[Callable[[], object]]]


class Empty(TorchDispatchMode):
    """A dispatch mode that does nothing but pass each call on."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The call as it is."""
        return func(*args, **(kwargs or {}))


class Naive(TorchDispatchMode):
    """A recorder without modules, causes, numbers or data flow: whole stacks, and shapes."""

    def __init__(self) -> None:
        """Start with nothing recorded."""
        super().__init__()
        self.rows: list[tuple[Any, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The call as it is, its operator, stack and outputs' shapes written down."""
        frame, stack = inspect.currentframe(), list[tuple[Any, int]]()
        while frame is not None:
            stack.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back
        result = func(*args, **(kwargs or {}))
        outputs = result if isinstance(result, (tuple, list)) else (result,)
        shapes = [tuple(each.shape) for each in outputs if isinstance(each, Tensor)]
        self.rows.append((func, tuple(stack), shapes))
        return result


class Bench:
    """One model, one step, and the ways of running it."""

    def __init__(self, case: Case) -> None:
        """Run one step, so that the optimizer has its state, and a golden one."""
        self.case = case
        self.setup = Setup(case.step, case.model, (case.optimizer,), SourceStacks(), False)
        case.step()
        self.snapshot = Snapshot.take([case.model, case.optimizer])
        self.session = Session(case.step, model=case.model, optimizer=case.optimizer, memory=BUDGET)
        self.calls = self.session.trace().call_count
        self.session.arm(case.struck, "bitflip", bit=22, elements={"index": 7})
        self.differing = self.session.plan
        self.session.disarm()
        self.session.arm(case.struck, "scale", factor=1.0)
        self.equal = self.session.plan
        self.session.replay()  # golden against golden is known from now on

    @property
    def ways(self) -> dict[str, tuple[Way, str]]:
        """The ways by name, each with what is to be reached."""
        return {
            PLAIN: (_ready(self.case.step), ""),
            EMPTY: (_ready(partial(self._under, Empty)), ""),
            "FlopCounterMode": (
                _ready(partial(self._under, partial(FlopCounterMode, display=False))),
                "",
            ),
            "DebugMode": (_ready(partial(self._under, DebugMode)), ""),
            "naive recorder": (_ready(partial(self._under, Naive)), ""),
            "names alone": (_ready(self._names), ""),
            "calls only": (
                _ready(partial(run_step, self.setup, 0, statistics=False, ends=False)),
                "1.2 of empty",
            ),
            "statistics": (_ready(partial(run_step, self.setup, 0, ends=False)), "2 of plain"),
            "statistics and values": (_ready(self._keep), ""),
            "trace": (_ready(self._trace), ""),
            "replay, most differs": (partial(self._replay, self.differing), "3 of plain"),
            "replay, all is equal": (partial(self._replay, self.equal), "3 of plain"),
            "injector, not its step": (partial(self._injector, {"steps": "1000000"}), "1.01"),
            "injector, in scope": (partial(self._injector, {"probability": 0}), "1.2 of empty"),
            "injector, firing": (partial(self._injector, {}), ""),
        }

    def _under(self, mode: Callable[[], AbstractContextManager[Any]]) -> None:
        with mode():
            self.case.step()

    def _names(self) -> None:
        """Every call is named, nobody observes."""
        clock = StepClock(self.case.model, one_step=True)
        clock.optimizers.append(self.case.optimizer)
        observed(self.setup, 0, Interceptor(Watch(self.case.model, clock, self.setup.sources), []))

    def _keep(self) -> None:
        """Every output is summarised and kept."""
        run_step(self.setup, 0, store=ValueStore(BUDGET), ends=False)

    def _trace(self) -> None:
        """A whole `Session.trace`, with snapshot and restore."""
        case = self.case
        Session(case.step, model=case.model, optimizer=case.optimizer, memory=BUDGET).trace()

    @contextmanager
    def _replay(self, plan: FaultPlan) -> Iterator[Callable[[], object]]:
        """A whole `Session.replay` of a plan."""
        self.session.load_plan(plan)
        yield self.session.replay

    @contextmanager
    def _injector(self, trigger: dict[str, Any]) -> Iterator[Callable[[], object]]:
        """The second step with an injector; the first may have more to do."""
        fault = {
            "target": self.case.struck.partition("*")[0],
            "modules": [self.case.module],
            "model": "bitflip",
            "parameters": {"bit": 0},
            "elements": {"index": 7},
        }
        plan = {"version": 2, "faults": [fault | trigger], "verbosity": "quiet"}
        with Injector(plan, model=self.case.model):
            self.case.step()
            yield self.case.step

    def measure(self, rounds: int, names: tuple[str, ...] = ()) -> Times:
        """The seconds of each way, run in turn from the same state."""
        times: Times = {name: [] for name in names or self.ways}
        for _ in range(rounds):
            for name, taken in times.items():
                self.snapshot.restore()
                with self.ways[name][0]() as run:
                    taken.append(seconds(run))
        self.snapshot.restore()
        return times


def seconds(run: Callable[[], object]) -> float:
    """What one run takes by the clock."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def ratio(times: Times, way: str, base: str) -> float:
    """The median over the rounds of what one way takes of another."""
    pairs = zip(times[way], times[base], strict=True)
    return statistics.median(taken / plain for taken, plain in pairs)


def _ready(run: Callable[[], object]) -> Way:
    """A way that needs nothing around it."""
    return lambda: nullcontext(run)


def torchlens(case: Case) -> str:
    """The forward pass under torchlens, of the plain one; or why not."""
    try:
        lens = importlib.import_module("torchlens")
    except ImportError as error:
        return f"torchlens is not here: {error}"
    times: Times = {"plain": [], "torchlens": []}
    capture = lens.options.CaptureOptions(unwrap_when_done=True)
    runs: dict[str, Callable[[Tensor], object]] = {
        "plain": case.model,
        "torchlens": partial(lens.trace, case.model, capture=capture),
    }
    for _ in range(3):
        for name, run in runs.items():
            times[name].append(seconds(partial(run, case.x)))
    found = ratio(times, "torchlens", "plain")
    return f"torchlens {lens.__version__}, forward alone: {found:.1f} x"


def of_large() -> dict[str, float]:
    """Seconds that a trace of 100,000 calls takes, and the bytes of one of a million."""
    trace, found = large(100_000), {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.fi"
        jobs: dict[str, Callable[[], object]] = {
            f"tree by {by}": partial(trace.tree, by) for by in VIEWS
        }
        jobs |= {"find": trace.find, "save": partial(trace.save, path)}
        jobs["load"] = partial(Trace.load, path)
        for name, job in jobs.items():
            found[name] = seconds(job)
    million = large(1_000_000)
    columns = [*million.calls.values(), *million.site_columns.values()]
    columns += [million.input_offsets, million.input_sites]
    found["bytes"] = float(sum(column.nbytes for column in columns))
    return found


def table(bench: Bench, times: Times) -> str:
    """The rows of one model."""
    lines = [f"{'what':26}{'time':>10}{'of plain':>11}{'of empty mode':>16}   reach"]
    for name, taken in times.items():
        ratios = f"{ratio(times, name, PLAIN):8.2f} x {ratio(times, name, EMPTY):12.2f} x"
        lines.append(f"{name:26}{min(taken) * 1e3:7.1f} ms {ratios}     {bench.ways[name][1]}")
    return "\n".join(lines)


def growth(rounds: int) -> dict[str, dict[str, float]]:
    """Calls, seconds of the plain step, and ratios to it, at several sizes."""
    found = {}
    for kind in ("layers", "batch"):
        for times in GROWTH:
            sizes: dict[str, int] = {"layers": 2, "batch": 2}
            sizes[kind] *= times
            bench = Bench(gpt(**sizes))
            taken = bench.measure(rounds, GROWN)
            found[f"{kind} x {times}"] = {
                "calls": float(bench.calls),
                PLAIN: min(taken[PLAIN]),
                **{name: ratio(taken, name, PLAIN) for name in GROWN[1:]},
            }
    return found


def _print_growth(found: dict[str, dict[str, float]]) -> None:
    print(f"\n{'growth':12}{'calls':>7}{'plain':>11}" + "".join(f"{n:>26}" for n in GROWN[1:]))
    for name, row in found.items():
        ratios = "".join(f"{row[n]:24.2f} x" for n in GROWN[1:])
        print(f"{name:12}{row['calls']:7.0f}{row[PLAIN] * 1e3:8.1f} ms{ratios}")


def main() -> None:
    """Print the table, and save it."""
    parser = argparse.ArgumentParser(description="what watching a step costs")
    parser.add_argument("--rounds", type=int, default=9, help="how often each way is run")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch")
    parser.add_argument("--save", type=Path, default=Path("test-results/speed.json"))
    parser.add_argument("--no-growth", action="store_true", help="leave out the growth")
    asked = parser.parse_args()
    logging.getLogger("fi_notebook").setLevel(logging.ERROR)
    torch.set_num_threads(asked.threads)
    saved: dict[str, Any] = {"torch": torch.__version__, "threads": asked.threads}
    for make in (gpt, resnet):
        bench = Bench(make())
        times = bench.measure(asked.rounds)
        print(f"{bench.case.name}, {bench.calls} calls; {asked.threads} threads")
        print(table(bench, times), flush=True)
        print(f"{torchlens(bench.case)}\n", flush=True)
        saved[make.__name__] = {"calls": bench.calls, "seconds": times}
    saved["large"] = of_large()
    said = ", ".join(f"{n} {s:.2f} s" for n, s in saved["large"].items() if n != "bytes")
    print(f"100,000 calls: {said}; reach 0.5 s each")
    size = saved["large"]["bytes"]
    print(f"1,000,000 calls: {size / 1e6:.0f} MB, {size / 1e6:.0f} bytes a call; reach 300 and 200")
    if not asked.no_growth:
        saved["growth"] = growth(max(2, asked.rounds // 3))
        _print_growth(saved["growth"])
    asked.save.parent.mkdir(parents=True, exist_ok=True)
    asked.save.write_text(json.dumps(saved, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
