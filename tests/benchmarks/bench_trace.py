"""What a trace of 100,000 calls costs: its trees, a search, saving and loading.

python -m tests.benchmarks.bench_trace

    what                 seconds
    tree by module          0.07
    ...

Reach: half a second each. Limits: processor time of one process, on a made-up trace.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from fi_notebook.core.trace import Trace
from fi_notebook.core.tree import VIEWS
from tests.traces import large

CALLS = 100_000


def main() -> None:
    """Print the table."""
    trace = large(CALLS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.fi"
        jobs: dict[str, Callable[[], object]] = {
            f"tree by {by}": partial(trace.tree, by) for by in VIEWS
        }
        jobs |= {
            "find every site": trace.find,
            "to_pandas": trace.to_pandas,
            "save": lambda: trace.save(path),
            "load": lambda: Trace.load(path),
        }
        print(f"{'what':20}{'seconds':>8}")
        for name, job in jobs.items():
            began = time.process_time()
            job()
            print(f"{name:20}{time.process_time() - began:8.2f}", flush=True)


if __name__ == "__main__":
    main()
