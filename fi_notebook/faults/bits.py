"""The bits of tensors: integer views, and which bit belongs to which field.

Bit 0 is the least significant; always say the field beside the number::

    describe_bit("float32", 30)   -> "bit 30 (exponent)"

The layouts are those of ``core/formats.py``. Values are moved and changed as integers, so
that NaN payloads survive.
"""

from __future__ import annotations

import torch

from fi_notebook.core.formats import FIELDS, FORMATS, Format
from fi_notebook.errors import FaultError, did_you_mean

__all__ = [
    "FIELDS",
    "FORMATS",
    "Format",
    "bit_view",
    "carrier_of",
    "describe_bit",
    "dtype_name",
    "dtype_of",
    "format_of",
    "from_bits",
    "signed",
    "unsigned",
]

_CARRIERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def dtype_name(dtype: torch.dtype) -> str:
    """Name of a dtype as used in sites: ``float32``, not ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def dtype_of(name: str) -> torch.dtype:
    """The dtype of a name.

    Raises:
        FaultError: This torch has no such dtype, or no fault can strike it.
    """
    format_of(name)
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise FaultError(f"this torch {torch.__version__} has no dtype {name!r}")
    return dtype


def format_of(dtype: str | torch.dtype) -> Format:
    """The bit layout of a dtype.

    Raises:
        FaultError: No fault can strike this dtype; says which ones can be.
    """
    name = dtype if isinstance(dtype, str) else dtype_name(dtype)
    known = FORMATS.get(name)
    if known is not None:
        return known
    if name.startswith(("qint", "quint")):
        raise FaultError(
            f"dtype {name} is quantised: its scale is no part of its bits; "
            "strike the tensor before it is quantised, or its int_repr()"
        )
    hint = did_you_mean(name, FORMATS) or f"; expected one of {', '.join(FORMATS)}"
    raise FaultError(f"no fault can strike dtype {name!r}{hint}")


def describe_bit(dtype: str, bit: int) -> str:
    """A bit with its field: ``bit 30 (exponent)``.

    Args:
        dtype: Name of a dtype, such as ``float32``.
        bit: Number of the bit; 0 is the least significant.

    Returns:
        Text such as ``bit 30 (exponent)``.

    Raises:
        FaultError: The dtype has no such bit.
    """
    return f"bit {bit} ({format_of(dtype).field_of(bit)})"


def carrier_of(layout: Format) -> torch.dtype:
    """The integer dtype that holds the bits of one element or part."""
    return _CARRIERS[max(layout.bits, 8) // 8]


def bit_view(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's memory as integers: the same shape, and a last dimension of 2 if complex.

    Args:
        tensor: Any strides; no lazy conjugation or negation (see ``resolve_conj``).
    """
    parts = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return parts.view(carrier_of(format_of(tensor.dtype)))


def from_bits(bits: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The values of integers that `bit_view` gave, without a copy."""
    if dtype.is_complex:
        part = {2: torch.float16, 4: torch.float32, 8: torch.float64}[bits.element_size()]
        return torch.view_as_complex(bits.view(part))
    return bits.view(dtype)


def signed(pattern: int, bits: int) -> int:
    """An unsigned bit pattern as the number that the carrier of this width holds."""
    return pattern - (1 << bits) if bits >= 16 and pattern >> (bits - 1) else pattern


def unsigned(number: int, bits: int) -> int:
    """The bit pattern of a carrier's number."""
    return number & ((1 << max(bits, 8)) - 1)
