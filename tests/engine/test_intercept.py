"""Names of calls: the seed's own log, phases, what takes numbers, other modes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from fi_notebook import Session
from fi_notebook.core.site import LOSS_FUNCTION, OUTSIDE
from fi_notebook.engine.intercept import Call
from tests import models
from tests.tools import traced

_SEED_FORWARD_END = [
    "layer.layers.6 t*4",
    "layer.layers.6 addmm*4",
    "layer.out t*5",
    "layer.out addmm*5",
]
_SEED_LOSS = ["loss function nll_loss_forward*1", "loss function nll_loss_backward*1"]
_SEED_BACKWARD = [
    "layer.out t*11",
    "layer.out mm*3",
    "layer.out t*12",
    "layer.out mm*4",
    "layer.out t*13",
    "layer.out sum*2",
    "layer.out t*14",
    "layer.layers.6 t*15",
    "layer.layers.6 mm*5",
]
_NOT_LOGGED = {"detach", "view", "ones_like"}  # the seed's own blacklist, as far as it matters


def _log(calls: list[traced.CallRecord], module: str) -> list[str]:
    """The lines of the seed's log of a module and the loss function, without the step."""
    return [
        f"{call.module} {call.name}"
        for call in calls
        if call.op not in _NOT_LOGGED
        and (call.module == LOSS_FUNCTION or call.module.split(".")[0] == module)
        and call.phase in ("forward", "loss", "backward")
    ]


def test_the_seeds_own_log_comes_out() -> None:
    """Packets are counted the whole step through, out-of-scope modules included."""
    log = _log(traced.calls(traced.trace(models.seed_mlp())), "layer")
    at = log.index("loss function nll_loss_forward*1")
    assert log[at - 4 : at] == _SEED_FORWARD_END
    assert log[at : at + 2] == _SEED_LOSS
    assert log[at + 2 : at + 2 + len(_SEED_BACKWARD)] == _SEED_BACKWARD


def test_a_step_goes_through_its_phases_in_order() -> None:
    """Forward, loss, backward, clipping (other), optimizer, and nothing else, in this order."""
    calls = traced.calls(traced.trace(models.cnn()))
    phases: list[str] = []
    for call in calls:
        if call.op.startswith("profiler::") or call.op == "detach":
            continue
        if not phases or phases[-1] != call.phase:
            phases.append(call.phase)
    assert phases == ["forward", "loss", "backward", "other", "optimizer"]


def test_what_a_backward_does_after_its_last_node_is_of_the_backward() -> None:
    """As FSDP2 scatters its last gradients; what comes after `backward` is not."""
    net = nn.Linear(1, 1)
    engine: Any = torch.autograd.Variable._execution_engine

    def step() -> None:
        out = net(torch.ones(1, 1))
        out.register_hook(lambda _: engine.queue_callback(lambda: torch.ones(1).sin()))
        out.sum().backward()
        torch.ones(1).cos()

    phases = {call.op: call.phase for call in traced.calls(Session(step, model=net).trace())}
    assert (phases["sin"], phases["cos"]) == ("backward", "other")


def test_clipping_is_of_all_parameters() -> None:
    """clip_grad_norm_ between backward and the optimizer carries ``*`` and is outside."""
    calls = traced.calls(traced.trace(models.cnn()))
    clipping = [c for c in calls if c.phase == "other" and not c.op.startswith("profiler::")]
    assert [c.op for c in clipping if c.op != "detach"] == [
        "_foreach_norm",
        "stack",
        "linalg_vector_norm",
        "add",
        "reciprocal",
        "mul",
        "clamp",
        "_foreach_mul_",
    ]
    assert {c.parameter for c in clipping if c.op != "detach"} == {"*"}
    assert {c.module for c in clipping} == {OUTSIDE}


def test_what_comes_before_the_first_forward_takes_no_number() -> None:
    """Calls on the data before the forward are ``other/mul*1``; the step's mul is 1 again."""
    model = nn.Linear(3, 2)

    def step() -> torch.Tensor:
        x = torch.ones(4, 3) * 2
        loss = (model(x) * 3).sum()
        loss.backward()
        return loss

    calls = traced.step_of(step, model)
    products = [call for call in calls if call.op == "mul"]
    assert [call.name for call in products] == ["other/mul*1", "mul*1", "mul*2"]
    assert [call.phase for call in products] == ["other", "loss", "backward"]


def test_a_validation_takes_no_number_of_the_step() -> None:
    """A forward in eval mode or without grad is other, and so is what follows it."""
    model = nn.Linear(3, 2)
    x, y = torch.ones(4, 3), torch.ones(4, 2)

    def step() -> torch.Tensor:
        model.eval()
        functional.mse_loss(model(x), y)
        model.train()
        with torch.no_grad():
            functional.mse_loss(model(x), y)
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        model.zero_grad()
        model.eval()
        functional.mse_loss(model(x), y)
        model.train()
        return loss

    calls = [call for call in traced.step_of(step, model) if call.op in ("addmm", "mse_loss")]
    assert [(call.name, call.phase) for call in calls] == [
        ("other/addmm*1", "other"),
        ("other/mse_loss*1", "other"),
        ("other/addmm*2", "other"),
        ("other/mse_loss*2", "other"),
        ("addmm*1", "forward"),
        ("mse_loss*1", "loss"),
        ("other/addmm*3", "other"),
        ("mse_loss*2", "other"),
    ]


def test_a_loss_written_by_hand_is_the_loss_function() -> None:
    """Arithmetic between the model and backward is phase loss, module ``loss function``."""
    model = nn.Linear(3, 2)
    x, y = torch.ones(4, 3), torch.ones(4, 2)

    def step() -> torch.Tensor:
        error = model(x) - y
        loss = (error * error).mean() + 0.1 * model.weight.abs().sum()
        loss.backward()
        model.zero_grad()
        return loss

    calls = traced.step_of(step, model)
    loss = [call for call in calls if call.phase == "loss"]
    assert [call.op for call in loss] == ["sub", "mul", "mean", "abs", "sum", "mul", "add"]
    assert {call.module for call in loss} == {LOSS_FUNCTION}
    backward = [call for call in calls if call.phase == "backward"]
    assert {call.module for call in backward} == {LOSS_FUNCTION, ""}


def test_calls_of_a_parents_own_forward_are_the_parents() -> None:
    """What the root computes itself has module ``""``, what its children do is theirs."""
    calls = traced.calls(traced.trace(models.cnn()))
    forward = [call for call in calls if call.phase == "forward"]
    own = [call.op for call in forward if call.module == "" and call.op != "detach"]
    assert own == ["relu", "relu", "view"]


def test_micro_batches_run_on_in_one_step() -> None:
    """Two forwards before the optimizer are one step: calls count on, micro batches too."""
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(4, 3)

    def step() -> None:
        for _ in range(2):
            model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    trace = Session(step, model=model, optimizer=optimizer).trace()
    rows = [n for n, op in enumerate(trace.calls["op"]) if trace.tables.ops[op] == "addmm"]
    assert [int(trace.calls["number"][row]) for row in rows] == [1, 2]
    assert [int(trace.calls["micro_batch"][row]) for row in rows] == [0, 1]
    assert trace.info["forwards"] == 2


@pytest.mark.parametrize("where", ["around", "inside", "left inside", "entered inside"])
def test_a_persons_own_mode_may_come_and_go(where: str) -> None:
    """FlopCounterMode around the session, in the step, or across its end: all is seen."""
    case = models.mlp()
    plain = FlopCounterMode(display=False)
    with plain:
        case.step()
    case, outer, counters = models.mlp(), FlopCounterMode(display=False), []

    def step() -> Any:
        if where == "inside":
            counters.append(FlopCounterMode(display=False))
            with counters[-1]:
                return case.step()
        return case.step()

    if where == "around":
        counters.append(outer)
        with outer:
            made = Session(step, model=case.model, optimizer=case.optimizer).trace()
    else:
        made = Session(step, model=case.model, optimizer=case.optimizer).trace()
    names = [call.name for call in traced.calls(made)]
    assert names.count("addmm*2") == 1
    assert all(c.get_total_flops() == plain.get_total_flops() for c in counters)


def test_what_an_enclosing_mode_sees_is_the_step_alone() -> None:
    """A mode around the session is shown the step's calls, not the copies that we make."""
    case, twin = models.cnn(), models.cnn()
    bare, around = _Counting(), _Counting()
    with bare:
        twin.step()
    session = traced.session(case)
    session.trace()
    with around:
        session.trace()
    assert around.ops == bare.ops
    session.arm("relu*1:0", "zero")
    with around:
        session.replay()
    assert around.ops == 3 * bare.ops  # and golden again for the noise, and faulty


class _Counting(torch.utils._python_dispatch.TorchDispatchMode):
    """Writes the operators down."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ops.append(str(func))
        return func(*args, **(kwargs or {}))


def test_a_call_is_told_in_a_line() -> None:
    """Its name in the step, its phase and step, and no argument."""
    told: list[str] = []

    class Teller:
        def before(self, call: Call) -> None:
            told.append(repr(call))

        def after(self, _call: Call, result: Any) -> Any:
            return result

    model = nn.Linear(3, 2)

    def step() -> torch.Tensor:
        loss = model(torch.ones(4, 3) * 2).sum()
        loss.backward()
        return loss

    session = Session(step, model=model)
    end = session.read_with(lambda _: Teller())
    session.trace()
    end()
    assert {"<Call other/mul*1: other, step 0>", "<Call addmm*1: forward, step 0>"} <= set(told)
