"""Putting everything back as it was: the same objects first, then their bits.

    snapshot = Snapshot.take([model, optimizer, scheduler])
    …                                   # a step, an exception, a Ctrl-C
    snapshot.restore()

What is put back: the tensors that the given objects hold (parameters, buffers, plain
attributes, gradients, optimizer state; same objects, storages, version counters), the
containers and attributes that hold them (same dictionaries and lists; what was added
is removed), and the random number generators of Python, numpy and torch.

Nothing goes through ``load_state_dict``, which casts and replaces. SIGINT waits until
a restore is whole.

Limits: state that no given object holds (a data iterator, a closure's variables) is
not seen; a step that depends on it is not repeatable, which a session finds out.
"""

from __future__ import annotations

import copy
import random
import signal
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torch.utils._python_dispatch import _disable_current_modes

from fi_notebook.engine.storages import storage_of

__all__ = ["Generators", "Snapshot", "uninterrupted"]


_GENERATORS = (torch.Generator, np.random.Generator, random.Random)


@dataclass(frozen=True)
class _TensorState:
    """One tensor object: what it points to, and what autograd knows of it."""

    tensor: torch.Tensor
    alias: torch.Tensor  # shares the storage that the tensor had
    version: int
    requires_grad: bool
    grad: torch.Tensor | None

    def restore(self) -> None:
        tensor = self.tensor
        if not _same_memory(tensor, self.alias):
            tensor.data = self.alias
        if tensor.is_leaf and tensor.requires_grad != self.requires_grad:
            tensor.requires_grad_(self.requires_grad)
        if tensor.is_leaf and tensor.grad is not self.grad:
            tensor.grad = self.grad

    def restore_version(self) -> None:
        if self.tensor._version != self.version:
            torch._C._autograd._unsafe_set_version_counter((self.tensor,), (self.version,))


@dataclass(frozen=True)
class _Container:
    """A dictionary, list, set or deque, and what it held."""

    container: Any
    content: Any

    def restore(self) -> None:
        target = self.container
        if isinstance(target, dict):
            if not _same_items(target, self.content):
                target.clear()
                target.update(self.content)
        elif isinstance(target, list):
            if len(target) != len(self.content) or any(
                a is not b for a, b in zip(target, self.content, strict=True)
            ):
                target[:] = self.content
        else:
            target.clear()
            for item in self.content:
                target.add(item) if isinstance(target, set) else target.append(item)


class Snapshot:
    """What some objects held at one moment.

    Made by `take`; `restore` may be called any number of times.
    """

    def __init__(self) -> None:
        """Start empty; see `take`."""
        self._seen: dict[int, Any] = {}
        self._tensors: list[_TensorState] = []
        self._containers: list[_Container] = []
        self._bytes: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._calls: list[Callable[[], object]] = []
        self._generators: Generators | None = None

    @classmethod
    def take(cls, objects: Iterable[Any]) -> Snapshot:
        """Record what the objects hold, and all random number generators.

        Args:
            objects: Modules, optimizers, schedulers, scalers, generators: anything
                with attributes, or with ``state_dict`` and ``load_state_dict``.
        """
        snapshot = cls()
        for thing in objects:
            snapshot.add(thing)
        snapshot._generators = Generators.take()
        return snapshot

    def add(self, thing: Any) -> None:
        """Record one more object as it is now."""
        with torch.no_grad(), _disable_current_modes():
            known = len(self._tensors)
            self._object(thing)
            for state in self._tensors[known:]:
                if state.grad is not None:
                    self._tensor(state.grad)

    def restore(self) -> None:
        """Put everything back; a Ctrl-C meanwhile is raised when it is done."""
        with uninterrupted(), torch.no_grad(), _disable_current_modes():
            for container in self._containers:
                container.restore()
            for state in self._tensors:
                state.restore()
            for alias, saved in self._bytes.values():
                _write(alias, saved)
            for state in self._tensors:
                state.restore_version()
            for call in self._calls:
                call()
            if self._generators is not None:
                self._generators.restore()

    @property
    def nbytes(self) -> int:
        """How much memory the saved bits take."""
        return sum(saved.numel() * saved.element_size() for _, saved in self._bytes.values())

    def _object(self, thing: Any) -> None:
        """Record a root: its attributes, or its state where it has none."""
        if id(thing) in self._seen:
            return
        if isinstance(thing, torch.Generator):
            state = thing.get_state()
            self._calls.append(partial(thing.set_state, state))
        elif isinstance(thing, np.random.Generator):
            bits = copy.deepcopy(thing.bit_generator.state)
            self._calls.append(lambda: setattr(thing.bit_generator, "state", bits))
        elif isinstance(thing, random.Random):
            python_state = thing.getstate()
            self._calls.append(lambda: thing.setstate(python_state))
        elif isinstance(thing, (torch.Tensor, dict, list, set, deque)):
            self._value(thing)
        elif hasattr(thing, "__dict__"):
            self._seen[id(thing)] = thing
            if isinstance(thing, nn.Module):  # a lazy one becomes another class
                self._calls.append(partial(setattr, thing, "__class__", type(thing)))
            self._value(thing.__dict__)
        elif hasattr(thing, "state_dict"):
            saved = copy.deepcopy(thing.state_dict())
            self._calls.append(lambda: thing.load_state_dict(copy.deepcopy(saved)))

    def _value(self, value: Any) -> None:
        """Record what a container or attribute holds."""
        if isinstance(value, torch.Tensor):
            self._tensor(value)
        elif isinstance(value, (nn.Module, Optimizer, *_GENERATORS)):
            self._object(value)
        elif isinstance(value, tuple):
            for item in value:
                self._value(item)
        elif type(value) in (dict, OrderedDict, defaultdict, list, set, deque):
            self._container(value)

    def _container(self, value: Any) -> None:
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        content = dict(value) if isinstance(value, dict) else list(value)
        self._containers.append(_Container(value, content))
        items = content.values() if isinstance(content, dict) else content
        for item in items:
            self._value(item)
        if isinstance(value, defaultdict):  # optimizer state: its keys are parameters
            for key in content:
                self._value(key)

    def _tensor(self, tensor: torch.Tensor) -> None:
        if id(tensor) in self._seen:
            return
        self._seen[id(tensor)] = tensor
        if is_lazy(tensor):
            self._calls.append(partial(_unmaterialise, tensor, type(tensor)))
            return
        local = getattr(tensor, "_local_tensor", None)
        if isinstance(local, torch.Tensor):  # DTensor: the shard is what is written
            self._tensor(local)
            return
        storage = storage_of(tensor)
        if storage is None:
            self._opaque(tensor)
            return
        alias = tensor.detach()
        grad = tensor.grad if tensor.is_leaf else None
        self._tensors.append(
            _TensorState(tensor, alias, tensor._version, tensor.requires_grad, grad)
        )
        if storage._cdata not in self._bytes and storage.nbytes():
            whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
            self._bytes[storage._cdata] = (whole, whole.clone())

    def _opaque(self, tensor: torch.Tensor) -> None:
        saved = tensor.detach().clone()
        self._calls.append(partial(tensor.detach().copy_, saved))


def _unmaterialise(tensor: torch.Tensor, kind: type) -> None:
    """Make a lazy parameter what it was before its shape was known."""
    if not is_lazy(tensor):
        tensor.data = torch.empty(0, device=tensor.device, dtype=tensor.dtype)
        tensor.grad = None
        tensor.__class__ = kind


def _same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device:
        return False
    mine, theirs = storage_of(a), storage_of(b)
    return (
        mine is not None
        and theirs is not None
        and mine._cdata == theirs._cdata
        and a.storage_offset() == b.storage_offset()
        and a.stride() == b.stride()
    )


def _same_items(mine: dict[Any, Any], saved: dict[Any, Any]) -> bool:
    return (
        len(mine) == len(saved)
        and all(a is b for a, b in zip(mine, saved, strict=True))
        and all(mine[key] is saved[key] for key in saved)
    )


def _write(whole: torch.Tensor, saved: torch.Tensor) -> None:
    storage = whole.untyped_storage()
    if storage.nbytes() != saved.numel():
        storage.resize_(saved.numel())
    whole.copy_(saved)


@dataclass(frozen=True)
class Generators:
    """The states of the random number generators that a step may draw from."""

    python: Any
    numpy: Any
    torch_cpu: torch.Tensor
    cuda: tuple[torch.Tensor, ...]

    @classmethod
    def take(cls) -> Generators:
        """Read the states; draws nothing."""
        cuda = tuple(torch.cuda.get_rng_state_all()) if torch.cuda.is_initialized() else ()
        return cls(random.getstate(), np.random.get_state(), torch.get_rng_state(), cuda)

    def restore(self) -> None:
        """Write the states back."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        torch.set_rng_state(self.torch_cpu)
        if self.cuda:
            torch.cuda.set_rng_state_all(list(self.cuda))


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let a SIGINT wait until the block is done, then deliver it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[tuple[int, FrameType | None]] = []
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, lambda number, frame: waiting.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if waiting and callable(before):
            before(*waiting[-1])
