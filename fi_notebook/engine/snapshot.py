"""Putting everything back as it was: the same objects first, then their bits.

    snapshot = Snapshot.take([model, optimizer, scheduler])
    …                                   # a step, an exception, a Ctrl-C
    snapshot.restore()

What is put back: the tensors that the given objects hold (parameters, buffers, plain
attributes, gradients, optimizer state; same objects, storages, version counters), numpy
arrays, the containers and attributes that hold them (same dictionaries and lists; what
was added is removed), plain objects among them and all that these hold, generators, and
the global random number generators of Python, numpy and torch.

Nothing goes through ``load_state_dict``, which casts and replaces. SIGINT waits until
a restore is whole.

Limits: state that no given object holds (a data iterator, a closure's variables) is
not seen; a step that depends on it is not repeatable, which a session finds out. What
counts as a plain object is in `engine.plain`, what becomes of graphs in `engine.held`.
"""

from __future__ import annotations

import copy
import types
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torch.utils._python_dispatch import _disable_current_modes

from fi_notebook.engine.bits import equal_bits
from fi_notebook.engine.generators import GENERATORS, Generators, saved_generator
from fi_notebook.engine.held import HeldContainer, HeldObject, HeldTensor, parts_of
from fi_notebook.engine.interrupts import Interrupts
from fi_notebook.engine.plain import CONTAINERS, attributes_of, is_plain
from fi_notebook.engine.storages import local_part
from fi_notebook.errors import SessionError

__all__ = ["Generators", "Snapshot"]

_FIXED = frozenset(
    {int, float, complex, bool, str, bytes, type(None), type, range, slice, weakref.ref}
    | {types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType}
    | {torch.dtype, torch.device, torch.Size}
)
"""Types of what cannot change, or is not looked into; most of what is met."""


class Snapshot:
    """What some objects held at one moment.

    Made by `take`; `restore` may be called any number of times.

    Attributes:
        nbytes: How much memory the saved bits take, beside those shared with an earlier one.
    """

    def __init__(self, like: Snapshot | None = None) -> None:
        """Start empty; see `take`."""
        self.nbytes = 0
        self._like = {} if like is None else like._bytes
        self._seen: dict[int, Any] = {}
        self._tensors: list[HeldTensor] = []
        self._containers: list[HeldContainer] = []
        self._objects: list[HeldObject] = []
        self._bytes: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._calls: list[Callable[[], object]] = []
        self._generators: Generators | None = None

    @classmethod
    def take(cls, objects: Iterable[Any], like: Snapshot | None = None) -> Snapshot:
        """Record what the objects hold, and all random number generators.

        Args:
            objects: Modules, optimizers, schedulers, scalers, generators: anything
                with attributes, or with ``state_dict`` and ``load_state_dict``.
            like: An earlier snapshot; memory that has the same bits now as then is saved
                once for both.
        """
        snapshot = cls(like)
        for thing in objects:
            snapshot.add(thing)
        snapshot._generators = Generators.take()
        return snapshot

    def add(self, thing: Any) -> None:
        """Record one more object as it is now."""
        with torch.no_grad(), _disable_current_modes():
            todo = [] if id(thing) in self._seen else list(self._given(thing))
            while todo:
                each = todo.pop()
                if type(each) not in _FIXED and id(each) not in self._seen:
                    self._seen[id(each)] = each
                    todo += self._record(each)

    def restore(self) -> None:
        """Put everything back; a Ctrl-C meanwhile is raised when it is done.

        Raises:
            SessionError: A tensor, or an object that puts itself back, could not become what
                it was; all the rest is put back.
        """
        with Interrupts(), torch.no_grad(), _disable_current_modes():
            for thing in self._objects:
                thing.restore()
            for container in self._containers:
                container.restore()
            for tensor in self._tensors:
                tensor.restore_memory()
            for alias, saved in self._bytes.values():
                _write(alias, saved)
            for tensor in self._tensors:  # before the nodes: a view's is made anew by version
                tensor.restore_version()
            failed = [tensor.tensor for tensor in self._tensors if not _restored(tensor)]
            for tensor in self._tensors:
                tensor.restore_version()
            broken = [error for error in map(_error_of, self._calls) if error is not None]
            if self._generators is not None:
                self._generators.restore()
        if failed:
            raise self._damaged(failed[0])
        if broken:
            raise SessionError(
                f"what was given as state could not be put back: {broken[0]!r}; everything "
                "else is as it was"
            ) from broken[0]

    def holds(self, thing: object) -> bool:
        """Whether this very object is among what is put back."""
        return id(thing) in self._seen

    def _given(self, thing: Any) -> Iterable[Any]:
        """Record an object that was given: its attributes, or its state where it has none."""
        self._seen[id(thing)] = thing
        found = self._record(thing)
        if found or isinstance(thing, (*GENERATORS, *CONTAINERS, torch.Tensor, np.ndarray)):
            return found
        if attributes_of(thing) is None and hasattr(thing, "load_state_dict"):
            saved = copy.deepcopy(thing.state_dict())
            self._calls.append(lambda: thing.load_state_dict(copy.deepcopy(saved)))
            return ()
        return self._object(thing)

    def _record(self, thing: Any) -> Iterable[Any]:
        """Record one thing; gives what it holds, which is to be recorded too."""
        if isinstance(thing, torch.Tensor):
            return self._tensor(thing)
        if isinstance(thing, tuple):
            return thing
        if isinstance(thing, CONTAINERS):
            held = HeldContainer.take(thing)
            self._containers.append(held)
            return held if type(thing) in CONTAINERS else (*held, *self._object(thing))
        if isinstance(thing, GENERATORS):
            self._calls.append(saved_generator(thing))
        elif isinstance(thing, np.ndarray):
            self._array(thing)
        elif isinstance(thing, (nn.Module, Optimizer)) or is_plain(thing):
            return self._object(thing)
        return ()

    def _object(self, thing: Any) -> Iterable[Any]:
        held = HeldObject.take(thing)
        self._objects.append(held)
        return (held.attributes, *held.slots.values())

    def _array(self, array: np.ndarray) -> None:
        if array.flags.writeable and not isinstance(array, np.memmap):
            self._calls.append(partial(np.copyto, array, array.copy()))

    def _tensor(self, tensor: torch.Tensor) -> Iterable[Any]:
        if is_lazy(tensor):
            self._calls.append(partial(_unmaterialise, tensor, type(tensor)))
            return ()
        parts = parts_of(tensor)
        if not parts:
            self._opaque(tensor)
            return (vars(tensor),)
        held = HeldTensor.take(tensor)
        self._tensors.append(held)
        for part in parts:
            self._bits(part)
        local = local_part(tensor)  # of a distributed tensor: what is written
        return (held.grad, vars(tensor), *held.hooks, local)

    def _bits(self, part: torch.Tensor) -> None:
        storage = part.untyped_storage()
        there = storage.nbytes() and not part.is_meta
        if storage._cdata not in self._bytes and there:
            whole = torch.empty(0, dtype=torch.uint8, device=part.device).set_(storage)
            _, saved = self._like.get(storage._cdata, (None, None))
            if saved is None or not equal_bits(saved, whole):
                saved = whole.clone()
                self.nbytes += saved.numel()
            self._bytes[storage._cdata] = (whole, saved)

    def _opaque(self, tensor: torch.Tensor) -> None:
        if torch._is_zerotensor(tensor):  # nobody can write into it
            return
        saved = tensor.detach().clone()
        self._calls.append(partial(tensor.detach().copy_, saved))

    def _damaged(self, tensor: torch.Tensor) -> SessionError:
        pairs = (
            (key, value)
            for held in self._containers
            if isinstance(held.content, dict)
            for key, value in held.content.items()
        )
        name = next((repr(key) for key, value in pairs if value is tensor), "held by the state")
        return SessionError(
            f"the step changed in place what autograd knows of the tensor {name}, of shape "
            f"{tuple(tensor.shape)}, and it cannot be put back; everything else is as it was. "
            "Write `self.name = self.name.detach()` in the step, not `detach_()` or an in-place "
            "call on a view"
        )


def _error_of(call: Callable[[], object]) -> Exception | None:
    """What a call raises; a person's own ``load_state_dict`` may be among them."""
    try:
        call()
    except Exception as error:  # noqa: BLE001  # the rest is to be put back first
        return error
    return None


def _restored(held: HeldTensor) -> bool:
    try:
        held.restore_autograd()
    except RuntimeError:
        return False
    return True


def _unmaterialise(tensor: torch.Tensor, kind: type) -> None:
    """Make a lazy parameter what it was before its shape was known."""
    if not is_lazy(tensor):
        tensor.data = torch.empty(0, device=tensor.device, dtype=tensor.dtype)
        tensor.grad = None
        tensor.__class__ = kind


def _write(whole: torch.Tensor, saved: torch.Tensor) -> None:
    storage = whole.untyped_storage()
    if storage.nbytes() != saved.numel():
        storage.resize_(saved.numel())
    whole.copy_(saved)
