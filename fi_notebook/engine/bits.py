"""Tensors as raw bits: views as integers, exact equality, and position-weighted hashes.

Equality here is equality of bits: two NaNs with the same payload are equal, 0.0 and
-0.0 are not. The hash weights each element by its position, so that it finds row swaps
and paired sign flips, which sums and XORs of bits miss.
"""

from __future__ import annotations

import torch

__all__ = ["changed_mask", "equal_bits", "position_hash", "raw"]

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_MIX = 0x9E3779B97F4A7C15 - 2**64  # the golden ratio's bits, odd: multiplying is a bijection


def raw(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bits as integers of the same width; a view, complex by part.

    Args:
        tensor: Any strided tensor.

    Returns:
        An integer tensor of the same shape, with a last axis of two for complex.
    """
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    return tensor.view(_INTEGERS[tensor.element_size()])


def equal_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have the same dtype, shape and bits."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(torch.equal(raw(a), raw(b)))


def changed_mask(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Which elements differ in any bit; same shape and dtype, complex as one element."""
    mask = raw(a) != raw(b)
    return mask.any(-1) if a.is_complex() else mask


def position_hash(tensor: torch.Tensor) -> torch.Tensor:
    """Hash of all bits, each weighted by its position; stays on the device.

    Returns:
        An int64 tensor of no dimensions.
    """
    bits = raw(tensor).reshape(-1).to(torch.int64)
    places = torch.arange(1, bits.numel() + 1, device=bits.device, dtype=torch.int64)
    mixed = (bits ^ (bits >> 29)) * _MIX
    return (mixed * (places * 2 + 1)).sum() + mixed.sum() * 31
