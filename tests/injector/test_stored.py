"""Parameters, buffers, gradients and optimizer state as sites of their own, by hand.

The model is y = w x with w = (2), x = (3), loss = y, so the gradient of w is 3.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fi_notebook import Injector
from tests import models
from tests.injector.helpers import lines, plan, sites
from tests.tools.traced import same_bits


class Line(nn.Module):
    """One weight, and a buffer that is added."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(1, 1, bias=False)
        nn.init.constant_(self.fc.weight, 2.0)
        self.register_buffer("shift", torch.tensor([1.0]))

    def forward(self, x: Tensor) -> Tensor:
        """``w x + shift``."""
        return self.fc(x) + self.shift


def _train(
    config: dict[str, Any],
    steps: int = 1,
    make: Any = lambda p: torch.optim.SGD(p, lr=0.5),
    micro_batches: int = 1,
) -> tuple[list[float], list[float], Injector, Line, torch.optim.Optimizer]:
    """Outputs of each forward and the weight after each step."""
    model = Line()
    optimizer = make(model.parameters())
    outputs, weights = [], []
    with Injector(config, model=model) as injector:
        for _ in range(steps):
            for _ in range(micro_batches):
                out = model(torch.tensor([[3.0]]))
                outputs.append(out.item())
                out.sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            weights.append(model.fc.weight.item())
    return outputs, weights, injector, model, optimizer


def test_without_a_fault() -> None:
    """Outputs 2 * 3 + 1 = 7, then w = 2 - 0.5 * 3 = 0.5 and 0.5 * 3 + 1 = 2.5."""
    outputs, weights, *_ = _train({"version": 2, "log_steps": "0-"}, steps=2)
    assert (outputs, weights) == ([7.0, 2.5], [0.5, -1.0])


def test_a_transient_parameter_fault_is_over_when_the_optimizer_steps() -> None:
    """In step 0 w is 20: output 61; the update starts from 2: w = 2 - 0.5 * 3 = 0.5."""
    config = plan("param:fc.weight", "scale", parameters={"factor": 10}, steps=[0])
    outputs, weights, injector, *_ = _train(config, steps=2)
    assert (outputs, weights) == ([61.0, 2.5], [0.5, -1.0])
    (injection,) = injector.injections
    assert (str(injection.site), injection.kind) == ("param:fc.weight", "stored")
    assert (injection.before.max, injection.after.max) == (2.0, 20.0)


def test_a_persistent_parameter_fault_is_trained_on_from() -> None:
    """With scope storage w stays 20 and is updated: 20 - 1.5 = 18.5, then 18.5 * 3 + 1."""
    config = plan("param:fc.weight", "scale", parameters={"factor": 10}, steps=[0], scope="storage")
    outputs, weights, *_ = _train(config, steps=2)
    assert (outputs, weights) == ([61.0, 56.5], [18.5, 17.0])


def test_a_buffer_transient_and_persistent() -> None:
    """The shift is 5 in step 0; afterwards 1 again, or 5 for good."""
    config = plan("buffer:shift", "set", parameters={"value": 5.0}, steps=[0])
    assert _train(config, steps=2)[0] == [11.0, 2.5]
    assert _train(plan_of_storage(config), steps=2)[0] == [11.0, 6.5]


def plan_of_storage(config: dict[str, Any]) -> dict[str, Any]:
    """The same plan with scope storage."""
    return config | {"faults": [fault | {"scope": "storage"} for fault in config["faults"]]}


def test_a_gradient_is_struck_before_the_optimizer_steps() -> None:
    """The gradient 3 becomes 30: w = 2 - 0.5 * 30 = -13."""
    config = plan("grad:fc.weight", "scale", parameters={"factor": 10}, steps=[0])
    _, weights, injector, *_ = _train(config)
    assert weights == [-13.0]
    assert sites(injector) == [("grad:fc.weight", 0)]
    assert injector.injections[0].before.max == 3.0


def test_an_accumulated_gradient_is_struck_whole() -> None:
    """Two micro batches make 6; times 10 it is 60: w = 2 - 30 = -28."""
    config = plan("grad:fc.weight", "scale", parameters={"factor": 10}, steps=[0])
    _, weights, injector, *_ = _train(config, micro_batches=2)
    assert weights == [-28.0]
    assert injector.injections[0].before.max == 6.0


def test_a_parameter_may_be_struck_in_one_micro_batch() -> None:
    """In the second of two forwards w is 20; the first still sees 2."""
    config = plan(
        "param:fc.weight", "scale", parameters={"factor": 10}, steps=[0], micro_batches=[1]
    )
    outputs, weights, *_ = _train(config, micro_batches=2)
    assert (outputs, weights) == ([7.0, 61.0], [-1.0])  # 2 - 0.5 * 6


def _momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.5, momentum=0.5)


def test_optimizer_state_transient() -> None:
    """Momentum 3 is read as 30 in step 1; what the optimizer makes of it is its own and stays.

    Step 0: m = 3, w = 2 - 1.5 = 0.5. Step 1: m = 0.5 * 30 + 3 = 18, w = 0.5 - 9 = -8.5. Step 2:
    m = 0.5 * 18 + 3 = 12, w = -8.5 - 6 = -14.5.
    """
    config = plan("state:fc.weight.momentum_buffer", "scale", parameters={"factor": 10}, steps=[1])
    _, weights, injector, *_ = _train(config, steps=3, make=_momentum)
    assert weights == [0.5, -8.5, -14.5]
    assert sites(injector) == [("state:fc.weight.momentum_buffer", 1)]


class _Frugal(torch.optim.SGD):
    """Reads its momentum in every step, and makes it anew in the first alone."""

    def step(self, closure: Any = None) -> Any:
        """``w -= lr m``."""
        (parameter,) = self.param_groups[0]["params"]
        state = self.state[parameter]
        if not state:
            state["momentum_buffer"] = parameter.grad.clone()
        with torch.no_grad():
            parameter -= self.defaults["lr"] * state["momentum_buffer"]
        return closure


def test_optimizer_state_that_is_read_alone_is_given_back() -> None:
    """m stays 3: w = 2 - 1.5 = 0.5, in step 1 m reads 30: 0.5 - 15 = -14.5, then -14.5 - 1.5."""
    config = plan("state:fc.weight.momentum_buffer", "scale", parameters={"factor": 10}, steps=[1])
    weights = _train(config, steps=3, make=lambda p: _Frugal(p, lr=0.5))[1]
    assert weights == [0.5, -14.5, -16.0]


_OPTIMIZERS = [
    pytest.param(make, keys, id=name)
    for name, make, keys in (
        ("sgd", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), ("momentum_buffer",)),
        ("nesterov", lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True), ("momentum_buffer",)),
        ("loop", lambda p: torch.optim.AdamW(p, foreach=False), ("exp_avg", "exp_avg_sq")),
        ("foreach", lambda p: torch.optim.AdamW(p, foreach=True), ("exp_avg", "exp_avg_sq")),
        ("fused", lambda p: torch.optim.AdamW(p, fused=True), ("exp_avg", "exp_avg_sq")),
        ("amsgrad", lambda p: torch.optim.Adam(p, amsgrad=True), ("exp_avg", "max_exp_avg_sq")),
        ("rmsprop", lambda p: torch.optim.RMSprop(p, momentum=0.9), ("square_avg",)),
        ("adagrad", torch.optim.Adagrad, ("sum",)),
    )
]


@pytest.mark.parametrize(("make", "keys"), _OPTIMIZERS)
@pytest.mark.parametrize("value", [0.0, 2.0, float("inf"), float("nan")])
def test_what_an_optimizer_makes_of_struck_state_stays(
    make: Any, keys: tuple[str, ...], value: float
) -> None:
    """All state and weights are those of training whose state was set by hand before step 1."""
    for key in keys:
        config = plan(
            f"state:0.weight.{key}",
            "set",
            parameters={"value": value},
            elements={"index": [[0, 0], [3, 2]]},
            steps=[1],
        )
        struck, by_hand = models.mlp(), models.mlp()
        for case in (struck, by_hand):
            case.optimizer = make(case.model.parameters())
        with Injector(config, model=struck.model):
            for _ in range(3):
                struck.step()
        by_hand.step()
        state = by_hand.optimizer.state[next(by_hand.model.parameters())][key]
        state[0, 0] = state[3, 2] = value
        by_hand.step()
        by_hand.step()
        for mine, theirs in zip(
            struck.optimizer.state.values(), by_hand.optimizer.state.values(), strict=True
        ):
            for name, tensor in theirs.items():
                if isinstance(tensor, Tensor):
                    assert same_bits(mine[name], tensor)
        for mine, theirs in zip(struck.model.parameters(), by_hand.model.parameters(), strict=True):
            assert same_bits(mine, theirs)


def test_running_statistics_that_the_forward_makes_of_struck_ones_stay() -> None:
    """The mean is read as 8 in step 0; momentum 0.5 and a batch mean of 2 make (8 + 2) / 2 = 5.

    The other one is not written, being in evaluation mode: it has its 0 back.
    """
    norms = (nn.BatchNorm1d(1, momentum=0.5), nn.BatchNorm1d(1).eval())
    model = nn.Sequential(*norms)
    config = plan("buffer:*.running_mean", "set", parameters={"value": 8.0}, steps=[0])
    with Injector(config, model=model):
        model(torch.tensor([[1.0], [3.0]])).sum().backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert [norm.state_dict()["running_mean"].item() for norm in norms] == [5.0, 0.0]


def test_optimizer_state_persistent() -> None:
    """Step 1 leaves m = 18; step 2: m = 0.5 * 18 + 3 = 12, w = -8.5 - 6 = -14.5."""
    config = plan(
        "state:fc.weight.momentum_buffer",
        "scale",
        parameters={"factor": 10},
        steps=[1],
        scope="storage",
    )
    assert _train(config, steps=3, make=_momentum)[1] == [0.5, -8.5, -14.5]


def test_state_that_is_not_there_yet_is_reported() -> None:
    """Before the first step there is no momentum to strike."""
    config = plan("state:fc.weight.momentum_buffer", "zero", steps=[0])
    *_, injector, _, _ = _train(config, make=_momentum)
    (missed,) = injector.not_injected
    assert missed.reason == (
        "SGD has no state yet in step 0: it makes it in its first step; strike a later one"
    )


def test_a_state_that_the_optimizer_does_not_keep_is_told_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In step 1, when the names are known: the nearest is named, once in three steps."""
    config = plan("state:fc.weight.momentum_bufer", "zero", steps="1-")
    *_, injector, _, _ = _train(config, steps=3, make=_momentum)
    said = "no state 'fc.weight.momentum_bufer'; did you mean 'fc.weight.momentum_buffer'?"
    assert [missed.reason for missed in injector.not_injected] == [said]
    assert lines(caplog).count(f"f1: {said}") == 1


def test_a_parameter_of_a_state_is_found_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """Before the first step, with its state's name in the hint; a model without buffers says so."""
    faults = [
        {"target": "state:0.weigh.exp_avg", "model": "zero"},
        {"target": "buffer:0.mean", "model": "zero"},
    ]
    injector = Injector({"version": 2, "faults": faults}, model=models.mlp().model)
    said = lines(caplog)
    injector.close()
    assert said[0].startswith("f1: no state '0.weigh.exp_avg'; did you mean '0.weight.exp_avg'")
    assert said[1] == "f2: no buffer '0.mean'; the model has none"
    assert lines(caplog) == said  # closing does not say it again


def test_a_fault_of_another_rank_is_reported_and_not_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """On rank 0 a fault of rank 2 is no mistake; the report says why it did not strike."""
    case = models.mlp()
    with Injector(plan("addmm*1:0", "zero", ranks=[2]), model=case.model, rank=0) as injector:
        case.step()
    assert "f1 was not injected: it is for rank 2, this is rank 0" in injector.report()
    assert injector.not_injected[0].elsewhere
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_names_may_be_globs_and_modules_filter_them() -> None:
    """``param:*.weight`` within module 2 strikes 2.weight alone."""
    case = models.mlp()
    config = plan("param:*.weight", "zero", modules=["2"], steps=[0])
    with Injector(config, model=case.model) as injector:
        case.step()
    assert sites(injector) == [("param:2.weight", 0)]


def test_an_unknown_name_is_reported_with_near_matches(caplog: pytest.LogCaptureFixture) -> None:
    """The fault is left out, the message names the parameter that was meant."""
    case = models.mlp()
    with Injector(plan("param:0.wieght", "zero"), model=case.model) as injector:
        case.step()
    assert "did you mean '0.weight'" in injector.not_injected[0].reason
    assert any("did you mean '0.weight'" in r.getMessage() for r in caplog.records)


def test_an_exception_in_a_step_puts_a_transient_fault_back() -> None:
    """The forward raises; after close the weight is 2."""
    model = Line()
    model.register_forward_hook(lambda *_: 1 / 0)
    config = plan("param:fc.weight", "scale", parameters={"factor": 10})
    with pytest.raises(ZeroDivisionError), Injector(config, model=model):
        model(torch.ones(1, 1))
    assert model.fc.weight.item() == 2.0


def test_a_call_model_cannot_strike_a_stored_tensor(caplog: pytest.LogCaptureFixture) -> None:
    """``duplicate`` at a parameter is refused with the reason."""
    case = models.mlp()
    with Injector(plan("param:0.weight", "duplicate"), model=case.model) as injector:
        case.step()
    assert "is for calls" in injector.not_injected[0].reason


@pytest.mark.parametrize("value", [8.0, float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("name", ["running_mean", "running_var"])
def test_running_statistics_stay_whatever_they_are(name: str, value: float) -> None:
    """Those of a norm that was struck by hand before the same step, bit for bit."""
    x = torch.tensor([[1.0, 5.0], [3.0, 6.0]])
    kept = []
    for by_hand in (False, True):
        norm = nn.BatchNorm1d(2)
        config = plan(
            f"buffer:{name}", "set", parameters={"value": value}, elements={"index": 0}, steps=[0]
        )
        if by_hand:
            norm.state_dict()[name][0] = value
            config = {"version": 2}
        with Injector(config, model=norm):
            norm(x).sum().backward()
            torch.optim.SGD(norm.parameters(), lr=0.1).step()
        kept.append(norm.state_dict()[name])
    assert same_bits(*kept)


def test_state_that_is_written_in_part_is_given_back_elsewhere() -> None:
    """SparseAdam writes the rows that were looked up: 0 and 3 keep its own, others are right."""
    values = []
    for struck in (False, True):
        table, last = nn.Embedding(6, 2, sparse=True), nn.Linear(4, 1)
        nn.init.constant_(table.weight, 0.5)
        nn.init.constant_(last.weight, 0.5)
        model = nn.Sequential(table, nn.Flatten(), last)
        optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.01)
        config = plan(
            "state:0.weight.exp_avg", "set", parameters={"value": 5.0}, elements="all", steps=[2]
        )
        with Injector(config if struck else {"version": 2}, model=model):
            for rows in ([0, 1], [1, 2], [0, 3]):
                optimizer.zero_grad()
                model(torch.tensor([rows])).sum().backward()
                optimizer.step()
        values.append(next(iter(optimizer.state.values()))["exp_avg"])
    differ = (values[0] != values[1]).any(dim=1)
    assert differ.tolist() == [True, False, False, True, False, False]


@pytest.mark.parametrize("value", [30.0, float("nan")])
def test_a_gradient_that_the_optimizer_makes_anew_stays(value: float) -> None:
    """Nesterov's foreach adds the momentum to it in place; fused leaves it, whatever it says."""
    for options, stays in (({"foreach": True}, True), ({"fused": True}, False)):
        model = Line()
        optimizer = torch.optim.SGD(
            model.parameters(), lr=0.5, momentum=0.5, nesterov=True, **options
        )
        config = plan("grad:fc.weight", "set", parameters={"value": value}, steps=[0])
        with Injector(config, model=model):
            model(torch.tensor([[3.0]])).sum().backward()
            optimizer.step()
        gradient = model.fc.weight.grad
        assert gradient is not None
        assert (gradient.item() != 3.0) == stays


def test_a_parameter_is_right_again_when_a_closure_is_over() -> None:
    """The forward within the step reads w = 20; the update starts from 2: 2 - 0.5 * 3 = 0.5."""
    model = Line()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    outputs = []

    def closure() -> Tensor:
        optimizer.zero_grad()
        out = model(torch.tensor([[3.0]])).sum()
        outputs.append(out.item())
        out.backward()
        return out

    config = plan("param:fc.weight", "scale", parameters={"factor": 10}, steps=[0])
    with Injector(config, model=model):
        optimizer.step(closure)
    assert (outputs, model.fc.weight.item()) == ([61.0], 0.5)


def test_each_micro_batch_is_struck_anew() -> None:
    """A bit that is flipped in two of three is not flipped back; the third reads it right."""
    config = plan(
        "param:fc.weight", "bitflip", parameters={"bit": 30}, steps=[0], micro_batches=[0, 1]
    )
    outputs, weights, *_ = _train(config, micro_batches=3)
    assert outputs[0] == outputs[1] != 7.0
    assert outputs[2] == 7.0
    assert weights == [-2.5]  # 2 - 0.5 * 9


def test_filters_that_a_stored_tensor_cannot_have_are_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No line, and no other phase than that in which it is struck; its own phase is one."""
    for filters in ({"code": ["run.py[3]"]}, {"phases": ["backward"]}):
        with Injector(plan("param:fc.weight", "zero", **filters), model=Line()) as injector:
            (missed,) = injector.not_injected
        assert "is no call: it stands on no source line, and is struck in the forward" in (
            missed.reason
        )
    config = plan("param:fc.weight", "zero", steps=[0], phases=["forward"])
    assert _train(config)[0] == [1.0]
    assert lines(caplog)


def test_why_a_stored_tensor_was_not_struck() -> None:
    """It is of another module; no optimizer stepped; it is named without what is kept of it."""
    assert _train(plan("param:fc.weight", "zero", modules=["nowhere.*"]))[2].not_injected
    outside = plan("param:*", "zero", modules=["fc"], steps=[0])
    case = models.mlp()
    with Injector(plan("param:0.weight", "zero", modules=["2"]), model=case.model) as injector:
        case.step()
        (missed,) = injector.not_injected
    assert missed.reason == "param:0.weight is outside the fault's modules"
    assert len(_train(outside)[2].injections) == 1
    model = Line()
    with Injector(plan("grad:fc.weight", "zero", steps=[0]), model=model) as injector:
        model(torch.tensor([[3.0]])).sum().backward()
        (missed,) = injector.not_injected
    assert missed.reason == (
        "no optimizer of the model stepped in step 0, before which 'grad:fc.weight' is struck"
    )
    with Injector(plan("state:fc.weight", "zero"), model=Line()) as injector:
        (missed,) = injector.not_injected
    assert missed.reason.startswith(
        "no state 'fc.weight': name what the optimizer keeps of it, such as "
        "'state:fc.weight.exp_avg' of Adam"
    )


@pytest.mark.parametrize(
    "target", ["state:fc.weight.momentum_bufer", "state:fc.wieght.exp_avg", "param:stage2.weight"]
)
def test_a_name_of_another_ranks_fault_is_no_mistake_here(
    caplog: pytest.LogCaptureFixture, target: str
) -> None:
    """Its model may have it, and its optimizer may keep it."""
    config = plan(target, "zero", ranks=[2], modules=["stage2", "fc"], steps="1-")
    *_, injector, _, _ = _train(config, steps=3, make=_momentum)
    (missed,) = injector.not_injected
    assert (missed.reason, missed.elsewhere) == ("it is for rank 2, this is rank 0", True)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_state_that_another_rank_keeps_is_told_as_that() -> None:
    """As with a sharded optimizer, which holds a parameter and no state of it, step after step."""
    model = Line()
    optimizer = _momentum(model.parameters())
    config = plan("state:fc.weight.momentum_buffer", "zero", steps="1-")
    with Injector(config, model=model) as injector:
        for _ in range(3):
            model(torch.tensor([[3.0]])).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            optimizer.state.clear()
    (missed,) = injector.not_injected
    assert missed.reason == (
        "SGD holds no state of 'fc.weight.momentum_buffer' in step 2: it has not stepped the "
        "parameter, keeps none, or leaves it to another rank"
    )
