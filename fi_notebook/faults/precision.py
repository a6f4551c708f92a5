"""Fault models on precision: fewer decimals, fewer mantissa bits, another format.

    round_decimals(decimals=3)     rounded half to even in float64, as ``delete``
    round_to(format="bfloat16")    to bf16, fp16, fp8, tf32, and back
    round_to(mantissa=4, rounding="toward_zero")

A value too large for a format becomes infinite where the format has infinities and its
largest value where it has not, or where rounding is toward zero. NaN and infinities stay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import torch

from fi_notebook.faults.bits import Format
from fi_notebook.faults.numbers import by_part, narrow, where
from fi_notebook.faults.parameters import Parameter
from fi_notebook.faults.registry import Context, register

__all__ = ["decimals_kept", "rounded_to"]


class Precision(NamedTuple):
    """A floating-point format to round to.

    Attributes:
        mantissa: Stored mantissa bits.
        least: Exponent of the smallest normal number.
        largest: Largest finite value.
        infinite: Whether what is larger becomes infinite.
    """

    mantissa: int
    least: int
    largest: float
    infinite: bool


PRECISIONS: Final[Mapping[str, Precision]] = {
    "bfloat16": Precision(7, -126, (2 - 2.0**-7) * 2.0**127, True),
    "float16": Precision(10, -14, 65504.0, True),
    "tf32": Precision(10, -126, (2 - 2.0**-10) * 2.0**127, True),
    "float8_e4m3fn": Precision(3, -6, 448.0, False),
    "float8_e5m2": Precision(2, -14, 57344.0, True),
}
SHORT: Final = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
}
LEAST_OF_ALL: Final = -1022
"""Exponent of the smallest normal float64: rounding to n bits alone sets no other limit."""


def decimals_kept(values: torch.Tensor, decimals: int) -> torch.Tensor:
    """Values rounded to so many decimals, half to even, in float64.

    A value whose scaled form is 2**52 or more has no such decimal to lose; it stays as it
    is (``torch.round`` makes an infinity of 3e38). So do integers, NaN and infinities.
    """
    if not (values.dtype.is_floating_point or values.dtype.is_complex):
        return values
    scale = 10.0**decimals

    def kept(part: torch.Tensor) -> torch.Tensor:
        scaled = part.double() * scale
        rounds = scaled.abs() < 2.0**52  # False for NaN too
        return where(rounds, narrow(scaled.round() / scale, part.dtype), part)

    return by_part(values, kept)


@register(
    "round_decimals",
    group="precision",
    parameters=(
        Parameter("decimals", "int", 3, 0, 15, unit="decimals", summary="How many are kept."),
    ),
    integers="Unchanged: they have no decimals.",
    source="loss of low-order digits",
    example={"decimals": 1},
)
def round_decimals(values: torch.Tensor, _ctx: Context, *, decimals: int) -> torch.Tensor:
    """Keeps so many decimals, rounded half to even in float64; huge values stay."""
    return decimals_kept(values, decimals)


def rounded_to(values: torch.Tensor, to: Precision, *, toward_zero: bool) -> torch.Tensor:
    """Float64 values rounded once to a format, as float64 values."""
    mantissa, exponent = torch.frexp(values)  # values = mantissa * 2**exponent, 0.5 <= |mantissa|
    exponent = torch.where(torch.isfinite(values), exponent, 0).long()
    step = (exponent - 1).clamp(min=to.least) - to.mantissa  # exponent of the last kept bit
    digits = mantissa * _power_of_two(exponent - step)
    whole = digits.trunc() if toward_zero else digits.round()
    half = step // 2  # in two factors: 2**-1074 alone is no normal number
    rounded = whole * _power_of_two(half) * _power_of_two(step - half)
    above = to.largest if toward_zero or not to.infinite else math.inf
    limit = torch.full_like(values, above).copysign(values)
    rounded = torch.where(rounded.abs() > to.largest, limit, rounded)
    return torch.where(torch.isfinite(values), rounded, values)


def _power_of_two(exponent: torch.Tensor) -> torch.Tensor:
    """Exact powers of two, from int64 exponents of -1022 to 1023; ``ldexp`` is not exact."""
    return (exponent + 1023 << 52).view(torch.float64)


def _precision(form: str | None, mantissa: int | None) -> Precision:
    if form is not None:
        return PRECISIONS[SHORT.get(form, form)]
    assert mantissa is not None
    return Precision(mantissa, LEAST_OF_ALL, math.inf, True)


def _one_target(given: Mapping[str, Any]) -> str:
    chosen = [key for key in ("format", "mantissa") if given.get(key) is not None]
    return "" if len(chosen) == 1 else "give either format or mantissa"


def _floats_only(_given: Mapping[str, Any], layout: Format, _shape: tuple[int, ...]) -> str:
    return "" if layout.inexact else f"needs a floating-point dtype, not {layout.dtype}"


@register(
    "round_to",
    group="precision",
    parameters=(
        Parameter(
            "format", "choice", None, choices=(*PRECISIONS, *SHORT), summary="Format to round to."
        ),
        Parameter("mantissa", "int", None, 0, 52, unit="bits", summary="Mantissa bits to keep."),
        Parameter(
            "rounding",
            "choice",
            "nearest",
            choices=("nearest", "toward_zero"),
            summary="To the nearest value (half to even), or toward zero.",
        ),
    ),
    integers="Refused: integers and bools have no mantissa.",
    source="wrong precision of a unit: bf16, tf32 and fp8 in place of fp32",
    example={"format": "float8_e4m3fn"},
    refuse=_floats_only,
    relate=_one_target,
)
def round_to(
    values: torch.Tensor,
    _ctx: Context,
    *,
    format: str | None,  # noqa: A002 - the parameter's name in plans
    mantissa: int | None,
    rounding: str,
) -> torch.Tensor:
    """Rounds values, or parts, to a format of less precision and back."""
    to, toward_zero = _precision(format, mantissa), rounding == "toward_zero"
    return by_part(
        values,
        lambda part: narrow(rounded_to(part.double(), to, toward_zero=toward_zero), part.dtype),
    )
