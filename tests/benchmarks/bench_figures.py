"""How long figures and their text twins take for a step of 100,000 calls.

    python -m tests.benchmarks.bench_figures [calls]

    compare           1.32 s
    propagation       0.21 s   612 KiB   text  0.08 s

Half of the outputs differ, by errors over twelve decades; a figure is timed to its JSON,
which is what a page waits for. Limits: wall-clock, one round, a shared machine.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fi_notebook.analysis.align import align
from fi_notebook.analysis.compare import build
from fi_notebook.core.run import Comparison, Difference
from fi_notebook.report import figures, text
from tests.records import CHANGED_LOSS
from tests.traces import large

__all__ = ["spread"]


def spread(calls: int) -> Comparison:
    """A comparison in which half of the outputs differ."""
    trace = large(calls)
    rng = np.random.default_rng(1)
    errors = np.where(rng.random(calls) < 0.5, 10.0 ** rng.uniform(-12, 0, calls), 0.0)
    measures = {"changed": (errors > 0) * 64.0, "relative_l2": errors, "max_abs": errors}
    moved = tuple(
        Difference(f"layers.{n}.weight", False, 64, 64, float(e), float(e))
        for n, e in enumerate(10.0 ** rng.uniform(-9, 0, 400))
    )
    return build(
        trace,
        trace,
        align(trace, trace),
        measures,
        loss=CHANGED_LOSS,
        gradients=moved,
        parameters=moved,
    )


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of one call, and what it gave."""
    start = time.perf_counter()
    found = function()
    return time.perf_counter() - start, found


def _drawn(name: str, compared: Comparison) -> str:
    return getattr(figures, name)(compared).to_json()


def main(calls: int) -> None:
    """Print the table."""
    took, compared = timed(partial(spread, calls))
    print(f"{'compare':16} {took:6.2f} s   {len(compared):,} outputs", flush=True)
    for name in ("propagation", "tree_heat", "gradients"):
        took, drawn = timed(partial(_drawn, name, compared))
        read, said = timed(partial(getattr(text, name), compared))
        size = f"{len(drawn) / 1024:6.0f} KiB"
        lines = said.count("\n") + 1
        print(f"{name:16} {took:6.2f} s   {size}   text {read:6.2f} s, {lines} lines", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 100_000)
