"""Elements chosen by where they are in the tensor.

    index      one coordinate, several, or a flat index     {"index": [0, 3]}
    slice      the text of a Python slice                    {"slice": "0, :, 3:7"}
    run        consecutive elements in row-major order       {"run": 16}
    strided    every k-th element in row-major order         {"strided": 32}

Negative indices count from the end. The start of a run is drawn uniformly from those
where it fits, unless it is given: ``{"run": {"length": 16, "start": 0}}``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from types import EllipsisType
from typing import Any

import torch

from fi_notebook.core.words import counted
from fi_notebook.errors import FaultError
from fi_notebook.faults.elements import (
    LOWEST,
    Indices,
    Selection,
    Shape,
    add_selection,
    options,
    whole,
)
from fi_notebook.faults.select_by_draw import draw_number

__all__ = ["grid", "wrapped"]


def wrapped(what: str, index: int, size: int) -> int:
    """A Python index into a dimension, counted from the start.

    Raises:
        FaultError: There is no such index; says which ones there are.
    """
    if not -size <= index < size:
        raise FaultError(f"{what} {index} of {size}: valid are 0 to {size - 1}, or negative")
    return index % size


def grid(lines: Sequence[torch.Tensor], shape: Shape) -> torch.Tensor:
    """Flat indices of every combination of the chosen lines of each dimension."""
    flat = torch.zeros((), dtype=torch.int64, device="cpu")
    for chosen, size in zip(lines, shape, strict=True):
        flat = flat[..., None] * size + chosen
    return flat.reshape(-1)


# index


def _parse_index(value: Any) -> int | list[list[int]]:
    if not isinstance(value, list | tuple):
        return whole("index", value, LOWEST, "a flat index or coordinates")
    rows = value if any(isinstance(row, list | tuple) for row in value) else [value]
    if not all(isinstance(row, list | tuple) for row in rows):
        raise FaultError(
            f"elements {{'index': {value!r}}}: expected one coordinate such as [0, 3], "
            "several such as [[0, 3], [1, 2]], or a flat index such as 5"
        )
    return [[whole("index", i, LOWEST, "an index") for i in row] for row in rows]


def _flat_indices(argument: int | list[list[int]], shape: Shape) -> list[int]:
    if isinstance(argument, int):
        return [wrapped("flat index", argument, prod(shape))]
    found = []
    for row in argument:
        if len(row) != len(shape):
            raise FaultError(
                f"coordinate {row} has {len(row)} dimensions, the tensor of shape {shape} has "
                f"{len(shape)}; several elements are written as [[0], [3]], a flat index as 5"
            )
        flat = 0
        for dim, (index, size) in enumerate(zip(row, shape, strict=True)):
            flat = flat * size + wrapped(f"dimension {dim}: index", index, size)
        found.append(flat)
    return sorted(set(found))


def _fit_index(argument: int | list[list[int]], _dtype: str, shape: Shape) -> None:
    _flat_indices(argument, shape)


def _choose_index(
    argument: int | list[list[int]], tensor: torch.Tensor, _generator: torch.Generator
) -> Indices:
    indices = _flat_indices(argument, tuple(tensor.shape))
    return torch.tensor(indices, dtype=torch.int64, device="cpu")


# slice

_Term = int | slice | EllipsisType
_NUMBER = r"\s*(-?[0-9]+)?\s*"
_SLICE = re.compile(rf"{_NUMBER}:{_NUMBER}(?::{_NUMBER})?")


def _parse_slice(value: Any) -> list[_Term]:
    if not isinstance(value, str) or not value.strip():
        raise FaultError(
            f"elements {{'slice': {value!r}}}: expected the text of a Python slice, such as "
            "'0, :, 3:7'"
        )
    bare = re.sub(r"^\[(.*)\]$", r"\1", value.strip(), flags=re.DOTALL)
    terms = [_term(value, text.strip()) for text in bare.split(",")]
    if terms.count(...) > 1:
        raise FaultError(f"elements {{'slice': {value!r}}}: '...' may stand once only")
    return terms


def _term(value: str, text: str) -> _Term:
    """One index, slice or ellipsis of a slice text."""
    if text == "...":
        return ...
    if re.fullmatch("-?[0-9]+", text):
        return int(text)
    match = _SLICE.fullmatch(text)
    if match is None or (match[3] and not int(match[3])):
        raise FaultError(
            f"elements {{'slice': {value!r}}}: cannot read {text!r}; expected an index such as "
            "0, a slice such as 3:7 or ::2, or ..."
        )
    return slice(*(None if number is None else int(number) for number in match.groups()))


def _slice_lines(terms: list[_Term], shape: Shape) -> list[torch.Tensor]:
    """The chosen indices of each dimension."""
    named = len(terms) - terms.count(...)
    if named > len(shape):
        raise FaultError(
            f"the slice names {named} dimensions, the tensor of shape {shape} has {len(shape)}"
        )
    at = terms.index(...) if ... in terms else len(terms)
    missing: list[_Term] = [slice(None)] * (len(shape) - named)
    full = [*terms[:at], *missing, *terms[at + 1 :]]
    lines = [
        _line(dim, term, size) for dim, (term, size) in enumerate(zip(full, shape, strict=True))
    ]
    for dim, line in enumerate(lines):
        if not len(line):
            raise FaultError(
                f"the slice chooses nothing: dimension {dim} has the indices 0 to {shape[dim] - 1}"
            )
    return lines


def _line(dim: int, term: _Term, size: int) -> torch.Tensor:
    if isinstance(term, int):
        return torch.tensor([wrapped(f"dimension {dim}: index", term, size)], device="cpu")
    assert isinstance(term, slice)
    return torch.tensor(sorted(range(*term.indices(size))), dtype=torch.int64, device="cpu")


def _fit_slice(terms: list[_Term], _dtype: str, shape: Shape) -> None:
    _slice_lines(terms, shape)


def _choose_slice(terms: list[_Term], tensor: torch.Tensor, _generator: torch.Generator) -> Indices:
    shape = tuple(tensor.shape)
    return grid(_slice_lines(terms, shape), shape)


# run


def _parse_run(value: Any) -> tuple[int, int | None]:
    length, start = options("run", value, ("length", "start"))
    return (
        whole("run", length, 1, "how many consecutive elements"),
        None if start is None else whole("run", start, 0, "the first element"),
    )


def _fit_run(argument: tuple[int, int | None], _dtype: str, shape: Shape) -> None:
    length, start = argument
    last = prod(shape) - length
    if last < 0:
        raise FaultError(f"run of {length}: the tensor has {counted(prod(shape), 'element')}")
    if start is not None and start > last:
        raise FaultError(f"run of {length} from {start}: valid starts are 0 to {last}")


def _choose_run(
    argument: tuple[int, int | None], tensor: torch.Tensor, generator: torch.Generator
) -> Indices:
    length, start = argument
    if start is None:
        start = draw_number(tensor.numel() - length + 1, generator)
    return torch.arange(start, start + length, device="cpu")


# strided


def _parse_strided(value: Any) -> tuple[int, int]:
    period, offset = options("strided", value, ("period", "offset"))
    return (
        whole("strided", period, 1, "the period"),
        whole("strided", offset or 0, 0, "the first element"),
    )


def _fit_strided(argument: tuple[int, int], _dtype: str, shape: Shape) -> None:
    _period, offset = argument
    if offset >= prod(shape):
        raise FaultError(f"strided from {offset}: valid offsets are 0 to {prod(shape) - 1}")


def _choose_strided(
    argument: tuple[int, int], tensor: torch.Tensor, _generator: torch.Generator
) -> Indices:
    period, offset = argument
    return torch.arange(offset, tensor.numel(), period, device="cpu")


for _selection in (
    Selection(
        "index",
        "One element by its coordinates, several, or one by its flat index.",
        ({"index": [0, 3]}, {"index": [[0, 3], [1, 2]]}, {"index": 5}),
        _parse_index,
        _fit_index,
        _choose_index,
    ),
    Selection(
        "slice",
        "What a Python slice chooses.",
        ({"slice": "0, :, 3:7"}, {"slice": "..., ::2"}),
        _parse_slice,
        _fit_slice,
        _choose_slice,
    ),
    Selection(
        "run",
        "Consecutive elements in row-major order, from a drawn or given start.",
        ({"run": 16}, {"run": {"length": 16, "start": 0}}),
        _parse_run,
        _fit_run,
        _choose_run,
    ),
    Selection(
        "strided",
        "Every k-th element in row-major order, such as one lane of a warp of 32.",
        ({"strided": 32}, {"strided": {"period": 32, "offset": 3}}),
        _parse_strided,
        _fit_strided,
        _choose_strided,
    ),
):
    add_selection(_selection)
