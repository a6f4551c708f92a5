"""A session that is used while an injector is open: the injector sees nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fi_notebook import Injector, Session
from fi_notebook.injector import run_script
from tests import models
from tests.injector.helpers import plan, sites, training_bits
from tests.tools import leaks

PLAN: dict[str, Any] = {
    "version": 2,
    "faults": [
        {"id": "relu", "target": "relu*1:0", "model": "zero", "steps": "0-", "times": 2},
        {"id": "mm", "target": "mm*2:0", "model": "negate", "steps": "0-"},
        {"id": "weight", "target": "param:0.weight", "model": "scale", "steps": "0-",
         "parameters": {"factor": 2.0}, "elements": {"index": 0}},
    ],
}  # fmt: skip


def _explore(case: models.Case) -> list[float]:
    """A session's golden run and replay; every value of its golden run's first relu."""
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    trace = session.trace()
    session.arm("relu*2:0", "zero")
    assert len(session.replay().injections) == 1
    value: Any = trace.value("relu*1:0")
    return [float(one) for one in value.reshape(-1)]


def _train(where: str, between: Callable[[models.Case], Any]) -> tuple[Any, ...]:
    """Three steps, with something in between at one place of the second; all that came."""
    case = models.mlp()

    def now(place: str) -> None:
        if place == where and injector.step == (0 if place == "before a step" else 1):
            between(case)

    def in_forward(*_: Any) -> None:
        if not busy:
            busy.append(1)
            now("in a forward")
            busy.clear()

    busy: list[int] = []
    handle = case.model[1].register_forward_hook(in_forward)  # type: ignore[index]
    with Injector(PLAN, model=case.model) as injector:
        for _ in range(3):
            now("before a step")
            output = case.model(case.x)
            now("after a forward")
            case.criterion(output, case.y).backward()
            now("after a backward")
            case.optimizer.step()
            now("after an update")
            case.optimizer.zero_grad()
    handle.remove()
    struck = [(i.fault, str(i.site), i.step, i.site.phase, i.elements) for i in injector.injections]
    return struck, injector.step, injector.not_injected, training_bits(case.model, case.optimizer)


PLACES = ["before a step", "in a forward", "after a forward", "after a backward", "after an update"]


@pytest.mark.parametrize("where", PLACES)
def test_training_goes_on_as_without_the_session(where: str) -> None:
    """Same strikes, steps, limits and bits, wherever in a step the session is used."""
    before = leaks.state()
    golden: list[list[float]] = []
    without = _train(where, lambda _case: None)
    assert len(without[0]) == 8  # relu twice, mm and weight in each of 3 steps
    assert _train(where, lambda case: golden.append(_explore(case))) == without
    leaks.assert_clean(before)


def test_the_golden_run_is_not_struck() -> None:
    """The injector zeroes relu*1 of every step; the session's golden run has its own values."""
    case, twin = models.mlp(), models.mlp()
    expected = _explore(twin)
    with Injector(plan("relu*1:0", "zero", steps="0-"), model=case.model) as injector:
        assert _explore(case) == expected
        assert sites(injector) == []
        assert injector.step == -1
        case.step()
    assert sites(injector) == [("relu*1:0", 0)]


def test_a_model_that_holds_that_of_the_injector() -> None:
    """The session's model wraps the injector's: it is struck and counted as little."""
    case = models.mlp()
    whole = torch.nn.Sequential(case.model)

    def step() -> Any:
        loss = case.criterion(whole(case.x), case.y)
        loss.backward()
        return loss

    with Injector(plan("relu*1:0", "zero", steps="0-"), model=case.model) as injector:
        case.step()
        Session(step, model=whole).trace()
        case.step()
    assert sites(injector) == [("relu*1:0", 0), ("relu*1:0", 1)]


def test_a_step_that_raises_in_the_session() -> None:
    """The injector looks again, and strikes the next step."""
    case = models.mlp()

    def step() -> Any:
        case.step()
        raise KeyError("on purpose")

    with Injector(plan("relu*1:0", "zero", steps="0-"), model=case.model) as injector:
        case.step()
        with pytest.raises(KeyError):
            Session(step, model=case.model, optimizer=case.optimizer).trace()
        case.step()
    assert sites(injector) == [("relu*1:0", 0), ("relu*1:0", 1)]


def test_closed_within_a_sessions_step() -> None:
    """It stays closed afterwards, with everything off."""
    before = leaks.state()
    case = models.mlp()
    injector = Injector(plan("relu*1:0", "zero", steps="0-"), model=case.model)
    case.step()

    def step() -> Any:
        injector.close()
        return case.step()

    Session(step, model=case.model, optimizer=case.optimizer).trace()
    case.step()
    assert sites(injector) == [("relu*1:0", 0)]
    leaks.assert_clean(before)


def test_a_script_that_uses_a_session_first(tmp_path: Path) -> None:
    """run_script waits for training: the session's run is not what it attaches to."""
    script = tmp_path / "train.py"
    script.write_text(
        "from fi_notebook import Session\nfrom tests import models\n"
        "case = models.mlp()\n"
        "Session(case.step, model=case.model, optimizer=case.optimizer).trace()\n"
        "case.step()\ncase.step()\n"
    )
    injector = run_script(plan("relu*1:0", "zero", steps="0-"), script)
    assert sites(injector) == [("relu*1:0", 0), ("relu*1:0", 1)]
