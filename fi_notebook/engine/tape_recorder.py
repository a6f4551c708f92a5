"""Writing a tape: an observer that saves the bits of every storage as they change.

    tape = record_tape(setup, steps=1, budget=2 << 30, optimizer_begins=adopt)

What a call writes is what its schema says, and beyond that whatever changed: before a
call its inputs are compared with the last bits that were seen of them, after it again.

What cannot be on a tape ends the writing, not the step: a backward that an observer leaves by
an exception may leave a model half done, as one that `DistributedDataParallel` wraps.

Limits: an escape of values without a call (``tensor.numpy()``) cannot be seen here; a
campaign therefore replays some of its injections in full and compares.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim import Optimizer

from fi_notebook.core.valueless import MADE_LIKE, WORKSPACES
from fi_notebook.engine.collectives import is_collective
from fi_notebook.engine.intercept import Call, Interceptor, Watch
from fi_notebook.engine.losses import Roots, loss_of
from fi_notebook.engine.outputs import outputs, written
from fi_notebook.engine.replay import Gradients, Setup, observed
from fi_notebook.engine.steps import StepClock
from fi_notebook.engine.storages import StorageMap, is_dense, is_readable, storage_of, tensors_in
from fi_notebook.engine.tape import (
    Barrier,
    Look,
    LookKey,
    Memory,
    Slot,
    Tape,
    TapeCall,
    TapeError,
    TapeSite,
    slots_in,
)
from fi_notebook.engine.tracer import Recorder
from fi_notebook.engine.training_state import TrainingState

__all__ = ["plain_of", "record_tape", "same_plain"]

MOVES_MEMORY = frozenset({"resize_", "resize_as_", "set_"})
"""Operators that give a tensor other memory."""

StepProgress = Callable[[int], Callable[[Call], None]]


class TapeRecorder:
    """Writes the calls of one or more steps on a tape.

    Args:
        budget: Bytes for all versions of all storages.

    Attributes:
        refusal: Why the step cannot be a tape, or None; nothing is written from then on.
    """

    def __init__(self, budget: int) -> None:
        """Start an empty tape."""
        self.tape = Tape()
        self._budget = budget
        self._numbers: StorageMap[int] = StorageMap()
        self._memory: dict[int, int] = {}
        self._places: dict[Any, int] = {}
        self._step = 0
        self._sites = 0
        self._pending: tuple[Any, Any, list[Slot]] = ((), {}, [])
        self._state: torch.Tensor | None = None
        self.roots: Roots[LookKey] = Roots()
        self.watch: Watch | None = None
        self.refusal: TapeError | None = None

    def begin(self, step: int, watch: Watch) -> None:
        """A step begins."""
        self._step, self._sites, self.roots, self.watch = step, 0, Roots(), watch

    def before(self, call: Call) -> None:
        """Note what a call is about to read."""
        with self._writing() as writes:
            if writes:
                self._read(call)

    def after(self, call: Call, result: Any) -> Any:
        """Write the call down."""
        with self._writing() as writes:
            if writes:
                self._write(call, result)
        return result

    def look(self, kind: str, name: str, tensor: torch.Tensor) -> LookKey:
        """Note that a tensor is looked at now."""
        key = LookKey(self._step, kind, name)
        with self._writing() as writes:
            if writes:
                slot = self.slot(tensor)
                self.tape.looks[key] = slot
                self.tape.add(Look(slot, key, self._step), [(slot.storage, slot.version)])
        return key

    def check(self) -> None:
        """Say that the step cannot be a tape.

        Raises:
            TapeError: It cannot; says why.
        """
        if self.refusal is not None:
            raise self.refusal

    @contextmanager
    def _writing(self) -> Iterator[bool]:
        """Whether the step may still be a tape; where it may not, that is kept for `check`."""
        try:
            yield self.refusal is None
        except TapeError as error:
            self.refusal = error

    def _read(self, call: Call) -> None:
        if is_collective(call.op):
            raise TapeError(f"{call.op} moves data between ranks")
        watch = self.watch
        if watch is not None:
            self._note_root(call, watch)
        reads: list[Slot] = []
        args, kwargs = self._slotted(call.args, reads), self._slotted(call.kwargs, reads)
        self._pending = (args, kwargs, reads)
        draws = torch.Tag.nondeterministic_seeded in getattr(call.func, "tags", ())
        self._state = torch.get_rng_state() if draws else None

    def _write(self, call: Call, result: Any) -> None:
        args, kwargs, reads = self._pending
        made = outputs(call.func, call.args, call.kwargs, result)
        known = {slot.storage for slot in reads}
        writes = self._written(call, known)
        sites, aliases = [], []
        for output in made:
            alias = self._number(output.tensor) is not None
            slot = self.slot(output.tensor)
            sites.append(TapeSite(self._sites, output.output, output.index, slot, alias))
            if alias and slot.storage not in writes:
                aliases.append(Look(slot, None, self._step, self._sites))
            self._sites += 1
        entry = TapeCall(
            name=f"{'' if call.counted else 'other/'}{call.op}*{call.number}",
            func=call.func,
            args=args,
            kwargs=kwargs,
            step=self._step,
            reads=tuple(reads),
            writes=writes,
            outputs=tuple(sites),
            plain=plain_of(result),
            draws=None if self._state is None else (self._state, torch.get_rng_state()),
            blind=call.op in MADE_LIKE,
            workspaces=WORKSPACES.get(call.op, ()),
            refusal=_refusal(call),
            grad=torch.is_grad_enabled(),
            nested=any(True for _ in slots_in([v for v in args if type(v) is not Slot]))
            or any(True for _ in slots_in(kwargs)),
        )
        place = (self._step, call.op, call.counted, call.number)
        self.tape.places[place] = len(self.tape.entries)
        is_view = bool(made) and len(aliases) == len(made) and not writes
        passive = entry.blind or (is_view and not entry.refusal)
        self.tape.add(entry, () if passive else [(slot.storage, slot.version) for slot in reads])
        for look in aliases:
            self.tape.add(look, [(look.slot.storage, look.slot.version)])

    def slot(self, tensor: torch.Tensor) -> Slot:
        """The place of a tensor, and its bits as they are now."""
        storage = storage_of(tensor)
        if storage is None or not is_readable(tensor):
            raise TapeError(f"a tensor of layout {tensor.layout} has no plain memory")
        if tensor.is_conj() or tensor.is_neg():
            raise TapeError("a tensor is conjugated or negated lazily")
        number = self._number(tensor)
        if number is None:
            number = self._new(tensor, storage)
        else:
            self._notice(number, storage)
        version = len(self.tape.versions[number]) - 1
        geometry = (tensor.dtype, tensor.size(), tensor.stride(), int(tensor.storage_offset()))
        golden = self.tape.versions[number][version].tensor(*geometry)
        whole = tensor.nbytes == storage.nbytes() and is_dense(tensor)
        place = self._places.setdefault(geometry, len(self._places))
        return Slot(number, version, *geometry, place, golden, whole)

    def _note_root(self, call: Call, watch: Watch) -> None:
        root = Roots.of(call, watch)
        if root is not None:
            key = self.look("root", f"root {len(self.tape.entries)}", root)
            self.roots.add(key, in_closure=watch.clock.in_closure)

    def _number(self, tensor: torch.Tensor) -> int | None:
        return self._numbers.get(tensor)

    def _new(self, tensor: torch.Tensor, storage: torch.UntypedStorage) -> int:
        number = len(self.tape.versions)
        self._numbers.set(tensor, number)
        if storage.nbytes():
            other = self._memory.get(storage.data_ptr())
            if other is not None and self._is_live(other):
                raise TapeError("two storages share their memory")
            self._memory[storage.data_ptr()] = storage._cdata
        self.tape.versions.append([])
        self._save(number, storage)
        return number

    def _is_live(self, address: int) -> bool:
        entry = self._numbers._entries.get(address)
        return entry is not None and not entry[0].expired()

    def _save(self, number: int, storage: torch.UntypedStorage) -> None:
        self.tape.nbytes += storage.nbytes()
        if self.tape.nbytes > self._budget:
            raise TapeError(f"its tensors take more than the budget of {self._budget:,} bytes")
        self.tape.versions[number].append(Memory(_bytes_of(storage).clone()))

    def _notice(self, number: int, storage: torch.UntypedStorage) -> None:
        """Where memory changed and no call was seen to write it, put a barrier."""
        if self._changed(number, storage):
            before = len(self.tape.versions[number]) - 1
            self.tape.add(Barrier(number), [(number, before)])
            self._save(number, storage)

    def _changed(self, number: int, storage: torch.UntypedStorage) -> bool:
        saved = self.tape.versions[number][-1]
        return not saved.equals(Memory(_bytes_of(storage)))

    def _written(self, call: Call, known: set[int]) -> dict[int, int]:
        """New versions of the storages that a call wrote."""
        named = {self._number(t) for t in tensors_in(written(call.func, call.args, call.kwargs))}
        writes = {}
        for tensor in tensors_in((*call.args, *call.kwargs.values())):
            number, storage = self._number(tensor), storage_of(tensor)
            if number is None or storage is None or number not in known or number in writes:
                continue
            if number in named or self._changed(number, storage):
                self._save(number, storage)
                writes[number] = len(self.tape.versions[number]) - 1
        return writes

    def _slotted(self, value: Any, reads: list[Slot]) -> Any:
        """An argument with slots in the place of tensors."""
        if isinstance(value, torch.Tensor):
            slot = self.slot(value)
            reads.append(slot)
            return slot
        if type(value) in (list, tuple):
            return type(value)([self._slotted(item, reads) for item in value])
        if isinstance(value, dict):
            return {key: self._slotted(item, reads) for key, item in value.items()}
        return value


def _bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    """All bits of a storage as integers, without a copy."""
    wide = storage.nbytes() % 8 == 0
    dtype, width = (torch.int64, 8) if wide else (torch.uint8, 1)
    whole = torch.empty(0, dtype=dtype, device=storage.device)
    return whole.set_(storage, 0, (storage.nbytes() // width,), (1,))


def _refusal(call: Call) -> str:
    if getattr(call.func, "_schema", None) is None:
        return "it is a higher-order operator"
    if call.op in MOVES_MEMORY:
        return "it gives a tensor other memory"
    if call.kwargs.get("generator") is not None:
        return "it draws from a generator of the step's own"
    return ""


def plain_of(result: Any) -> Any:
    """What a call returned that is no tensor: numbers by their bits."""
    if isinstance(result, torch.Tensor):
        return None
    if isinstance(result, (list, tuple)):
        return tuple(plain_of(item) for item in result)
    return result


def same_plain(a: Any, b: Any) -> bool:
    """Whether two plain results are the same, bit for bit."""
    if isinstance(a, float) and isinstance(b, float):
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, complex) and isinstance(b, complex):
        return same_plain(a.real, b.real) and same_plain(a.imag, b.imag)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same_plain, a, b))
    if type(a) is not type(b):
        return False
    return not isinstance(a, (int, str, bytes)) or bool(a == b)  # handles have no value


def record_tape(
    setup: Setup,
    *,
    steps: int,
    budget: int,
    optimizer_begins: Callable[[Optimizer], None],
    progress: StepProgress | None = None,
) -> Tape:
    """Run some steps and write them on a tape; the caller restores.

    Args:
        setup: What is run.
        steps: How many steps.
        budget: Bytes for the tape.
        optimizer_begins: Called before each step of an optimizer.
        progress: Given the number of a step, what is called before each of its calls.

    Raises:
        TapeError: The steps cannot be a tape; says why.
        Exception: Whatever the step raised.
    """
    recorder = TapeRecorder(budget)
    for number in range(steps):
        told = None if progress is None else progress(number)
        _record_step(setup, number, recorder, optimizer_begins, told)
    return recorder.tape


def _record_step(
    setup: Setup,
    number: int,
    recorder: TapeRecorder,
    optimizer_begins: Callable[[Optimizer], None],
    progress: Callable[[Call], None] | None,
) -> None:
    clock = StepClock(setup.model, start_step=number, one_step=True)
    clock.optimizers += setup.optimizers
    watch = Watch(setup.model, clock, setup.sources)
    recorder.begin(number, watch)
    gradients = Gradients(
        setup.model, lambda name, gradient: _ignore(recorder.look("gradients", name, gradient))
    )
    watch.optimizer_begins.append(optimizer_begins)
    watch.update_begins.append(gradients.take_of)
    calls = Recorder(watch, statistics=False, progress=progress)
    returned = observed(setup, number, Interceptor(watch, [recorder, calls]))
    recorder.check()
    calls.finish()
    recorder.tape.traces.append(calls.trace({"step": number}))
    gradients.take_rest(made=watch.had_backward)
    _look_at_results(recorder, returned)
    state = TrainingState.live(setup.model, clock.optimizers)
    for kind in ("parameters", "buffers", "optimizer_state"):
        for name, tensor in getattr(state, kind).items():
            recorder.look(kind, name, tensor.detach())
    recorder.check()


def _ignore(_key: LookKey) -> None:
    """A look at a gradient needs no key afterwards."""


def _look_at_results(recorder: TapeRecorder, returned: Any) -> None:
    """The loss that was returned, else what backward was called of, else the results."""
    tape, loss = recorder.tape, loss_of(returned)
    roots = [] if loss is not None else recorder.roots.items
    if loss is not None:
        recorder.look("loss", "loss", loss)
    elif not roots:
        for place, tensor in enumerate(tensors_in((returned,))):
            recorder.look("result", f"result {place}", tensor.detach())
    for place, root in enumerate(roots):
        key = LookKey(root.step, "loss", f"loss {place}")
        tape.looks[key] = tape.looks[root]
        _renamed(tape, root, key)
    for key in [key for key in tape.looks if key.kind == "root"]:
        del tape.looks[key]


def _renamed(tape: Tape, old: LookKey, new: LookKey) -> None:
    for row, entry in enumerate(tape.entries):
        if isinstance(entry, Look) and entry.key == old:
            tape.entries[row] = Look(entry.slot, new, entry.step)
