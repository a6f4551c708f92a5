"""Fault models of right values in the wrong place or at the wrong time.

    stale           what was computed for this site in the step before (a call model)
    wrong_address   the value of another element of the same tensor, drawn
    shift(by=1)     the value of an element some places before
    swap_rows       two rows of the tensor as a matrix change places
    permute         the chosen values in a drawn order

Values are moved as bits, so that every dtype works and NaN payloads stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from fi_notebook.errors import FaultError
from fi_notebook.faults.bits import Format
from fi_notebook.faults.parameters import Parameter
from fi_notebook.faults.registry import Context, register
from fi_notebook.faults.select_by_draw import draw_distinct
from fi_notebook.faults.select_matrix import matrix_shape
from fi_notebook.faults.tensors import take

__all__ = ["positions", "taken_from"]

MOVES = "Moves values as they are; every dtype works."
STALE = "a buffer that is read before it is written anew: a lost or late write, a missing wait"
ADDRESS = "He et al., ISCA'23: the right value of another element"


def positions(ctx: Context) -> torch.Tensor:
    """Flat indices of the chosen elements, also where all are chosen."""
    if ctx.indices is not None:
        return ctx.indices
    return torch.arange(ctx.tensor.numel(), device=ctx.tensor.device)


def taken_from(source: torch.Tensor | None, ctx: Context, name: str) -> torch.Tensor:
    """The chosen elements of another tensor.

    Raises:
        FaultError: There is no such tensor, or its shape or dtype differs.
    """
    if source is None:
        raise FaultError(
            f"{name}: there is no earlier value of this site yet; strike step 1 or a later one"
        )
    if source.shape != ctx.tensor.shape or source.dtype != ctx.tensor.dtype:
        raise FaultError(
            f"{name}: the earlier value has shape {tuple(source.shape)} and {source.dtype}, "
            f"this one {tuple(ctx.tensor.shape)} and {ctx.tensor.dtype}"
        )
    return take(source, ctx.indices).to(ctx.tensor.device)


@register("stale", group="wrong data", needs=("previous",), integers=MOVES, source=STALE)
def stale(_values: torch.Tensor, ctx: Context) -> torch.Tensor:
    """Replaces values by those computed for this site in the step before.

    A call that is named by its number, and was not seen in the step before, has those of the
    operator's call before it.
    """
    return taken_from(ctx.previous, ctx, "stale")


@register("wrong_address", group="wrong data", integers=MOVES, source=ADDRESS)
def wrong_address(values: torch.Tensor, ctx: Context) -> torch.Tensor:
    """Replaces each value by that of another element, drawn uniformly from the others."""
    n = ctx.tensor.numel()
    if n < 2:
        return values
    device = ctx.generator.device
    away = torch.randint(1, n, values.shape, generator=ctx.generator, device=device)
    return take(ctx.tensor, (positions(ctx) + away.to(ctx.tensor.device)) % n)


def _no_dimension(given: Mapping[str, Any], _layout: Format, shape: tuple[int, ...]) -> str:
    dim = given["dim"]
    if dim is None or -len(shape) <= dim < len(shape):
        return ""
    return f"the tensor of shape {shape} has no dimension {dim}; valid are 0 to {len(shape) - 1}"


@register(
    "shift",
    group="wrong data",
    parameters=(
        Parameter("by", "int", 1, unit="places", summary="How many places; negative is backward."),
        Parameter("dim", "int", None, summary="Along this dimension; row-major if left out."),
    ),
    integers=MOVES,
    source=ADDRESS + ", at a constant distance (an address line)",
    example={"by": 1},
    refuse=_no_dimension,
)
def shift(values: torch.Tensor, ctx: Context, *, by: int, dim: int | None) -> torch.Tensor:
    """Replaces each value by that of the element so many places before, around the end."""
    shape = tuple(ctx.tensor.shape)
    if not values.numel():
        return values
    where = positions(ctx)
    if dim is None:
        return take(ctx.tensor, (where - by) % ctx.tensor.numel())
    inner = 1
    for size in shape[dim % len(shape) + 1 :]:
        inner *= size
    size = shape[dim]
    line = where.div(inner, rounding_mode="floor") % size
    return take(ctx.tensor, where + ((line - by) % size - line) * inner)


def _no_rows(given: Mapping[str, Any], _layout: Format, shape: tuple[int, ...]) -> str:
    rows, _columns = matrix_shape(shape)
    if rows < 2:
        return f"the tensor of shape {shape} is one row; two are needed"
    for row in given["rows"] or ():
        if row >= rows:
            return f"no row {row} of {rows}; valid are 0 to {rows - 1}"
    return ""


@register(
    "swap_rows",
    group="wrong data",
    parameters=(
        Parameter("rows", "ints", None, 0, summary="The two rows, such as [0, 3]; else drawn."),
    ),
    integers=MOVES,
    source=ADDRESS + ", for a whole row",
    example={"rows": [0, 1]},
    refuse=_no_rows,
    relate=lambda given: (
        ""
        if given.get("rows") is None or len(_as_list(given["rows"])) == 2
        else f"rows={given['rows']} must be two rows, such as [0, 3]"
    ),
)
def swap_rows(values: torch.Tensor, ctx: Context, *, rows: list[int] | None) -> torch.Tensor:
    """Swaps two rows of the tensor as a matrix, as far as their elements are chosen."""
    height, width = matrix_shape(tuple(ctx.tensor.shape))
    if not values.numel():
        return values
    one, other = rows or draw_distinct(2, height, ctx.generator).tolist()
    where = positions(ctx)
    row = where.div(width, rounding_mode="floor")
    away = (row == one).long() * (other - one) + (row == other).long() * (one - other)
    return take(ctx.tensor, where + away * width)


def _as_list(rows: int | list[int]) -> list[int]:
    return [rows] if isinstance(rows, int) else rows


@register("permute", group="wrong data", integers=MOVES, source=ADDRESS + ", for all of them")
def permute(values: torch.Tensor, ctx: Context) -> torch.Tensor:
    """Puts the chosen values into a drawn order."""
    order = torch.randperm(len(values), generator=ctx.generator, device=ctx.generator.device)
    return take(values, order.to(values.device))
