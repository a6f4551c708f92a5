"""A Ctrl-C at any moment of a trace or a replay: every bit is put back, nothing is left on.

A moment is the start or end of a function of Python, in the step, in torch or in our own
code: the n-th of a run that was counted before. Signals act between two bytecodes only, so
that this is where they can act at all.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from fi_notebook.engine.generators import Generators
from tests import models
from tests.proof.attacked import Target

_FEW, _MANY = 6, 250


class Presses:
    """Counts the moments of a run, and presses Ctrl-C at one of them.

    Args:
        at: At which, from 1; 0 is never.
    """

    def __init__(self, at: int = 0) -> None:
        """Nothing has come yet."""
        self.seen = 0
        self._at = at

    @property
    def waits(self) -> bool:
        """Whether the moment has not come."""
        return self._at > 0

    @contextmanager
    def on(self) -> Iterator[None]:
        """Count inside the block."""
        sys.setprofile(self._moment)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _moment(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event in ("call", "return"):
            self.seen += 1
            if 0 < self._at <= self.seen and not _in_finalizer(frame):
                self._at = 0
                os.kill(os.getpid(), signal.SIGINT)


def _in_finalizer(frame: FrameType | None) -> bool:
    """Where Python itself swallows it, if that is outside of a run of ours."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def _moments(run: Callable[[], Any]) -> int:
    """How many moments a run has, the last few aside: they are those of counting."""
    run()  # fills what is cached
    presses = Presses()
    with presses.on():
        run()
    return presses.seen - 4


def _press(target: Target, run: Callable[[], Any], at: int) -> None:
    """Run, with a press at one moment; it must be told, and do no harm."""
    presses = Presses(at)
    with target.unharmed(), pytest.raises(KeyboardInterrupt), presses.on():  # noqa: PT012  # two ends
        run()
        if presses.waits:  # this run was shorter than the one that was counted
            raise KeyboardInterrupt


def _attack(maker: Any, draws: int) -> None:
    target, draw = Target(maker), random.Random(0)
    for run in (target.session.trace, target.session.replay):
        total = _moments(run)
        target.session.runs.clear()
        for _ in range(draws // 2):
            _press(target, run, draw.randrange(1, total))


def test_a_ctrl_c_at_some_moments() -> None:
    """Half of them in a trace, half in a replay."""
    _attack(models.mlp, _FEW)


def test_a_ctrl_c_at_the_very_beginning_and_end() -> None:
    """Before anything was recorded, and when all was put back."""
    target = Target(models.mlp)
    run = target.session.replay
    total = _moments(run)
    target.session.runs.clear()
    for at in (1, 2, 3, 5, 8, 13, 21, 34, total - 40, total - 20, total - 10, total - 2, total):
        _press(target, run, at)


def test_a_second_ctrl_c_while_everything_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first leaves the step, the second comes in the restore; both are told as one."""
    target, draw = Target(models.mlp), random.Random(1)
    total, restore = _moments(target.session.trace), Generators.restore

    def pressed(generators: Generators) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        restore(generators)

    for _ in range(3):
        at = draw.randrange(total // 4, 3 * total // 4)
        presses = Presses(at)
        with target.unharmed(), monkeypatch.context() as patch:
            patch.setattr(Generators, "restore", pressed)
            with pytest.raises(KeyboardInterrupt), presses.on():
                target.session.trace()


@pytest.mark.soak
@pytest.mark.parametrize("maker", [models.mlp, models.cnn], ids=["mlp", "cnn"])
def test_a_ctrl_c_at_many_moments(maker: Any) -> None:
    """250 moments, drawn at random, of a trace and of a replay."""
    _attack(maker, _MANY)
