"""What is kept of the golden run's tensors, within a budget of memory.

    store = ValueStore(64 << 20)        # bytes
    store.kept[key].exact               # whole, in memory or in the spill file
    store.report()                      # {'budget': …, 'used': …, 'whole': 210, 'sampled': 30, …}

Whole outputs while they fit; a view of one lies in its memory and takes none. When they
no longer do, the largest give way first: of them stay a hash of all bits, which tells
*whether* an output differs, and a sample of at most `SAMPLE` elements at fixed places,
which tells *how far* by estimate. Where a budget does not even hold the samples, the hash
alone stays, and the statistics of the trace beside it. Outputs that a person watches or
strikes are always whole, on top of the budget.

Limits: the budget is for outputs; copies of parameters, buffers, optimizer state and
gradients come on top (`engine.training_state.TrainingState`), and a trace says how many bytes.
"""

from __future__ import annotations

import heapq
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fi_notebook.core.whole import is_whole
from fi_notebook.engine.bits import position_hash
from fi_notebook.engine.spill import Spill
from fi_notebook.errors import SessionArgumentError

__all__ = ["SAMPLE", "Kept", "SiteKey", "ValueStore", "budget_of", "site_key", "size_of"]

SAMPLE = 1 << 16
"""How many elements at most are sampled of a tensor that is not kept whole."""

_MOST = 2 << 30

SiteKey = tuple[str, bool, int, int, int]
"""Identity of a site while it runs: op, counted, call, output, list index or -1."""


def site_key(op: str, counted: bool, call: int, output: int, index: int | None) -> SiteKey:
    """Identity of a site while it runs; the index is None where the output is no list."""
    return (op, counted, call, output, -1 if index is None else index)


class Base(NamedTuple):
    """What a view is of.

    Attributes:
        key: The site whose tensor holds its elements.
        start: Where in that tensor it begins, in elements.
    """

    key: SiteKey
    start: int


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What is kept of one tensor.

    Attributes:
        row: Its site row in the golden trace.
        held: The tensor itself in memory, or None.
        shape: Its shape.
        dtype: Its dtype.
        hash: Hash of all its bits, where it is not whole in memory.
        sample: Elements at fixed places, where it is not whole and there was room.
        spill: The file that holds it whole, or None.
        name: Its name in that file.
        base: What it is a view of, where it shares that one's memory, or None.
    """

    row: int
    held: torch.Tensor | None
    shape: torch.Size
    dtype: torch.dtype
    hash: torch.Tensor | None = None
    sample: torch.Tensor | None = None
    spill: Spill | None = None
    name: str = ""
    base: Base | None = None

    @property
    def whole(self) -> torch.Tensor | None:
        """The whole tensor, read from the spill file where it lies there; else None."""
        return self.held if self.spill is None else self.spill.read(self.name)

    @property
    def exact(self) -> bool:
        """Whether the whole tensor is kept."""
        return self.held is not None or self.spill is not None

    def hashed(self) -> torch.Tensor:
        """The hash of all its bits; taken now where it was not."""
        if self.hash is not None:
            return self.hash
        assert self.held is not None  # only what is whole in memory has no hash
        return position_hash(self.held)


class ValueStore:
    """Kept tensors by site.

    Args:
        budget: Bytes for outputs.
        always: Sites that are kept whole whatever the budget.
        spill: Where whole outputs go that do not fit, or None.
        only: Whether nothing but the sites of ``always`` is kept.
    """

    def __init__(
        self,
        budget: int,
        always: Container[SiteKey] = (),
        spill: Spill | None = None,
        *,
        only: bool = False,
    ) -> None:
        """Start with nothing kept."""
        self.budget = budget
        self.used = 0
        self.beyond = 0
        self.always = always
        self.kept: dict[SiteKey, Kept] = {}
        self._spill = spill
        self._only = only
        self._largest: list[tuple[int, int, SiteKey]] = []
        self._views: dict[SiteKey, list[SiteKey]] = {}

    def add(self, key: SiteKey, row: int, tensor: torch.Tensor, base: Base | None = None) -> None:
        """Keep what the budget allows of a tensor; a view shares the memory of its base."""
        if key in self.always:
            self.beyond += size_of(tensor)
            self.kept[key] = Kept(row, copied(tensor), tensor.shape, tensor.dtype)
        elif not self._only:
            shared = None if base is None else self._shared(key, row, tensor, base)
            self.kept[key] = shared or self._within_budget(key, row, tensor)

    def _shared(self, key: SiteKey, row: int, tensor: torch.Tensor, base: Base) -> Kept | None:
        """A view of what is kept of its base; None where that is not whole in memory."""
        source = self.kept.get(base.key)
        if source is None or source.held is None:
            return None
        start = source.held.storage_offset() + base.start
        held = source.held.as_strided(tensor.shape, tensor.stride(), start)
        owner = base.key
        while (above := self.kept[owner].base) is not None:
            owner = above.key
        self._views.setdefault(owner, []).append(key)
        return Kept(row, held, tensor.shape, tensor.dtype, base=base)

    def _within_budget(self, key: SiteKey, row: int, tensor: torch.Tensor) -> Kept:
        size = size_of(tensor)
        while self._spill is None and self.used + size > self.budget and self._has_larger(size):
            self._shrink_largest()
        if self.used + size <= self.budget:
            self.used += size
            if tensor.numel() > SAMPLE:  # a sample of fewer would free nothing
                heapq.heappush(self._largest, (-size, len(self.kept), key))
            return Kept(row, copied(tensor), tensor.shape, tensor.dtype)
        if self._spill is not None:
            name = _text(key)
            hashed = position_hash(tensor)
            if self._spill.add(name, tensor):
                return Kept(row, None, tensor.shape, tensor.dtype, hashed, None, self._spill, name)
        return self._sampled(row, tensor)

    def _sampled(self, row: int, tensor: torch.Tensor) -> Kept:
        """The hash, and a sample where room can be made for it."""
        sample = sampled(tensor)
        while self.used + size_of(sample) > self.budget and self._largest:
            self._shrink_largest()
        room = self.used + size_of(sample) <= self.budget
        if room:
            self.used += size_of(sample)
        hashed = position_hash(tensor)
        return Kept(row, None, tensor.shape, tensor.dtype, hashed, sample if room else None)

    def _has_larger(self, size: int) -> bool:
        return bool(self._largest) and -self._largest[0][0] > size

    def _shrink_largest(self) -> None:
        """Keep a sample in place of the largest whole output."""
        size, _, key = heapq.heappop(self._largest)
        kept = self.kept[key]
        assert kept.held is not None  # only what is whole in memory is in the heap
        sample = sampled(kept.held)
        self.used += size + size_of(sample)
        self.kept[key] = _without_memory(kept, sample)
        for view in self._views.pop(key, ()):
            self._give_way(view)

    def _give_way(self, key: SiteKey) -> None:
        """Keep a sample of a view whose memory goes, where there is room for it."""
        kept = self.kept[key]
        assert kept.held is not None  # it lay in that memory
        sample = sampled(kept.held)
        room = self.used + size_of(sample) <= self.budget
        self.used += size_of(sample) if room else 0
        self.kept[key] = _without_memory(kept, sample if room else None)

    def report(self) -> dict[str, Any]:
        """How much is kept and in what form, in plain numbers."""
        kept = self.kept.values()
        sampled_only = [k for k in kept if not k.exact]
        return {
            "budget": self.budget,
            "used": self.used,
            "always": self.beyond,
            "spilled": 0 if self._spill is None else self._spill.size,
            "whole": len(kept) - len(sampled_only),
            "sampled": sum(k.sample is not None for k in sampled_only),
            "hashed": sum(k.sample is None for k in sampled_only),
            "exact": not sampled_only,
        }


def _without_memory(kept: Kept, sample: torch.Tensor | None) -> Kept:
    return Kept(kept.row, None, kept.shape, kept.dtype, kept.hashed(), sample)


def size_of(tensor: torch.Tensor) -> int:
    """Bytes of a tensor's elements."""
    return tensor.numel() * tensor.element_size()


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with its own storage; holding the tensor itself would change the stream."""
    return tensor.detach().clone()


def sampled(tensor: torch.Tensor) -> torch.Tensor:
    """Elements at fixed places, evenly spread in row-major order: `SAMPLE` at most."""
    flat = tensor.detach().reshape(-1)
    step = max(1, -(-flat.numel() // SAMPLE))
    return flat[::step].clone()


def budget_of(memory: int | str) -> int:
    """Bytes for the golden run's outputs.

    Args:
        memory: A number of bytes, or ``"auto"``: a quarter of what is free, 2 GiB at most.

    Raises:
        SessionArgumentError: It is neither.
    """
    if memory == "auto":
        return min(_available() // 4, _MOST)
    if not is_whole(memory, 0):
        raise SessionArgumentError(
            f"memory is {memory!r}; expected a number of bytes from 0, or 'auto'"
        )
    return memory


def _available() -> int:
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as lines:
            fields = dict(line.split(":", 1) for line in lines)
    except OSError:  # not Linux: be modest
        return _MOST
    return int(fields["MemAvailable"].split()[0]) * 1024


def _text(key: SiteKey) -> str:
    """A site's key as its text."""
    op, counted, call, output, index = key
    item = "" if index < 0 else f"[{index}]"
    return f"{'' if counted else 'other/'}{op}*{call}:{output}{item}"
