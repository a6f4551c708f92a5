"""Threads, workers and many sessions: refused with the reason, or in no one's way."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import psutil
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from fi_notebook import Injector, Session
from fi_notebook.errors import SessionError
from tests import models
from tests.proof.attacked import Target
from tests.tools import leaks
from tests.tools.traced import same_bits

_FEW, _MANY = 12, 200
_GROWTH_BYTES = 60_000_000


def _in_thread(job: Any) -> threading.Thread:
    thread = threading.Thread(target=job)
    thread.start()
    return thread


def test_a_session_and_the_training_of_another_model_in_another_thread() -> None:
    """Both have the bits that they have alone."""
    other, twin = models.cnn(seed=4), models.cnn(seed=4)
    other.model.eval()  # without dropout: the global generator belongs to both threads
    twin.model.eval()
    target, done = Target(models.mlp), threading.Event()
    losses: list[Tensor] = []

    def train() -> None:
        losses.extend(other.step() for _ in range(6))
        done.set()

    with target.unharmed():
        thread = _in_thread(train)
        while not done.is_set():
            target.session.replay()
        thread.join()
    target.session.runs.clear()
    assert all(same_bits(loss, twin.step()) for loss in losses)


def test_many_threads_on_one_model_are_refused_with_the_reason() -> None:
    """One runs; each of eight others is told why not, and the run is what it was."""
    target, said = Target(models.mlp), list[str]()
    others = [Session(target.case.step, model=target.case.model) for _ in range(8)]

    def intrude(session: Session) -> None:
        try:
            session.replay()
        except SessionError as error:
            said.append(str(error))

    def evaluate(_model: nn.Module) -> float:
        threads = [_in_thread(lambda each=each: intrude(each)) for each in others]
        for thread in threads:
            thread.join()
        return 0.0

    with target.unharmed():
        target.session.replay(evaluate=evaluate)
        target.session.runs.clear()
    assert len(said) == 16  # after the golden and after the faulty step
    assert set(said) == {
        "another trace or replay is running this model; wait until it is done, or cancel it"
    }


def test_a_cancel_from_many_threads_at_once() -> None:
    """Whenever it comes, everything is put back; and it is no error when nothing runs."""
    target = Target(models.mlp)
    with target.unharmed():
        threads = [_in_thread(target.session.cancel) for _ in range(8)]
        for thread in threads:
            thread.join()


@pytest.mark.parametrize(
    "method",
    ["fork", pytest.param("spawn", marks=[pytest.mark.soak, pytest.mark.timeout(900)])],
)
def test_workers_of_a_data_loader(method: str) -> None:
    """A step that starts workers is traced, replayed and struck like any other."""
    data = TensorDataset(torch.randn(8, 5), torch.randn(8, 3))
    case = models.mlp()

    def step() -> Tensor:
        loader = DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context=method)
        loss = torch.zeros(())
        for x, y in loader:
            loss = case.criterion(case.model(x), y)
            loss.backward()
        case.optimizer.step()
        case.optimizer.zero_grad()
        return loss.detach()

    before = leaks.state()
    step()  # moves the data to shared memory for good, where workers are spawned
    session = Session(step, model=case.model, optimizer=case.optimizer)
    assert len(session.trace().find("addmm")) == 4  # two Linears, two batches
    session.arm("addmm*3:0", "zero")
    assert session.replay().injections[0].changed > 0
    session.disarm()
    assert session.replay().comparison.equal
    with Injector({"version": 2, "log_steps": [9]}, model=case.model):
        step()
    leaks.assert_clean(before)


def _leave(count: int) -> list[weakref.ref[Any]]:
    """Make sessions, use each, and leave it; models and sessions are to be collected."""
    left: list[weakref.ref[Any]] = []
    for _ in range(count):
        case = models.mlp()
        session = Session(case.step, model=case.model, optimizer=case.optimizer)
        session.arm(session.trace().sites[4], "zero")
        session.replay()
        left += [weakref.ref(session), weakref.ref(case.model)]
    return left


def test_sessions_that_are_left_are_collected() -> None:
    """Sessions, models and what they kept are gone; no thread or hook of theirs remains."""
    before, threads = leaks.state(), set(threading.enumerate())
    left = _leave(_FEW)
    gc.collect()
    assert [each() for each in left if each() is not None] == []
    leaks.assert_clean(before, threads)


@pytest.mark.soak
def test_two_hundred_sessions_leave_no_memory() -> None:
    """From the fiftieth on, the process does not grow by more than 60 MB."""
    process = psutil.Process()
    _leave(_MANY // 4)
    gc.collect()
    start = process.memory_info().rss
    left = _leave(_MANY - _MANY // 4)
    gc.collect()
    assert [each() for each in left if each() is not None] == []
    assert process.memory_info().rss - start < _GROWTH_BYTES
