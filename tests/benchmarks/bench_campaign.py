"""What an injection costs, beside the plain step or forward pass that it is made on.

    python -m tests.benchmarks.bench_campaign

    quickstart   plain 3.9 ms   injection 1.8 ms median, 3.1 ms mean   0.46 x, 0.80 x   46 % early
    inference    plain 0.8 ms   injection 0.5 ms median, 0.7 ms mean   0.60 x, 0.81 x   57 % early
    MRFI         plain 0.8 ms   injection 1.2 ms median, 1.2 ms mean   1.45 x, 1.50 x

Both are measured in processor time, in turns, so that other work on the machine spoils
neither alone. With PyTorchFI and MRFI installed, their injections into the same model are
timed too.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from fi_notebook.campaign import Campaign
from fi_notebook.campaign.guard import Guard
from fi_notebook.engine.settled import Settled
from fi_notebook.session import Session
from tests.campaign import sessions
from tests.campaign.other_tools import Scores, hooked, mrfi, pytorchfi

TURN = 25
"""So many plain steps, then so many injections: each finds the caches as it left them."""


def _ms(function: Callable[[], Any]) -> float:
    began = time.process_time()
    function()
    return (time.process_time() - began) * 1e3


def measure(name: str, make: Callable[[], Session], n: int, **how: Any) -> str:
    """One line: some plain steps, then as many injections, in turns."""
    campaign = Campaign(make, n=n, seed=1, audit=0, **how)
    bench, jobs = campaign.bench, campaign.jobs
    bench.rows(jobs[:TURN])
    step = make()._stage.setup.step
    plain, each, early = [], [], 0
    with Settled(threads=1), Guard(60.0, bench.trials) as guard:
        for first in range(0, n, TURN):
            turn = jobs[first : first + TURN]
            plain += [_ms(step) for _ in turn]
            for job in turn:
                began = time.process_time()
                early += bench._row(job, guard).early
                each.append((time.process_time() - began) * 1e3)
    forward, median, mean = statistics.mean(plain), statistics.median(each), statistics.mean(each)
    return (
        f"{name:12} plain {forward:6.2f} ms   injection {median:6.2f} ms median, "
        f"{mean:6.2f} ms mean   {median / forward:5.2f} x median, {mean / forward:5.2f} x mean   "
        f"{early / n:.0%} early"
    )


def others(name: str, make: Callable[[], Scores], n: int) -> str:
    """The same of another tool: bit flips in what the first convolution gives, or why not."""
    try:
        scores = make()
    except ModuleNotFoundError as error:
        return f"{name:12} is not here: {error}"
    step = sessions.inference()._stage.setup.step
    draw = random.Random(0)
    plain, each = [], []
    with Settled(threads=1):
        for _ in range(0, n, TURN):
            plain += [_ms(step) for _ in range(TURN)]
            each += [_ms(_flip(scores, draw)) for _ in range(TURN)]
    forward, median, mean = statistics.mean(plain), statistics.median(each), statistics.mean(each)
    return (
        f"{name:12} plain {forward:6.2f} ms   injection {median:6.2f} ms median, "
        f"{mean:6.2f} ms mean   {median / forward:5.2f} x median, {mean / forward:5.2f} x mean"
    )


def _flip(scores: Scores, draw: random.Random) -> Callable[[], Any]:
    element, bit = draw.randrange(64 * 8 * 8 * 8), draw.randrange(32)
    return lambda: scores("conv1", element, bit)


def main() -> None:
    """Print the table."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    print(measure("quickstart", sessions.quickstart, n))
    print(measure("inference", sessions.inference, n))
    for name, make in (("forward hook", hooked), ("PyTorchFI", pytorchfi), ("MRFI", mrfi)):
        print(others(name, make, min(n, 200)))


if __name__ == "__main__":
    main()
