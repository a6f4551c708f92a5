"""Fault models on values: scaled, shifted, set, drawn, clamped.

    scale(factor=100)   add(value=1)   set(value="nan")   zero   nan   inf   negate
    random_finite   random_uniform(low=0, high=1)   noise(std=0.1, relative=True)   clamp(high=6)

How each computes on floats, integers, bools and complex numbers: see `numbers`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any, Final

import torch

from fi_notebook.faults.bits import Format, bit_view, dtype_of, format_of, from_bits, signed
from fi_notebook.faults.numbers import (
    arithmetic,
    by_part,
    filled,
    is_real,
    narrow,
    random_patterns,
    where,
    widened,
)
from fi_notebook.faults.parameters import Parameter, as_number
from fi_notebook.faults.ranges import ends_inside, nothing_between
from fi_notebook.faults.registry import Context, register
from fi_notebook.faults.tensors import pieces

__all__ = ["scaled"]

ROUNDED: Final = (
    "Exact for a whole number, else in float64 and rounded half to even; held at the ends of "
    "the dtype. A bool is True where the result is not zero."
)
IN_RANGE: Final = "Integers take whole numbers in their range; a bool takes 0 and 1."


def _finite_on_integers(name: str) -> Any:
    """Refuse NaN and infinity where the dtype is no floating-point one."""

    def refuse(given: Mapping[str, Any], layout: Format, _shape: tuple[int, ...]) -> str:
        number = as_number(given[name])
        if layout.inexact or math.isfinite(number):
            return ""
        return f"{name}={given[name]!r} needs a floating-point dtype, not {layout.dtype}"

    return refuse


def scaled(values: torch.Tensor, factor: int | float) -> torch.Tensor:
    """Values of any dtype times a factor, each part of complex ones."""
    return by_part(values, lambda part: arithmetic(part, operator.mul, factor))


@register(
    "scale",
    group="values",
    parameters=(Parameter("factor", "value", summary="What every value is multiplied by."),),
    integers=ROUNDED,
    source="errors of magnitude; the presets light and heavy are two of them",
    example={"factor": 1.5},
    refuse=_finite_on_integers("factor"),
)
def scale(values: torch.Tensor, _ctx: Context, *, factor: Any) -> torch.Tensor:
    """Multiplies values by a factor."""
    return scaled(values, as_number(factor))


@register(
    "add",
    group="values",
    parameters=(Parameter("value", "value", summary="What is added to every value."),),
    integers=ROUNDED,
    source="an offset of known size, for sensitivity studies",
    example={"value": 1.0},
    refuse=_finite_on_integers("value"),
)
def add(values: torch.Tensor, _ctx: Context, *, value: Any) -> torch.Tensor:
    """Adds a constant to values; to the real part of complex ones."""
    number = as_number(value)
    if not values.is_complex():
        return arithmetic(values, operator.add, number)
    real, imaginary = torch.view_as_real(values).unbind(-1)
    added = arithmetic(real, operator.add, number)
    return torch.view_as_complex(torch.stack([added, imaginary], -1))


def _cannot_hold(number: int | float, layout: Format) -> str:
    """Why a dtype cannot hold a number."""
    if layout.inexact:
        return _cannot_hold_float(number, layout)
    if layout.kind == "bool":
        low, high = 0, 1
    else:
        ends = torch.iinfo(dtype_of(layout.dtype))
        low, high = ends.min, ends.max
    if math.isfinite(number) and number == int(number) and low <= number <= high:
        return ""
    return f"{layout.dtype} cannot hold {number}; valid are whole numbers from {low} to {high}"


def _cannot_hold_float(number: int | float, layout: Format) -> str:
    if math.isnan(number):
        return "" if layout.has_nan else f"{layout.dtype} has no NaN"
    largest = torch.finfo(dtype_of(layout.dtype)).max
    if math.isinf(number):
        return (
            ""
            if layout.has_inf
            else (f"{layout.dtype} has no infinity; its largest value is {largest:g}")
        )
    if abs(number) > largest:
        hint = "; for an infinity give 'inf' or '-inf'" if layout.has_inf else ""
        return f"{layout.dtype} cannot hold {number}; its largest value is {largest:g}{hint}"
    return ""


def _filled(values: torch.Tensor, number: int | float) -> torch.Tensor:
    if values.is_complex():
        real = _filled(values.real, number)
        return torch.view_as_complex(torch.stack([real, torch.zeros_like(real)], -1))
    if not is_real(values.dtype):
        return filled(values, number)
    given = torch.tensor(float(number), dtype=torch.float64, device=values.device)
    return torch.empty_like(values).copy_(narrow(given, values.dtype))


@register(
    "set",
    group="values",
    parameters=(
        Parameter("value", "value", summary="The new value; NaN and infinities as text in JSON."),
    ),
    integers=IN_RANGE,
    source="a constant in place of the value: the general form of zero, nan and inf",
    example={"value": 100.0},
    refuse=lambda given, layout, _shape: _cannot_hold(as_number(given["value"]), layout),
)
def set_value(values: torch.Tensor, _ctx: Context, *, value: Any) -> torch.Tensor:
    """Replaces values by a constant; complex ones get an imaginary part of zero."""
    return _filled(values, as_number(value))


@register(
    "zero",
    group="values",
    integers="Zero; False.",
    source="He et al., ISCA'23: zero in place of the value",
    refuse=lambda _given, layout, _shape: (
        "float8_e8m0fnu has no zero" if layout.dtype == "float8_e8m0fnu" else ""
    ),
)
def zero(values: torch.Tensor, _ctx: Context) -> torch.Tensor:
    """Replaces values by zero."""
    return torch.zeros_like(values)


@register(
    "nan",
    group="values",
    integers="Refused: integers and bools have no NaN.",
    source="NaN or Inf are 1.01 % of silent corruptions in a study of a GPU (arXiv 2605.04213)",
    refuse=lambda _given, layout, _shape: _cannot_hold(math.nan, layout),
)
def nan(values: torch.Tensor, _ctx: Context) -> torch.Tensor:
    """Replaces values by NaN; both parts of complex ones."""
    return by_part(values, lambda part: _filled(part, math.nan))


@register(
    "inf",
    group="values",
    parameters=(Parameter("negative", "bool", False, summary="Minus infinity instead of plus."),),
    integers="Refused: integers and bools have no infinity.",
    source="NaN or Inf are 1.01 % of silent corruptions in a study of a GPU (arXiv 2605.04213)",
    refuse=lambda _given, layout, _shape: _cannot_hold(math.inf, layout),
)
def inf(values: torch.Tensor, _ctx: Context, *, negative: bool) -> torch.Tensor:
    """Replaces values by infinity; complex ones get an imaginary part of zero."""
    return _filled(values, -math.inf if negative else math.inf)


@register(
    "negate",
    group="values",
    integers="Held at the ends of the dtype, so unsigned numbers become 0; bools are inverted.",
    source="a wrong sign: a relative error of exactly 2",
    refuse=lambda _given, layout, _shape: (
        "float8_e8m0fnu has no sign" if layout.dtype == "float8_e8m0fnu" else ""
    ),
)
def negate(values: torch.Tensor, _ctx: Context) -> torch.Tensor:
    """Changes the sign of values, of both parts of complex ones, NaN and zero included."""
    if values.dtype == torch.bool:
        return ~values
    layout = format_of(values.dtype)
    if not layout.inexact or layout.dtype.endswith("fnuz"):  # fnuz has no -0: its bits are NaN
        return scaled(values, -1)
    bits = bit_view(values)
    return from_bits(bits ^ signed(1 << layout.bits - 1, layout.bits), values.dtype)


@register(
    "random_finite",
    group="values",
    integers="Every value of the dtype is equally likely.",
    source="He et al., ISCA'23: a random finite bit pattern",
)
def random_finite(values: torch.Tensor, ctx: Context) -> torch.Tensor:
    """Replaces values, or parts, by drawn bit patterns; all finite ones are equally likely."""

    def drawn(part: torch.Tensor) -> torch.Tensor:
        found = random_patterns(part, ctx.generator)
        bits = bit_view(found)
        while not (finite := torch.isfinite(widened(found))).all():  # draw those again
            missing = ~finite
            bits[missing] = bit_view(random_patterns(part[missing], ctx.generator))
        return found

    return by_part(values, drawn)


_NO_LIMIT: Final = "give low, high or both"


def _no_range(given: Mapping[str, Any]) -> str:
    low, high = given.get("low"), given.get("high")
    if low is not None and high is not None and low > high:
        return f"low={low} is above high={high}"
    return ""


@register(
    "random_uniform",
    group="values",
    parameters=(
        Parameter("low", "float", 0.0, summary="Smallest value."),
        Parameter("high", "float", 1.0, summary="Largest value."),
    ),
    integers="Whole numbers from low to high, drawn in float64, held at the ends of the dtype.",
    source="a value that has nothing to do with the right one, in a known range",
    example={"low": -1.0, "high": 1.0},
    refuse=nothing_between,
    relate=lambda given: _no_range({"low": 0.0, "high": 1.0} | dict(given)),
)
def random_uniform(values: torch.Tensor, ctx: Context, *, low: float, high: float) -> torch.Tensor:
    """Replaces values, or parts, by draws that are uniform from low to high."""

    def drawn(part: torch.Tensor) -> torch.Tensor:
        unit = torch.rand(
            part.shape, generator=ctx.generator, dtype=torch.float64, device=ctx.generator.device
        ).to(part.device)
        first, last = float(low), float(high)
        least, most = ends_inside(low, high, format_of(part.dtype))
        if not math.isfinite(last - first):  # too far apart for their distance
            found = first * (1 - unit) + last * unit
        elif format_of(part.dtype).inexact:
            found = first + unit * (last - first)
        else:
            found = least + (unit * (most - least + 1)).floor()
        return narrow(found.clamp(least, most), part.dtype)

    return by_part(values, drawn)


@register(
    "clamp",
    group="values",
    parameters=(
        Parameter("low", "float", None, summary="Smallest value that is kept."),
        Parameter("high", "float", None, summary="Largest value that is kept."),
    ),
    integers="Computed in float64; whole numbers keep within the range.",
    source="saturating arithmetic; a limiter where there should be none",
    example={"low": -1.0, "high": 0.5},
    refuse=lambda given, layout, shape: (
        "" if layout.inexact else nothing_between(given, layout, shape)
    ),
    relate=lambda given: (
        _no_range(given) or ("" if any(n is not None for n in given.values()) else _NO_LIMIT)
    ),
)
def clamp(
    values: torch.Tensor, _ctx: Context, *, low: float | None, high: float | None
) -> torch.Tensor:
    """Holds values, or parts, between low and high; NaN stays NaN."""

    def held(part: torch.Tensor) -> torch.Tensor:
        inside = torch.ones_like(part, dtype=torch.bool)
        wide = widened(part)
        if low is not None:
            inside &= ~(wide < float(low))
        if high is not None:
            inside &= ~(wide > float(high))
        whole = not format_of(part.dtype).inexact
        least = None if low is None else _limit(math.ceil(low) if whole else low, part)
        most = None if high is None else _limit(math.floor(high) if whole else high, part)
        return where(inside, part, narrow(wide.clamp(least, most), part.dtype))

    return by_part(values, held)


def _limit(number: int | float, values: torch.Tensor) -> torch.Tensor:
    """A limit as a tensor, which becomes infinite in a dtype that cannot hold it."""
    return torch.tensor(float(number), dtype=torch.float64, device=values.device)


def finite_std(tensor: torch.Tensor) -> float:
    """Standard deviation (population) of the finite elements, in float64, piece by piece."""
    count, total, squares = 0, 0.0, 0.0
    mean = 0.0
    for measure in ("mean", "squares"):
        for _start, piece in pieces(tensor):
            parts = torch.view_as_real(piece) if piece.dtype.is_complex else piece
            real = widened(parts).double()
            real = real[torch.isfinite(real)]
            if measure == "mean":
                count, total = count + real.numel(), total + float(real.sum())
            else:
                squares += float((real - mean).square().sum())
        mean = total / count if count else 0.0
    return math.sqrt(squares / count) if count else 0.0


@register(
    "noise",
    group="values",
    parameters=(
        Parameter("std", "float", 1.0, 0, None, summary="Standard deviation of the noise."),
        Parameter(
            "relative",
            "choice",
            False,
            choices=(False, True, "element", "tensor"),
            summary="std is relative to each value (True, 'element') or to the tensor's std.",
        ),
    ),
    integers="In float64, rounded half to even, held at the ends; a bool is True unless it is 0.",
    source="a disturbance of known size, for sensitivity studies",
    example={"std": 0.1},
)
def noise(values: torch.Tensor, ctx: Context, *, std: float, relative: bool | str) -> torch.Tensor:
    """Adds normally distributed noise, to each part of complex values."""
    scale_by = float(std) * finite_std(ctx.tensor) if relative == "tensor" else float(std)

    def noisy(part: torch.Tensor) -> torch.Tensor:
        wide = widened(part)
        wide = wide if wide.dtype == torch.float64 else wide.float()
        draw = torch.randn(
            wide.shape, generator=ctx.generator, dtype=wide.dtype, device=ctx.generator.device
        ).to(wide.device)
        amount = draw * scale_by
        return narrow(
            wide + (wide * amount if relative in (True, "element") else amount), part.dtype
        )

    return by_part(values, noisy)
