"""The most frequent fault without detours: one bit of one element, flipped in place.

    flipped = flip_one(tensor, bit=30, index=5)      # None where it is no such tensor
    corruption, undo = flipped

The same as `corrupt` with ``bitflip(bit=30)`` on ``{"index": 5}``, and then writing it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from fi_notebook.faults.bits import FORMATS, dtype_name, signed
from fi_notebook.faults.corrupt import Corruption

__all__ = ["flip_one"]


def flip_one(
    tensor: torch.Tensor, bit: int, index: int
) -> tuple[Corruption, Callable[[], object]] | None:
    """Flip one bit of one element where it lies.

    Args:
        tensor: The tensor; it is written.
        bit: The bit, from 0.
        index: Flat index in row-major order.

    Returns:
        What was done and what undoes it, or None where this short way is not for the
        tensor (complex, shared elements, no such bit or element); nothing was written then.
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
    element.view(layout.carrier).bitwise_xor_(signed(1 << bit, layout.bits))
    chosen = torch.full((1,), index, dtype=torch.int64, device=tensor.device)
    return Corruption(chosen, before, element.clone()), partial(element.copy_, before)
