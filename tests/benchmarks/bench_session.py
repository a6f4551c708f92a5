"""What watching and striking cost, on the models that the tests share.

    python -m tests.benchmarks.bench_session [names]

    model            bare   traced  replay  calls
    cnn             3.1 ms  9.8 x   31 x    210

*bare* is the median step by itself; *traced* is `Session.trace` (with its snapshot and
restore) and *replay* is `Session.replay` with one bit flip armed, both as multiples of
it. Limits: wall-clock medians of a shared machine; look at ratios, not at digits.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from fi_notebook import Session
from tests import models

_ROUNDS = 7


def median_s(function: Callable[[], Any]) -> float:
    """Median seconds of a few calls, after one to warm up."""
    function()
    took = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        function()
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def measure(name: str) -> str:
    """One line of the table."""
    case = models.CASES[name]()
    bare = median_s(case.step)
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    traced = median_s(session.trace)
    trace = session.trace()
    first = next(site for site in trace.sites if site.dtype == "float32")
    session.arm(first, "bitflip", bit=20, elements={"index": 0})
    replay = median_s(session.replay)
    ratios = f"{traced / bare:6.1f} x {replay / bare:6.1f} x"
    return f"{name:24}{bare * 1e3:7.2f} ms {ratios} {trace.call_count:6d}"


def main(names: list[str]) -> None:
    """Print the table."""
    print(f"{'model':24}{'bare':>10} {'traced':>8} {'replay':>8} {'calls':>6}")
    for name in names or models.CASES:
        print(measure(name), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
