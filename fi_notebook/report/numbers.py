"""How numbers are written, the same in text and figures.

    number(0.00012345)                '0.0001234'     four significant digits
    number(8192)                      '8,192'
    exact(0.1, "float32")             '0.1'           the shortest text that is this value
    hexadecimal(0x3F800000, "float32") '0x3f800000'
    bit_fields(0x3F800000, "float32") '0|01111111|00000000000000000000000'
    share(1, 8192)                    '1 of 8,192 (0.01221 %)'
    size(3_500_000)                   '3.338 MiB'
    effect_text(comparison, 12)       'masked: pooling', 'amplified 35 times'

Limits: bits are grouped by the layouts of ``core/formats.py``; another dtype shows its bits
in one group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fi_notebook.analysis.words import four_digits, percent, times, told_apart
from fi_notebook.core.formats import FORMATS, Format, field_words
from fi_notebook.core.injection import ElementChange
from fi_notebook.core.run import Comparison
from fi_notebook.core.words import among

__all__ = [
    "bit_fields",
    "changed_bits",
    "effect_text",
    "exact",
    "field_names",
    "hexadecimal",
    "index_text",
    "number",
    "pair",
    "shape_text",
    "share",
    "size",
    "smallest_normal",
    "ulps",
    "value",
]


_SHORTEST = {"float16": np.float16, "float32": np.float32, "bfloat16": np.float32}


def smallest_normal(dtype: str) -> float:
    """The smallest positive normal number of a dtype; 0 where none is smaller and subnormal."""
    layout = _layout_of(dtype)
    subnormal = layout is not None and "mantissa" in layout.fields
    return 2.0 ** (1 - layout.bias) if layout is not None and subnormal else 0.0


def _layout_of(dtype: str) -> Format | None:
    """How the bits of one word are laid out; None of complex elements and of unknown dtypes."""
    layout = FORMATS.get(dtype)
    return layout if layout is not None and layout.parts == 1 else None


def pair(before: complex, after: complex) -> tuple[str, str]:
    """Two values beside each other: floats in digits that tell them apart, others as they are.

    Args:
        before: An int, a float or a complex.
        after: Another one.
    """
    if isinstance(before, float) and isinstance(after, float):
        return told_apart(before, after)
    return number(before), number(after)


def number(given: complex) -> str:
    """A number for people: four significant digits, whole numbers in full.

    Args:
        given: An int, a float or a complex.
    """
    if isinstance(given, bool | int | np.integer):
        return f"{int(given):,}"
    if isinstance(given, complex):
        sign = "-" if np.copysign(1, given.imag) < 0 else "+"
        return f"{four_digits(given.real)}{sign}{four_digits(abs(given.imag))}j"
    return four_digits(float(given))


def exact(given: complex, dtype: str = "float64") -> str:
    """The shortest text that names exactly this value of a dtype.

    Args:
        given: The value.
        dtype: Name of the dtype that holds it.
    """
    if isinstance(given, complex):
        sign = "-" if np.copysign(1, given.imag) < 0 else "+"
        return f"{exact(given.real, dtype)}{sign}{exact(abs(given.imag), dtype)}j"
    if isinstance(given, bool | int | np.integer):
        return str(int(given))
    if not np.isfinite(given):
        return four_digits(float(given))
    kind = _SHORTEST.get(dtype, np.float64)
    return str(kind(given)) if np.isfinite(kind(given)) else repr(float(given))


def value(given: complex, dtype: str = "float64") -> str:
    """Four significant digits, and the exact value behind it where that is longer."""
    short, whole = number(given), exact(given, dtype)
    same = isinstance(given, complex) or float(short.replace(",", "")) == float(whole)
    return short if same or not np.isfinite(given) else f"{short} ({whole})"


def hexadecimal(bits: int | None, dtype: str) -> str:
    """Raw bits in hexadecimal, as wide as the dtype; ``-`` where there are none."""
    if bits is None:
        return "-"
    layout = _layout_of(dtype)
    digits = -(-layout.bits // 4) if layout else 0
    return f"0x{bits:0{digits}x}"


def bit_fields(bits: int | None, dtype: str) -> str:
    """Raw bits in groups: sign|exponent|mantissa; ``-`` where there are none."""
    if bits is None:
        return "-"
    layout = _layout_of(dtype)
    if layout is None:
        return f"{bits:b}"
    text = f"{bits:0{layout.bits}b}"[::-1]
    return "|".join(text[low : high + 1][::-1] for low, high in layout.fields.values())


def field_names(dtype: str) -> str:
    """The names of the groups of `bit_fields`: ``sign|exponent|mantissa``."""
    layout = _layout_of(dtype)
    return "|".join(layout.fields) if layout else "bits"


def changed_bits(change: ElementChange, dtype: str, limit: int = 4) -> str:
    """Which bits a fault changed, with the field: ``bit 30 (exponent)``.

    Args:
        change: The element.
        dtype: Name of its dtype.
        limit: How many bits to name; of more, how many there are.
    """
    if change.before_bits is None or change.after_bits is None:
        return "-"
    differing = change.before_bits ^ change.after_bits
    numbers = [bit for bit in range(differing.bit_length()) if differing >> bit & 1]
    if len(numbers) > limit:
        return f"{len(numbers)} bits"
    return ", ".join(f"bit {bit}{field_words(dtype, bit)}" for bit in reversed(numbers)) or "none"


def ulps(change: ElementChange, dtype: str) -> int | None:
    """How many representable values a fault moved an element by; the sign is no step.

    Args:
        change: The element.
        dtype: Name of its dtype.

    Returns:
        Units in the last place; None where there is none: no float, complex, or a NaN.
    """
    layout = _layout_of(dtype)
    raw = (change.before_bits, change.after_bits)
    if layout is None or "exponent" not in layout.fields or None in raw:
        return None
    if change.before != change.before or change.after != change.after:  # NaN has no place
        return None
    sign = 1 << (layout.bits - 1) if "sign" in layout.fields else 0
    before, after = (-(bits & ~sign) if bits & sign else bits for bits in raw if bits is not None)
    return abs(after - before)


def share(count: int, total: int, what: str = "") -> str:
    """A count among a total: ``1 of 8,192 outputs (0.01221 %)``; ``what`` is one of them."""
    of = among(count, total, what) if what else f"{count:,} of {total:,}"
    return f"{of} ({percent(count / total)})" if 0 < count < total else of


def shape_text(shape: Sequence[int]) -> str:
    """A shape: ``16 × 8``; ``scalar`` where it has no dimension."""
    return " × ".join(map(str, shape)) or "scalar"


def index_text(index: Sequence[int]) -> str:
    """Coordinates of an element: ``(0, 3)``; ``()`` of a scalar."""
    return f"({', '.join(map(str, index))})"


def size(count: int) -> str:
    """A number of bytes with four significant digits: ``3.338 MiB``."""
    power = min(max(int(count).bit_length() - 1, 0) // 10, 4)
    return f"{four_digits(count / 1024**power)} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def effect_text(comparison: Comparison, row: int) -> str:
    """What a call did to the error, with the mechanism or the factor."""
    effect, growth = comparison.effect(row), float(comparison.columns["growth"][row])
    if effect == "masked":
        return f"masked: {comparison.mechanism(row)}"
    if effect == "amplified" and np.isfinite(growth):
        return f"amplified {times(growth)}"
    return effect
