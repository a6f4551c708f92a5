"""Elements chosen as the parts of a matrix or of an image.

    row, column   lines of the tensor as a matrix           {"row": 2}  {"column": "any"}
    tile          m x n of that matrix                      {"tile": [4, 4]}
    channel       an index along dimension 1 (N, C, ...)    {"channel": 0}
    block         a box over the last dimensions            {"block": [3, 3]}

The matrix of a tensor has all dimensions but the last as its rows and the last as its
columns, as a matrix product sees it; a tensor of one dimension is one row. ``"any"``
draws a line; a tile or block lies at a drawn place unless ``at`` gives its corner.
"""

from __future__ import annotations

from math import prod
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
from fi_notebook.faults.select_by_place import grid, wrapped

__all__ = ["matrix_shape"]

ANY = "any"
_Lines = str | list[int]
_Box = tuple[list[int], list[int] | None]


def matrix_shape(shape: Shape) -> tuple[int, int]:
    """Rows and columns of a tensor as a matrix."""
    return prod(shape[:-1]), shape[-1] if shape else 1


def _channels(shape: Shape) -> tuple[int, int, int]:
    """The tensor as N, C and everything else.

    Raises:
        FaultError: It has no dimension 1.
    """
    if len(shape) < 2:
        raise FaultError(f"a tensor of shape {shape} has no channels; they are dimension 1")
    return shape[0], shape[1], prod(shape[2:])


def _folded(name: str, shape: Shape) -> tuple[Shape, int]:
    """The shape in which a selection of lines works, and along which dimension."""
    if name == "channel":
        return _channels(shape), 1
    return matrix_shape(shape), 0 if name == "row" else 1


def _lines(name: str) -> Selection:
    """The selection of rows, columns or channels."""

    def parse(value: Any) -> _Lines:
        if value == ANY:
            return ANY
        given = value if isinstance(value, list | tuple) and value else [value]
        return [
            whole(name, line, LOWEST, f"the number of a {name}, several, or 'any'")
            for line in given
        ]

    def numbers(lines: list[int], size: int) -> list[int]:
        return sorted({wrapped(name, line, size) for line in lines})

    def fit(lines: _Lines, _dtype: str, shape: Shape) -> None:
        folded, dim = _folded(name, shape)
        if isinstance(lines, list):
            numbers(lines, folded[dim])

    def choose(lines: _Lines, tensor: torch.Tensor, generator: torch.Generator) -> Indices:
        folded, dim = _folded(name, tuple(tensor.shape))
        size = folded[dim]
        chosen = numbers(lines, size) if isinstance(lines, list) else [draw_number(size, generator)]
        ranges = [torch.arange(extent, device="cpu") for extent in folded]
        ranges[dim] = torch.tensor(chosen, device="cpu")
        return grid(ranges, folded)

    where = "along dimension 1" if name == "channel" else "of the tensor as a matrix"
    return Selection(
        name,
        f"One or several {name}s {where}, or a drawn one.",
        ({name: 2}, {name: [0, 1]}, {name: ANY}),
        parse,
        fit,
        choose,
    )


def _parse_box(name: str, value: Any) -> _Box:
    shape, at = options(name, value, ("shape", "at"))
    return _sizes(name, shape, 1, "its size in each dimension"), (
        None if at is None else _sizes(name, at, 0, "its corner")
    )


def _sizes(name: str, value: Any, low: int, what: str) -> list[int]:
    if not isinstance(value, list | tuple) or not value:
        raise FaultError(f"elements {{{name!r}: …}}: {value!r} is not {what}, such as [4, 4]")
    return [whole(name, size, low, what) for size in value]


def _check_box(name: str, box: _Box, shape: Shape) -> list[int]:
    """The box's size in every dimension of the shape.

    Raises:
        FaultError: It does not fit; says what would.
    """
    sizes, at = box
    if len(sizes) > len(shape):
        raise FaultError(
            f"{name} of {sizes}: the tensor of shape {shape} has {counted(len(shape), 'dimension')}"
        )
    full = [1] * (len(shape) - len(sizes)) + sizes
    if any(extent > size for extent, size in zip(full, shape, strict=True)):
        raise FaultError(f"{name} of {sizes} does not fit; valid is at most {list(shape)}")
    room = [size - extent for extent, size in zip(full, shape, strict=True)]
    if at is not None and (
        len(at) != len(shape) or any(a > r for a, r in zip(at, room, strict=True))
    ):
        raise FaultError(f"{name} of {sizes} at {at} does not fit; corners are [0, …] to {room}")
    return full


def _choose_box(name: str, box: _Box, shape: Shape, generator: torch.Generator) -> torch.Tensor:
    full, at = _check_box(name, box, shape), box[1]
    if at is None:
        at = [
            draw_number(size - extent + 1, generator)
            for extent, size in zip(full, shape, strict=True)
        ]
    return grid(
        [torch.arange(a, a + e, device="cpu") for a, e in zip(at, full, strict=True)], shape
    )


def _fit_tile(box: _Box, _dtype: str, shape: Shape) -> None:
    if len(box[0]) != 2:
        raise FaultError(f"tile of {box[0]}: expected rows and columns, such as [4, 4]")
    _check_box("tile", box, matrix_shape(shape))


def _fit_block(box: _Box, _dtype: str, shape: Shape) -> None:
    _check_box("block", box, shape)


for _selection in (
    _lines("row"),
    _lines("column"),
    _lines("channel"),
    Selection(
        "tile",
        "So many rows and columns of the tensor as a matrix, at a drawn or given place.",
        ({"tile": [4, 4]}, {"tile": {"shape": [4, 4], "at": [0, 8]}}),
        lambda value: _parse_box("tile", value),
        _fit_tile,
        lambda box, tensor, generator: _choose_box(
            "tile", box, matrix_shape(tuple(tensor.shape)), generator
        ),
    ),
    Selection(
        "block",
        "A box over the last dimensions, at a drawn or given place.",
        ({"block": [3, 3]}, {"block": {"shape": [2, 2], "at": [0, 0, 4, 4]}}),
        lambda value: _parse_box("block", value),
        _fit_block,
        lambda box, tensor, generator: _choose_box("block", box, tuple(tensor.shape), generator),
    ),
):
    add_selection(_selection)
