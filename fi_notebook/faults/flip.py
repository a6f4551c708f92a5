"""The most frequent fault without detours: one bit of one element, flipped in place.

    flipped = flip_one(tensor, bit=30, index=5)      # None where it is no such tensor
    flipped.before, flipped.after                    # one element each
    flipped.undo()

The same as `corrupt` with ``bitflip(bit=30)`` on ``{"index": 5}``, and then writing it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import torch

from fi_notebook.faults.bits import FORMATS, carrier_of, dtype_name, signed

__all__ = ["Flip", "flip_one"]


class Flip(NamedTuple):
    """One flipped bit.

    Attributes:
        before: The element before, in a tensor of its own.
        after: The element after, likewise.
        undo: Writes the element before again.
    """

    before: torch.Tensor
    after: torch.Tensor
    undo: Callable[[], object]


def flip_one(tensor: torch.Tensor, bit: int, index: int) -> Flip | None:
    """Flip one bit of one element where it lies.

    Args:
        tensor: The tensor; it is written.
        bit: The bit, from 0.
        index: Flat index in row-major order.

    Returns:
        What was done, or None where this short way is not for the tensor (complex, shared
        elements, no such bit or element); nothing was written then.
    """
    layout = FORMATS.get(dtype_name(tensor.dtype))
    if layout is None or layout.parts != 1 or layout.bits < 8 or tensor.is_neg():
        return None
    if not (0 <= bit < layout.bits and 0 <= index < tensor.numel()) or 0 in tensor.stride():
        return None
    place, left = tensor.storage_offset(), index
    for size, stride in zip(reversed(tensor.size()), reversed(tensor.stride()), strict=True):
        left, at = divmod(left, size)
        place += at * stride
    element = tensor.detach().as_strided((1,), (1,), place)
    before = element.clone()
    element.view(carrier_of(layout)).bitwise_xor_(_mask(bit, layout.bits, tensor.device))
    return Flip(before, element.clone(), partial(element.copy_, before))


@cache
def _mask(bit: int, bits: int, device: torch.device) -> torch.Tensor:
    """One bit of a carrier of so many; as a tensor, since a number is first made into one."""
    carrier = carrier_of(FORMATS[f"int{bits}"])
    return torch.tensor([signed(1 << bit, bits)], dtype=carrier, device=device)
