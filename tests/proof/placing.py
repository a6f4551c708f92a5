"""How many calls of a step are placed, and whether backward calls are placed rightly.

    found = placed(make)
    found.calls, found.without, found.checked, found.wrong     # 412, {}, 180, []

The reference for backward calls is `tests.tools.derived`: hooks that walk the graph of what
each module returns, and the tracebacks that anomaly mode writes into the nodes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch

from fi_notebook.core.site import LOSS_FUNCTION, OUTSIDE
from tests.proof.courses import Make, session_of
from tests.tools import derived, traced

__all__ = ["UNEXPLAINED", "Placed", "placed"]

UNEXPLAINED = "unexplained"
"""How the reason begins that is none."""

_OF_NO_PARAMETER = {"_local_scalar_dense", "empty", "lift_fresh", "zero_"}
"""What an optimizer calls for no parameter: numbers, and zeros where a gradient is None."""

_CHECKPOINTED = "CheckpointFunctionBackward"
"""A reentrant checkpoint's own node belongs to its first call, wherever that was made."""


@dataclass(frozen=True)
class Placed:
    """What was found of one step.

    Attributes:
        calls: How many calls of aten and c10d it made.
        without: How many have no module or no line, by the reason.
        checked: How many modules and lines of backward calls were compared.
        wrong: Those that differ, each as text.
    """

    calls: int
    without: Counter[str]
    checked: int
    wrong: list[str]


def placed(make: Make) -> Placed:
    """Trace the first step of a recipe, and derive where its backward calls come from."""
    recipe = make()
    torch.manual_seed(1)
    calls = traced.calls(session_of(recipe).trace())
    twin = make()
    torch.manual_seed(1)
    seen = derived.watch(twin.model, twin.step).calls
    assert [call.op for call in calls] == [each.op for each in seen], "not the same calls"
    mine = [call for call in calls if call.op.partition("::")[0] != "profiler"]
    without = Counter(reason for reason in map(_missing, mine) if reason)
    checked, wrong = _compared(calls, seen)
    return Placed(len(mine), without, checked, wrong)


def _missing(call: traced.CallRecord) -> str:
    """Why a call has no module or no line, or ``""`` where it has both."""
    if not call.frames:
        return f"{UNEXPLAINED}: no line"
    if call.module != OUTSIDE:
        return ""
    if not call.counted:
        return "made before the first forward"
    if call.parameter == "*":
        return "over all parameters at once"
    if call.phase == "other":
        return "the step's own, after the backward pass"
    if call.phase == "optimizer" and call.op in _OF_NO_PARAMETER:
        return "of no parameter"
    return f"{UNEXPLAINED}: {call.phase}"


def _compared(calls: list[traced.CallRecord], seen: list[derived.Seen]) -> tuple[int, list[str]]:
    checked, wrong = 0, []
    for call, theirs in zip(calls, seen, strict=True):
        if theirs.node in (None, _CHECKPOINTED) or call.phase != "backward":
            continue
        if theirs.module is not None and not _graph_is_gone(call, theirs):
            checked += 1
            if call.module != theirs.module:
                wrong.append(f"{call.name} under {theirs.node}: {call.module}, {theirs.module}")
        if theirs.where is not None:
            checked += 1
            if theirs.where not in {(frame.file, frame.line) for frame in call.frames}:
                wrong.append(f"{call.name} under {theirs.node}: not at {theirs.where}")
    return checked, wrong


def _graph_is_gone(call: traced.CallRecord, theirs: derived.Seen) -> bool:
    """A sum within the root's forward whose graph no output leads to: no reference for it.

    The forces of `models_graph.gradient_inside`, checked by hand.
    """
    return theirs.node == "SumBackward0" and (theirs.module, call.module) == (LOSS_FUNCTION, "")
