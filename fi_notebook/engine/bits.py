"""Tensors as raw bits: views as integers, exact equality, and position-weighted hashes.

Equality here is equality of bits: two NaNs with the same payload are equal, 0.0 and
-0.0 are not. The hash mixes each element with its position, so that it finds row swaps
and paired sign flips, which sums and XORs of bits miss.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch

__all__ = ["changed_mask", "equal_bits", "position_hash", "raw", "same_memory"]

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_MIX = 0x9E3779B97F4A7C15 - 2**64  # the golden ratio's bits, odd: multiplying is a bijection
_STIR = 0xBF58476D1CE4E5B9 - 2**64  # of splitmix64
_PLACE = 0x94D049BB133111EB - 2**64  # of splitmix64
_LOW = (1 << 32) - 1
_BLOCK = 1 << 15  # elements that are hashed at a time: 256 KiB stay in the cache
_LARGE_BLOCK = 1 << 24


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


def _memcmp() -> Callable[..., Any] | None:
    """The C library's comparison: ten times as fast as that of torch; None where there is none."""
    try:
        compare = ctypes.CDLL(None).memcmp
    except (OSError, TypeError, AttributeError):
        return None
    compare.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    return compare


_compare = _memcmp()


def same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two dense tensors, laid out alike, hold the same bits."""
    if _compare is None or a.device.type != "cpu":
        return bool(torch.equal(raw(a), raw(b)))
    return not _compare(a.data_ptr(), b.data_ptr(), a.nbytes)


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
    """Hash of all bits, each element mixed with its position; stays on the device.

    A plain weighted sum is linear, and so blind to changes such as +1, -2, +1 ULP in
    neighbours; here the bits of an element and its place are mixed before they are
    added.

    Returns:
        An int64 tensor of no dimensions, the same on every device.
    """
    bits = raw(tensor).reshape(-1)
    if bits.device.type == "cpu":
        return torch.tensor(_hash_on_host(bits.numpy()))
    total = torch.zeros((), dtype=torch.int64, device=bits.device)
    for n, block in enumerate(bits.split(_LARGE_BLOCK)):
        first = n * _LARGE_BLOCK + 1
        places = torch.arange(first, first + block.numel(), device=bits.device)
        mixed = places.mul_(_PLACE).add_(block).mul_(_MIX)
        mixed ^= (mixed >> 32) & _LOW
        total += mixed.mul_(_STIR).sum()
    return total


def _hash_on_host(bits: np.ndarray) -> int:
    """The same block by block, in the cache; integers wrap around."""
    total = 0
    for start in range(0, len(bits), _BLOCK):
        block = bits[start : start + _BLOCK]
        mixed = _places()[: len(block)] + block
        if start:
            mixed += _wrapped(start * _PLACE)
        mixed *= _MIX
        mixed ^= (mixed >> 32) & _LOW
        mixed *= _STIR
        total += int(mixed.sum())
    return _wrapped(total)


@cache
def _places() -> np.ndarray:
    """The places of a block, each times its odd factor."""
    return np.arange(1, _BLOCK + 1, dtype=np.int64) * _PLACE


def _wrapped(number: int) -> int:
    """A whole number as int64 holds it."""
    return (number + 2**63) % 2**64 - 2**63
