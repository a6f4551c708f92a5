"""The bit layout of every dtype that a fault can strike: which bit belongs to which field.

    FORMATS["bfloat16"].fields    -> {"sign": (15, 15), "exponent": (7, 14), "mantissa": (0, 6)}
    FORMATS["bfloat16"].bias      -> 127

Bit 0 is the least significant. A complex element is two parts, real and imaginary; its
bits are counted within a part.

Limits: no torch here, so nothing says whether the installed one has a dtype. The page has
its own copy of this table in `explorer/bits.js`, which `tests/core/test_formats.py` holds to
this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from fi_notebook.errors import FaultError

__all__ = ["FIELDS", "FORMATS", "Format", "field_words"]

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
        bias: What the exponent of a floating-point dtype is stored with, else 0.
    """

    dtype: str
    kind: str
    bits: int
    fields: Mapping[str, tuple[int, int]]
    parts: int = 1
    has_inf: bool = False
    has_nan: bool = False
    bias: int = 0

    @property
    def inexact(self) -> bool:
        """Whether it holds floating-point numbers, real or complex."""
        return self.kind in ("float", "complex")

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


def _float(
    name: str, exponent: int, mantissa: int, *, inf: bool = True, bias: int | None = None
) -> Format:
    top = exponent + mantissa
    fields = {
        "sign": (top, top),
        "exponent": (mantissa, top - 1),
        "mantissa": (0, mantissa - 1),
    }
    usual = (1 << (exponent - 1)) - 1
    return Format(
        name,
        "float",
        top + 1,
        MappingProxyType(fields),
        has_inf=inf,
        has_nan=True,
        bias=usual if bias is None else bias,
    )


def _integer(name: str, bits: int, signed_: bool) -> Format:
    fields = {"sign": (bits - 1, bits - 1), "value": (0, bits - 2)}
    if not signed_:
        fields = {"value": (0, bits - 1)}
    return Format(name, "int" if signed_ else "uint", bits, MappingProxyType(fields))


def _complex(name: str, part: Format) -> Format:
    return replace(part, dtype=name, kind="complex", parts=2)


_FLOATS = (
    _float("float64", 11, 52),
    _float("float32", 8, 23),
    _float("float16", 5, 10),
    _float("bfloat16", 8, 7),
    _float("float8_e4m3fn", 4, 3, inf=False),
    _float("float8_e5m2", 5, 2),
    _float("float8_e4m3fnuz", 4, 3, inf=False, bias=8),
    _float("float8_e5m2fnuz", 5, 2, inf=False, bias=16),
    Format(
        "float8_e8m0fnu",
        "float",
        8,
        MappingProxyType({"exponent": (0, 7)}),
        has_nan=True,
        bias=127,
    ),
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


def field_words(dtype: str, bits: object) -> str:
    """The fields that bits belong to, as they stand behind the number: `` (exponent)``.

    Args:
        dtype: Name of the dtype; ``""`` where it is not known.
        bits: A bit, or several.

    Returns:
        Each field once, in the order of the bits; ``""`` where the dtype is not known or has no
        such bit.
    """
    layout = FORMATS.get(dtype)
    numbers: Iterable[Any] = bits if isinstance(bits, (list, tuple)) else [bits]
    if layout is None or not all(type(n) is int and 0 <= n < layout.bits for n in numbers):
        return ""
    names = dict.fromkeys(layout.field_of(n) for n in numbers)
    return f" ({', '.join(names)})" if names else ""
