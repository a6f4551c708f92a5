"""The random number generators that a step may draw from, read and written back.

before = Generators.take()          # the global ones of Python, numpy and torch
…
before.restore()
put_back = saved_generator(mine)    # one of a person's own; ``put_back()`` writes it
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

__all__ = ["GENERATORS", "Generators", "saved_generator"]

GENERATORS = (
    torch.Generator,
    np.random.Generator,
    np.random.RandomState,
    np.random.BitGenerator,
    random.Random,
)
"""The kinds of generator that a person may hold."""


def saved_generator(generator: Any) -> Callable[[], object]:
    """What writes a generator's state back as it is now; draws nothing."""
    if isinstance(generator, random.SystemRandom):  # it has no state
        return partial(generator.getrandbits, 0)
    if isinstance(generator, random.Random):
        return partial(generator.setstate, generator.getstate())
    if isinstance(generator, torch.Generator):
        return partial(generator.set_state, generator.get_state())
    if isinstance(generator, np.random.RandomState):
        return partial(generator.set_state, generator.get_state())
    bits = getattr(generator, "bit_generator", generator)
    return partial(setattr, bits, "state", copy.deepcopy(bits.state))


@dataclass(frozen=True, eq=False)
class Generators:
    """The states of the global random number generators."""

    python: Any
    numpy: Any
    torch_cpu: torch.Tensor
    accelerator: tuple[torch.Tensor, ...]

    @classmethod
    def take(cls) -> Generators:
        """Read the states; draws nothing."""
        cpu = torch.get_rng_state()
        return cls(random.getstate(), np.random.get_state(), cpu, _of_accelerator())

    def restore(self) -> None:
        """Write the states back."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        torch.set_rng_state(self.torch_cpu)
        if self.accelerator:
            _restore_accelerator(self.accelerator)


def _accelerator() -> Any:
    """The module of the accelerator that torch was built for, such as ``torch.cuda``, or None."""
    device = torch.accelerator.current_accelerator()
    return None if device is None else torch.get_device_module(device)


def _of_accelerator() -> tuple[torch.Tensor, ...]:
    """The states of its generators; none where nothing ran there yet, which would start it."""
    module = _accelerator()
    if module is None or not getattr(module, "is_initialized", module.is_available)():
        return ()
    if hasattr(module, "get_rng_state_all"):
        return tuple(module.get_rng_state_all())
    return (module.get_rng_state(),)  # it has one device, as Apple's has


def _restore_accelerator(states: tuple[torch.Tensor, ...]) -> None:
    module = _accelerator()
    if hasattr(module, "set_rng_state_all"):
        module.set_rng_state_all(list(states))
    else:
        module.set_rng_state(*states)
