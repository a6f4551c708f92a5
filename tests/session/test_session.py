"""The session as a person meets it: errors, states, the plan, and putting everything back."""

from __future__ import annotations

import copy
import os
import pkgutil
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from fi_notebook import Session
from fi_notebook.errors import FaultError, SessionError, SiteError
from fi_notebook.session import FaultWarning, SessionCancelled
from fi_notebook.session.session import MOST_RUNS
from tests import models
from tests.tools import traced
from tests.tools.traced import same_bits


class BoomError(Exception):
    """What a step raises."""


class Net:
    """A small model with a step in which something may go wrong."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
        self.optimizer = optim.Adam(self.model.parameters())
        self.x, self.y = torch.randn(4, 5), torch.randn(4, 3)
        self.during: dict[str, Callable[[], None]] = {}

    def at(self, place: str) -> None:
        """What is to happen at a place of the step."""
        self.during.get(place, lambda: None)()

    def step(self) -> Tensor:
        """A step with places before, in and after each of its parts."""
        out = self.model(self.x)
        self.at("forward")
        out.register_hook(lambda _g: self.at("backward"))
        loss = functional.mse_loss(out, self.y)
        loss.backward()
        self.at("optimizer")
        self.optimizer.step()
        self.at("after")
        self.optimizer.zero_grad()
        return loss.detach()

    def session(self, **more: Any) -> Session:
        """A session on it."""
        return Session(self.step, model=self.model, optimizer=self.optimizer, **more)

    def state(self) -> list[Tensor]:
        """Every tensor of the model and the optimizer."""
        tensors = [*self.model.parameters(), *self.model.buffers()]
        for state in self.optimizer.state.values():
            tensors += state.values()
        return tensors


@pytest.fixture
def net() -> Iterator[Net]:
    """A net; when the test is done, it must be as it was, and its session must go on."""
    made = Net()
    made.step()
    kept = [tensor.detach().clone() for tensor in made.state()]
    objects = [id(tensor) for tensor in made.state()]
    yield made
    assert [id(tensor) for tensor in made.state()] == objects
    assert all(same_bits(a, b) for a, b in zip(made.state(), kept, strict=True))
    assert all(p.grad is None for p in made.model.parameters())
    made.during.clear()
    assert made.session().replay().comparison.equal


_PLACES = ["forward", "backward", "optimizer", "after"]


@pytest.mark.parametrize("place", _PLACES)
def test_an_exception_in_the_step_comes_through(net: Net, place: str) -> None:
    """Raised in forward, backward, before or after the update: the same exception, state kept."""

    def fail() -> None:
        raise BoomError(place)

    session = net.session()
    net.during[place] = fail
    with pytest.raises(BoomError, match=place):
        session.trace()
    net.during.clear()
    session.trace()


@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize("how", ["raised", "signal"])
def test_a_ctrl_c_in_the_step_comes_through(net: Net, place: str, how: str) -> None:
    """A KeyboardInterrupt, raised or by a real SIGINT, in a trace and in a replay."""

    def press() -> None:
        if how == "raised":
            raise KeyboardInterrupt
        os.kill(os.getpid(), signal.SIGINT)

    session = net.session()
    session.trace()
    session.arm("addmm*1:0", "zero")
    net.during[place] = press
    for run in (session.trace, session.replay):
        with pytest.raises(KeyboardInterrupt):
            run()
    net.during.clear()
    assert session.replay().outcome.name == "changed"


@pytest.mark.parametrize("place", _PLACES)
def test_cancel_from_another_thread_stops_it(net: Net, place: str) -> None:
    """A cancelled replay raises SessionCancelled and leaves everything as it was."""
    session = net.session()
    session.trace()

    def cancel() -> None:
        thread = threading.Thread(target=session.cancel)
        thread.start()
        thread.join()

    net.during[place] = cancel
    with pytest.raises(SessionCancelled, match="everything is as it was"):
        session.replay()
    net.during.clear()
    session.replay()


@pytest.mark.parametrize("name", ["turn", "Snapshot.take"])
def test_cancel_before_the_first_call_is_not_lost(
    net: Net, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """While a run waits for its turn, or its state is recorded: the step is not begun."""
    session, begun = net.session(), list[bool]()
    session.trace()
    holder, _, attribute = f"fi_notebook.session.stage.{name}".rpartition(".")
    real = pkgutil.resolve_name(f"{holder}.{attribute}")

    def cancelling(*given: Any) -> Any:
        session.cancel()
        return real(*given)

    net.during["forward"] = lambda: begun.append(True)
    with monkeypatch.context() as patched:
        patched.setattr(f"{holder}.{attribute}", cancelling)
        for run in (session.trace, session.replay):
            with pytest.raises(SessionCancelled, match="everything is as it was"):
                run()
    assert not begun
    session.cancel()  # nothing runs: nothing to stop, now or later
    assert session.replay().comparison.equal


def test_cancel_stops_the_writing_of_a_tape(net: Net) -> None:
    """`Session.trials` is stopped in its only run of the step; everything is as it was."""
    session, begun = net.session(), list[int]()
    session.trace()

    def cancel() -> None:
        begun.append(1)
        session.cancel()

    net.during["forward"] = cancel
    with pytest.raises(SessionCancelled, match="everything is as it was"):
        session.trials()
    assert begun == [1]


def test_a_crash_of_the_faulty_run_is_an_outcome(net: Net) -> None:
    """An error that only the struck step raises ends as outcome crash, not as an exception."""

    def check() -> None:
        gradient = net.model.get_parameter("2.weight").grad
        if gradient is not None and not gradient.isfinite().all():
            raise BoomError("a gradient is not finite")

    net.during["optimizer"] = check
    session = net.session()
    session.trace()
    session.arm("addmm*1:0", "nan")
    run = session.replay()
    assert run.outcome.name == "crash"
    assert "a gradient is not finite" in run.error
    assert isinstance(run.injections, list)
    assert run.injections[0].changed == 24  # 4 × 6


def test_a_step_without_calls_is_refused(net: Net) -> None:
    """Nothing of torch was called: says so, and what was expected."""
    with pytest.raises(SessionError, match="made no call of torch; expected a callable"):
        Session(lambda: 3, model=net.model).trace()


def test_a_step_that_never_runs_the_model_is_refused(net: Net) -> None:
    """Calls, but none of the model's forwards: names the model and says what to do."""
    with pytest.raises(SessionError, match=r"never ran the model \(Sequential\).*new session"):
        Session(lambda: torch.ones(2) + 1, model=net.model).trace()


def test_a_model_that_was_replaced_is_found(net: Net) -> None:
    """The step runs a copy since: trace and replay both say that the model never ran."""
    box = [net.model]
    session = Session(lambda: box[0](net.x).sum().backward(), model=net.model)
    session.trace()
    session.replay()
    box[0] = copy.deepcopy(net.model)
    for run in (session.replay, session.trace):
        with pytest.raises(SessionError, match="if it was made anew"):
            run()


def test_a_step_that_does_not_repeat_names_its_first_call(net: Net) -> None:
    """A data iterator that advances: the first call that differs, its line, and what to do."""
    batches = iter(torch.randn(9, 4, 5))

    def step() -> Tensor:
        loss = net.model(next(batches)).sum()
        loss.backward()
        net.optimizer.zero_grad()
        return loss

    session = Session(step, model=net.model, optimizer=net.optimizer)
    session.trace()
    with pytest.raises(SessionError, match=r"first at addmm\*1:0 \(forward\) at .*def step\(i\)"):
        session.replay()


def test_a_step_that_takes_its_number_is_given_it(net: Net) -> None:
    """The batch of step i is indexed by i: it repeats, and three steps see batches 0, 1, 2."""
    batches, seen = torch.randn(9, 4, 5), []

    def step(number: int) -> Tensor:
        seen.append(number)
        loss = net.model(batches[number]).sum()
        loss.backward()
        net.optimizer.step()
        net.optimizer.zero_grad()
        return loss

    session = Session(step, model=net.model, optimizer=net.optimizer)
    assert session.replay(steps=3).comparison.equal
    assert seen[-3:] == [0, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"step": 3}, "step is int; expected a callable"),
        ({"model": "net"}, "model is str; expected a torch.nn.Module"),
        (
            {"optimizer": "sgd"},
            "optimizer is 'sgd'; expected a torch optimizer, or several, or None",
        ),
        ({"optimizer": [nn.Linear(1, 1)]}, "optimizer holds Linear"),
    ],
)
def test_wrong_arguments_say_what_was_expected(arguments: dict[str, Any], said: str) -> None:
    """Step, model and optimizers of another type are refused when the session is made."""
    given: dict[str, Any] = {"step": print, "model": nn.Linear(1, 1), "optimizer": None}
    given |= arguments
    with pytest.raises(TypeError, match=said):
        Session(given.pop("step"), **given)


def test_bad_faults_are_refused_and_nothing_is_lost(net: Net) -> None:
    """Text, module, model, parameter, bit 64, phase: each refused with a hint; the plan stays."""
    session = net.session()
    session.trace()
    session.arm("addmm*1:0", "zero")
    cases: list[tuple[type[Exception], str, tuple[str, str], dict[str, Any]]] = [
        (SiteError, "cannot read the target", ("add mm", "zero"), {}),
        (SiteError, "no module 'layer'", ("addmm", "zero"), {"modules": ["layer"]}),
        (SiteError, "no phase 'forwards'.*'forward'", ("addmm", "zero"), {"phases": ["forwards"]}),
        (FaultError, "bitflop.*bitflip", ("addmm", "bitflop"), {}),
        (FaultError, "factor", ("addmm", "scale"), {"factor": "two"}),
        (FaultError, "bit=64 cannot be", ("addmm*1:0", "bitflip"), {"bit": 64}),
        (FaultError, "row", ("addmm*1:0", "zero"), {"elements": {"row": "two"}}),
        (FaultError, "no scope 'values'.*'value'", ("addmm", "zero"), {"scope": "values"}),
    ]
    for kind, said, aimed, how in cases:
        with pytest.raises(kind, match=said):
            session.arm(*aimed, **how)
    assert len(session.plan) == 1


def test_what_the_golden_run_did_not_make_is_a_warning(net: Net) -> None:
    """A call number beyond the last is armed with a warning, and reported as not injected."""
    session = net.session()
    session.trace()
    with pytest.warns(FaultWarning, match="asked for call 9 of addmm, 2 were made"):
        session.arm("addmm*9:0", "zero")
    run = session.replay()
    assert run.outcome.name == "not_injected"
    assert [(n.fault, n.reason) for n in run.not_injected] == [
        ("f1", "asked for call 9 of addmm, 2 were made")
    ]
    assert run.status("f1") == "not injected"


@pytest.mark.parametrize("steps", [0, "0-"])
def test_a_row_or_bit_that_the_golden_tensor_has_not_is_a_warning(
    net: Net, steps: int | str
) -> None:
    """In whatever steps; the replay reports it as not injected, with the reason."""
    session = net.session()
    session.trace()
    with pytest.warns(FaultWarning, match=r"f1: addmm\*1:0: bitflip: float32 has no bit 40"):
        session.arm("addmm*1:0", "bitflip", bit=40, steps=steps)
    with pytest.warns(FaultWarning, match=r"f2: addmm\*1:0: row 40 of 4: valid are 0 to 3"):
        session.arm("addmm*1:0", "zero", elements={"row": 40}, steps=steps)
    run = session.replay()
    assert run.outcome.name == "not_injected"
    reasons = {missed.fault: missed.reason for missed in run.not_injected}
    assert reasons["f1"].startswith("at addmm*1:0: bitflip: float32 has no bit 40")
    assert reasons["f2"].startswith("at addmm*1:0: row 40 of 4: valid are 0 to 3")


def test_the_backward_call_of_an_operator_is_named_where_the_operator_has_none(net: Net) -> None:
    """A warning names its backward operators that have calls within the fault's filters."""
    session = net.session()
    session.trace()
    with pytest.warns(FaultWarning, match=r"; 'native_batch_norm_backward' has calls there$"):
        session.arm("native_batch_norm", "zero", phases="backward")
    with pytest.warns(FaultWarning, match="is in phase 'optimizer': they are in 'forward'$"):
        session.arm("native_batch_norm", "zero", phases="optimizer")


def test_a_plan_is_judged_as_its_faults_are_when_armed(net: Net) -> None:
    """Warned of at the line that loads it, and refused whole; its faults stay as they are."""
    plan = {
        "version": 2,
        "faults": [
            {"id": "f1", "target": "addmm*9:0", "model": "zero"},
            {"id": "f2", "target": "addmm*1:0", "model": "zero"},
        ],
    }
    session = net.session()
    session.trace()
    with pytest.warns(FaultWarning, match="f1: asked for call 9 of addmm, 2 were made") as warned:
        loaded = session.load_plan(plan)
    assert [each.filename for each in warned] == [__file__]
    assert [fault.anchor for fault in loaded] == [None, None]
    bad = {"target": "addmm*1:0", "model": "zero", "modules": ["layer"]}
    with pytest.raises(SiteError, match="no module 'layer'"):
        session.load_plan({"version": 2, "faults": [bad]})
    assert session.plan == loaded


@pytest.mark.filterwarnings("ignore::fi_notebook.session.FaultWarning")
def test_every_fault_that_did_not_fire_says_why(net: Net) -> None:
    """The reason is that of the step in which the fault was due."""
    session = net.session()
    session.trace()
    session.arm("addmm*9:0", "zero", id="call")
    session.arm("relu", "zero", id="operator")
    session.arm("addmm*1:0", "zero", id="step", steps=7)
    session.arm("addmm*1:5", "zero", id="output")
    session.arm("addmm.out*1:0", "zero", id="overload")
    session.arm("addmm*1:0", "zero", id="phase", phases=["backward"])
    session.arm("addmm*1:0", "zero", id="rank", ranks=[3])
    session.arm("addmm*1:0", "zero", id="off")
    session.set_enabled("off", False)
    run = session.replay(steps=2)
    reasons = {missed.fault: missed.reason for missed in run.not_injected}
    assert reasons == {
        "call": "asked for call 9 of addmm, 2 were made",
        "operator": "no call of 'relu' was made in step 0",
        "step": "step 7 never came: the last one was step 1; ask for more, as in replay(steps=8)",
        "output": "asked for 'addmm*1:5'; the last output of that call is 0",
        "overload": "addmm*1 is overload 'default', not 'out'",
        "phase": "addmm*1 was made in phase 'forward', module '0', which is outside the fault's "
        "phases",
        "rank": "it is for rank 3, this is rank 0",
    }


def test_the_plan_is_undone_and_done_again(net: Net) -> None:
    """Arm, disarm, switch off, undo, redo; listeners hear of each change."""
    session, heard = net.session(), []
    session.trace()
    session.subscribe(
        lambda event, payload: heard.append(len(payload["plan"])) if event == "plan" else None
    )
    fault = session.arm("addmm*1:0", "zero")
    session.arm("addmm*2:0", "zero")
    session.disarm(fault)
    assert [f.id for f in session.plan] == ["f2"]
    session.undo()
    assert [f.id for f in session.plan] == ["f1", "f2"]
    session.redo()
    session.disarm()
    assert heard == [1, 2, 1, 2, 1, 0]
    with pytest.raises(FaultError, match=r"^the plan holds no fault 'f9'$"):
        session.disarm("f9")
    assert session.arm("addmm*1:0", "zero").id == "f1"


def test_one_run_at_a_time_on_a_model(net: Net) -> None:
    """A second session on the same model is refused while the first runs, with the reason."""
    other, said = net.session(), []

    def intrude() -> None:
        with pytest.raises(SessionError, match="another trace or replay is running") as caught:
            other.trace()
        said.append(str(caught.value))

    net.during["forward"] = intrude
    net.session().trace()
    assert len(said) == 1


def test_an_optimizer_that_nobody_named_is_found_and_put_back() -> None:
    """Found when it steps: its empty state stays empty, and later state keeps its objects."""
    case = models.cnn()
    session = Session(case.step, model=case.model)
    session.trace()
    assert not case.optimizer.state
    session.replay()
    assert not case.optimizer.state
    case.step()
    kept = {id(t): t.clone() for s in case.optimizer.state.values() for t in s.values()}
    session.replay()
    now = {id(t): t for s in case.optimizer.state.values() for t in s.values()}
    assert now.keys() == kept.keys()
    assert all(same_bits(now[key], kept[key]) for key in kept)


def test_a_lazy_model_is_lazy_again_after_its_first_step() -> None:
    """Traced and replayed before it ever ran, it still has no shapes, and then trains."""
    model, x = nn.Sequential(nn.LazyLinear(4), nn.ReLU()), torch.randn(3, 5)

    def step() -> Tensor:
        loss = model(x).sum()
        loss.backward()
        return loss

    session = Session(step, model=model)
    session.trace()
    assert session.replay().comparison.equal
    assert type(model[0]) is nn.LazyLinear
    assert isinstance(model[0].weight, nn.UninitializedParameter)
    step()
    assert model[0].weight.shape == (4, 5)


def test_values_of_sites_are_the_golden_tensors(net: Net) -> None:
    """Kept or, with no memory for it, replayed: the same bits as a plain forward gives."""
    weight, bias = net.model.get_parameter("0.weight"), net.model.get_parameter("0.bias")
    expected = functional.linear(net.x, weight, bias).detach()
    for memory in ("auto", 0):
        trace = net.session(memory=memory).trace()
        assert same_bits(trace.value("addmm*1:0"), expected)


def test_a_listener_that_fails_does_not_stop_a_run(net: Net) -> None:
    """Its error is logged; the run goes on, and the others are told."""
    session, heard = net.session(), []

    def fail(_event: str, _payload: Any) -> None:
        raise BoomError

    session.subscribe(fail)
    session.subscribe(lambda event, _payload: heard.append(event))
    session.trace()
    assert [event for event in heard if event != "progress"] == ["state", "state", "trace"]


def test_the_shared_cases_are_traced_as_they_are() -> None:
    """`traced.trace` and a session agree on how many calls a case makes."""
    assert len(traced.calls(traced.trace(models.mlp()))) == 42


def test_a_session_keeps_the_last_runs_alone(net: Net) -> None:
    """Of twelve the last ten; the two that it let go of are whoever's that holds them."""
    session = Session(net.step, model=net.model, optimizer=net.optimizer)
    runs = [session.replay() for _ in range(12)]
    assert len(session.runs) == MOST_RUNS == 10
    assert all(kept is made for kept, made in zip(session.runs, runs[2:], strict=True))
    assert session.run is runs[-1]


def test_traces_and_runs_are_found_among_others(net: Net) -> None:
    """Each is itself alone: it is compared, searched and put in a set without its arrays."""
    session = net.session()
    first, second = session.trace(), session.trace()
    runs = [session.replay(), session.replay()]
    assert [session.runs.index(run) for run in runs] == [0, 1]
    assert first == first  # noqa: PLR0124 - it is what is asked
    assert first != second
    assert len({first, second, *runs, runs[0].comparison, runs[1].comparison}) == 6


def test_what_a_session_gives_is_told_in_a_line(net: Net) -> None:
    """Figures by their names, trials by their steps and how they are made."""
    session = net.session()
    trace = session.trace()
    assert repr(session.figures) == (
        f"<Figures of {session!r}: values, tensor_diff, difference_heatmap, scatter, propagation, "
        "gradients, tree_heat, training>"
    )
    assert repr(session.trials(2)) == f"<Trials of {trace!r}: 2 steps each, on a tape>"
    full = repr(session.trials(full=True))
    assert full.startswith(f"<Trials of {trace!r}: 1 step each, replayed in full (each is to say")
