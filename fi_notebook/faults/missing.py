"""Fault models of work that was not done, or done twice; all are call models.

    drop          the output is an input of the same shape and dtype, else zeros
    skip_update   an in-place update does not happen: the old value stays
    duplicate     an in-place update happens twice

The engine, which makes the calls, gives the tensor to take values from: the inputs for
``drop``; as ``previous`` the value before the call for ``skip_update`` and the value
after a second call for ``duplicate``. So all of them work on chosen elements too.
"""

from __future__ import annotations

import torch

from fi_notebook.faults.registry import Context, register
from fi_notebook.faults.tensors import take
from fi_notebook.faults.wrong_data import MOVES, taken_from

__all__: list[str] = []


@register(
    "drop",
    group="missing work",
    needs=("inputs",),
    integers=MOVES,
    source="a skipped kernel or layer: the residual stream passes through",
)
def drop(values: torch.Tensor, ctx: Context) -> torch.Tensor:
    """Replaces the output by the first input of its shape and dtype, or else by zeros."""
    for given in ctx.inputs:
        if given.shape == ctx.tensor.shape and given.dtype == ctx.tensor.dtype:
            return take(given, ctx.indices)
    return torch.zeros_like(values)


@register(
    "duplicate",
    group="missing work",
    needs=("call",),
    integers=MOVES,
    source="a kernel that is launched twice: a gradient counted or a step made twice",
)
def duplicate(_values: torch.Tensor, ctx: Context) -> torch.Tensor:
    """Applies an in-place update twice."""
    return taken_from(ctx.previous, ctx, "duplicate")


@register(
    "skip_update",
    group="missing work",
    needs=("call",),
    integers=MOVES,
    source="a kernel that is not launched: an optimizer step or accumulation lost",
)
def skip_update(_values: torch.Tensor, ctx: Context) -> torch.Tensor:
    """Leaves the value as it was before an in-place update."""
    return taken_from(ctx.previous, ctx, "skip_update")
