"""Backward calls have the module and line of their forward call: against plain torch."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from fi_notebook import Session
from fi_notebook.core.site import LOSS_FUNCTION, OUTSIDE
from tests import models, models_graph
from tests.tools import derived, traced

_CASES = {**models.CASES, **models_graph.GRAPHS}
_FIRST_INSIDE = "CheckpointFunctionBackward"
"""A checkpoint's own node belongs to its first call, wherever that was made."""
_HAND_CHECKED = {("gradient_inside", LOSS_FUNCTION, "")}
"""A sum whose graph is gone before the forward returns: made in the root's forward."""

_WITHOUT_NODE = {"gradient_penalty": 2, "retained_graph": 2, "gradient_inside": 2}
"""Backward calls that no node makes: the gradient with which each backward pass begins."""


def _expected(name: str) -> list[derived.Seen]:
    case = _CASES[name]()
    torch.manual_seed(1)
    return derived.watch(case.model, case.step).calls


def _traced(name: str) -> list[traced.CallRecord]:
    case = _CASES[name]()
    torch.manual_seed(1)
    return traced.calls(traced.trace(case))


def _uncounted(calls: list[traced.CallRecord]) -> dict[str, int]:
    """How many calls of each operator came before the first forward."""
    before: dict[str, int] = {}
    for call in calls:
        if not call.counted:
            before[call.op] = before.get(call.op, 0) + 1
    return before


@pytest.mark.parametrize("name", _CASES)
def test_the_stream_is_that_of_a_bare_mode(name: str) -> None:
    """Observed or not, a step makes the same calls in the same order, counted alike."""
    mine, theirs = _traced(name), _expected(name)
    assert [call.op for call in mine] == [seen.op for seen in theirs]
    before = _uncounted(mine)
    for call, seen in zip(mine, theirs, strict=True):
        if call.counted:
            assert call.number == seen.number - before.get(call.op, 0), call.name


def _backward(name: str) -> list[tuple[traced.CallRecord, derived.Seen]]:
    """The backward calls, each with what a bare mode saw of it."""
    pairs = zip(_traced(name), _expected(name), strict=True)
    return [(call, seen) for call, seen in pairs if call.phase == "backward"]


@pytest.mark.parametrize("name", _CASES)
def test_backward_calls_have_the_module_that_made_their_node(name: str) -> None:
    """The node that runs was made in the module that the trace names, found by graph walks."""
    backward = _backward(name)
    known = [(c, s) for c, s in backward if s.node not in (None, _FIRST_INSIDE)]
    assert len(backward) - len(known) == _WITHOUT_NODE.get(name, 1)
    for call, seen in known:
        right = call.module == seen.module or (name, seen.module, call.module) in _HAND_CHECKED
        assert right, f"{call.name} under {seen.node}"


@pytest.mark.parametrize("name", _CASES)
def test_backward_calls_have_the_line_that_made_their_node(name: str) -> None:
    """Anomaly mode's traceback of the node names a line that the call's frames hold."""
    backward = _backward(name)
    known = [(c, s) for c, s in backward if s.line is not None]
    assert len(backward) - len(known) == _WITHOUT_NODE.get(name, 1)
    for call, seen in known:
        lines = [frame.line for frame in call.frames if "/tests/models" in frame.file]
        assert seen.line in lines, f"{call.name} under {seen.node}: {lines}"


@pytest.mark.parametrize("name", _CASES)
def test_nothing_is_left_outside_without_a_reason(name: str) -> None:
    """Outside are: what comes before the forward, after the update, clipping, the profiler."""
    case = _CASES[name]()
    calls = traced.calls(traced.trace(case))
    outside = [call for call in calls if call.module == OUTSIDE]
    assert {call.phase for call in outside} <= {"other"}
    assert all(
        call.parameter == "*"  # clipping
        or call.op.startswith("profiler::")
        or call.op == "detach"  # of the loss that the step returns, and of a penalty's input
        or not call.counted
        for call in outside
    )


@pytest.mark.parametrize(
    ("name", "recomputed"),
    [
        ("checkpointed", {"block.0", "block.1", "block.2", "block.3"}),
        ("checkpointed_reentrant", {"block.0", "block.1", "block.2", "block.3"}),
        ("checkpointed_function", {""}),
        ("checkpointed_function_reentrant", {""}),
    ],
)
def test_a_recompute_is_a_phase_of_its_own(name: str, recomputed: set[str]) -> None:
    """What a checkpoint computes again is recompute, in its module, of either kind."""
    calls = traced.calls(traced.trace(_CASES[name]()))
    again = [call for call in calls if call.phase == "recompute" and call.op != "detach"]
    assert {call.module for call in again} == recomputed
    forward = [call.op for call in calls if call.phase == "forward" and call.module in recomputed]
    made = [call.op for call in again]
    assert made == [op for op in forward if op in made][: len(made)]
    assert all(any("tests/models" in f.file for f in call.frames) for call in again)


def test_autograd_grad_inside_a_forward_is_backward_and_no_recompute() -> None:
    """The forces' backward runs in the forward: its calls are backward, none is recompute."""
    calls = traced.calls(traced.trace(models_graph.gradient_inside()))
    assert "recompute" not in {call.phase for call in calls}
    first = next(n for n, call in enumerate(calls) if call.op == "tanh_backward")
    assert calls[first].phase == "backward"
    last_forward = max(n for n, call in enumerate(calls) if call.phase == "forward")
    assert first < last_forward  # -slope comes after


def test_a_shared_module_is_called_three_times() -> None:
    """One Linear called three times is one module with calls 1, 2, 3, and 3, 2, 1 backward."""
    calls = traced.calls(traced.trace(models.shared_module()))
    assert [c.module_call for c in calls if c.op == "addmm"] == [1, 2, 3]
    backward = [c.module_call for c in calls if c.op == "mm" and c.module == "first"]
    assert backward == [3, 3, 2, 2, 1]  # the first call's input takes no gradient
    assert {c.module for c in calls if c.op in ("addmm", "mm")} == {"first"}


def test_each_layer_is_told_by_its_shape() -> None:
    """Layers of widths of their own: each gradient of a weight has its layer's shape."""
    widths = [5, 7, 11, 13, 3]
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.Tanh()]
    model = nn.Sequential(*layers)
    x, y = torch.randn(4, 5), torch.randn(4, 3)

    def step() -> None:
        functional.mse_loss(model(x), y).backward()
        model.zero_grad()

    trace = Session(step, model=model).trace()
    products = [s for s in trace.find("mm", phase="backward") if s.shape[0] != 4]
    assert len(products) == 4
    for site in products:  # (out, in) is the shape of exactly one layer's weight
        inputs, outputs = (site.shape[1], site.shape[0])
        if (inputs, outputs) not in pairwise(widths):
            inputs, outputs = outputs, inputs
        assert site.module == str(2 * widths.index(inputs))


def test_in_place_divide_is_not_taken_for_the_sum() -> None:
    """The node of ``v /= v.sum()`` is the division's, though the sum shows its number first."""
    case = models_graph.in_place_divide()
    trace = traced.trace(case)
    rows = {trace.tables.ops[op]: n for n, op in enumerate(trace.calls["op"])}
    divisions = [
        int(trace.calls["cause"][row])
        for row in range(trace.call_count)
        if trace.tables.ops[trace.calls["op"][row]] == "div"
    ]
    assert divisions == [rows["mean"], rows["div_"], rows["div_"], rows["div_"]]


def test_a_graph_kept_from_before_the_session_has_no_module() -> None:
    """Nodes that were made before anything was recorded are of no call, and are outside."""
    model = nn.Linear(3, 3)
    old = model(torch.randn(2, 3)).sum()

    def step() -> Any:
        loss = model(torch.ones(2, 3)).sum()
        (loss + old).backward(retain_graph=True)
        return loss

    calls = traced.step_of(step, model)
    products = [call for call in calls if call.op == "mm" and call.phase == "backward"]
    assert [call.module for call in products] == ["", OUTSIDE]
