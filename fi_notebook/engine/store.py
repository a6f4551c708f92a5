"""What is kept of the golden run's tensors, within a budget of memory.

Whole outputs while they fit; after that, a hash of all bits (weighted by position) and
a sample of elements at fixed places, which tells *whether* a tensor differs for certain
and *how far* by estimate. Sites that a person watches or strikes are always whole.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

import torch

from fi_notebook.engine.bits import position_hash

__all__ = ["SAMPLE", "Kept", "SiteKey", "ValueStore", "default_budget"]

SAMPLE = 1 << 16
"""How many elements are sampled of a tensor that is not kept whole."""

SiteKey = tuple[str, bool, int, int, int]
"""Identity of a site while it runs: op, counted, call, output, list index or -1."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of one tensor.

    Attributes:
        row: Its site row in the golden trace.
        whole: The tensor itself, or None.
        shape: Its shape.
        dtype: Its dtype.
        hash: Hash of all its bits, where it is not whole.
        sample: Elements at fixed places, where it is not whole.
    """

    row: int
    whole: torch.Tensor | None
    shape: torch.Size
    dtype: torch.dtype
    hash: torch.Tensor | None = None
    sample: torch.Tensor | None = None

    @property
    def exact(self) -> bool:
        """Whether the whole tensor is kept."""
        return self.whole is not None


class ValueStore:
    """Kept tensors by site.

    Args:
        budget: Bytes for whole tensors.
        always: Sites that are kept whole whatever the budget.
    """

    def __init__(self, budget: int, always: Container[SiteKey] = ()) -> None:
        """Start with nothing kept."""
        self.budget = budget
        self.used = 0
        self.always = always
        self.kept: dict[SiteKey, Kept] = {}

    def add(self, key: SiteKey, row: int, tensor: torch.Tensor) -> None:
        """Keep what the budget allows of a tensor."""
        size = tensor.numel() * tensor.element_size()
        if key in self.always or self.used + size <= self.budget:
            self.used += size
            self.kept[key] = Kept(row, copied(tensor), tensor.shape, tensor.dtype)
        else:
            self.kept[key] = Kept(
                row, None, tensor.shape, tensor.dtype, position_hash(tensor), sampled(tensor)
            )

    @property
    def exact(self) -> bool:
        """Whether every tensor is kept whole."""
        return all(kept.exact for kept in self.kept.values())


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with its own storage; holding the tensor itself would change the stream."""
    return tensor.detach().clone()


def sampled(tensor: torch.Tensor) -> torch.Tensor:
    """Elements at fixed places, evenly spread in row-major order."""
    flat = tensor.detach().reshape(-1)
    step = max(1, flat.numel() // SAMPLE)
    return flat[::step].clone()


def default_budget() -> int:
    """Bytes for the golden run's tensors: a quarter of what is free, 2 GiB at most."""
    return min(_available() // 4, 2 << 30)


def _available() -> int:
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as lines:
            fields = dict(line.split(":", 1) for line in lines)
    except OSError:  # not Linux: be modest
        return 2 << 30
    return int(fields["MemAvailable"].split()[0]) * 1024
