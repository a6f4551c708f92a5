"""A step as a tape: every call with what it read and wrote, to be carried out again alone.

    tape = record_tape(setup, steps=1, budget=2 << 30, optimizer_begins=adopt)
    found = run_slice(tape, fault, site, step)

It is written by `engine.tape_recorder` and read by `engine.slice`.

A tape knows the memory of a step as *versions*: each storage (all views of one piece of
memory) has its bits after each call that wrote it. With them, a call can be carried out
again without the step around it, and only the calls that a fault reaches have to be.

Limits: what the tape cannot say for certain it refuses (`TapeError`): collectives,
tensors without strides, memory under two storages, more bytes than the budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch

from fi_notebook.core.trace import Trace
from fi_notebook.engine.bits import raw, same_memory

__all__ = [
    "Barrier",
    "Look",
    "LookKey",
    "Memory",
    "Slot",
    "Tape",
    "TapeCall",
    "TapeError",
    "TapeSite",
    "filled",
    "slots_in",
]


class TapeError(Exception):
    """A step that cannot be a tape, with the reason in plain words."""


class LookKey(NamedTuple):
    """What a look is for.

    Attributes:
        step: In which step.
        kind: ``loss``, ``result``, ``gradients``, ``parameters``, ``buffers`` or
            ``optimizer_state``.
        name: Name of the tensor.
    """

    step: int
    kind: str
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """A tensor that stood in an argument or a result.

    Attributes:
        storage: Number of its storage.
        version: Version of the storage at that moment.
        dtype: Its dtype.
        size: Its size.
        stride: Its strides.
        offset: Where it begins in the storage.
        place: Number of this dtype, size, strides and offset among all on the tape.
        golden: The golden values, on memory of the tape; never to be written.
        whole: Whether it covers every byte of the storage.
    """

    storage: int
    version: int
    dtype: torch.dtype
    size: torch.Size
    stride: tuple[int, ...]
    offset: int
    place: int
    golden: torch.Tensor
    whole: bool

    def equals(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor that fits has the golden bits."""
        if self.whole:
            return same_memory(self.golden, tensor)
        return torch.equal(raw(self.golden), raw(tensor))

    def fits(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor lies in its storage as this one did."""
        return (
            tensor.dtype == self.dtype
            and tensor.size() == self.size
            and tensor.stride() == self.stride
            and tensor.storage_offset() == self.offset
        )


class Memory:
    """One piece of memory, and the tensors that lie in it.

    Args:
        tensor: Any tensor in it.
        place: Number of the tensor's place (see `Slot`), where it is known.
    """

    __slots__ = ("_bases", "_bits", "_places", "_tensor", "nbytes")

    def __init__(self, tensor: torch.Tensor, place: int | None = None) -> None:
        """Make no tensor yet."""
        self._tensor = tensor
        self._bases = {tensor.dtype: tensor}
        self._places: dict[int, torch.Tensor] = {} if place is None else {place: tensor}
        self._bits: torch.Tensor | None = None
        self.nbytes = tensor.untyped_storage().nbytes()

    def at(self, slot: Slot) -> torch.Tensor:
        """The tensor that lies here as the slot says."""
        tensor = self._places.get(slot.place)
        if tensor is None:
            tensor = self.tensor(slot.dtype, slot.size, slot.stride, slot.offset)
            self._places[slot.place] = tensor
        return tensor

    def tensor(
        self, dtype: torch.dtype, size: Sequence[int], stride: Sequence[int], offset: int
    ) -> torch.Tensor:
        """A tensor of this dtype, size, strides and offset."""
        base = self._bases.get(dtype)
        if base is None:
            base = self._bases[dtype] = self._flat(self.nbytes, torch.uint8).view(dtype)
        return base.as_strided(size, stride, offset)

    @property
    def bits(self) -> torch.Tensor:
        """All of it as integers, without a copy."""
        if self._bits is None:
            wide = self.nbytes % 8 == 0
            self._bits = self._flat(self.nbytes, torch.int64 if wide else torch.uint8)
        return self._bits

    def _flat(self, nbytes: int, dtype: torch.dtype) -> torch.Tensor:
        tensor, width = self._tensor, self._tensor.element_size()
        return tensor.as_strided((nbytes // width,), (1,), 0).view(dtype)

    def copied(self) -> Memory:
        """A copy of it."""
        return Memory(self.bits.clone())

    def equals(self, other: Memory) -> bool:
        """Whether all bits are the same."""
        return self.nbytes == other.nbytes and same_memory(self.bits, other.bits)


@dataclass(frozen=True, slots=True, eq=False)
class TapeSite:
    """One output of a call.

    Attributes:
        row: Row of the site in the step's trace.
        output: Which output of the call, from 0.
        index: Position in a list output, or None.
        slot: Where its values are.
        alias: Whether it is a view of memory that there was before.
    """

    row: int
    output: int
    index: int | None
    slot: Slot
    alias: bool


@dataclass(slots=True, eq=False)
class TapeCall:
    """One call.

    Attributes:
        name: ``addmm*3``, for messages.
        func: The operator overload.
        args: Positional arguments with slots in the place of tensors.
        kwargs: Keyword arguments, likewise.
        step: In which step.
        reads: Every tensor among the arguments.
        writes: Storages that it writes, with the version that it makes.
        outputs: Its outputs.
        plain: What it returned where that is no tensor.
        draws: State of the CPU generator before and after, where it draws.
        blind: Whether its outputs do not depend on the values that it reads.
        workspaces: Outputs without values of their own.
        refusal: Why it must not be carried out alone, or ``""``.
        grad: Whether gradients were on; some kernels ask for it.
        nested: Whether an argument is a list or dictionary that holds slots.
    """

    name: str
    func: Any
    args: Any
    kwargs: Any
    step: int
    reads: tuple[Slot, ...]
    writes: dict[int, int]
    outputs: tuple[TapeSite, ...]
    plain: Any
    draws: tuple[torch.Tensor, torch.Tensor] | None
    blind: bool
    workspaces: tuple[int, ...]
    refusal: str
    grad: bool
    nested: bool

    def made(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Make the call; the caller puts the grad mode back."""
        if torch.is_grad_enabled() != self.grad:
            torch._C._set_grad_enabled(self.grad)
        return self.func(*args, **kwargs)

    def filled(self, tensors: dict[int, torch.Tensor]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments, with each slot replaced: by the tensor of its ``id``, else golden."""
        if self.nested:
            return list(filled(self.args, tensors)), filled(self.kwargs, tensors)
        given = [
            tensors.get(id(value), value.golden) if type(value) is Slot else value
            for value in self.args
        ]
        return given, self.kwargs


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """A moment at which a tensor is looked at.

    Attributes:
        slot: Which tensor.
        key: What for, or None for a view, of which only whether it differs is asked.
        step: In which step.
        row: Row of the site, for a view.
    """

    slot: Slot
    key: LookKey | None
    step: int
    row: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Barrier:
    """Memory was written and no call was seen to do it; a fault must not come here."""

    storage: int


@dataclass(eq=False)
class Tape:
    """One or more steps of a golden run.

    Attributes:
        entries: Calls, looks and barriers in order.
        places: Where a call stands in `entries`, by (step, op, counted, number).
        versions: For each storage its bits, version by version.
        readers: Entries that read or write a version of a storage.
        looks: Every tensor that is looked at, in order.
        traces: The calls of each step, without statistics.
        nbytes: How much memory it takes.
        scratch: Clean copies of versions that were struck before.
    """

    entries: list[TapeCall | Look | Barrier] = field(default_factory=list)
    places: dict[tuple[int, str, bool, int], int] = field(default_factory=dict)
    versions: list[list[Memory]] = field(default_factory=list)
    readers: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    looks: dict[LookKey, Slot] = field(default_factory=dict)
    traces: list[Trace] = field(default_factory=list)
    nbytes: int = 0
    scratch: dict[tuple[int, int], Memory] = field(default_factory=dict)

    def add(self, entry: TapeCall | Look | Barrier, reads: Sequence[tuple[int, int]]) -> None:
        """Add an entry that reads some versions."""
        for version in dict.fromkeys(reads):
            self.readers.setdefault(version, []).append(len(self.entries))
        self.entries.append(entry)

    @cached_property
    def last_call(self) -> int:
        """Where the last call stands in `entries`."""
        rows = (row for row, e in enumerate(self.entries) if isinstance(e, TapeCall))
        return max(rows, default=-1)

    @property
    def calls(self) -> Iterator[TapeCall]:
        """The calls in order."""
        return (entry for entry in self.entries if isinstance(entry, TapeCall))


def slots_in(value: Any) -> Iterator[Slot]:
    """Every slot in an argument, lists and dictionaries included."""
    if isinstance(value, Slot):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from slots_in(item)
    elif isinstance(value, dict):
        yield from slots_in(list(value.values()))


def filled(value: Any, tensors: dict[int, torch.Tensor]) -> Any:
    """An argument with each slot replaced: by the tensor of its ``id``, else the golden one."""
    if isinstance(value, Slot):
        return tensors.get(id(value), value.golden)
    if isinstance(value, (list, tuple)):
        return type(value)([filled(item, tensors) for item in value])
    if isinstance(value, dict):
        return {key: filled(item, tensors) for key, item in value.items()}
    return value
