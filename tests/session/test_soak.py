"""What shows only after a long time: memory, and replays that drift apart."""

from __future__ import annotations

import gc

import psutil
import pytest

from fi_notebook import Session
from tests import models

pytestmark = pytest.mark.soak

_REPLAYS = 200
_GROWTH_BYTES = 60_000_000


def test_replays_repeat_and_memory_stays_flat() -> None:
    """Two hundred replays of one fault give the same bits each, and the process does not
    grow by more than 60 MB once it is warm.
    """
    case = models.cnn()
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    session.trace()
    session.arm("relu*2:0", "bitflip", bit=27, elements={"index": [0, 0, 0, 0]})
    first = session.replay()
    process = psutil.Process()
    start = 0
    for number in range(_REPLAYS):
        run = session.replay()
        session.runs.clear()
        assert run.faulty == first.faulty
        assert run.injections[0].elements == first.injections[0].elements
        if number == _REPLAYS // 4:
            gc.collect()
            start = process.memory_info().rss
    gc.collect()
    assert process.memory_info().rss - start < _GROWTH_BYTES


def test_traces_repeat_and_sessions_are_freed() -> None:
    """A hundred sessions of one model, each traced once, leave no more than 60 MB behind."""
    case = models.transformer()
    process = psutil.Process()
    start = 0
    for number in range(100):
        Session(case.step, model=case.model, optimizer=case.optimizer).trace()
        if number == 25:
            gc.collect()
            start = process.memory_info().rss
    gc.collect()
    assert process.memory_info().rss - start < _GROWTH_BYTES
