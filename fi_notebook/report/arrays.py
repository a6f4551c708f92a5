"""The values of an injection as numpy arrays, and how to make many of them few.

    before, after = values_of(injection)      float64, whatever tensor they were
    rows, columns = fold((8, 16, 4, 4))       128 × 16: the matrix of a tensor
    largest_in_blocks(differences, 160)       no larger than 160 × 160, extremes kept

Limits: complex values are shown by their absolute value; integers beyond 2**53 lose
their last bits.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from fi_notebook.core.injection import Injection

__all__ = ["Values", "array_of", "fold", "keep_extremes", "largest_in_blocks", "values_of"]

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
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu().resolve_conj()
        tensor = (tensor.abs() if tensor.is_complex() else tensor).double().numpy()
    array = np.asarray(tensor)
    return (np.abs(array) if np.iscomplexobj(array) else array).astype(np.float64)


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
