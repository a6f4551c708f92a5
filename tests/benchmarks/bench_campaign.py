"""What an injection costs, beside the plain step or forward pass that it is made on.

    python -m tests.benchmarks.bench_campaign

    quickstart   plain 3.3 ms   injection 1.9 ms median, 3.1 ms mean   0.57 x   47 % early

Both are measured in processor time, in turns, so that other work on the machine spoils
neither alone. With PyTorchFI installed, its injections into the same model are timed too.
"""

from __future__ import annotations

import importlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from fi_notebook.campaign import Campaign
from fi_notebook.demo import make_demo
from fi_notebook.engine.settled import Settled
from fi_notebook.session import Session
from tests.campaign import sessions


def _ms(function: Callable[[], Any]) -> float:
    began = time.process_time()
    function()
    return (time.process_time() - began) * 1e3


def measure(name: str, make: Callable[[], Session], n: int, **how: Any) -> str:
    """One line: a plain step and an injection, in turns."""
    campaign = Campaign(make, n=n, seed=1, audit=0, **how)
    jobs, trials = campaign.jobs, campaign.bench.trials
    campaign.bench.rows(jobs[:20])
    step = make()._stage.setup.step
    found = [(job.fault, trials.trace.site(trials.trace.row(job.site))) for job in jobs]
    plain, each, early = [], [], 0
    with Settled(threads=1):
        for fault, site in found:
            plain.append(_ms(step))
            began = time.process_time()
            early += trials.run(fault, site, 0).early
            each.append((time.process_time() - began) * 1e3)
    forward, median, mean = statistics.median(plain), statistics.median(each), statistics.mean(each)
    return (
        f"{name:12} plain {forward:6.2f} ms   injection {median:6.2f} ms median, "
        f"{mean:6.2f} ms mean   {median / forward:5.2f} x median, {mean / forward:5.2f} x mean   "
        f"{early / n:.0%} early"
    )


def pytorchfi(n: int) -> str:
    """Values set in the first convolution's output with PyTorchFI 0.6, or why not."""
    try:
        core = importlib.import_module("pytorchfi.core")
    except ImportError as error:
        return f"PyTorchFI is not here: {error}"
    demo = make_demo()
    model, images = demo.model.eval(), demo.images
    injector = core.fault_injection(model, len(images), list(images.shape[1:]), [torch.nn.Conv2d])
    draw = torch.Generator().manual_seed(0)
    plain, each = [], []
    with torch.no_grad(), Settled(threads=1):
        for _ in range(n):
            place = [[int(torch.randint(k, (1,), generator=draw))] for k in (len(images), 8, 8, 8)]
            names = ("batch", "dim1", "dim2", "dim3")
            where = dict(zip(names, place, strict=True))
            plain.append(_ms(lambda: model(images)))
            began = time.process_time()
            injector.declare_neuron_fi(layer_num=[0], value=[1e4], **where)(images)
            each.append((time.process_time() - began) * 1e3)
    mean, ratio = statistics.mean(each), statistics.mean(each) / statistics.median(plain)
    return f"PyTorchFI    injection {mean:6.2f} ms mean   {ratio:5.2f} x a forward pass"


def main() -> None:
    """Print the table."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    print(measure("quickstart", sessions.quickstart, n))
    print(measure("inference", sessions.inference, n))
    print(pytorchfi(min(n, 200)))


if __name__ == "__main__":
    main()
