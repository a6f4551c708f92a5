"""A map from tensor storages to what is known of them.

Views share their base's storage, so one entry speaks for all of them. Entries are
held by weak reference, which keeps the address from being given to another storage
(a data pointer would be reused) and keeps no memory alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from fi_notebook.faults import has_memory
from fi_notebook.faults.tensors import PLAIN

__all__ = [
    "StorageMap",
    "address_of",
    "array_over",
    "is_dense",
    "is_plain",
    "is_readable",
    "is_wrapper",
    "local_part",
    "memory_of",
    "overlap",
    "parts_in",
    "shape_of",
    "storage_of",
    "tensors_in",
    "with_local_part",
]

T = TypeVar("T")

_PACKED = {getattr(torch, "float4_e2m1fn_x2", None)}
_SPARSE = {
    torch.sparse_coo,
    torch.sparse_csr,
    torch.sparse_csc,
    torch.sparse_bsr,
    torch.sparse_bsc,
}
_address: Callable[[torch.Tensor], int] = torch._C._storage_address  # type: ignore[attr-defined]  # not in its stubs; that of ``_cdata``


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """The plain tensor that a distributed tensor keeps on this rank; any other as it is."""
    if type(tensor) in PLAIN:
        return tensor
    part = getattr(tensor, "_local_tensor", tensor)
    return part if isinstance(part, torch.Tensor) else tensor


def with_local_part(tensor: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    """A tensor like this one that keeps another plain tensor on this rank."""
    if local_part(tensor) is tensor:
        return part
    whole: Any = tensor
    names, meta = whole.__tensor_flatten__()
    kept = {name: getattr(whole, name) for name in names} | {"_local_tensor": part}
    made: torch.Tensor = whole.__tensor_unflatten__(kept, meta, whole.shape, whole.stride())
    return made


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """The storage of a tensor, or None for kinds that have none (sparse, wrappers, lazy)."""
    try:
        return local_part(tensor).untyped_storage()
    except (NotImplementedError, RuntimeError, ValueError):
        return None


def memory_of(tensor: torch.Tensor) -> torch.Tensor:
    """The strided tensor whose memory stands for a tensor: the values of a sparse one."""
    if tensor.layout not in _SPARSE:
        return tensor
    return tensor._values() if tensor.layout == torch.sparse_coo else tensor.values()


class _Lent:
    """The memory of a tensor as numpy asks for it; keeps the tensor while an array is over it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        """Describe it."""
        strides = None if tensor.is_contiguous() else _in_bytes(tensor)
        self._tensor = tensor
        self.__array_interface__ = {
            "version": 3,
            "data": (tensor.data_ptr(), True),  # not to be written
            "shape": tuple(tensor.shape),
            "strides": strides,
            "typestr": _as_numpy(tensor.dtype),
        }


def _in_bytes(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(stride * tensor.element_size() for stride in tensor.stride())


@cache
def _as_numpy(dtype: torch.dtype) -> str:
    return np.dtype(str(dtype).removeprefix("torch.")).str


def array_over(tensor: torch.Tensor) -> np.ndarray:
    """A read-only array over the memory of a tensor on the host, of a dtype that numpy has.

    ``tensor.numpy()`` is never called on memory that is not the tool's own: it forbids torch,
    for good, to resize that memory, as FSDP does at every step.
    """
    return np.asarray(_Lent(tensor))


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements lie side by side in memory, in whatever order, none twice."""
    if tensor.is_contiguous():
        return True
    reach = 1
    sizes = sorted(zip(tensor.stride(), tensor.shape, strict=True))
    for stride, size in sizes:
        if size != 1:
            if stride != reach:
                return False
            reach *= size
    return True


def address_of(tensor: torch.Tensor) -> int | None:
    """What tells the storage of a tensor from all others that live, or None for none."""
    if type(tensor) in PLAIN:
        try:
            return _address(tensor)
        except NotImplementedError:  # sparse
            return None
    storage = storage_of(tensor)
    return None if storage is None else storage._cdata


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether its elements are what its own memory holds, at its strides."""
    lazy = tensor.is_conj() or tensor.is_neg()
    return tensor.layout == torch.strided and not (lazy or tensor.is_nested) and has_memory(tensor)


def is_wrapper(tensor: torch.Tensor) -> bool:
    """Whether it is made of other tensors, which hold what it holds."""
    return type(tensor) not in PLAIN and is_traceable_wrapper_subclass(tensor)


def parts_in(wrapper: Any) -> list[torch.Tensor]:
    """The tensors that a wrapper is made of; a mesh of devices, which some also name, is none."""
    parts = (getattr(wrapper, name) for name in wrapper.__tensor_flatten__()[0])
    return [part for part in parts if isinstance(part, torch.Tensor)]


def is_readable(tensor: torch.Tensor) -> bool:
    """Whether its elements can be read where they lie.

    Not those of a sparse, quantized or nested tensor, of one that has no memory, or where
    several share a byte. Of a distributed tensor: those that this rank keeps.
    """
    tensor = local_part(tensor)
    there = tensor.layout == torch.strided and not tensor.is_quantized
    return there and not (tensor.is_nested or tensor.dtype in _PACKED) and has_memory(tensor)


def shape_of(tensor: torch.Tensor) -> tuple[int, ...]:
    """Its shape; that of a nested tensor, which has none, is the number of its elements."""
    return (tensor.numel(),) if tensor.is_nested else tuple(tensor.shape)


def tensors_in(values: Iterable[Any]) -> list[torch.Tensor]:
    """Every tensor among call arguments, lists, tuples and dicts included, in order."""
    found: list[torch.Tensor] = []
    _collect(values, found)
    return found


def _collect(values: Iterable[Any], found: list[torch.Tensor]) -> None:
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            _collect(value, found)
        elif isinstance(value, dict):
            _collect(value.values(), found)


class StorageMap(Generic[T]):
    """What is known of each live storage."""

    def __init__(self) -> None:
        """Start with nothing known."""
        self._entries: dict[int | None, tuple[StorageWeakRef, T]] = {}

    def get(self, tensor: torch.Tensor) -> T | None:
        """What is known of the tensor's storage, or None."""
        entry = self._entries.get(address_of(tensor))
        return None if entry is None else entry[1]

    def set(self, tensor: torch.Tensor, value: T) -> None:
        """Remember a value for the tensor's storage."""
        address = address_of(tensor)
        known = self._entries.get(address)
        if known is not None:
            self._entries[address] = (known[0], value)
        elif (storage := storage_of(tensor)) is not None:
            self._entries[address] = (StorageWeakRef(storage), value)

    def at(self, reference: StorageWeakRef) -> T | None:
        """What is known of the storage that a weak reference names, if it lives."""
        entry = self._entries.get(reference.cdata)
        return None if entry is None or reference.expired() else entry[1]

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied: two copies would each give up the same weak references.

        Raises:
            TypeError: Always.
        """
        raise TypeError("what is known of storages belongs to this process, and has no copy")

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()


def overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors may share elements."""
    first, second = storage_of(one), storage_of(other)
    if first is None or second is None or first._cdata != second._cdata:
        return False
    (low, high), (start, end) = _extent(one), _extent(other)
    return low < end and start < high


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """First and past-the-last byte of a tensor in its storage."""
    size = tensor.element_size()
    reach = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    first = int(tensor.storage_offset()) * size
    return first, first + (int(reach) + 1) * size if tensor.numel() else first
