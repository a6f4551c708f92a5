"""The values of an injection as numpy arrays, and how to make many of them few.

    before, after = values_of(injection)      float64, whatever tensor they were
    rows, columns = fold((8, 16, 4, 4))       128 × 16: the matrix of a tensor
    largest_in_blocks(differences, 160)       no larger than 160 × 160, extremes kept
    furthest(elements_of(tensor), 8)         flat places of the eight largest, whatever they are

Limits: but for `elements_of` complex values are shown by their absolute value, and integers
beyond 2**53 lose their last bits.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from fi_notebook.core.injection import Injection

__all__ = [
    "Values",
    "array_of",
    "elements_of",
    "fold",
    "furthest",
    "keep_extremes",
    "largest_in_blocks",
    "values_of",
]

Values = tuple[np.ndarray, np.ndarray]
"""The whole tensor before and after, as float64."""


def values_of(injection: Injection) -> Values | None:
    """The tensor before and after; None where the tensors were not kept."""
    try:
        before, after = injection.tensors()
    except LookupError:
        return None
    return array_of(before), array_of(after)


def array_of(tensor: Any) -> np.ndarray:
    """A float64 array of an array, or of a tensor by the methods that it has."""
    array = elements_of(tensor)
    return (np.abs(array) if np.iscomplexobj(array) else array).astype(np.float64)


def elements_of(tensor: Any) -> np.ndarray:
    """The elements as they are: floats and complex in 64 bits a part, others in their own dtype.

    Args:
        tensor: The array, or a tensor by the methods that it has.

    Returns:
        The elements, in their own shape.
    """
    if not hasattr(tensor, "detach"):
        return np.asarray(tensor)
    tensor = tensor.detach().cpu().clone().resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = tensor.cdouble()
    elif tensor.is_floating_point():
        tensor = tensor.double()
    array: np.ndarray = tensor.numpy()  # of its own memory: torch may not resize that any more
    return array


def furthest(array: np.ndarray, limit: int) -> np.ndarray:
    """Flat places of the elements that are furthest from zero; NaN and the infinities first.

    Args:
        array: The elements; complex ones count by their absolute value.
        limit: How many to give at most.

    Returns:
        The places, the furthest first, of equal ones the first first.
    """
    limit = min(limit, array.size)
    if limit <= 0:
        return np.zeros(0, np.int64)
    far = _distances(array.ravel())
    least = np.partition(far, far.size - limit)[far.size - limit]
    beyond = np.flatnonzero(far > least)
    chosen = np.sort([*beyond, *np.flatnonzero(far == least)[: limit - len(beyond)]])
    return chosen[::-1][np.argsort(far[chosen[::-1]], kind="stable")[::-1]]


def _distances(elements: np.ndarray) -> np.ndarray:
    """How far elements are from zero: of integers exactly, also of the smallest one."""
    if elements.dtype.kind in "bu":
        return elements.astype(np.uint64)
    if elements.dtype.kind == "i":
        return np.abs(elements.astype(np.int64)).astype(np.uint64)
    return np.where(np.isnan(elements), np.inf, np.abs(elements))


def fold(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of the matrix as which a tensor is shown.

    The last dimension runs along the columns; of four or more, the last two thirds do.
    """
    if len(shape) < 2:
        return 1, prod(shape)
    split = 2 if len(shape) >= 4 else len(shape) - 1
    return prod(shape[:split]), prod(shape[split:])


def largest_in_blocks(matrix: np.ndarray, limit: int) -> tuple[np.ndarray, tuple[int, int]]:
    """Shrink a matrix by keeping, of each block, the value that is furthest from zero.

    Args:
        matrix: The values; NaN counts as nothing unless a block has nothing else.
        limit: Most rows and columns of the result.

    Returns:
        The smaller matrix, and how many rows and columns each of its cells stands for.
    """
    rows, columns = (max(1, -(-size // limit)) for size in matrix.shape)
    if rows == columns == 1:
        return matrix, (1, 1)
    padded = np.full([-(-s // b) * b for s, b in zip(matrix.shape, (rows, columns))], np.nan)
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    blocks = padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns)
    flat = blocks.transpose(0, 2, 1, 3).reshape(blocks.shape[0], blocks.shape[2], -1)
    far = np.where(np.isnan(flat), -1.0, np.abs(flat)).argmax(axis=2)
    return np.take_along_axis(flat, far[:, :, None], axis=2)[:, :, 0], (rows, columns)


def keep_extremes(values: np.ndarray, limit: int) -> np.ndarray:
    """Positions of at most about ``limit`` values, in order, with every local extreme.

    The values are cut into equal stretches; of each the smallest, the largest and the
    first stay, the last so that what is drawn is not all edges.
    """
    if len(values) <= limit:
        return np.arange(len(values))
    stretches = np.array_split(np.arange(len(values)), max(1, limit // 3))
    kept = [
        (stretch[0], stretch[values[stretch].argmin()], stretch[values[stretch].argmax()])
        for stretch in stretches
    ]
    return np.unique(kept)
