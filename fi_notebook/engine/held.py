"""What one tensor, container or object held at a moment, each with how it is put back.

    held = HeldTensor.take(parameter)
    …
    held.restore_memory()     # the storage, strides and dtype that it had
    held.restore_version()
    held.restore_autograd()   # leaf or not, gradient, hooks

The bits themselves are the business of `engine.snapshot`, which has them once per storage.

Limits: a tensor that a graph made and that was detached in place, or written into, gets
a node of ours in front of the one that it had; gradients pass it unchanged. A *view* in
that state is refused. A graph whose buffers a backward freed stays freed.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch

from fi_notebook.engine.plain import CONTAINERS, attributes_of, slots_of
from fi_notebook.engine.storages import is_wrapper, parts_in, storage_of
from fi_notebook.faults import has_memory

__all__ = ["HeldContainer", "HeldObject", "HeldTensor", "parts_of"]

_COMPRESSED = {
    torch.sparse_csr: (torch.Tensor.crow_indices, torch.Tensor.col_indices),
    torch.sparse_bsr: (torch.Tensor.crow_indices, torch.Tensor.col_indices),
    torch.sparse_csc: (torch.Tensor.ccol_indices, torch.Tensor.row_indices),
    torch.sparse_bsc: (torch.Tensor.ccol_indices, torch.Tensor.row_indices),
}
_UNSET = object()


def parts_of(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The strided tensors that hold a tensor's bits; none for kinds that show none."""
    if tensor.layout == torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in _COMPRESSED:
        indices = _COMPRESSED[tensor.layout]
        return *(read(tensor) for read in indices), tensor.values()
    if is_wrapper(tensor):
        return tuple(chain.from_iterable(map(parts_of, parts_in(tensor))))
    storage = storage_of(tensor)
    if storage is None:
        return ()
    freed = not storage.nbytes()  # by one who will ask for it again
    return (tensor,) if freed or tensor.is_meta or has_memory(tensor) else ()


@dataclass(frozen=True, slots=True, eq=False)
class HeldTensor:
    """One tensor object: what it points to, and what autograd knows of it.

    Attributes:
        tensor: The tensor.
        alias: Points to the storage that it had; None where its parts are held instead.
        version: Its version; None where inference mode keeps none.
        requires_grad: Whether it asked for a gradient.
        keeps_grad: Whether it has a gradient of its own.
        grad: The gradient.
        node: What made it, for autograd; None for a leaf.
        twin: Made by the same, to make the tensor anew from.
        hooks: Its hooks: on its gradient, and after that was accumulated.
    """

    tensor: torch.Tensor
    alias: torch.Tensor | None
    version: int | None
    requires_grad: bool
    keeps_grad: bool
    grad: torch.Tensor | None
    node: Any
    twin: torch.Tensor | None
    hooks: tuple[Any, Any]

    @classmethod
    def take(cls, tensor: torch.Tensor) -> HeldTensor:
        """Look at a tensor as it is now."""
        keeps_grad = tensor.is_leaf or tensor.retains_grad
        node = tensor.grad_fn
        with torch.enable_grad():
            twin = None if node is None else _Twin.apply(tensor)
        return cls(
            tensor,
            None if is_wrapper(tensor) else tensor.detach(),
            None if tensor.is_inference() else tensor._version,
            tensor.requires_grad,
            keeps_grad,
            tensor.grad if keeps_grad else None,
            node,
            twin,
            _hooks(tensor),
        )

    def restore_memory(self) -> None:
        """Point to the storage that it had."""
        if self.alias is not None and not _same_memory(self.tensor, self.alias):
            self.tensor.data = self.alias

    def restore_version(self) -> None:
        """Count as many writes as it had."""
        if self.version is not None and self.tensor._version != self.version:
            torch._C._autograd._unsafe_set_version_counter((self.tensor,), (self.version,))

    def restore_autograd(self) -> None:
        """Make it a leaf or not, as it was, with its gradient and its hooks.

        Raises:
            RuntimeError: It is a view that was detached, or written into, in place.
        """
        tensor = self.tensor
        if tensor.grad_fn is not self.node:
            self._restore_node()
        elif self.node is None and tensor.requires_grad != self.requires_grad:
            tensor.requires_grad_(self.requires_grad)
        if self.keeps_grad and tensor.grad is not self.grad:
            tensor.grad = self.grad
        for name, mine, theirs in zip(_HOOKS, self.hooks, _hooks(tensor), strict=True):
            if mine is not theirs:
                setattr(tensor, name, mine)

    def _restore_node(self) -> None:
        tensor = self.tensor
        if tensor.grad_fn is not None or tensor.requires_grad:
            tensor.detach_()
        if self.twin is None:
            tensor.requires_grad_(self.requires_grad)
            return
        if tensor._is_view():
            raise RuntimeError("a view that autograd had made cannot be made again")
        with torch.enable_grad():
            _Again.apply(tensor, self.twin)
        if self.keeps_grad:
            tensor.retain_grad()


_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def _hooks(tensor: torch.Tensor) -> tuple[Any, Any]:
    return tensor._backward_hooks, tensor._post_accumulate_grad_hooks


class _Twin(torch.autograd.Function):
    """Another tensor that the same node made."""

    @staticmethod
    def forward(_ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach()

    @staticmethod
    def backward(_ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0]


class _Again(torch.autograd.Function):
    """Gives a tensor, in place, the node of its twin."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, _twin: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(tensor)
        return tensor

    @staticmethod
    def backward(_ctx: Any, *gradients: torch.Tensor) -> tuple[None, torch.Tensor]:
        return None, gradients[0]


def _same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device or a.layout != b.layout:
        return False
    if a.layout == torch.sparse_coo and a.is_coalesced() != b.is_coalesced():
        return False
    mine, theirs = parts_of(a), parts_of(b)
    return bool(mine) and all(map(_same_place, mine, theirs))


def _same_place(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (
        a.untyped_storage()._cdata == b.untyped_storage()._cdata
        and a.storage_offset() == b.storage_offset()
        and a.shape == b.shape
        and a.stride() == b.stride()
    )


@dataclass(frozen=True, slots=True)
class HeldContainer:
    """A dictionary, list, set or deque, or a subclass of one, and what it held.

    Attributes:
        container: The container.
        base: Whose methods are called, rather than those that a subclass made of them.
        content: What it held.
    """

    container: Any
    base: Any
    content: dict[Any, Any] | list[Any]

    @classmethod
    def take(cls, container: Any) -> HeldContainer:
        """Look at a container as it is now."""
        base: Any = next(kind for kind in CONTAINERS if isinstance(container, kind))
        if issubclass(base, dict):
            return cls(container, base, dict(base.items(container)))
        return cls(container, base, list(base.__iter__(container)))

    def __iter__(self) -> Iterator[Any]:
        """What it held, keys included."""
        if isinstance(self.content, dict):
            return chain(self.content.keys(), self.content.values())
        return iter(self.content)

    def restore(self) -> None:
        """Hold the same things in the same order again."""
        if self._unchanged():
            return
        target, base = self.container, self.base
        base.clear(target)
        if isinstance(self.content, dict):
            for key, value in self.content.items():
                base.__setitem__(target, key, value)
        elif base is set:
            set.update(target, self.content)
        else:
            base.extend(target, self.content)

    def _unchanged(self) -> bool:
        target, base = self.container, self.base
        if base.__len__(target) != len(self.content):
            return False
        if isinstance(self.content, dict):
            now = chain(base.keys(target), base.values(target))
        else:
            now = base.__iter__(target)
        return all(mine is theirs for mine, theirs in zip(now, self, strict=True))


@dataclass(frozen=True, slots=True)
class HeldObject:
    """An object with its class, its dictionary of attributes and its slots.

    What the dictionary holds is the business of a `HeldContainer`.
    """

    thing: Any
    kind: type
    attributes: dict[str, Any] | None
    slots: Mapping[types.MemberDescriptorType, Any]

    @classmethod
    def take(cls, thing: Any) -> HeldObject:
        """Look at an object as it is now."""
        slots = {member: _read(member, thing) for member in slots_of(type(thing))}
        return cls(thing, type(thing), attributes_of(thing), slots)

    def restore(self) -> None:
        """Be of the same class with the same dictionary and slots again."""
        if type(self.thing) is not self.kind:  # a lazy module becomes another
            object.__setattr__(self.thing, "__class__", self.kind)
        if attributes_of(self.thing) is not self.attributes:
            object.__setattr__(self.thing, "__dict__", self.attributes)
        for member, value in self.slots.items():
            if _read(member, self.thing) is value:
                continue
            if value is _UNSET:
                member.__delete__(self.thing)
            else:
                member.__set__(self.thing, value)


def _read(member: types.MemberDescriptorType, thing: Any) -> Any:
    try:
        return member.__get__(thing)
    except AttributeError:
        return _UNSET
