"""Reading and writing chosen elements of a tensor, bit for bit, whatever its strides.

Elements are chosen by flat indices in row-major order of the *logical* shape.
`take` and `put` touch only the chosen elements: on a tensor of 100 million elements
they cost as much as on a small one. Nothing here makes an autograd graph or moves a
version counter: memory that goes wrong does not tell autograd.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from fi_notebook.errors import FaultError
from fi_notebook.faults.bits import bit_view, format_of, from_bits

__all__ = [
    "PLAIN",
    "coordinates",
    "has_memory",
    "materialised",
    "overlaps",
    "pieces",
    "put",
    "refusal",
    "take",
    "unreadable",
]

PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Types of tensors whose elements lie in memory of their own, if anywhere."""

PIECE = 1 << 22
"""How many elements a pass over a large tensor holds at a time."""


def refusal(tensor: torch.Tensor) -> str:
    """Why no fault can strike this tensor, or ``""`` where one can.

    Args:
        tensor: The tensor.

    Returns:
        One plain clause; ``""`` where it can be struck.
    """
    if reason := unreadable(tensor):
        return reason
    try:
        format_of(tensor.dtype)
    except FaultError as error:
        return str(error)
    return ""


def unreadable(tensor: torch.Tensor) -> str:
    """Why a tensor has no values of its own to strike, whatever their dtype, or ``""``.

    Args:
        tensor: The tensor.

    Returns:
        One plain clause; ``""`` where it has values.
    """
    if is_traceable_wrapper_subclass(tensor):
        return f"a {type(tensor).__name__} wraps other tensors; strike those"
    if tensor.is_nested:
        return "nested tensors are not supported; strike the tensors they are made of"
    if tensor.layout != torch.strided:
        layout = str(tensor.layout).removeprefix("torch.")
        return f"layout {layout} is not supported; strike its values() or a dense tensor"
    if tensor.is_meta:
        return "a tensor on the meta device has no values"
    return "" if has_memory(tensor) else f"{_kind(tensor)} has no memory of its own"


def has_memory(tensor: torch.Tensor) -> bool:
    """Whether the elements of a strided tensor lie somewhere.

    Not those of a wrapper, a fake or a meta tensor, of memory that was given back, or of
    the zeros that automatic differentiation implies.

    Args:
        tensor: Any strided tensor.

    Returns:
        Whether they do; True of no elements.
    """
    try:
        if type(tensor) not in PLAIN and tensor.untyped_storage().device.type == "meta":
            return False
        offset = tensor.storage_offset() * tensor.element_size()
        return tensor.data_ptr() > offset or tensor.numel() == 0  # it counts from nowhere
    except (NotImplementedError, RuntimeError):
        return False


def _kind(tensor: torch.Tensor) -> str:
    if torch._is_zerotensor(tensor):  # noqa: SLF001  # it has no public name
        return "a tensor of implied zeros, as forward-mode differentiation makes them,"
    return "a tensor" if type(tensor) in PLAIN else f"a {type(tensor).__name__}"


def overlaps(tensor: torch.Tensor) -> bool:
    """Whether two elements may share memory, as in an expanded tensor.

    Args:
        tensor: Any dense tensor.

    Returns:
        Whether two of its elements share memory.
    """
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride <= reach:
                return tensor.numel() > 0
            reach += stride * (size - 1)
    return False


def coordinates(indices: torch.Tensor, shape: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    """Flat indices as one index tensor per dimension."""
    found: list[torch.Tensor] = []
    for size in reversed(shape):
        found.append(indices % size)
        indices = indices.div(size, rounding_mode="floor")
    return tuple(reversed(found))


def take(tensor: torch.Tensor, indices: torch.Tensor | None) -> torch.Tensor:
    """The chosen values as a new tensor of one dimension, NaN payloads kept.

    Args:
        tensor: What is read.
        indices: Flat indices, or None for every element.
    """
    data = tensor.detach()
    if indices is None:
        flat = data.resolve_conj().resolve_neg().reshape(-1)
        return flat.clone() if _same_memory(flat, data) else flat
    if data.dim() == 0:
        data = data[None]
    where = coordinates(indices, tuple(data.shape))
    if data.is_conj() or data.is_neg():
        return data[where].resolve_conj().resolve_neg()
    return from_bits(bit_view(data)[where], data.dtype)


def _same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def put(tensor: torch.Tensor, indices: torch.Tensor | None, values: torch.Tensor) -> None:
    """Write values into the chosen elements of a tensor, in place, exactly.

    Args:
        tensor: What is written; it may require grad.
        indices: Flat indices, or None for every element.
        values: One value per chosen element, of the same dtype.

    Raises:
        FaultError: Elements share memory, so that one write would change several.
    """
    if overlaps(tensor):
        raise FaultError(
            f"cannot write into a tensor of shape {tuple(tensor.shape)} whose elements share "
            f"memory (strides {tensor.stride()}, as after expand()); write into a copy, "
            "as materialised(tensor) makes one"
        )
    data = tensor.data[None] if tensor.dim() == 0 else tensor.data
    lazy = data.is_conj() or data.is_neg()
    target, source = (data, values) if lazy else (bit_view(data), bit_view(values))
    if indices is None:
        target.copy_(source.reshape(target.shape))
    elif len(indices):
        target[coordinates(indices, tuple(data.shape))] = source


def materialised(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with memory of its own, bit for bit, and no autograd graph.

    Strides stay as they are, unless elements shared memory: then they are contiguous.

    Args:
        tensor: Any dense tensor.

    Returns:
        A tensor of the same shape and values whose memory is its own.
    """
    data = tensor.detach()
    if data.is_conj() or data.is_neg() or overlaps(data):
        return data.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    copy = torch.empty_strided(data.shape, data.stride(), dtype=data.dtype, device=data.device)
    bit_view(copy).copy_(bit_view(data))
    return copy


def pieces(tensor: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    """The tensor in row-major order, piece by piece: first flat index, flat values.

    Contiguous memory is not copied; other strides cost a copy of one piece at a time.
    """
    data = tensor.detach()
    if data.is_contiguous() and not (data.is_conj() or data.is_neg()):
        flat = data.view(-1)
        yield from ((start, flat[start : start + PIECE]) for start in range(0, len(flat), PIECE))
        return
    rows = len(data) if data.dim() else 1
    width = data.numel() // rows if rows else 0
    group = max(1, PIECE // max(width, 1))
    for row in range(0, rows, group):
        part = data[row : row + group] if data.dim() else data
        yield row * width, part.resolve_conj().resolve_neg().reshape(-1)
