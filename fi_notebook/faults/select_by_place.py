"""Elements chosen by where they are.

    index      one coordinate, several, or a flat index
    row        a row, column or tile of the tensor as a matrix: all dimensions but the last
    column     are its rows, the last its columns, as a matrix product sees it
    tile       m x n of that matrix, at a drawn place
    channel    index along dimension 1 (N, C, ...)
    block      a box over the last dimensions, at a drawn place
    slice      the text of a Python slice
    run        consecutive elements in row-major order, from a drawn start
    strided    every k-th element in row-major order

Negative indices count from the end. A place that is not given is drawn uniformly from
those where the whole selection fits.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from fi_notebook.errors import FaultError
from fi_notebook.faults.elements import Indices, Selection, Shape, add_selection, whole

__all__: list[str] = []


def _wrapped(what: str, index: int, size: int) -> int:
    """A Python index into a dimension, counted from the start.

    Raises:
        FaultError: There is no such index; says which ones there are.
    """
    if not -size <= index < size:
        raise FaultError(f"{what} {index} of {size}: valid are 0 to {size - 1}, or negative")
    return index % size


def _parse_index(value: Any) -> int | list[list[int]]:
    if not isinstance(value, (list, tuple)):
        return whole("index", value, -(1 << 62), "a flat index or coordinates")
    rows = value if any(isinstance(row, (list, tuple)) for row in value) else [value]
    if not all(isinstance(row, (list, tuple)) for row in rows):
        raise FaultError(
            f"elements {{'index': {value!r}}}: expected one coordinate such as [0, 3], "
            "several such as [[0, 3], [1, 2]], or a flat index such as 5"
        )
    return [[whole("index", i, -(1 << 62), "an index") for i in row] for row in rows]


def _flat_index(argument: int | list[list[int]], shape: Shape) -> list[int]:
    if isinstance(argument, int):
        return [_wrapped("flat index", argument, prod(shape))]
    found = []
    for row in argument:
        if len(row) != len(shape):
            raise FaultError(
                f"coordinate {row} has {len(row)} dimensions, the tensor of shape {shape} has "
                f"{len(shape)}; several elements are written as [[0], [3]], a flat index as 5"
            )
        flat = 0
        for dim, (index, size) in enumerate(zip(row, shape, strict=True)):
            flat = flat * size + _wrapped(f"dimension {dim}: index", index, size)
        found.append(flat)
    return sorted(set(found))


def _fit_index(argument: int | list[list[int]], _dtype: str, shape: Shape) -> None:
    _flat_index(argument, shape)


def _choose_index(
    argument: int | list[list[int]], tensor: torch.Tensor, _generator: torch.Generator
) -> Indices:
    return torch.tensor(_flat_index(argument, tuple(tensor.shape)), dtype=torch.int64)


add_selection(
    Selection(
        "index",
        "One element by its coordinates, several, or one by its flat index.",
        ({"index": [0, 3]}, {"index": [[0, 3], [1, 2]]}, {"index": 5}),
        _parse_index,
        _fit_index,
        _choose_index,
    )
)
