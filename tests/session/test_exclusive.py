"""Sessions of two models in two threads share the process's generators: they take turns."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import torch

from fi_notebook import Session
from tests import models
from tests.tools import traced


def _armed(seed: int) -> Session:
    """Its step draws for dropout."""
    with models.seeded(seed):
        session = traced.session(models.cnn(seed))
        session.trace()
    session.arm("relu*1:0", "scale", factor=1.01, elements={"index": 0})
    return session


def test_replays_of_two_models_at_once_find_what_each_finds_alone() -> None:
    """Thirty replays of two steps each: the same outcomes, and the generator is as before."""
    sessions, begin = [_armed(seed) for seed in (1, 2)], threading.Barrier(2)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    alone = [str(session.replay(steps=2).outcome) for session in sessions]

    def replays(session: Session) -> set[str]:
        begin.wait()
        return {str(session.replay(steps=2).outcome) for _ in range(15)}

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(replays, sessions))
    assert found == [{outcome} for outcome in alone]
    assert torch.equal(torch.get_rng_state(), before)
