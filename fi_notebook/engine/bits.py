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

from fi_notebook.engine.storages import array_over, is_dense, is_plain

__all__ = ["changed_mask", "equal_bits", "position_hash", "raw", "same_memory"]

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_GOLDEN = 0x9E3779B97F4A7C15  # of splitmix64, as the next two: odd, so each is a bijection
_MIX = 0xBF58476D1CE4E5B9
_STIR = 0x94D049BB133111EB
_PLACE = 0xD6E8FEB86659FD93
_FOLD = 33  # no multiple of any width, so that two sign bits never meet
_LOW = (1 << 32) - 1
_ALL = (1 << 64) - 1
_BLOCK = 1 << 14  # words that are hashed at a time: 128 KiB stay in the cache


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
    mine, theirs = a.data_ptr(), b.data_ptr()
    if not (mine and theirs):  # of no elements, or of some that lie nowhere
        return bool(torch.equal(raw(a), raw(b)))
    return not _compare(mine, theirs, a.nbytes)


def equal_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have the same dtype, shape and bits."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if (
        is_plain(a)
        and is_plain(b)
        and a.device == b.device
        and a.stride() == b.stride()
        and is_dense(a)
    ):
        return same_memory(a, b)
    return bool(torch.equal(raw(a), raw(b)))


def changed_mask(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Which elements differ in any bit; same shape and dtype, complex as one element."""
    mask = raw(a) != raw(b)
    return mask.any(-1) if a.is_complex() else mask


def position_hash(tensor: torch.Tensor) -> torch.Tensor:
    """Hash of all bits, each weighted by its position; stays on the device.

    The bits are read as words of 64, the upper bits of a word are folded into the lower,
    and each word is multiplied by a random odd number of its own before all are added.
    So no change that is chosen without regard to those numbers cancels, be it +1, -2,
    +1 ULP in neighbours; two sign flips do by a chance of 2⁻³³.

    Returns:
        An int64 tensor of no dimensions, the same on every device.
    """
    flat = raw(tensor).reshape(-1).contiguous()  # an expanded one lies in one place
    if flat.device.type == "cpu":
        return torch.tensor(_hash_on_host(array_over(flat)), device="cpu")
    return _hash_on_device(flat)


def _hash_on_host(flat: np.ndarray) -> int:
    """The same block by block, in the cache; integers wrap around."""
    octets = flat.view(np.uint8)
    whole = octets.size - octets.size % 8
    words = octets[:whole].view(np.uint64)
    total, folded, weights = octets.size, np.empty(_BLOCK, dtype=np.uint64), _weights()
    for number, start in enumerate(range(0, words.size, _BLOCK)):
        block = words[start : start + _BLOCK]
        upper = np.right_shift(block, _FOLD, out=folded[: block.size])
        upper ^= block
        found = np.dot(upper, weights[: block.size])  # noqa: TID251  # BLAS knows no integers
        total += _stirred(int(found), number)
    if whole < octets.size:
        last = int.from_bytes(octets[whole:].tobytes(), "little")
        total += _stirred(last * int(weights[0]), words.size)
    return _wrapped(total)


def _stirred(block: int, number: int) -> int:
    """The sum of a block, mixed with its place, so that blocks cannot change places."""
    mixed = (block + (number + 1) * _PLACE) * _MIX & _ALL
    return (mixed ^ (mixed >> 32)) * _STIR & _ALL


def _hash_on_device(flat: torch.Tensor) -> torch.Tensor:
    """The same over all blocks at once."""
    octets = flat.view(torch.uint8)
    whole = octets.numel() - octets.numel() % 8
    words = octets[:whole].clone().view(torch.int64)
    weights = torch.from_numpy(_weights().view(np.int64)).to(flat.device)
    folded = words ^ ((words >> _FOLD) & (1 << 64 - _FOLD) - 1)
    blocks = -(-folded.numel() // _BLOCK)
    padded = torch.nn.functional.pad(folded, (0, blocks * _BLOCK - folded.numel()))
    sums = (padded.view(blocks, _BLOCK) * weights).sum(1)
    numbers = torch.arange(1, blocks + 1, device=flat.device)
    if whole < octets.numel():
        last = torch.nn.functional.pad(octets[whole:], (0, 8 - octets.numel() + whole))
        sums = torch.cat([sums, last.view(torch.int64) * weights[0]])
        numbers = torch.cat([numbers, numbers.new_tensor([words.numel() + 1])])
    mixed = (sums + numbers * _wrapped(_PLACE)) * _wrapped(_MIX)
    mixed ^= (mixed >> 32) & _LOW
    return (mixed * _wrapped(_STIR)).sum() + octets.numel()


@cache
def _weights() -> np.ndarray:
    """The odd numbers that the words of a block are multiplied by: splitmix64 from 0."""
    mixed = np.arange(1, _BLOCK + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(_MIX)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_STIR)
    return (mixed ^ (mixed >> np.uint64(31))) | np.uint64(1)


def _wrapped(number: int) -> int:
    """A whole number as int64 holds it."""
    return (number + 2**63) % 2**64 - 2**63
