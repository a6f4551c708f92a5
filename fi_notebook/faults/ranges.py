"""The values of a dtype that lie in a range.

    ends_inside(0.2, 0.8, format_of("int32"))   -> (1.0, 0.0): there is none
    ends_inside(0, 0.1, format_of("bfloat16"))  -> (0.0, 0.099609375)

Limits: of integers the ends are float64, which is not exact beyond 2**53; those beyond the dtype
are not held at its ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from fi_notebook.faults.bits import Format, bit_view, dtype_of, from_bits
from fi_notebook.faults.numbers import narrow

__all__ = ["ends_inside", "nothing_between"]


def _inside(number: float, layout: Format, *, up: bool) -> float:
    """The least value of a dtype that is not below a number; the largest not above, if not ``up``.

    Infinite or NaN where there is none.
    """
    if not layout.inexact:
        return float(math.ceil(number) if up else math.floor(number))
    if number < 0 and "sign" in layout.fields:
        return -_inside(-number, layout, up=not up)
    if number < 0:
        return _inside(0.0, layout, up=True) if up else math.nan
    dtype = dtype_of(layout.dtype)
    dtype = dtype.to_real() if dtype.is_complex else dtype
    largest = torch.finfo(dtype).max
    if number > largest:
        return math.inf if up else largest
    near = narrow(torch.tensor(number, dtype=torch.float64, device="cpu"), dtype)
    if float(near) < number if up else float(near) > number:
        near = from_bits(bit_view(near) + (1 if up else -1), dtype)
    return float(near)


def ends_inside(low: float, high: float, layout: Format) -> tuple[float, float]:
    """The least and the largest value of a dtype from one number to another."""
    return _inside(low, layout, up=True), _inside(high, layout, up=False)


def nothing_between(given: Mapping[str, Any], layout: Format, _shape: tuple[int, ...]) -> str:
    """Refuse a range in which the dtype has no value."""
    low, high = given["low"], given["high"]
    if low is None or high is None:
        return ""
    least, most = ends_inside(low, high, layout)
    if least <= most < math.inf:
        return ""
    what = f"value of {layout.dtype}" if layout.inexact else "whole number"
    return f"no {what} lies from low={low} to high={high}"
