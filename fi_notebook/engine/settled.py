"""What must be the same in every process before two runs can have the same bits.

with Settled(seed=1, threads=1):
    …               # generators seeded, one thread; both put back afterwards
"""

from __future__ import annotations

import random

import numpy as np
import torch

from fi_notebook.engine.snapshot import Generators

__all__ = ["Settled"]


class Settled:
    """Seeds the global generators and sets the number of threads, for a block.

    Args:
        seed: Seed of the generators of Python, numpy and torch; None leaves them.
        threads: Threads of torch; 0 leaves them.
    """

    def __init__(self, *, seed: int | None = None, threads: int = 0) -> None:
        """Change nothing yet."""
        self._seed, self._threads = seed, threads

    def __enter__(self) -> Settled:  # noqa: PYI034  # Self is of Python 3.11
        """Seed and set."""
        self._generators, self._before = Generators.take(), torch.get_num_threads()
        if self._threads and self._threads != self._before:
            torch.set_num_threads(self._threads)
        if self._seed is not None:
            random.seed(self._seed)
            np.random.seed(self._seed % (1 << 32))
            torch.manual_seed(self._seed % (1 << 64))
        return self

    def __exit__(self, *_: object) -> None:
        """Put both back."""
        self._generators.restore()
        if torch.get_num_threads() != self._before:
            torch.set_num_threads(self._before)
