"""Elements chosen by their value.

    top       the largest magnitudes                {"top": 5}
    nonzero   what is not zero                      "nonzero"
    where     a comparison on the value             {"where": "> 0.5"}  {"where": "abs(x) < 1e-3"}
              or what kind of number it is          {"where": "nan"}, "inf", "finite"

These read the whole tensor once, four million elements at a time; contiguous memory is
not copied. A comparison is torch's own in the tensor's dtype; on integers it is exact. A number
with a point or an exponent is one of float64.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from fi_notebook.core.words import counted
from fi_notebook.errors import FaultError
from fi_notebook.faults.bits import format_of
from fi_notebook.faults.elements import (
    NO_ARGUMENT,
    Indices,
    Selection,
    Shape,
    add_selection,
    nothing_to_fit,
    whole,
)
from fi_notebook.faults.numbers import (
    is_whole,
    magnitude,
    magnitudes_of_integers,
    whole_numbers,
    widened,
)
from fi_notebook.faults.tensors import pieces

__all__: list[str] = []


def _where(tensor: torch.Tensor, test: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Flat indices of the elements that pass a test."""
    found = [start + test(piece).nonzero().view(-1) for start, piece in pieces(tensor)]
    return torch.cat(found) if found else torch.empty(0, dtype=torch.int64, device=tensor.device)


# top


def _largest(magnitudes: torch.Tensor, k: int) -> torch.Tensor:
    """Positions of the k largest, the earlier ones where several are equal."""
    if len(magnitudes) <= k:
        return torch.arange(len(magnitudes), device=magnitudes.device)
    least = magnitudes.topk(k).values[-1]
    above = (magnitudes > least).nonzero().view(-1)
    equal = (magnitudes == least).nonzero().view(-1)[: k - len(above)]
    return torch.cat([above, equal]).sort().values


def _choose_top(k: int, tensor: torch.Tensor, _generator: torch.Generator) -> Indices:
    best = torch.empty(0, device=tensor.device)
    where = torch.empty(0, dtype=torch.int64, device=tensor.device)
    for start, piece in pieces(tensor):
        if format_of(piece.dtype).inexact:
            size = magnitude(piece).nan_to_num(math.inf, posinf=math.inf)
        else:
            size, _ = magnitudes_of_integers(piece)
        chosen = _largest(size, k)
        best = torch.cat([best.to(size.dtype), size[chosen]])
        where = torch.cat([where, start + chosen])
        kept = _largest(best, k)
        best, where = best[kept], where[kept]
    return where


def _fit_top(k: int, _dtype: str, shape: Shape) -> None:
    if k > prod(shape):
        raise FaultError(
            f"top {k}: the tensor of shape {shape} has {counted(prod(shape), 'element')}"
        )


# where

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_KINDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "nan": torch.isnan,
    "inf": torch.isinf,
    "finite": torch.isfinite,
}
_WHERE = re.compile(r"(?P<of>x|abs\(x\)|abs|\|x\|)?\s*(?P<sign><=|>=|==|!=|<|>)\s*(?P<number>\S+)")
_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Test:
    """A parsed condition: a comparison, or a kind of number."""

    text: str
    kind: str = ""
    sign: str = ""
    number: int | float = 0
    absolute: bool = False

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """Where the values pass."""
        if self.kind:
            return _KINDS[self.kind](widened(values))
        if not format_of(values.dtype).inexact and is_whole(self.number):
            return self._exactly(values)
        numbers = magnitude(values) if self.absolute else widened(values)
        return _COMPARISONS[self.sign](numbers, float(self.number))

    def _exactly(self, values: torch.Tensor) -> torch.Tensor:
        """Where integers pass a comparison with a whole number."""
        numbers, lacking = (magnitudes_of_integers if self.absolute else whole_numbers)(values)
        limit = int(self.number) - lacking
        compare = _COMPARISONS[self.sign]
        if -(1 << 63) <= limit < 1 << 63:
            return compare(numbers, limit)
        return torch.full_like(numbers, compare(0, limit), dtype=torch.bool)  # all on one side


def _parse_where(value: Any) -> _Test:
    text = value.strip() if isinstance(value, str) else ""
    if text in _KINDS:
        return _Test(text, kind=text)
    match = _WHERE.fullmatch(text)
    number = _number(match["number"]) if match else None
    if match is None or number is None:
        raise FaultError(
            f"elements {{'where': {value!r}}}: expected a comparison such as '> 0.5' or "
            "'abs(x) < 1e-3', or one of 'nan', 'inf', 'finite'"
        )
    return _Test(text, "", match["sign"], number, match["of"] not in (None, "x"))


def _number(text: str) -> int | float | None:
    """The number of a comparison, a whole one exact up to 20 digits.

    None where it is none, as NaN, which equals nothing, and where float64 makes it infinite or 0.
    """
    if _WHOLE.fullmatch(text):
        return int(text)
    if _INFINITE.fullmatch(text):
        return float(text)
    number = float(text) if _REAL.fullmatch(text) else math.inf
    vanished = number == 0 and re.search("[1-9]", text.lower().partition("e")[0])
    return None if math.isinf(number) or vanished else number


def _fit_where(test: _Test, dtype: str, _shape: Shape) -> None:
    if format_of(dtype).parts == 2 and not (test.kind or test.absolute):
        raise FaultError(
            f"where {test.text!r}: {dtype} has no order; compare abs(x), as 'abs(x) > 1'"
        )


for _selection in (
    Selection(
        "top",
        "The elements of largest magnitude; NaN counts as infinite, earlier ones win a tie.",
        ({"top": 5},),
        lambda value: whole("top", value, 1, "how many of the largest"),
        _fit_top,
        _choose_top,
    ),
    Selection(
        "nonzero",
        "Every element that is not zero.",
        ("nonzero",),
        NO_ARGUMENT,
        nothing_to_fit,
        lambda _argument, tensor, _generator: _where(tensor, lambda x: widened(x) != 0),
        word=True,
    ),
    Selection(
        "where",
        "The elements whose value passes a comparison, or is 'nan', 'inf' or 'finite'.",
        ({"where": "> 0.5"}, {"where": "abs(x) < 1e-3"}, {"where": "nan"}),
        _parse_where,
        _fit_where,
        lambda test, tensor, _generator: _where(tensor, test),
    ),
):
    add_selection(_selection)
