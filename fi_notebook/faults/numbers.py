"""How fault models compute on each dtype, stated once.

    float64, float32, float16, bfloat16   as torch computes in that dtype
    float8                                in float32, rounded to the dtype by torch
    complex                               by part; add changes the real one alone
    integers                              exactly where the parameter is a whole number, else in
                                          float64 and rounded half to even; a result outside the
                                          dtype is held at its nearest end, never wrapped
    bool                                  True where the computed number is not zero

No dtype ever changes: what comes in goes out in the same dtype. What is computed in float64 is
rounded to it once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from fi_notebook.faults.bits import bit_view, carrier_of, format_of, from_bits, signed

__all__ = [
    "arithmetic",
    "by_part",
    "filled",
    "is_real",
    "is_whole",
    "magnitude",
    "magnitudes_of_integers",
    "narrow",
    "parts_of",
    "random_patterns",
    "round_to_integers",
    "where",
    "whole_numbers",
    "widened",
]

Operation = Callable[[torch.Tensor, Any], torch.Tensor]
"""A sum or product of a tensor and a number, in any dtype that torch computes in."""


def is_real(dtype: torch.dtype) -> bool:
    """Whether the dtype holds real floating-point numbers."""
    return dtype.is_floating_point


def widened(values: torch.Tensor) -> torch.Tensor:
    """The values in a dtype in which torch computes: float8 as float32, integers as float64."""
    dtype = values.dtype
    if dtype == torch.complex32:
        return values.to(torch.complex64)
    if dtype.is_complex:
        return values
    if not dtype.is_floating_point:
        return values.to(torch.float64)
    return values.float() if dtype.itemsize == 1 else values


def narrow(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Computed values in the dtype they came from, by the rules of this module."""
    if dtype == torch.bool:
        return values != 0
    if not (dtype.is_floating_point or dtype.is_complex):
        return round_to_integers(values, dtype)
    if values.dtype == torch.float64 and dtype.itemsize < 4:
        values = _ready(values)
    return values.to(dtype)


def _ready(values: torch.Tensor) -> torch.Tensor:
    """Float64 values in float32, from which torch rounds to fewer bits as it would from float64.

    Rounded to odd: one that float32 cannot hold is cut and its last bit set, so that it lies on the
    same side of all that the narrow dtype can hold and of what is halfway between.
    """
    near = values.float()
    odd = (near != values) & ~values.isnan()  # compared in float64
    bits = near.view(torch.int32) - (near.double().abs() > values.abs()).int()
    return (bits | odd.int()).view(torch.float32)


def round_to_integers(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Float64 values as integers: half to even, NaN as 0, held at the ends of the dtype."""
    ends = torch.iinfo(dtype)
    top = float(ends.max)
    if int(top) > ends.max:  # 2**63 and 2**64: the largest float64 below them
        top = math.nextafter(top, 0.0)
    rounded = values.double().nan_to_num(0.0, posinf=float("inf"), neginf=float("-inf")).round()
    whole = rounded.clamp(float(ends.min), top).to(dtype)
    return where(rounded > top, filled(whole, ends.max), whole)


def where(condition: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Elements of one or the other, of one dtype; torch 2.11 cannot with unsigned integers."""
    bits = torch.where(condition, bit_view(one), bit_view(other))
    return from_bits(bits, one.dtype)


def filled(like: torch.Tensor, number: int | float) -> torch.Tensor:
    """Integers or bools of the same shape and dtype, all this number, which is a whole one."""
    if like.dtype != torch.uint64:
        return torch.full_like(like, number)
    return torch.full_like(like.view(torch.int64), signed(int(number), 64)).view(torch.uint64)


def is_whole(number: int | float) -> bool:
    """Whether a number is a whole one, be it an int or a float."""
    return float(number).is_integer()


def arithmetic(values: torch.Tensor, operation: Operation, number: int | float) -> torch.Tensor:
    """Apply a sum or product to real values of any dtype; exact on integers if it is whole.

    Args:
        values: Values of the tensor's dtype.
        operation: Computes on any dtype that torch computes in.
        number: What it adds or multiplies by.
    """
    dtype = values.dtype
    computed = operation(widened(values), float(number))
    if is_real(dtype) or dtype == torch.bool or not is_whole(number):
        return narrow(computed, dtype)
    return _exact(values, operation, int(number), computed)


def _exact(
    values: torch.Tensor, operation: Operation, number: int, estimate: torch.Tensor
) -> torch.Tensor:
    """Whole-number arithmetic in 64 bits, held at the ends where the estimate left them."""
    dtype = values.dtype
    wide = values.view(torch.int64) if dtype == torch.uint64 else values.to(torch.int64)
    wrapped = operation(wide, signed(number % (1 << 64), 64))
    found = wrapped.view(torch.uint64) if dtype == torch.uint64 else wrapped
    fits = (found.double() - estimate).abs() < 2.0**62  # a wrapped result is 2**64 away
    held = round_to_integers(estimate, dtype)
    if dtype in (torch.int64, torch.uint64):
        return where(fits, found, held)
    ends = torch.iinfo(dtype)
    return where(fits, wrapped.clamp(ends.min, ends.max).to(dtype), held)


def parts_of(values: torch.Tensor) -> torch.Tensor:
    """Real values as they are; complex ones as a tensor with a last dimension of two."""
    return torch.view_as_real(values) if values.dtype.is_complex else values


def by_part(
    values: torch.Tensor, operation: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """Apply an operation on real values to each part of complex ones."""
    if not values.dtype.is_complex:
        return operation(values)
    return torch.view_as_complex(operation(torch.view_as_real(values)).contiguous())


def random_patterns(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """As many values of the same real dtype, each bit pattern equally likely."""
    layout = format_of(values.dtype)

    def draw(width: int) -> torch.Tensor:
        shape, device = values.shape, generator.device
        return torch.randint(1 << width, shape, generator=generator, device=device)

    drawn = draw(layout.bits) if layout.bits < 64 else draw(32) << 32 | draw(32)
    return from_bits(drawn.to(values.device, carrier_of(layout)), values.dtype)


def magnitude(values: torch.Tensor) -> torch.Tensor:
    """Absolute values, in a dtype that torch computes in."""
    return widened(values).abs()


def whole_numbers(values: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Integers of any dtype as int64, in their order, and what they lack: of uint64 2**63."""
    if values.dtype == torch.uint64:
        return values.view(torch.int64) ^ torch.iinfo(torch.int64).min, 1 << 63
    return values.to(torch.int64), 0


def magnitudes_of_integers(values: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Their absolute values as int64, and what they lack: 1 where -2**63 has one, too."""
    numbers, lacking = whole_numbers(values)
    return (numbers, lacking) if lacking else (~torch.minimum(numbers, -numbers), 1)
