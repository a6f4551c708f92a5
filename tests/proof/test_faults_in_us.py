"""Whatever raises, and wherever: every bit is put back, and the session goes on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import torch
from torch import Tensor

from fi_notebook import Injector, Session, faults
from fi_notebook.engine.measure import Measure
from fi_notebook.engine.stats import Statistics
from fi_notebook.engine.store import ValueStore
from fi_notebook.engine.tracer import Recorder
from fi_notebook.errors import SessionError
from tests import models
from tests.proof.attacked import BoomError, Target

_STAGES: dict[str, tuple[Any, str]] = {
    "observer, before": (Recorder, "before"),
    "observer, after": (Recorder, "after"),
    "statistics": (Statistics, "add"),
    "golden store": (ValueStore, "add"),
    "columns": (Recorder, "trace"),
    "end": (Recorder, "finish"),
}
_ONCE = ("columns", "end")
"""What a run calls once."""


@pytest.fixture
def target() -> Target:
    """A session that is attacked."""
    return Target()


def _failing(
    monkeypatch: pytest.MonkeyPatch, place: tuple[Any, str], after: int, error: BaseException
) -> None:
    """Let a method raise when it is called once more than so many times."""
    owner, name = place
    method, calls = getattr(owner, name), count()

    def fail(*given: Any, **named: Any) -> Any:
        if next(calls) >= after:
            raise error
        return method(*given, **named)

    monkeypatch.setattr(owner, name, fail)


@pytest.mark.parametrize(
    ("stage", "after"),
    [(stage, after) for stage in _STAGES for after in ((0,) if stage in _ONCE else (0, 40))],
)
def test_an_error_in_our_own_code_comes_through(
    target: Target, stage: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In observers, statistics, the store: the same error, of trace and of replay."""
    with target.unharmed():
        with monkeypatch.context() as patch:
            _failing(patch, _STAGES[stage], after, BoomError(stage))
            with pytest.raises(BoomError, match=stage):
                target.session.trace()
        target.session.trace()


@pytest.mark.parametrize("after", [0, 40], ids=["first call", "later call"])
@pytest.mark.parametrize("kind", [MemoryError, torch.OutOfMemoryError])
def test_no_memory_for_the_golden_store(
    target: Target, kind: Any, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Out of memory while outputs are kept: raised as it is, and the next run is whole."""
    with target.unharmed(), monkeypatch.context() as patch:
        _failing(patch, (ValueStore, "add"), after, kind("no room"))
        with pytest.raises(kind, match="no room"):
            target.session.trace()


def test_an_error_while_comparing(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the measure of a faulty run's outputs."""
    with target.unharmed(), monkeypatch.context() as patch:
        _failing(patch, (Measure, "__new__"), 30, BoomError("measure"))
        with pytest.raises(BoomError, match="measure"):
            target.session.replay()


def test_a_fault_of_ones_own_that_raises(target: Target) -> None:
    """Its error is the person's: it comes through, and is no outcome of the step."""

    @faults.register("proof_boom")
    def boom(values: Tensor, ctx: Any) -> Tensor:
        raise BoomError("fault")

    try:
        with target.unharmed():
            fault = target.session.arm("relu*1:0", "proof_boom")
            with pytest.raises(BoomError, match="fault"):
                target.session.replay()
            target.session.disarm(fault)
    finally:
        faults.unregister("proof_boom")


@pytest.mark.parametrize("kind", [BoomError, KeyboardInterrupt, SystemExit])
def test_a_callback_that_raises(target: Target, kind: Any) -> None:
    """An evaluate that raises ends the replay; a listener that raises an error does not."""

    def evaluate(_model: Any) -> float:
        raise kind("evaluate")

    def listen(event: str, payload: Any) -> None:
        raise BoomError("listener")

    with target.unharmed():
        with pytest.raises(kind, match="evaluate"):
            target.session.replay(evaluate=evaluate)
        undo = target.session.subscribe(listen)
        assert target.session.replay().outcome.name in target.bits
        undo()


class Stubborn:
    """State that cannot be put back."""

    __slots__ = ()

    def state_dict(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Refuse."""
        raise BoomError("restore")


def test_state_that_refuses_to_be_put_back() -> None:
    """Everything else is put back, it is said, and who listens hears that nothing runs."""
    case, heard = models.cnn(), list[str]()
    target = Target()
    session = Session(case.step, model=case.model, optimizer=case.optimizer, state=[Stubborn()])
    session.subscribe(lambda event, payload: heard.append(payload.get("state", event)))
    before = [p.detach().clone() for p in case.model.parameters()]
    start = torch.get_rng_state()
    with target.unharmed(), pytest.raises(SessionError, match=r"state .*BoomError\('restore'\)"):
        session.trace()
    assert all(torch.equal(a, b) for a, b in zip(case.model.parameters(), before, strict=True))
    assert torch.equal(torch.get_rng_state(), start)
    assert heard[0] == "tracing"
    assert heard[-1] == "idle"


@pytest.mark.parametrize("place", ["before", "after"])
def test_an_injector_whose_training_raises_can_be_closed(place: str) -> None:
    """An error in the middle of a watched step; closed, and training goes on unwatched."""
    case = models.mlp()
    plan = {"version": 2, "faults": [{"target": "addmm*1", "model": "zero", "steps": "0-"}]}
    step: Callable[[], Any] = case.step
    criterion = case.criterion

    def broken(out: Tensor, y: Tensor) -> Tensor:
        if place == "after":
            criterion(out, y).backward()
        raise BoomError(place)

    with Injector(plan, model=case.model) as injector:
        step()
        case.criterion = broken
        with pytest.raises(BoomError, match=place):
            step()
        case.criterion = criterion
        case.optimizer.zero_grad()
        step()
        assert [i.step for i in injector.injections] == [0, 1, 2]
