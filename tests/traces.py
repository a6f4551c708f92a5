"""Synthetic traces: a step written down call by call, without torch.

trace = build(
    Call("mm", module="fc", phase="forward", line=3),
    Call("mm", module="fc", phase="backward", cause=0),
    modules={"": "Net", "fc": "Linear"},
)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fi_notebook.core.site import LOSS_FUNCTION, OUTSIDE, PHASES, Frame
from fi_notebook.core.trace import (
    CALL_COLUMNS,
    FLAGS,
    SITE_COLUMNS,
    ModuleInfo,
    Tables,
    Trace,
)

__all__ = ["Call", "build", "digits_step", "large"]


@dataclass(frozen=True)
class Call:
    """One call of a synthetic step; what is left out has a plain default.

    Attributes:
        op: Operator packet.
        module: Path of the module.
        phase: One of `PHASES`.
        line: Line in ``run.py``, or 0 for a call without source lines.
        stack: Source lines, in place of ``line``.
        cause: Row of the forward call that caused it, or -1.
        parameter: Name of the parameter, or ``""``.
        overload: Overload name.
        outputs: Shape of each output.
        indices: For a list output, how many tensors it has, else 0.
        flags: Words of `FLAGS`.
        counted: Whether it takes a number of the step.
        inputs: Site rows that made its inputs.
        dtype: Dtype of its outputs.
    """

    op: str
    module: str = ""
    phase: str = "forward"
    line: int = 1
    stack: tuple[Frame, ...] | None = None
    cause: int = -1
    parameter: str = ""
    overload: str = "default"
    outputs: tuple[tuple[int, ...], ...] = ((2, 3),)
    indices: int = 0
    flags: tuple[str, ...] = ()
    counted: bool = True
    inputs: tuple[int, ...] = ()
    dtype: str = "float32"

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Its source lines."""
        if self.stack is not None:
            return self.stack
        return (Frame("/home/me/run.py", self.line, "forward"),) if self.line else ()


@dataclass
class _Names:
    """A table that gives each new name the next number."""

    names: list[Any] = field(default_factory=list)
    rows: dict[Any, int] = field(default_factory=dict)

    def row(self, name: Any) -> int:
        if name not in self.rows:
            self.rows[name] = len(self.names)
            self.names.append(name)
        return self.rows[name]


def build(
    *calls: Call,
    modules: Mapping[str, str] | Sequence[ModuleInfo] = (),
    sources: Mapping[str, str] | None = None,
    info: Mapping[str, Any] | None = None,
) -> Trace:
    """A trace of these calls; numbers and ordinals are counted as the engine counts."""
    infos = _module_infos(calls, modules)
    paths = {module.path: row for row, module in enumerate(infos)}
    tables = {
        name: _Names() for name in ("ops", "overloads", "parameters", "stacks", "dtypes", "shapes")
    }
    numbers: Counter[Any] = Counter()
    ordinals: Counter[Any] = Counter()
    call_rows: list[tuple[Any, ...]] = []
    site_rows: list[tuple[Any, ...]] = []
    for row, call in enumerate(calls):
        numbers[call.op, call.counted] += 1
        ordinals[call.op, call.phase, call.module] += 1
        parameter = tables["parameters"].row(call.parameter) if call.parameter else -1
        call_rows.append(
            (
                tables["ops"].row(call.op),
                tables["overloads"].row(call.overload),
                numbers[call.op, call.counted],
                call.counted,
                PHASES.index(call.phase),
                paths[call.module],
                1 if call.module in paths else 0,
                ordinals[call.op, call.phase, call.module],
                tables["stacks"].row(call.frames),
                call.cause,
                parameter,
                sum(1 << FLAGS.index(flag) for flag in call.flags),
                len(site_rows),
                0,
            )
        )
        for output, shape in enumerate(call.outputs):
            for index in range(call.indices) if call.indices else (-1,):
                dtype, size = tables["dtypes"].row(call.dtype), tables["shapes"].row(shape)
                statistics = (-1.0, 1.0, 0.0, 0.5, math.sqrt(math.prod(shape)), 0, 0, 0, 0)
                hashed = hash((statistics, shape))
                site_rows.append((row, output, index, dtype, size, parameter, *statistics, hashed))
    offsets = np.cumsum([0, *(len(call.inputs) for call in calls)], dtype=np.int64)
    return Trace(
        tables=Tables(
            ops=tuple(tables["ops"].names),
            overloads=tuple(tables["overloads"].names),
            modules=infos,
            parameters=tuple(tables["parameters"].names),
            stacks=tuple(tables["stacks"].names),
            dtypes=tuple(tables["dtypes"].names),
            shapes=tuple(tables["shapes"].names),
            sources=dict(sources or {}),
        ),
        calls=_columns(CALL_COLUMNS, call_rows),
        site_columns=_columns(SITE_COLUMNS, site_rows),
        input_offsets=offsets,
        input_sites=np.asarray([site for call in calls for site in call.inputs], dtype=np.int64),
        info=dict(info or {}),
    )


def _module_infos(
    calls: Sequence[Call], modules: Mapping[str, str] | Sequence[ModuleInfo]
) -> tuple[ModuleInfo, ...]:
    if isinstance(modules, Mapping):
        known = [ModuleInfo(path, kind) for path, kind in modules.items()]
    else:
        known = list(modules)
    paths = {module.path for module in known}
    used = dict.fromkeys(c.module for c in calls if c.module not in (LOSS_FUNCTION, OUTSIDE))
    known += [ModuleInfo(path, "Module") for path in used if path not in paths]
    return (*known, ModuleInfo(LOSS_FUNCTION), ModuleInfo(OUTSIDE))


def _columns(types: Mapping[str, Any], rows: list[tuple[Any, ...]]) -> dict[str, np.ndarray]:
    values = zip(*rows, strict=True) if rows else [()] * len(types)
    return {
        name: np.asarray(column, dtype=types[name])
        for name, column in zip(types, values, strict=True)
    }


def digits_step() -> Trace:
    """A small step with every phase: two layers, a loss, backward and an update."""
    return build(
        Call("convolution", "conv", line=3, overload="default"),  # row 0
        Call("native_batch_norm", "norm", line=4, outputs=((2, 3), (3,), (3,)), inputs=(0,)),
        Call("relu", "act", line=5, inputs=(1,)),
        Call("detach", "act", line=5, flags=("view", "folded"), inputs=(4,)),
        Call("addmm", "fc", line=6, inputs=(4,)),  # row 4
        Call("relu", "act", line=7, inputs=(6,)),
        Call("nll_loss_forward", LOSS_FUNCTION, "loss", 12, outputs=((), ()), inputs=(7,)),
        Call("nll_loss_backward", LOSS_FUNCTION, "backward", 13, cause=6, inputs=(8,)),
        Call("threshold_backward", "act", "backward", 13, cause=5, inputs=(10,)),  # row 8
        Call("mm", "fc", "backward", 13, cause=4, inputs=(11,), parameter="fc.weight"),
        Call("sum", "fc", "backward", 13, cause=4, overload="dim_IntList", inputs=(11,)),
        Call(
            "_foreach_add_", OUTSIDE, "optimizer", 14, parameter="*", indices=2, overload="Scalar"
        ),
        Call("add_", OUTSIDE, "optimizer", 14, parameter="fc.weight", flags=("in place",)),
        Call("mul", OUTSIDE, "other", 0, counted=False, overload="Tensor"),
        modules={
            "": "Net",
            "conv": "Conv2d",
            "norm": "BatchNorm2d",
            "act": "ReLU",
            "drop": "Dropout",
            "fc": "Linear",
        },
        sources={"/home/me/run.py": "\n".join(f"line {n}" for n in range(1, 20))},
        info={"step": 0, "loss": 2.5},
    )


def large(calls: int, modules: int = 200, ops: int = 60) -> Trace:
    """A step of many calls in pseudo-random but fixed places, one site each."""
    rng = np.random.default_rng(0)
    frames = [  # each line makes a few operators of its own
        tuple(
            Frame(f"/src/file{n % 5}.py", n // 5 + 10 * depth + 1, "forward") for depth in range(8)
        )
        for n in range(2000)
    ]
    op = rng.integers(0, ops, calls).astype(np.int32)
    backward = np.arange(calls) >= calls // 3
    cause = np.where(backward, rng.integers(0, calls // 3, calls), -1)
    order = np.argsort(op, kind="stable")
    number = np.empty(calls, dtype=np.int32)
    starts = np.searchsorted(op[order], np.arange(ops))
    number[order] = np.arange(calls) - starts[op[order]] + 1
    columns: dict[str, np.ndarray] = {
        name: np.zeros(calls, dtype=kind) for name, kind in CALL_COLUMNS.items()
    }
    columns |= {
        "op": op,
        "number": number,
        "counted": np.ones(calls, dtype=bool),
        "phase": np.where(backward, 2, 0).astype(np.uint8),
        "module": rng.integers(0, modules, calls).astype(np.int32),
        "module_call": np.ones(calls, dtype=np.int32),
        "ordinal": np.ones(calls, dtype=np.int32),
        "stack": np.where(
            backward, 0, op + ops * rng.integers(0, len(frames) // ops, calls)
        ).astype(np.int32),
        "cause": cause.astype(np.int32),
        "parameter": np.full(calls, -1, dtype=np.int32),
        "first_site": np.arange(calls, dtype=np.int64),
    }
    sites: dict[str, np.ndarray] = {
        name: np.zeros(calls, dtype=kind) for name, kind in SITE_COLUMNS.items()
    }
    sites |= {
        "call": np.arange(calls, dtype=np.int32),
        "index": np.full(calls, -1, dtype=np.int32),
        "parameter": np.full(calls, -1, dtype=np.int32),
        "shape": rng.integers(0, 50, calls).astype(np.int32),
    }
    paths = ["", *(f"layers.{n}" for n in range(modules - 2)), "layers"]
    return Trace(
        tables=Tables(
            ops=tuple(f"op{n}" for n in range(ops)),
            overloads=("default",),
            modules=tuple(ModuleInfo(path, "Block") for path in paths),
            parameters=(),
            stacks=tuple(frames),
            dtypes=("float32",),
            shapes=tuple((n + 1, 64) for n in range(50)),
        ),
        calls=columns,
        site_columns=sites,
        input_offsets=np.arange(calls + 1, dtype=np.int64),
        input_sites=np.maximum(np.arange(calls, dtype=np.int64) - 1, 0),
        info={"step": 0},
    )
