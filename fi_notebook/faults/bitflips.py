"""Fault models on bits: flips, bursts, stuck bits and masks, exact for every dtype.

    bitflip(bit=30)            this bit of every chosen element
    bitflip(bit=[30, 31])      several
    bitflip(field="exponent")  one bit per element, drawn uniformly over the field
    bitflip()                  one bit per element, drawn uniformly over all of them
    bitflip(ber=1e-6)          each bit of the chosen elements, with this probability

A flip twice is the identity, NaN payloads included. Bits of a complex element are those
of a part: of the real one unless ``part`` says otherwise (``ber`` strikes both).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from fi_notebook.faults.bits import (
    FIELDS,
    Format,
    bit_view,
    carrier_of,
    format_of,
    from_bits,
    signed,
)
from fi_notebook.faults.parameters import Parameter
from fi_notebook.faults.registry import Context, register
from fi_notebook.faults.select_by_draw import draw_distinct

__all__: list[str] = []

HIGHEST_BIT = 63
Combine = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

PART = Parameter(
    "part",
    "choice",
    None,
    choices=("real", "imag", "both"),
    summary="Part of complex elements: real, imag or both; the real one where left out.",
)
INTEGERS = "Flips bits of the stored number; a bool has the one bit 0."


def _no_bit(layout: Format, bits: int | list[int] | None) -> str:
    """Why a dtype does not have these bits."""
    for bit in [bits] if isinstance(bits, int) else bits or ():
        if bit >= layout.bits:
            return f"{layout.dtype} has no bit {bit}; its bits are {layout.valid_bits}"
    return ""


def _no_field(layout: Format, field: str | None) -> str:
    """Why a dtype does not have this field."""
    if field is None or field in layout.fields:
        return ""
    return f"{layout.dtype} has no field {field!r}; its bits are {layout.valid_bits}"


def _no_part(layout: Format, part: str | None) -> str:
    """Why a dtype does not have this part."""
    if part is None or layout.parts == 2:
        return ""
    return f"{layout.dtype} has no part {part!r}; leave part out, it is for complex dtypes"


def _no_bits(given: Mapping[str, Any], layout: Format, _shape: tuple[int, ...]) -> str:
    """Why a dtype does not have the bits, field or part that are given."""
    return (
        _no_bit(layout, given["bit"])
        or _no_field(layout, given["field"])
        or _no_part(layout, given["part"])
    )


def _on_part(
    values: torch.Tensor,
    masks: torch.Tensor,
    part: str | None,
    combine: Combine = torch.bitwise_xor,
) -> torch.Tensor:
    """Combine masks with the bits of the values, or of a part of complex ones.

    Args:
        values: The chosen values, of one dimension.
        masks: One mask for all, one per value, or (n, 2) masks for both parts.
        part: ``real``, ``imag``, ``both``, or None for the real part.
        combine: ``(bits, masks) -> bits``.
    """
    bits = bit_view(values)
    masks = masks.to(bits)
    if not values.dtype.is_complex:
        return from_bits(combine(bits, masks), values.dtype)
    changed = bits.clone()
    for column in {"imag": (1,), "both": (0, 1)}.get(part or "real", (0,)):
        mask = masks[:, column] if masks.dim() == 2 else masks
        changed[:, column] = combine(bits[:, column], mask)
    return from_bits(changed, values.dtype)


def _mask(layout: Format, pattern: int) -> torch.Tensor:
    """One bit pattern as a mask for every value."""
    return torch.tensor(signed(pattern, layout.bits), dtype=carrier_of(layout), device="cpu")


def _pattern(layout: Format, bits: int | list[int] | None, field: str | None) -> int:
    """Bits, or all those of a field, as one bit pattern."""
    if field is not None:
        low, high = layout.fields[field]
        return (1 << high + 1) - (1 << low)
    return sum(1 << bit for bit in ([bits] if isinstance(bits, int) else bits or ()))


def _drawn_masks(count: int, low: int, high: int, generator: torch.Generator) -> torch.Tensor:
    """One bit per element, uniform over ``low`` to ``high``, as a mask."""
    bit = torch.randint(low, high + 1, (count,), generator=generator, device=generator.device)
    return torch.ones_like(bit) << bit


def _scattered_masks(
    count: int, layout: Format, rate: float, generator: torch.Generator
) -> torch.Tensor:
    """Masks in which each bit is set with this probability, independently.

    How many are set is drawn first, from the binomial distribution, then which ones.
    """
    width = layout.bits
    total = torch.tensor(count * width, dtype=torch.float64, device=generator.device)
    hits = int(torch.binomial(total, torch.full_like(total, rate), generator=generator))
    where = draw_distinct(hits, count * width, generator)
    masks = torch.zeros(count, dtype=torch.int64, device=generator.device)
    element, bit = where.div(width, rounding_mode="floor"), where % width
    return masks.index_add_(
        0, element, torch.ones_like(bit) << bit
    )  # distinct bits: a sum is an or


def _one_way(parameters: Mapping[str, Any]) -> str:
    given = [key for key in ("bit", "field", "ber") if parameters.get(key) is not None]
    return "" if len(given) < 2 else f"give one of bit, field and ber, not {' and '.join(given)}"


@register(
    "bitflip",
    group="bits",
    parameters=(
        Parameter("bit", "ints", None, 0, HIGHEST_BIT, summary="Bit, or several; 0 is the least."),
        Parameter("field", "choice", None, choices=FIELDS, summary="One bit, drawn over a field."),
        Parameter(
            "ber", "float", None, 0, 1, unit="bit error rate", summary="Chance of each bit to flip."
        ),
        PART,
    ),
    summary=(
        "Flips bits: a numbered one, one drawn from a field, or each with a bit error rate; "
        "without any of these one bit of each element, drawn from all."
    ),
    integers=INTEGERS,
    source="He et al., ISCA'23 (10.1145/3579371.3589105): one flipped bit",
    example={"bit": 30},
    refuse=_no_bits,
    relate=_one_way,
)
def bitflip(
    values: torch.Tensor,
    ctx: Context,
    *,
    bit: int | list[int] | None,
    field: str | None,
    ber: float | None,
    part: str | None,
) -> torch.Tensor:
    """Flip bits of every value."""
    layout = format_of(values.dtype)
    if bit is not None:
        return _on_part(values, _mask(layout, _pattern(layout, bit, None)), part)
    if ber is None:
        low, high = layout.fields[field] if field else (0, layout.bits - 1)
        return _on_part(values, _drawn_masks(len(values), low, high, ctx.generator), part)
    parts = layout.parts if part in (None, "both") else 1
    masks = _scattered_masks(values.numel() * parts, layout, ber, ctx.generator)
    return _on_part(values, masks.view(-1, 2) if parts == 2 else masks, part or "both")


def _no_burst(given: Mapping[str, Any], layout: Format, _shape: tuple[int, ...]) -> str:
    """Why a dtype has no room for a burst."""
    length, first = given["length"], given["bit"] or 0
    if first + length <= layout.bits:
        return _no_part(layout, given["part"])
    return (
        f"{length} bits from bit {first} do not fit {layout.dtype}; its bits are "
        f"{layout.valid_bits}"
    )


@register(
    "burst",
    group="bits",
    parameters=(
        Parameter("length", "int", 2, 1, HIGHEST_BIT + 1, unit="bits", summary="How many bits."),
        Parameter("bit", "int", None, 0, HIGHEST_BIT, summary="Lowest bit; drawn if left out."),
        PART,
    ),
    integers=INTEGERS,
    source="upsets of neighbouring cells. In a gate-level study of a GPU less than 40 % of the "
    "bit-flip events are single bits (arXiv 2605.04213, whose abstract says nothing of adjacency)",
    example={"length": 3, "bit": 20},
    refuse=_no_burst,
)
def burst(
    values: torch.Tensor, ctx: Context, *, length: int, bit: int | None, part: str | None
) -> torch.Tensor:
    """Flips adjacent bits; where they start is drawn for each value unless it is given."""
    layout = format_of(values.dtype)
    if bit is not None:
        return _on_part(values, _mask(layout, (1 << length) - 1 << bit), part)
    starts = _drawn_masks(len(values), 0, layout.bits - length, ctx.generator)
    return _on_part(values, starts * signed((1 << length) - 1, 64), part)


STUCK = (
    Parameter("bit", "ints", None, 0, HIGHEST_BIT, summary="Bit, or several; 0 is the least."),
    Parameter("field", "choice", None, choices=FIELDS, summary="Every bit of a field."),
    PART,
)


def _one_of_two(parameters: Mapping[str, Any]) -> str:
    given = [key for key in ("bit", "field") if parameters.get(key) is not None]
    return "" if len(given) == 1 else "give either bit or field"


@register(
    "stuck_at_0",
    group="bits",
    parameters=STUCK,
    integers=INTEGERS.replace("Flips", "Clears"),
    source="permanent stuck-at faults of gate-level studies",
    example={"bit": 23},
    refuse=_no_bits,
    relate=_one_of_two,
)
def stuck_at_0(
    values: torch.Tensor,
    _ctx: Context,
    *,
    bit: int | list[int] | None,
    field: str | None,
    part: str | None,
) -> torch.Tensor:
    """Clears bits; twice is the same as once."""
    layout = format_of(values.dtype)
    mask = _mask(layout, _pattern(layout, bit, field))
    return _on_part(values, mask, part, lambda bits, chosen: bits & ~chosen)


@register(
    "stuck_at_1",
    group="bits",
    parameters=STUCK,
    integers=INTEGERS.replace("Flips", "Sets"),
    source="permanent stuck-at faults of gate-level studies",
    example={"bit": 23},
    refuse=_no_bits,
    relate=_one_of_two,
)
def stuck_at_1(
    values: torch.Tensor,
    _ctx: Context,
    *,
    bit: int | list[int] | None,
    field: str | None,
    part: str | None,
) -> torch.Tensor:
    """Sets bits; twice is the same as once."""
    layout = format_of(values.dtype)
    return _on_part(values, _mask(layout, _pattern(layout, bit, field)), part, torch.bitwise_or)


def _as_mask(mask: int | str) -> int:
    return int(mask, 0) if isinstance(mask, str) else mask


def _wide_mask(given: Mapping[str, Any], layout: Format, _shape: tuple[int, ...]) -> str:
    mask = _as_mask(given["mask"])
    if not mask >> layout.bits:
        return _no_part(layout, given["part"])
    return f"mask {mask:#x} is wider than {layout.dtype}; its bits are {layout.valid_bits}"


@register(
    "xor_mask",
    group="bits",
    parameters=(
        Parameter("mask", "mask", low=0, high=(1 << 64) - 1, summary="The bits that flip."),
        PART,
    ),
    integers=INTEGERS,
    source="any multi-bit upset: the general form of a bit flip",
    example={"mask": "0x8080"},
    refuse=_wide_mask,
)
def xor_mask(
    values: torch.Tensor, _ctx: Context, *, mask: int | str, part: str | None
) -> torch.Tensor:
    """Flips the bits of a mask."""
    return _on_part(values, _mask(format_of(values.dtype), _as_mask(mask)), part)
