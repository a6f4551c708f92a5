"""A faulty run as a slice of the tape: only what the fault reaches is carried out again.

    found = run_slice(tape, fault, site, step)
    found.rows              sites whose bits differ from the golden run
    found.looks             loss, gradients, parameters … where they differ

The strike makes one storage *tainted*. Every call that reads tainted memory is carried
out on its faulty inputs, in order, and what it gives is compared with the golden bits:
memory that is equal again is tainted no more. Where nothing tainted is left that a later
call or look reads, nothing can change any more, and the slice ends there.

Limits: a slice follows the calls of the golden run. Where the faulty run would make
other calls (a number read back differs, another shape, other random numbers, an error),
it raises `Astray`, and the step has to be run itself.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from fi_notebook import faults
from fi_notebook.core.fault import Fault
from fi_notebook.core.injection import NO_ELEMENT, Injection
from fi_notebook.core.site import Site
from fi_notebook.core.stats import TensorStats
from fi_notebook.engine.outputs import outputs
from fi_notebook.engine.tape import (
    Look,
    LookKey,
    Memory,
    Slot,
    Tape,
    TapeCall,
    TapeSite,
)
from fi_notebook.engine.tape_recorder import plain_of, same_plain
from fi_notebook.engine.world import process_rank
from fi_notebook.errors import FaultError

__all__ = ["Astray", "Sliced", "run_slice", "slices"]


SCRATCH = 1 << 24
"""Bytes up to which the copy of a struck tensor is kept for the next fault there."""

SCRATCHES = 16
"""How many of them."""


class Astray(Exception):  # noqa: N818  # it is no error of anybody
    """The faulty run would make other calls than the golden one; says where."""


@dataclass(eq=False)
class Sliced:
    """What a slice found.

    Attributes:
        injection: The strike.
        before: The struck values before, of one dimension.
        after: The same after.
        undo: Undoes it, where that is cheap.
        rows: Rows of the sites that differ, for each step.
        masked: Rows of the sites that came out equal though an input differed.
        infinite: Of `rows`, those of single values that became infinite.
        looks: Faulty values of what was looked at, where they differ.
        calls: How many calls were carried out.
        last: Entry after which nothing could change any more, counted from 0.
    """

    injection: Injection
    before: torch.Tensor
    after: torch.Tensor
    undo: Callable[[], object] | None = None
    rows: dict[int, list[int]] = field(default_factory=dict)
    masked: dict[int, list[int]] = field(default_factory=dict)
    infinite: dict[int, list[int]] = field(default_factory=dict)
    looks: dict[LookKey, torch.Tensor] = field(default_factory=dict)
    calls: int = 0
    last: int = 0


def slices(fault: Fault) -> bool:
    """Whether a fault is of the kind that a slice can carry out: one site, one value model."""
    target = fault.target
    return (
        fault.enabled
        and target.kind == "call"
        and target.call is not None
        and target.output is not None
        and fault.probability >= 1
        and fault.scope in ("value", "storage")
        and not (fault.code or fault.phases)
        and fault.modules is None
        and fault.micro_batches is None
        and fault.ranks is None
        and not faults.get(fault.model).needs
    )


def run_slice(tape: Tape, fault: Fault, site: Site, step: int) -> Sliced:
    """Strike one site of the tape and follow what it reaches.

    Args:
        tape: The golden run.
        fault: A fault that `slices`.
        site: The site that it chooses.
        step: In which step it strikes.

    Raises:
        Astray: The faulty run leaves the golden run's calls, the fault cannot strike this
            tensor, or it is of a kind that only the step itself can show.
    """
    return _Slice(tape).run(fault, site, step)


class _Slice:
    """The state of one slice while it runs."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.tainted: dict[int, Memory] = {}
        self.waiting: list[int] = []
        self.row = -1
        self.generator: torch.Tensor | None = None
        self.struck: tuple[tuple[int, int], Memory] | None = None
        self.written: set[int] = set()

    def run(self, fault: Fault, site: Site, step: int) -> Sliced:
        place = (step, site.op, site.counted, site.call)
        if place not in self.tape.places:
            raise Astray(f"the tape has no {site} in step {step}")
        self.row = self.tape.places[place]
        call = self.tape.entries[self.row]
        assert isinstance(call, TapeCall)  # places name calls only
        with torch.no_grad():
            found = self.strike(call, fault, site, step)
            try:
                self.follow(found)
            finally:
                if self.generator is not None:
                    torch.set_rng_state(self.generator)
        found.last = self.row
        self.give_back(found)
        return found

    def scratch(self, slot: Slot) -> Memory:
        """A copy of golden memory to strike; the last one of its place, if it is clean."""
        key = (slot.storage, slot.version)
        memory = self.tape.scratch.pop(key, None)
        if memory is None:
            memory = self.tape.versions[slot.storage][slot.version].copied()
        self.struck = (key, memory)
        return memory

    def give_back(self, found: Sliced) -> None:
        """Take the fault out of the struck copy again, and keep it, where nobody else wrote it."""
        assert self.struck is not None  # it was struck: `strike` came first
        key, memory = self.struck
        if key[0] in self.written or memory.nbytes > SCRATCH:
            return
        if found.undo is None:
            return
        found.undo()
        while len(self.tape.scratch) >= SCRATCHES:
            self.tape.scratch.popitem()
        self.tape.scratch[key] = memory

    def strike(self, call: TapeCall, fault: Fault, site: Site, step: int) -> Sliced:
        output = next(
            (o for o in call.outputs if (o.output, o.index) == (site.output, site.index)), None
        )
        if output is None:
            raise Astray(f"{call.name} has no output of {site}")
        slot = output.slot
        if output.alias and slot.storage not in call.writes and fault.scope == "value":
            raise Astray(f"{site} is a view, and only its own readers shall see the fault")
        memory = self.scratch(slot)
        before, after, changed, undo = _struck(fault, site, step, memory.at(slot))
        note = "" if len(after) else NO_ELEMENT
        found = Sliced(_injection(fault, site, step, changed, note), before, after, undo)
        if changed:
            self.taint(slot.storage, slot.version, memory)
            self.differs(found, call, output, memory.at(slot))
        return found

    def follow(self, found: Sliced) -> None:
        while self.waiting:
            row = heapq.heappop(self.waiting)
            if row == self.row:
                continue
            self.row = row
            entry = self.tape.entries[row]
            if isinstance(entry, TapeCall):
                self.carry_out(entry, found)
                found.calls += 1
            elif isinstance(entry, Look):
                self.look(entry, found)
            else:
                raise Astray("the fault reached memory that is written without a call")

    def taint(self, number: int, version: int, memory: Memory) -> None:
        self.tainted[number] = memory
        for row in self.tape.readers.get((number, version), ()):
            if row > self.row:
                heapq.heappush(self.waiting, row)

    def carry_out(self, call: TapeCall, found: Sliced) -> None:
        """Make one call on its faulty inputs, and see what of it differs."""
        if call.refusal:
            raise Astray(f"{call.name} must not be carried out alone: {call.refusal}")
        tainted = self.tainted
        if call.writes:
            self.written.update(call.writes)
            for number, after in call.writes.items():
                if number not in tainted:
                    tainted[number] = self.tape.versions[number][after - 1].copied()
        tensors = {
            id(slot): tainted[slot.storage].at(slot)
            for slot in call.reads
            if slot.storage in tainted
        }
        args, kwargs = call.filled(tensors)
        result = self.call(call, args, kwargs)
        if type(result) is torch.Tensor:
            made = [result]
        elif type(result) is tuple and call.plain == (None,) * len(call.outputs):
            made = list(result)
        else:
            made = [output.tensor for output in outputs(call.func, args, kwargs, result)]
            if len(made) != len(call.outputs) or not same_plain(call.plain, plain_of(result)):
                raise Astray(f"{call.name} gave another number than in the golden run")
        for number, after in call.writes.items():
            self.settle(number, after)
        for output, tensor in zip(call.outputs, made, strict=True):
            if not output.alias:
                self.receive(call, output, tensor, found)
            elif output.slot.storage in call.writes:
                memory = tainted.get(output.slot.storage)
                if memory is None or not _differs(output.slot, memory):
                    found.masked.setdefault(call.step, []).append(output.row)
                else:
                    self.differs(found, call, output, tensor)

    def call(self, call: TapeCall, args: Any, kwargs: Any) -> Any:
        if call.draws is not None:
            if self.generator is None:
                self.generator = torch.get_rng_state()
            torch.set_rng_state(call.draws[0])
        try:
            result = call.made(args, kwargs)
        except Exception as error:
            raise Astray(f"{call.name} raised {error!r}") from error
        if call.draws is not None and not torch.equal(torch.get_rng_state(), call.draws[1]):
            raise Astray(f"{call.name} drew another number of random numbers")
        return result

    def settle(self, number: int, version: int) -> None:
        """Memory was written: it is tainted still, or equal again."""
        memory, golden = self.tainted[number], self.tape.versions[number][version]
        if memory.equals(golden):
            del self.tainted[number]
        else:
            self.taint(number, version, memory)

    def receive(
        self, call: TapeCall, output: TapeSite, tensor: torch.Tensor, found: Sliced
    ) -> None:
        """A call gave a new tensor: it is tainted, or equal."""
        slot = output.slot
        if not slot.fits(tensor):
            raise Astray(f"{call.name} gave another shape than in the golden run")
        if not tensor.nbytes:
            return
        workspace = output.output in call.workspaces
        if not workspace and slot.equals(tensor):
            found.masked.setdefault(call.step, []).append(output.row)
            return
        self.taint(slot.storage, slot.version, Memory(tensor, slot.place))
        if not workspace:
            self.differs(found, call, output, tensor)

    def differs(
        self, found: Sliced, call: TapeCall, output: TapeSite, tensor: torch.Tensor
    ) -> None:
        found.rows.setdefault(call.step, []).append(output.row)
        if tensor.numel() != 1 or "norm" not in call.name:
            return
        if bool(tensor.isinf()) and not bool(output.slot.golden.isinf()):
            found.infinite.setdefault(call.step, []).append(output.row)

    def look(self, look: Look, found: Sliced) -> None:
        """Keep what is looked at, where it differs."""
        memory = self.tainted[look.slot.storage]
        if not _differs(look.slot, memory):
            return
        if look.key is None:
            found.rows.setdefault(look.step, []).append(look.row)
        elif look.key in self.tape.looks:
            seen, last = memory.at(look.slot), len(self.tape.versions[look.slot.storage]) - 1
            stays = look.slot.version == last and not (self.struck and self.struck[1] is memory)
            found.looks[look.key] = seen if stays else seen.clone()


def _differs(slot: Slot, memory: Memory) -> bool:
    """Whether a place of tainted memory differs; the whole of it does."""
    return slot.whole or not slot.equals(memory.at(slot))


def _struck(
    fault: Fault, site: Site, step: int, tensor: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, int, Callable[[], object] | None]:
    """Strike a tensor as `Striker` does: before, after, how many changed, and what undoes it.

    Raises:
        Astray: The fault cannot strike it.
    """
    bit, index = _one_flip(fault)
    flip = faults.flip_one(tensor, bit, index) if type(bit) is type(index) is int else None
    if flip is not None:
        return flip.before, flip.after, 1, flip.undo  # a flipped bit is never the same
    identity = faults.firing(fault, site, step, rank=process_rank())
    generator = faults.generator(fault.seed, *identity, device=tensor.device)
    try:
        corruption = faults.corrupt(
            tensor, fault.model, fault.parameters, fault.elements, generator
        )
        corruption.write_into(tensor)
    except FaultError as error:
        raise Astray(str(error)) from error
    return corruption.before, corruption.after, corruption.changed, None


def _one_flip(fault: Fault) -> tuple[Any, Any]:
    """The bit and the flat index that a fault flips alone; of all other faults something else."""
    if fault.model != "bitflip" or set(fault.parameters) != {"bit"}:
        return None, None
    index = fault.elements.get("index") if isinstance(fault.elements, Mapping) else None
    return fault.parameters["bit"], index


@cache
def _unknown(dtype: str, shape: tuple[int, ...]) -> TensorStats:
    nan = float("nan")
    return TensorStats(dtype, shape, nan, nan, nan, nan, nan, -1, -1, -1, -1)


def _injection(fault: Fault, site: Site, step: int, changed: int, note: str) -> Injection:
    """The record of the strike, without statistics: nobody waits for them."""
    unknown = _unknown(site.dtype, site.shape)
    rank = process_rank()
    return Injection(fault.id, site, step, unknown, unknown, changed, (), note=note, rank=rank)
