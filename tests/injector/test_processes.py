"""An injector is for one process, and goes off at once whichever thread closes it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torch.utils.data import DataLoader, Dataset

from fi_notebook import Injector, Session
from fi_notebook.engine import forks
from tests import models
from tests.injector.helpers import lines, plan, sites
from tests.tools import leaks


class Rows(Dataset[Tensor]):
    """Four rows of ones; making one calls ``mul``, collating them ``stack``."""

    def __len__(self) -> int:
        """Four."""
        return 4

    def __getitem__(self, index: int) -> Tensor:
        """A row of ones."""
        return torch.ones(3) * 1


def _loaded() -> list[Any]:
    loader = DataLoader(Rows(), batch_size=2, num_workers=1, multiprocessing_context="fork")
    return [batch.tolist() for batch in loader]


ONES = [[[1.0] * 3] * 2] * 2

EVERYTHING: dict[str, Any] = {
    "version": 2,
    "faults": [
        {"id": f"{place}{op}", "target": f"{place}{op}", "model": "zero", "steps": "0-"}
        for op in ("stack", "mul", "ones")
        for place in ("", "other/")
    ],
}


def test_workers_of_a_data_loader_are_not_struck(tmp_path: Path) -> None:
    """Forked with the mode on, a worker gives the ones that it gives without an injector."""
    case, path = models.mlp(), tmp_path / "events.jsonl"
    with Injector(EVERYTHING, model=case.model, events=path) as injector:
        case.step()
        assert len(_get_current_dispatch_mode_stack()) == 1
        assert _loaded() == ONES
        told = sites(injector)
    events = [json.loads(line)["event"] for line in path.read_text().splitlines()]
    assert told == []
    assert events == ["not_injected"] * 6 + ["end"]


def test_workers_within_a_sessions_step_are_not_struck() -> None:
    """The golden run and the faulty run load the same ones."""
    case, seen = models.mlp(), []

    def step() -> Any:
        loss = case.step()
        seen.append(_loaded())
        return loss

    session = Session(step, model=case.model, optimizer=case.optimizer)
    session.arm("stack", "zero")
    run = session.replay()
    assert run.injections == []
    assert seen == [ONES] * len(seen)


class _Ordered(list[Any]):
    """A registry that tells of a fork in order."""

    def discard(self, one: Any) -> None:
        """Forget one, in a child."""
        self.remove(one) if one in self else None


def _in_child(what: Callable[[], bool]) -> int:
    child = os.fork()
    if not child:
        code = 2
        try:
            code = int(not what())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("order", [1, -1])
def test_a_child_that_trains_is_neither_struck_nor_counted(
    order: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is told of the fork first: no hook, no mode, no line; the parent goes on."""
    before = leaks.state()
    case, path = models.mlp(), tmp_path / "events.jsonl"
    injector = Injector(plan("relu*1:0", "zero", steps="0-"), model=case.model, events=path)
    case.step()
    by_name = sorted(forks._on, key=lambda one: type(one).__name__)[::order]
    monkeypatch.setattr(forks, "_on", _Ordered(by_name))

    def train() -> bool:
        leaks.assert_clean(before)
        case.step()
        injector.close()
        return sites(injector) == [("relu*1:0", 0)] and injector.step == 0

    assert _in_child(train) == 0
    monkeypatch.undo()
    case.step()
    injector.close()
    assert sites(injector) == [("relu*1:0", 0), ("relu*1:0", 1)]
    events = [json.loads(line)["event"] for line in path.read_text().splitlines()]
    assert events == ["injection", "injection", "end"]
    leaks.assert_clean(before)


def test_a_child_of_a_closed_injector_has_nothing_to_undo() -> None:
    """What was closed is no longer known to forks."""
    known = len(forks._on)
    case = models.mlp()
    with Injector(plan("relu*1:0", "zero"), model=case.model) as injector:
        case.step()
        assert len(forks._on) == known + 3  # injector, watch and mode
    assert len(forks._on) == known
    assert sites(injector) == [("relu*1:0", 0)]


def _in_thread(what: Callable[[], object]) -> None:
    thread = threading.Thread(target=what)
    thread.start()
    thread.join()


def test_closed_by_another_thread_it_strikes_no_more(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is struck from then on; the next forward takes the mode off, with no warning."""
    before = leaks.state()
    case = models.mlp()
    injector = Injector(plan("mul", "zero", steps="0-"), model=case.model)
    case.step()
    _in_thread(injector.close)
    count = len(injector.injections)
    assert (torch.ones(2) * 3).tolist() == [3, 3]
    case.step()
    assert len(injector.injections) == count
    assert injector.step == 0
    assert not [line for line in lines(caplog) if "another dispatch mode" in line]
    leaks.assert_clean(before)


def test_closed_by_another_thread_within_a_forward() -> None:
    """The second relu of the forward in which it is closed is not struck."""
    before = leaks.state()
    case = models.mlp()
    injector = Injector(plan("relu", "zero", steps="0-"), model=case.model)
    handle = case.model[1].register_forward_hook(lambda *_: _in_thread(injector.close))  # type: ignore[index]
    case.step()
    handle.remove()
    assert sites(injector) == [("relu*1:0", 0)]
    case.step()
    leaks.assert_clean(before)


def test_training_in_another_thread_than_before(caplog: pytest.LogCaptureFixture) -> None:
    """Steps 0 and 2 in this thread and step 1 in another are struck alike, with no warning."""
    before = leaks.state()
    case = models.mlp()
    with Injector(plan("relu*1:0", "zero", steps="0-"), model=case.model) as injector:
        case.step()
        _in_thread(case.step)
        case.step()
    assert sites(injector) == [("relu*1:0", step) for step in range(3)]
    assert not [line for line in lines(caplog) if "another dispatch mode" in line]
    case.step()
    leaks.assert_clean(before)


def test_a_thread_that_ended_leaves_nothing() -> None:
    """Closed after the thread that trained has ended, all is off at once."""
    before = leaks.state()
    case = models.mlp()
    with Injector(plan("relu*1:0", "zero"), model=case.model) as injector:
        _in_thread(case.step)
    leaks.assert_clean(before)
    assert sites(injector) == [("relu*1:0", 0)]
