from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook.report.arrays import fold, keep_extremes, largest_in_blocks, values_of
from tests.records import injection


def test_values_are_float64_arrays() -> None:
    """Of complex values the absolute value: |3 + 4i| = 5."""
    found = injection()
    tensors = values_of(found)
    assert tensors is not None
    before, after = tensors
    assert before.dtype == np.float64
    assert after[0, 2] == np.inf
    object.__setattr__(found, "_tensors", (np.asarray([3 + 4j]), np.asarray([0j])))
    assert [v.tolist() for v in values_of(found) or ()] == [[5.0], [0.0]]


def test_tensors_that_were_not_kept_are_none() -> None:
    """A headless firing has statistics and elements only."""
    found = injection()
    object.__setattr__(found, "_tensors", None)
    assert values_of(found) is None


@pytest.mark.parametrize(
    ("shape", "matrix"),
    [
        ((), (1, 1)),
        ((5,), (1, 5)),
        ((4, 5), (4, 5)),
        ((2, 3, 5), (6, 5)),
        ((8, 16, 4, 4), (128, 16)),
        ((0, 3), (0, 3)),
    ],
)
def test_any_shape_folds_into_a_matrix(shape: tuple, matrix: tuple) -> None:
    """Rows are the leading dimensions."""
    assert fold(shape) == matrix


def test_blocks_keep_the_value_furthest_from_zero() -> None:
    """5 rows in at most 2: blocks of 3; -9 beats 4; NaN gives way."""
    matrix = np.asarray([[1, np.nan], [-9, 0], [4, 0], [0, 0], [0, 2.0]])
    cells, block = largest_in_blocks(matrix, 2)
    assert block == (3, 1)
    assert cells.tolist() == [[-9, 0], [0, 2]]


def test_a_small_matrix_stays_as_it_is() -> None:
    """Nothing to shrink."""
    matrix = np.ones((2, 3))
    assert largest_in_blocks(matrix, 3)[0] is matrix


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300), st.integers(3, 50))
def test_extremes_are_kept(values: list, limit: int) -> None:
    """The smallest and the largest value are among those that stay, and few stay."""
    array = np.asarray(values)
    kept = keep_extremes(array, limit)
    assert len(kept) <= max(limit, 3)
    assert (array[kept].min(), array[kept].max()) == (array.min(), array.max())
    assert (np.diff(kept) > 0).all()
