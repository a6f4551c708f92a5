"""A Ctrl-C acts in a person's code at once, in ours at the next call, elsewhere at the end."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import fi_notebook
from fi_notebook import Session
from fi_notebook.engine.interrupts import Interrupts
from fi_notebook.engine.snapshot import Snapshot
from fi_notebook.errors import SessionError
from tests import models


def _press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_outside_the_block_it_waits_until_the_end() -> None:
    """Nothing is raised while everything is put back; then it is, with the handler restored."""
    interrupts, done = Interrupts(), []
    before = signal.getsignal(signal.SIGINT)

    def run() -> None:
        with interrupts:
            _press()
            done.append("put back")

    with pytest.raises(KeyboardInterrupt):
        run()
    assert done == ["put back"]
    assert signal.getsignal(signal.SIGINT) is before


def test_in_the_block_it_is_raised_at_once_and_the_second_waits() -> None:
    """The step is left at the first; a second press while putting back waits for the end."""
    interrupts, done = Interrupts(), []

    def run() -> None:
        with interrupts:
            try:
                with interrupts.let_through():
                    _press()
                    done.append("never")
            except KeyboardInterrupt:
                done.append("stopped")
                _press()
                done.append("put back")

    with pytest.raises(KeyboardInterrupt):
        run()
    assert done == ["stopped", "put back"]


def test_a_handler_that_does_not_raise_is_called_each_time() -> None:
    """A person's own handler is called at once inside the block, and goes on being called."""
    interrupts: Interrupts = Interrupts()
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: heard.append(number))
    try:
        with interrupts:
            with interrupts.let_through():
                _press()
                _press()
            assert heard == [signal.SIGINT, signal.SIGINT]
            _press()
            assert len(heard) == 2
        assert len(heard) == 3
    finally:
        signal.signal(signal.SIGINT, before)


def test_check_delivers_what_waits_and_only_in_the_block() -> None:
    """One that waited for the next call is raised by it; outside the block it stays."""
    interrupts = Interrupts()
    done: list[str] = []

    def run() -> None:
        with interrupts:
            interrupts._waiting = (signal.SIGINT, None)
            interrupts.check()
            done.append("outside")
            with interrupts.let_through():
                interrupts.check()
                done.append("never")

    with pytest.raises(KeyboardInterrupt):
        run()
    assert done == ["outside"]


class Dying:
    """An object during whose end Ctrl-C is pressed."""

    def __del__(self) -> None:
        """Press."""
        _press()


def test_in_a_finalizer_it_waits_for_the_next_call() -> None:
    """Python would swallow it there; it is raised by the next check."""
    interrupts = Interrupts()
    done: list[str] = []

    def run() -> None:
        with interrupts, interrupts.let_through():
            Dying()
            done.append("the object is gone")
            interrupts.check()
            done.append("never")

    with pytest.raises(KeyboardInterrupt):
        run()
    assert done == ["the object is gone"]


@pytest.mark.parametrize(
    ("folder", "done"), [("fi_notebook", ["left"]), ("fi_notebook_runs", list[str]())]
)
def test_only_this_packages_own_code_makes_it_wait(folder: str, done: list[str]) -> None:
    """A folder of a person's that begins with its name is left at once."""
    interrupts, seen = Interrupts(), list[str]()
    file = str(Path(fi_notebook.__file__).parents[1] / folder / "train.py")
    names = {"press": _press, "seen": seen}
    code = compile("press()\nseen.append('left')", file, "exec")

    def run() -> None:
        with interrupts, interrupts.let_through():
            exec(code, names)
            interrupts.check()

    with pytest.raises(KeyboardInterrupt):
        run()
    assert seen == done


@pytest.mark.parametrize("before", [None, signal.SIG_DFL, signal.SIG_IGN])
def test_what_is_no_python_function_stays(before: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler of C's, the default (the process ends) and a signal that is ignored."""
    changed: list[Any] = []
    monkeypatch.setattr(signal, "getsignal", lambda _number: before)
    monkeypatch.setattr(signal, "signal", lambda _number, handler: changed.append(handler))
    model = models.mlp().model
    with Interrupts():
        Snapshot.take([model]).restore()
    assert changed == []


def test_it_waits_until_a_restore_is_whole() -> None:
    """Pressed while one thing puts itself back, the next one still does; the handler is back."""
    before, done = signal.getsignal(signal.SIGINT), list[str]()
    snapshot = Snapshot.take([])
    snapshot._calls += [_press, lambda: done.append("put back")]
    with pytest.raises(KeyboardInterrupt):
        snapshot.restore()
    assert done == ["put back"]
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_are_left_alone() -> None:
    """Entered in another thread, no handler is touched: signals never reach it."""
    before, seen = signal.getsignal(signal.SIGINT), []

    def run() -> None:
        interrupts: Any = Interrupts()
        with interrupts, interrupts.let_through():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_run_that_is_refused_leaves_the_ctrl_c_of_the_running_one() -> None:
    """From another thread and from the step itself; afterwards the handler is the old one."""
    case, refused = models.mlp(), list[str]()
    before = signal.getsignal(signal.SIGINT)

    def trace() -> None:
        try:
            session.trace()
        except SessionError as error:
            refused.append(str(error))

    def step() -> torch.Tensor:
        trace()
        thread = threading.Thread(target=trace)
        thread.start()
        thread.join()
        assert signal.getsignal(signal.SIGINT) is not before
        return case.step()

    session = Session(step, model=case.model)
    session.trace()
    assert len(refused) == 2
    assert signal.getsignal(signal.SIGINT) is before
