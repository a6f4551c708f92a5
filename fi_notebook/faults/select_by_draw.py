"""Elements drawn at random: ``count``, ``fraction`` and the draws of other selections.

A draw without replacement never repeats an element and keeps no list of the others, so
that 5 of 100 million cost as much as 5 of 100.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from fi_notebook.core.words import counted
from fi_notebook.errors import FaultError
from fi_notebook.faults.elements import (
    Indices,
    Selection,
    Shape,
    add_selection,
    nothing_to_fit,
    whole,
)

__all__ = ["draw_distinct", "draw_number", "fraction_count"]


def draw_number(high: int, generator: torch.Generator) -> int:
    """A whole number, uniform over 0 to ``high - 1``."""
    return int(torch.randint(high, (), generator=generator, device=generator.device))


def draw_distinct(k: int, n: int, generator: torch.Generator) -> torch.Tensor:
    """``k`` distinct numbers of 0 to ``n - 1``, sorted; every subset is equally likely.

    Args:
        k: How many; at most ``n``.
        n: Of how many.
        generator: Where the draws come from, and on which device.
    """
    device = generator.device
    if k == n:
        return torch.arange(n, device=device)
    if k > n // 2:  # leave out the fewer
        kept = torch.ones(n, dtype=torch.bool, device=device)
        kept[draw_distinct(n - k, n, generator)] = False
        return kept.nonzero().view(-1)
    found = torch.empty(0, dtype=torch.int64, device=device)
    while len(found) < k:  # never more than are missing, so that no subset is favoured
        more = torch.randint(n, (k - len(found),), generator=generator, device=device)
        found = torch.cat([found, more]).unique()
    return found


def fraction_count(fraction: float, n: int) -> int:
    """How many of ``n`` elements a fraction is: rounded half to even, at least one above 0."""
    return min(n, max(round(fraction * n), 1)) if fraction > 0 else 0


def _parse_count(value: Any) -> int:
    return whole("count", value, 0, "how many distinct elements")


def _fit_count(count: int, _dtype: str, shape: Shape) -> None:
    size = prod(shape)
    if count > size:
        raise FaultError(
            f"count {count:,}: the tensor of shape {shape} has {counted(size, 'element')}; "
            f"valid counts are 0 to {size:,}"
        )


def _choose_count(count: int, tensor: torch.Tensor, generator: torch.Generator) -> Indices:
    n = tensor.numel()
    return None if count == n else draw_distinct(count, n, generator)


def _parse_fraction(value: Any) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (number and 0 <= value <= 1):
        raise FaultError(
            f"elements {{'fraction': {value!r}}}: expected a number from 0 to 1, such as 0.01"
        )
    return float(value)


def _choose_fraction(fraction: float, tensor: torch.Tensor, generator: torch.Generator) -> Indices:
    return _choose_count(fraction_count(fraction, tensor.numel()), tensor, generator)


add_selection(
    Selection(
        "count",
        "So many distinct elements, drawn uniformly; 0 strikes none.",
        ({"count": 5},),
        _parse_count,
        _fit_count,
        _choose_count,
    )
)
add_selection(
    Selection(
        "fraction",
        "This part of all elements, drawn uniformly: rounded half to even, at least one above 0.",
        ({"fraction": 0.01},),
        _parse_fraction,
        nothing_to_fit,
        _choose_fraction,
    )
)
