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

from collections.abc import Mapping
from typing import Any

import torch

from fi_notebook.faults.bits import FIELDS, Format, bit_view, format_of, from_bits, signed
from fi_notebook.faults.parameters import Parameter
from fi_notebook.faults.registry import Context, register
from fi_notebook.faults.select_by_draw import draw_distinct

__all__: list[str] = []

HIGHEST_BIT = 63

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


def _on_part(
    values: torch.Tensor, change: Mapping[str, torch.Tensor] | torch.Tensor, part: str | None
) -> torch.Tensor:
    """XOR a mask, one per element or part, into the bits of the values."""
    bits = bit_view(values)
    mask = torch.as_tensor(change).to(bits.dtype)
    if not values.dtype.is_complex:
        return from_bits(bits ^ mask, values.dtype)
    flipped = bits.clone()
    for number in {"imag": (1,), "both": (0, 1)}.get(part or "real", (0,)):
        flipped[:, number] ^= mask if mask.dim() < 2 else mask[:, number]
    return from_bits(flipped, values.dtype)


def _mask_of(layout: Format, bits: int | list[int], device: torch.device) -> torch.Tensor:
    """These bits as one mask."""
    pattern = 0
    for bit in [bits] if isinstance(bits, int) else bits:
        pattern |= 1 << bit
    return torch.tensor(signed(pattern, layout.bits), dtype=layout.carrier, device=device)


def _drawn_masks(
    shape: tuple[int, ...], low: int, high: int, generator: torch.Generator
) -> torch.Tensor:
    """One bit per element, uniform over ``low`` to ``high``, as a mask."""
    bit = torch.randint(low, high + 1, shape, generator=generator, device=generator.device)
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
        Parameter("ber", "float", None, 0, 1, summary="Bit error rate over all bits."),
        PART,
    ),
    summary="Flips bits: a numbered one, one drawn from a field, or each with a bit error rate.",
    integers=INTEGERS,
    source="He et al., ISCA'23 (10.1145/3579371.3589105): one flipped bit",
    example={"bit": 30},
    refuse=lambda given, layout, _shape: (
        _no_bit(layout, given["bit"]) or _no_field(layout, given["field"])
    ),
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
        return _on_part(values, _mask_of(layout, bit, values.device), part)
    if ber is None:
        low, high = layout.fields[field] if field else (0, layout.bits - 1)
        masks = _drawn_masks(tuple(values.shape), low, high, ctx.generator)
        return _on_part(values, masks.to(values.device), part)
    parts = layout.parts if part in (None, "both") else 1
    masks = _scattered_masks(values.numel() * parts, layout, ber, ctx.generator)
    masks = masks.to(values.device).view(*values.shape, parts).squeeze(-1)
    return _on_part(values, masks, part or "both")
