"""The bits of every dtype: integer views, and which bit belongs to which field.

Bit 0 is the least significant; always say the field beside the number::

    describe_bit("float32", 30)   -> "bit 30 (exponent)"
    FORMATS["bfloat16"].fields    -> {"sign": (15, 15), "exponent": (7, 14), "mantissa": (0, 6)}

Values are moved and changed as integers, so that NaN payloads survive. A complex
element is two parts, real and imaginary; its bits are counted within a part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

from fi_notebook.errors import FaultError, did_you_mean

__all__ = [
    "FIELDS",
    "FORMATS",
    "Format",
    "bit_view",
    "describe_bit",
    "dtype_name",
    "dtype_of",
    "format_of",
    "from_bits",
    "signed",
    "unsigned",
]

FIELDS = ("sign", "exponent", "mantissa", "value")
"""Names of the fields; integers have ``sign`` and ``value``, unsigned ones ``value`` alone."""


@dataclass(frozen=True, slots=True)
class Format:
    """How the bits of one real dtype, or of one part of a complex dtype, are laid out.

    Attributes:
        dtype: Name of the dtype, such as ``bfloat16``.
        kind: ``float``, ``int``, ``uint``, ``bool`` or ``complex``.
        bits: Width of an element, or of one part of a complex element.
        fields: Lowest and highest bit of each field, both included.
        parts: 2 for a complex dtype, else 1.
        has_inf: Whether some bit pattern is an infinity.
        has_nan: Whether some bit pattern is a NaN.
    """

    dtype: str
    kind: str
    bits: int
    fields: Mapping[str, tuple[int, int]]
    parts: int = 1
    has_inf: bool = False
    has_nan: bool = False

    @property
    def inexact(self) -> bool:
        """Whether it holds floating-point numbers, real or complex."""
        return self.kind in ("float", "complex")

    @property
    def carrier(self) -> torch.dtype:
        """The integer dtype that holds the bits of one element or part."""
        return _CARRIERS[self.bits // 8] if self.bits >= 8 else torch.uint8

    def field_of(self, bit: int) -> str:
        """The field that a bit belongs to.

        Raises:
            FaultError: The dtype has no such bit.
        """
        for name, (low, high) in self.fields.items():
            if low <= bit <= high:
                return name
        raise FaultError(f"{self.dtype} has no bit {bit}; its bits are {self.valid_bits}")

    @property
    def valid_bits(self) -> str:
        """The bits that there are, for messages: ``0 to 15 (sign 15, exponent 10-14, …)``."""
        spans = [
            f"{name} {low}" if low == high else f"{name} {low}-{high}"
            for name, (low, high) in self.fields.items()
        ]
        part = ", in each part" if self.parts == 2 else ""
        return f"0 to {self.bits - 1} ({', '.join(spans)}{part})"


_CARRIERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _float(name: str, exponent: int, mantissa: int, inf: bool = True) -> Format:
    top = exponent + mantissa
    fields = {
        "sign": (top, top),
        "exponent": (mantissa, top - 1),
        "mantissa": (0, mantissa - 1),
    }
    return Format(name, "float", top + 1, MappingProxyType(fields), 1, inf, True)


def _integer(name: str, bits: int, signed_: bool) -> Format:
    fields = {"sign": (bits - 1, bits - 1), "value": (0, bits - 2)}
    if not signed_:
        fields = {"value": (0, bits - 1)}
    return Format(name, "int" if signed_ else "uint", bits, MappingProxyType(fields))


def _complex(name: str, part: Format) -> Format:
    return Format(name, "complex", part.bits, part.fields, 2, True, True)


_FLOATS = (
    _float("float64", 11, 52),
    _float("float32", 8, 23),
    _float("float16", 5, 10),
    _float("bfloat16", 8, 7),
    _float("float8_e4m3fn", 4, 3, inf=False),
    _float("float8_e5m2", 5, 2),
    _float("float8_e4m3fnuz", 4, 3, inf=False),
    _float("float8_e5m2fnuz", 5, 2, inf=False),
    Format("float8_e8m0fnu", "float", 8, MappingProxyType({"exponent": (0, 7)}), has_nan=True),
)
_INTEGERS = tuple(
    _integer(f"{prefix}int{bits}", bits, not prefix)
    for prefix in ("", "u")
    for bits in (8, 16, 32, 64)
)
_REALS = {known.dtype: known for known in (*_FLOATS, *_INTEGERS)}

FORMATS: Mapping[str, Format] = MappingProxyType(
    _REALS
    | {"bool": Format("bool", "bool", 1, MappingProxyType({"value": (0, 0)}))}
    | {
        name: _complex(name, _REALS[part])
        for name, part in (
            ("complex32", "float16"),
            ("complex64", "float32"),
            ("complex128", "float64"),
        )
    }
)
"""Every dtype that a fault can strike, by name."""


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


def bit_view(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's memory as integers: the same shape, and a last dimension of 2 if complex.

    Args:
        tensor: Any strides; no lazy conjugation or negation (see ``resolve_conj``).
    """
    parts = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return parts.view(format_of(tensor.dtype).carrier)


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
