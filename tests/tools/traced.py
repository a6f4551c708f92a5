"""Tracing a shared case, and reading the calls of a trace as plain records.

trace = traced.trace(models.cnn())
traced.calls(trace)[3].op        # "addmm"
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from fi_notebook import Session, Trace
from fi_notebook.core.site import PHASES, Frame
from tests.models import Case

__all__ = ["CallRecord", "calls", "session", "step_of", "trace"]


class CallRecord(NamedTuple):
    """One call of a trace."""

    op: str
    number: int
    counted: bool
    phase: str
    module: str
    module_call: int
    parameter: str
    frames: tuple[Frame, ...]

    @property
    def name(self) -> str:
        """Operator and number, as a site has them."""
        return f"{'' if self.counted else 'other/'}{self.op}*{self.number}"


def session(case: Case, **more: Any) -> Session:
    """A session on a shared case."""
    return Session(case.step, model=case.model, optimizer=case.optimizer, **more)


def trace(case: Case) -> Trace:
    """The golden run of a shared case."""
    return session(case).trace()


def step_of(step: Callable[[], Any], model: nn.Module, optimizer: Any = None) -> list[CallRecord]:
    """The calls of a step."""
    return calls(Session(step, model=model, optimizer=optimizer).trace())


def calls(made: Trace) -> list[CallRecord]:
    """Every call of a trace, those without a tensor output included."""
    columns, tables = made.calls, made.tables
    return [
        CallRecord(
            tables.ops[columns["op"][row]],
            int(columns["number"][row]),
            bool(columns["counted"][row]),
            PHASES[columns["phase"][row]],
            tables.modules[columns["module"][row]].path,
            int(columns["module_call"][row]),
            (*tables.parameters, "")[columns["parameter"][row]],
            made.frames(row),
        )
        for row in range(made.call_count)
    ]


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have the same dtype, shape and bytes."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    one, other = (t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (a, b))
    return torch.equal(one, other)
