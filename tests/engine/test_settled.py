"""Seeding the global generators for a block."""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np
import pytest
import torch

from fi_notebook.engine.settled import Settled


def drawn(seed: int) -> tuple[float, float, float]:
    """The first number of Python's, numpy's and torch's generator."""
    with Settled(seed=seed):
        second = float(np.random.random())  # noqa: NPY002  # the global generator is what is seeded
        return random.random(), second, float(torch.rand(()))


@pytest.mark.parametrize("seed", [0, 7, 1 << 32, (1 << 64) - 1, 1 << 64, (1 << 200) + 3])
def test_a_seed_of_any_size_repeats(seed: int) -> None:
    """Python takes the whole of it, numpy its low 32 bits, torch its low 64."""
    low = random.Random(seed).random()
    small = float(np.random.RandomState(seed % 2**32).random_sample())
    rest = float(torch.rand((), generator=torch.Generator().manual_seed(seed % 2**64)))
    assert drawn(seed) == drawn(seed) == (low, small, rest)


def test_generators_and_threads_are_as_before() -> None:
    """Also where the block raises."""
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    with suppress(KeyError), Settled(seed=3, threads=threads + 1):
        assert torch.get_num_threads() == threads + 1
        torch.rand(5)
        raise KeyError
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
