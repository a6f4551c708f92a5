"""The golden run: a step under observation, without faults, from a snapshot.

The snapshot is taken first and stays: every replay starts from it.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from fi_notebook.core.run import Comparison
from fi_notebook.core.site import Site
from fi_notebook.core.trace import FLAGS, Trace
from fi_notebook.engine.compiled import is_compiled
from fi_notebook.engine.replay import Setup, StepResult, run_step
from fi_notebook.engine.snapshot import Snapshot
from fi_notebook.engine.store import ValueStore
from fi_notebook.errors import SessionError
from fi_notebook.session.keeping import Keeping, key_of
from fi_notebook.session.stage import Stage

__all__ = ["GoldenRun", "check_ran", "record_golden", "settings"]

_COLLECTIVE = 1 << FLAGS.index("collective")


@dataclass(eq=False)
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

    @cached_property
    def collective(self) -> str:
        """The first operator that moved data between ranks, or ``""``."""
        calls = self.trace.calls
        rows = np.flatnonzero(calls["flags"] & _COLLECTIVE)
        return self.trace.tables.ops[calls["op"][rows[0]]] if len(rows) else ""

    def kept(self, site: Site) -> torch.Tensor | None:
        """A copy of the tensor of a site where it was kept whole, else None."""
        kept = self.result.kept.get(key_of(site))
        whole = None if kept is None or not kept.exact else kept.whole
        return None if whole is None else whole.clone()


def record_golden(stage: Stage, snapshot: Snapshot, keeping: Keeping) -> GoldenRun:
    """Run the step once, observed; the caller restores.

    Args:
        stage: What is run.
        snapshot: The state it begins from.
        keeping: What is kept of its outputs.

    Raises:
        SessionError: The step made no call, or never ran the model.
        Exception: Whatever the step itself raised.
    """
    __tracebackhide__ = True
    with keeping.store(keeping.always_keys()) as store:
        result = run_step(
            stage.setup,
            0,
            store=store,
            progress=stage.progress("golden"),
            optimizer_begins=stage.adopting(),
        )
        if result.error is not None:
            raise result.error
        check_ran(stage.setup, result)
    with _disable_current_modes():
        result.memory = keeping.report(store, result)
        info = settings(stage.setup, result) | {
            "step": 0,
            "loss": result.shown_loss,
            "forwards": result.forwards,
            "memory": dict(result.memory),
        }
        trace = result.recorder.trace(info, partial(_value, stage, result, snapshot))
    return GoldenRun(trace, result, snapshot)


def check_ran(setup: Setup, result: StepResult) -> None:
    """Refuse a run that is no step of the model.

    Raises:
        SessionError: The step made no call, or never ran the model.
    """
    name = type(setup.model).__name__
    if result.recorder.call_count == 0:
        raise SessionError(
            "the step made no call of torch; expected a callable that runs one training step"
        )
    if not result.recorder.watch.scope.entered:
        raise SessionError(
            f"the step never ran the model ({name}); if it was made anew since, make a new "
            "session with the new one"
        )


def _value(stage: Stage, golden: StepResult, snapshot: Snapshot, site: Site) -> Any:
    """The golden tensor of a site: the one that was kept, else from a run of the step.

    Raises:
        LookupError: The site holds no values.
        SessionError: Another run of this model is going on.
        Exception: Whatever the step raised.
    """
    key = key_of(site)
    kept = golden.kept.get(key)
    if kept is None or not kept.exact:
        store = ValueStore(0, always={key}, only=True)
        with stage.running("tracing", snapshot):
            snapshot.restore()
            result = run_step(
                stage.setup,
                0,
                store=store,
                statistics=False,
                ends=False,
                progress=stage.progress("golden"),
            )
        kept = store.kept.get(key)
        if kept is None and result.error is not None:
            raise result.error
    whole = None if kept is None else kept.whole
    if whole is None:
        raise LookupError(f"{site} holds no values that can be read")
    return whole.clone()


def settings(setup: Setup, result: StepResult) -> dict[str, Any]:
    """What decides whether two runs can be equal: versions, threads and flags.

    A compiled model runs eagerly in a session, and its runs say so.
    """
    compiled = is_compiled(setup.model) or result.recorder.watch.scope.wrapped
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
    } | ({"ran_eagerly": True} if compiled else {})
