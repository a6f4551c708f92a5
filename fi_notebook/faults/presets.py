"""The named presets of ``error_type``: light, heavy, random, delete.

light    values times 1.5
heavy    values times 100
random   draws from the standard normal distribution, N(0, 1)
delete   three decimals kept, rounded half to even in float64; huge values stay
"""

from __future__ import annotations

import torch

from fi_notebook.faults.bits import format_of
from fi_notebook.faults.numbers import by_part, narrow, random_patterns, widened
from fi_notebook.faults.precision import decimals_kept
from fi_notebook.faults.registry import Context, register
from fi_notebook.faults.values import ROUNDED, scaled

__all__: list[str] = []


@register("light", group="presets", integers=ROUNDED, source="named preset: scale(factor=1.5)")
def light(values: torch.Tensor, _ctx: Context) -> torch.Tensor:
    """Multiplies values by 1.5."""
    return scaled(values, 1.5)


@register("heavy", group="presets", integers=ROUNDED, source="named preset: scale(factor=100)")
def heavy(values: torch.Tensor, _ctx: Context) -> torch.Tensor:
    """Multiplies values by 100."""
    return scaled(values, 100)


@register(
    "random",
    group="presets",
    integers="Every value of the dtype is equally likely.",
    source="named preset: random numbers in place of the output",
)
def random(values: torch.Tensor, ctx: Context) -> torch.Tensor:
    """Replaces values, or parts, by draws from the standard normal distribution N(0, 1)."""

    def drawn(part: torch.Tensor) -> torch.Tensor:
        if not format_of(part.dtype).inexact:
            return random_patterns(part, ctx.generator)
        wide = torch.float64 if part.dtype == torch.float64 else torch.float32
        draw = torch.randn(
            part.shape, generator=ctx.generator, dtype=wide, device=ctx.generator.device
        )
        return narrow(draw.to(widened(part).device), part.dtype)

    return by_part(values, drawn)


@register(
    "delete",
    group="presets",
    integers="Unchanged: they have no decimals.",
    source="named preset: round_decimals(decimals=3)",
)
def delete(values: torch.Tensor, _ctx: Context) -> torch.Tensor:
    """Keeps three decimals, rounded half to even in float64; huge values stay."""
    return decimals_kept(values, 3)
