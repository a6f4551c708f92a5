"""The golden run: a step under observation, without faults, from a snapshot.

The snapshot is taken first and stays: every replay starts from it. Optimizers that
nobody named are found when they step, and recorded just before.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim import Optimizer

from fi_notebook.core.run import Comparison
from fi_notebook.core.site import Site
from fi_notebook.core.trace import Trace
from fi_notebook.engine.intercept import Call
from fi_notebook.engine.replay import Setup, StepResult, run_step
from fi_notebook.engine.snapshot import Snapshot
from fi_notebook.engine.store import ValueStore
from fi_notebook.errors import SessionError

__all__ = ["GoldenRun", "record_golden", "settings"]


@dataclass
class GoldenRun:
    """One golden run and what is needed to run again from where it began.

    Attributes:
        trace: What it did.
        result: What was seen of it.
        snapshot: The state that it began from.
        noise: Golden against golden, once a replay has looked.
    """

    trace: Trace
    result: StepResult
    snapshot: Snapshot
    noise: Comparison | None = None


def record_golden(
    setup: Setup,
    snapshot: Snapshot,
    *,
    budget: int,
    progress: Callable[[Call], None],
    values: Callable[[Site], Any],
) -> GoldenRun:
    """Run the step once, observed; the caller restores.

    Args:
        setup: What is run.
        snapshot: The state it begins from; optimizers that appear are added.
        budget: Bytes for the outputs that are kept.
        progress: Called before each call.
        values: Gives the tensor of a site, for ``trace.value``.

    Raises:
        SessionError: The step made no call, or never ran the model.
        Exception: Whatever the step itself raised.
    """
    store = ValueStore(budget)
    known = {id(optimizer) for optimizer in setup.optimizers}

    def found(optimizer: Optimizer) -> None:
        if id(optimizer) not in known:
            known.add(id(optimizer))
            snapshot.add(optimizer)

    result = run_step(setup, 0, store=store, progress=progress, optimizer_begins=found)
    if result.error is not None:
        raise result.error
    info = settings(setup) | {
        "step": 0,
        "loss": None if result.loss is None else float(result.loss.detach().double().real),
        "forwards": result.forwards,
        "memory": {"budget": budget, "used": store.used, "exact": store.exact},
    }
    trace = result.recorder.trace(info, values)
    _check_ran(setup, trace, result)
    return GoldenRun(trace, result, snapshot)


def _check_ran(setup: Setup, trace: Trace, result: StepResult) -> None:
    name = type(setup.model).__name__
    if trace.call_count == 0:
        raise SessionError(
            "the step made no call of torch; expected a callable that runs one training step"
        )
    if not result.recorder.watch.scope.entered:
        raise SessionError(
            f"the step never ran the model ({name}); if it was made anew since, make a new "
            "session with the new one"
        )


def settings(setup: Setup) -> dict[str, Any]:
    """What decides whether two runs can be equal: versions, threads and flags."""
    return {
        "model": type(setup.model).__name__,
        "optimizers": [type(optimizer).__name__ for optimizer in setup.optimizers],
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "mkldnn": torch.backends.mkldnn.enabled,
        "seed_variable": os.environ.get("PYTHONHASHSEED", ""),
    }
