"""What a step leaves behind, seen through a whole session."""

from __future__ import annotations

import ctypes
import io
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn, optim
from torch.optim import lr_scheduler

from fi_notebook.engine.snapshot import Snapshot
from fi_notebook.session import Session
from tests.models import Case, mlp


def test_nested_schedulers_are_put_back_over_three_steps() -> None:
    """Golden and faulty agree without a fault, and every inner scheduler is where it was."""
    case = mlp()
    inner: list[Any] = [
        lr_scheduler.LinearLR(case.optimizer, 0.5, total_iters=2),
        lr_scheduler.ExponentialLR(case.optimizer, 0.5),
    ]
    outer = lr_scheduler.SequentialLR(case.optimizer, inner, milestones=[1])

    def step() -> Tensor:
        loss = case.step()
        outer.step()
        return loss

    before = [str(scheduler.state_dict()) for scheduler in inner]
    session = Session(step, model=case.model, optimizer=case.optimizer, state=[outer])
    assert session.replay(steps=3).comparison.equal
    assert [str(scheduler.state_dict()) for scheduler in inner] == before


def test_a_buffer_of_inference_mode_is_written_and_put_back() -> None:
    """A running mean that is kept in inference mode is what it was after three steps."""
    model = nn.Linear(3, 3)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with torch.inference_mode():
        model.register_buffer("mean", torch.zeros(3))
    x = torch.randn(2, 3)

    def step() -> Tensor:
        with torch.inference_mode():
            model.get_buffer("mean").add_(1)
        loss = (model(x) + model.get_buffer("mean").clone()).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    session = Session(step, model=model, optimizer=optimizer)
    assert session.replay(steps=3).comparison.equal
    assert model.get_buffer("mean").tolist() == [0.0, 0.0, 0.0]


def test_a_hidden_state_that_is_detached_in_place_stays_in_its_graph() -> None:
    """The state of a recurrent model has its value, its identity and a gradient afterwards."""

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.full((2,), 3.0))
            self.hidden = self.weight * 2

        def forward(self) -> Tensor:
            self.hidden.detach_()
            self.hidden = self.hidden + self.weight
            return self.hidden

    model = Recurrent()
    hidden = model.hidden

    def step() -> Tensor:
        loss = model().sum()
        loss.backward()
        model.zero_grad()
        return loss

    assert Session(step, model=model).replay(steps=3).comparison.equal
    assert model.hidden is hidden
    hidden.sum().backward()
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [2.0, 2.0]


def test_a_generator_of_old_numpy_can_be_given() -> None:
    """A step that draws its batch from a RandomState repeats when that is given."""
    case, numbers = mlp(), np.random.RandomState(1)

    def step() -> Tensor:
        case.x.copy_(torch.from_numpy(numbers.rand(*case.x.shape)))
        return case.step()

    first = np.random.RandomState(1).rand()
    session = Session(step, model=case.model, optimizer=case.optimizer, state=[numbers, case.x])
    assert session.replay(steps=2).comparison.equal
    assert numbers.rand() == first


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (["cosine"], "state holds str, which cannot be put back"),
        ([3], "state holds int"),
        ([None], "state holds NoneType"),
        ([iter([1])], r"state holds list_iterator.*make the step take its number"),
        ([io.StringIO()], "state holds StringIO"),
        (nn.Linear(1, 1), r"state is Linear; expected a list, state=\[…\]"),
        ("cosine", "state is str; expected a list"),
    ],
)
def test_state_that_cannot_be_put_back_is_refused(state: Any, said: str) -> None:
    """At once, when the session is made, with the type that was given."""
    with pytest.raises(TypeError, match=said):
        Session(print, model=nn.Linear(1, 1), state=state)


def test_settings_of_a_step_that_raises_are_put_back() -> None:
    """Determinism, default device and anomaly mode are as before, and the error is raised."""
    case = mlp()

    def step() -> Tensor:
        torch.use_deterministic_algorithms(mode=True)
        torch.autograd.set_detect_anomaly(mode=True)
        case.step()
        torch.set_default_device("meta")
        raise ArithmeticError("on purpose")

    with pytest.raises(ArithmeticError, match="on purpose"):
        Session(step, model=case.model, optimizer=case.optimizer).trace()
    assert not torch.are_deterministic_algorithms_enabled()
    assert not torch.is_anomaly_enabled()
    assert torch.get_default_device() == torch.device("cpu")


@pytest.mark.parametrize("traced_there", [True, False])
def test_a_replay_from_another_thread_has_the_settings_of_the_trace(traced_there: bool) -> None:
    """Autocast of the thread that made the session holds in a worker's replay, or trace."""
    case = mlp()
    with torch.autocast("cpu", torch.bfloat16):
        session = Session(case.step, model=case.model, optimizer=case.optimizer)
        if not traced_there:
            session.trace()
    runs: list[Any] = []
    worker = threading.Thread(target=_into(runs, lambda: session.replay(steps=2)))
    worker.start()
    worker.join()
    assert runs[0].comparison.equal
    assert session.golden is not None
    assert {site.dtype for site in session.golden.find("addmm")} == {"bfloat16"}


def _into(runs: list[Any], call: Callable[[], Any]) -> Callable[[], None]:
    return lambda: runs.append(call())


def test_memory_that_only_one_run_makes_does_not_refuse_a_step() -> None:
    """As many `empty` calls before the model as runs were made: no difference between them."""
    case = mlp()
    runs: list[list[Tensor]] = []

    def step() -> Tensor:
        runs.append([torch.empty(2) for _ in runs])
        return case.step()

    run = Session(step, model=case.model, optimizer=case.optimizer).replay()
    assert len(runs) == 3  # the trace, golden against golden, and the faulty run
    assert run.comparison.equal
    assert run.comparison.structural == ""


def test_the_case_itself_runs_in_float32() -> None:
    """Without autocast the same calls are made in float32, so the test above can fail."""
    case: Case = mlp()
    trace = Session(case.step, model=case.model, optimizer=case.optimizer).trace()
    assert {site.dtype for site in trace.find("addmm")} == {"float32"}


def test_nothing_is_interrupted_while_it_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever would raise an exception in the thread of a run is refused then, and only then."""
    case, raised, restore = mlp(), list[str](), Snapshot.restore
    session = Session(case.step, model=case.model, optimizer=case.optimizer)

    def asked_meanwhile(snapshot: Snapshot) -> None:
        assert not session._stage.interrupt(lambda: raised.append("meanwhile"))
        restore(snapshot)

    monkeypatch.setattr(Snapshot, "restore", asked_meanwhile)
    session.trace()
    assert session._stage.interrupt(lambda: raised.append("after"))
    assert raised == ["after"]


def test_what_was_raised_just_before_it_is_put_back_leaves_nothing_changed() -> None:
    """The exception of another thread comes before the restoring, which is made whole."""
    case = mlp()
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    weight = next(case.model.parameters())
    before = weight.detach().clone()

    def strike() -> None:
        with session._stage.running("tracing"), torch.no_grad():
            weight.add_(1)
            raised = ctypes.py_object(KeyError)
            me = ctypes.c_ulong(threading.get_ident())
            ctypes.pythonapi.PyThreadState_SetAsyncExc(me, raised)

    with pytest.raises(KeyError):
        strike()
    assert torch.equal(weight, before)
