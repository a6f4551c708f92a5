"""A call made again with other tensors, to find why it does not show an error.

    rounds(call, golden, faulty)       # in float64 its outputs differ: rounding hid it
    same_slope(call, golden, faulty)   # with a gradient of ones they are equal
    passes_over(call, faulty, mask)    # among zeros, NaN at the changed places reaches nothing

Only operators that are known to do nothing but compute are made again, on copies.

Limits: calls that read more than a million elements are not; those in place cannot be,
since what they read is gone; in float64 nothing is left to compute with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from fi_notebook.engine.bits import equal_bits
from fi_notebook.engine.intercept import Call
from fi_notebook.engine.storages import tensors_in

__all__ = ["POOLS", "SLOPES", "passes_over", "rounds", "same_slope"]

_MOST = 1 << 20

SLOPES = frozenset(
    ["threshold_backward", "hardtanh_backward", "leaky_relu_backward", "hardsigmoid_backward"]
)
"""Backward operators of functions that are straight between a few points."""

POOLS = frozenset(
    [
        "max_pool2d_with_indices",
        "max_pool3d_with_indices",
        "adaptive_max_pool2d",
        "avg_pool2d",
        "avg_pool3d",
        "convolution",
    ]
)
"""Operators that may pass over a part of their first input, with a stride."""

_NAMES = """
mul div mm bmm addmm baddbmm sqrt rsqrt reciprocal log log1p pow sin cos cosh abs square
sigmoid tanh gelu silu elu softplus erf mish hardsigmoid hardswish log_sigmoid_forward exp
sigmoid_backward tanh_backward gelu_backward silu_backward elu_backward softplus_backward
hardswish_backward log_sigmoid_backward
_softmax _log_softmax native_layer_norm native_group_norm _fused_rms_norm
"""
_COMPUTES = SLOPES | POOLS | frozenset(_NAMES.split())


def rounds(call: Call, golden: Sequence[torch.Tensor], faulty: Sequence[torch.Tensor]) -> bool:
    """Whether a call of these and of those tensors gives the same only for being rounded.

    Args:
        call: The call.
        golden: Its tensors, in order, as they would be without the error.
        faulty: The same with it.
    """
    if any(tensor.dtype == torch.float64 for tensor in faulty):
        return False
    one, other = (_made(call, _double(tensors)) for tensors in (golden, faulty))
    return one is not None and other is not None and not _same(one, other)


def same_slope(call: Call, golden: Sequence[torch.Tensor], faulty: Sequence[torch.Tensor]) -> bool:
    """Whether a backward call has the same derivative for these and those tensors.

    Args:
        call: The call; the gradient is its first tensor.
        golden: Its tensors, in order, as they would be without the error.
        faulty: The same with it.
    """
    ones = torch.ones_like(faulty[0])
    one, other = (_made(call, (ones, *tensors[1:])) for tensors in (golden, faulty))
    return one is not None and other is not None and _same(one, other)


def passes_over(call: Call, faulty: Sequence[torch.Tensor], mask: torch.Tensor) -> bool:
    """Whether a call reads nothing of the places of a mask in its first tensor.

    Args:
        call: The call.
        faulty: Its tensors, in order.
        mask: The places.
    """
    first = faulty[0]
    if not first.is_floating_point():
        return False
    poison = torch.zeros_like(first).masked_fill_(mask, torch.nan)
    others = [torch.ones_like(t) if t.is_floating_point() else t for t in faulty[1:]]
    made = _made(call, (poison, *others))
    return made is not None and not any(bool(t.isnan().any()) for t in made)


def _double(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [t.detach().double() if t.is_floating_point() else t for t in tensors]


def _same(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return all(equal_bits(a, b) for a, b in zip(one, other, strict=True))


def _made(call: Call, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor] | None:
    """What a call gives of other tensors; None where it is not made again."""
    if call.op not in _COMPUTES or sum(tensor.numel() for tensor in tensors) > _MOST:
        return None
    read = tensors_in((*call.args, *call.kwargs.values()))
    given = {id(old): new for old, new in zip(read, tensors, strict=True)}
    args = [_instead(value, given) for value in call.args]
    kwargs = {name: _instead(value, given) for name, value in call.kwargs.items()}
    try:
        with torch.no_grad():
            return tensors_in((call.func(*args, **kwargs),))
    except (RuntimeError, TypeError, ValueError):  # it does not take such tensors
        return None


def _instead(value: Any, given: Mapping[int, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return given[id(value)]
    if isinstance(value, (list, tuple)):
        return [_instead(item, given) for item in value]
    return value
