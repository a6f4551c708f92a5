"""Hand-made comparisons, injections and runs, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan, sqrt
from typing import Any

import numpy as np

from fi_notebook.analysis.align import align
from fi_notebook.analysis.compare import build
from fi_notebook.core.fault import Fault, FaultPlan
from fi_notebook.core.injection import ElementChange, Injection
from fi_notebook.core.run import Comparison, Difference, Outcome, Run, StepRecord
from fi_notebook.core.site import Site, Target
from fi_notebook.core.stats import TensorStats
from fi_notebook.core.trace import Trace
from tests.traces import digits_step

__all__ = ["EQUAL_LOSS", "PLAN", "comparison", "flipped", "injection", "run", "steps"]

PLAN = FaultPlan((Fault("f1", Target.parse("relu*2:0"), "bitflip", {"bit": 30}),))
EQUAL_LOSS = Difference("loss", equal=True, numel=1, golden=2.5, faulty=2.5)
CHANGED_LOSS = Difference(
    "loss", equal=False, changed=1, numel=1, relative_l2=0.2, max_abs=0.5, golden=2.5, faulty=3.0
)


def comparison(errors: Mapping[str, float], trace: Trace | None = None, **after: Any) -> Comparison:
    """A digits step in which the named sites have these relative L2 errors."""
    golden = digits_step() if trace is None else trace
    rows = {golden.row(site): error for site, error in errors.items()}
    relative = np.zeros(len(golden))
    relative[list(rows)] = list(rows.values())
    changed = (relative != 0).astype(float)
    measures = {"changed": changed, "relative_l2": relative, "max_abs": relative}
    after.setdefault("loss", EQUAL_LOSS)
    return build(golden, golden, align(golden, golden), measures, **after)


Values = Sequence[float] | np.ndarray


def stats(values: Values, shape: tuple[int, ...], dtype: str = "float32") -> TensorStats:
    """Statistics of a few values."""
    array = np.asarray(values, dtype=float)
    finite = array[np.isfinite(array)]
    return TensorStats(
        dtype,
        shape,
        float(finite.min()),
        float(finite.max()),
        float(finite.mean()),
        float(finite.std()),
        sqrt(float((finite**2).sum())),
        int(np.isnan(array).sum()),
        int(np.isposinf(array).sum()),
        int(np.isneginf(array).sum()),
        int((array == 0).sum()),
    )


def injection(
    before: Values = (0.0, 0.5, 1.0, 2.0, 0.0, 3.0),
    after: Values = (0.0, 0.5, np.inf, 2.0, 0.0, 3.0),
    *,
    shape: tuple[int, ...] = (2, 3),
    site: str = "relu*2:0",
    step: int = 0,
    fault: str = "f1",
) -> Injection:
    """A firing with these float32 values before and after."""
    first, second = (np.asarray(values, dtype=np.float32) for values in (before, after))
    bits = [values.view(np.uint32) for values in (first, second)]
    elements = tuple(
        ElementChange(
            tuple(int(i) for i in np.unravel_index(flat, shape)),
            float(first[flat]),
            float(second[flat]),
            int(bits[0][flat]),
            int(bits[1][flat]),
        )
        for flat in np.flatnonzero(bits[0] != bits[1])
    )
    return Injection(
        fault=fault,
        site=replace(Site.parse(site), phase="forward", module="act", dtype="float32", shape=shape),
        step=step,
        before=stats(first, shape),
        after=stats(second, shape),
        changed=len(elements),
        elements=elements[:64],
        _tensors=(first.astype(float).reshape(shape), second.astype(float).reshape(shape)),
    )


FLIPPED = (0.0, 0.5, 1.125, 2.0, 0.0, 3.0)


def flipped(step: int = 0) -> Injection:
    """A firing that changed one of six elements from 1 to 1.125 (bit 20)."""
    return injection(after=FLIPPED, step=step)


def steps(
    losses: Sequence[float],
    *,
    first: int = 0,
    distances: Sequence[float] | float = nan,
    norms: Sequence[float] | float = 10.0,
    gradients: float = 1.0,
    metrics: Mapping[str, float] | None = None,
) -> tuple[StepRecord, ...]:
    """One record per loss."""
    count = len(losses)
    distance, norm = (np.broadcast_to(values, count) for values in (distances, norms))
    return tuple(
        StepRecord(
            first + n,
            loss,
            gradients,
            float(norm[n]),
            dict(metrics or {}),
            parameter_distance=float(distance[n]),
        )
        for n, loss in enumerate(losses)
    )


def run(**changes: Any) -> Run:
    """A run of one step in which a flip of relu*2:0 spread to loss and weights."""
    fields: dict[str, Any] = {
        "plan": PLAN,
        "injections": [flipped()],
        "not_injected": (),
        "comparison": comparison(
            {
                "relu*2:0": 0.01,
                "nll_loss_forward*1:0": 0.2,
                "threshold_backward*1:0": 0.05,
                "mm*1:0": 0.06,
                "_foreach_add_*1:0[0]": 0.001,
            },
            loss=CHANGED_LOSS,
            gradients=(Difference("fc.weight", False, 6, 6, 0.06, 0.1),),
            parameters=(Difference("fc.weight", False, 6, 6, 0.001, 0.002),),
        ),
        "outcome": Outcome("changed", "f1 struck relu*2:0 in step 0", 0),
        "golden": steps([2.5]),
        "faulty": steps([3.0], distances=0.001),
    }
    return Run(**(fields | changes))
