"""Right values in the wrong place."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook import faults
from fi_notebook.errors import FaultError
from fi_notebook.faults.bits import FORMATS, bit_view, dtype_of

MATRIX = torch.arange(12.0).view(3, 4)


def test_a_wrong_address_is_never_the_right_one() -> None:
    """Every element gets the value of another one, and all others occur."""
    after = faults.apply(torch.arange(5.0), "wrong_address", seed=1)
    assert (after != torch.arange(5.0)).all()
    many = {
        faults.apply(torch.arange(5.0), "wrong_address", {"index": 0}, seed=seed)[0].item()
        for seed in range(100)
    }
    assert many == {1.0, 2.0, 3.0, 4.0}
    assert faults.apply(torch.tensor([5.0, 7.0]), "wrong_address").tolist() == [7.0, 5.0]


@pytest.mark.parametrize("shape", [(), (1,), (0,)])
def test_without_another_element_nothing_changes(shape: tuple[int, ...]) -> None:
    """The fault is inactive, never an error."""
    tensor = torch.ones(shape)
    found = faults.corrupt(tensor, "wrong_address", {}, "all", faults.generator(0))
    assert found.changed == 0


def test_shift_takes_the_value_before() -> None:
    """Row-major and around the end, or along a dimension, as torch.roll does."""
    assert faults.apply(MATRIX, "shift").tolist() == MATRIX.roll(1).tolist()
    for dim in (0, 1, -1, -2):
        for by in (1, -1, 5):
            after = faults.apply(MATRIX, "shift", by=by, dim=dim)
            assert torch.equal(after, MATRIX.roll(by, dim))


def test_shift_on_one_element_takes_its_neighbour() -> None:
    """Only the chosen element changes."""
    after = faults.apply(MATRIX, "shift", {"index": [1, 0]}, by=1)
    assert after[1, 0] == 3.0
    assert int((after != MATRIX).sum()) == 1


def test_rows_are_swapped() -> None:
    """The named ones, or two drawn ones, which are never the same."""
    assert faults.apply(MATRIX, "swap_rows", rows=[0, 2]).tolist() == MATRIX[[2, 1, 0]].tolist()
    for seed in range(10):
        changed = (faults.apply(MATRIX, "swap_rows", seed=seed) != MATRIX).any(1)
        assert int(changed.sum()) == 2


def test_rows_are_swapped_on_the_chosen_elements_only() -> None:
    """Half a row that is written to the wrong place."""
    after = faults.apply(MATRIX, "swap_rows", {"column": 1}, rows=[0, 1])
    assert after.tolist() == [[0, 5, 2, 3], [4, 1, 6, 7], [8, 9, 10, 11]]


def test_permute_keeps_the_values() -> None:
    """The chosen values, each once, in another order."""
    after = faults.apply(MATRIX, "permute", seed=2)
    assert sorted(after.flatten().tolist()) == list(range(12))
    assert not torch.equal(after, MATRIX)
    row = faults.apply(MATRIX, "permute", {"row": 1}, seed=2)
    assert sorted(row[1].tolist()) == [4, 5, 6, 7]
    assert torch.equal(row[[0, 2]], MATRIX[[0, 2]])


@given(
    st.sampled_from(["wrong_address", "shift", "permute", "swap_rows"]),
    st.sampled_from(sorted(FORMATS)),
    st.integers(0, 1000),
)
def test_values_are_moved_bit_for_bit(model: str, dtype: str, seed: int) -> None:
    """Every pattern after is a pattern from before, NaN payloads included."""
    start = torch.arange(12).view(4, 3) % 2 if dtype == "bool" else torch.rand(4, 3).abs() + 1
    tensor = start.to(dtype_of(dtype))
    tensor = faults.apply(tensor, "bitflip", seed=seed)
    after = faults.apply(tensor, model, seed=seed)

    def shown(values: torch.Tensor) -> set[str]:
        return {str(row) for row in bit_view(values).reshape(12, -1).tolist()}

    assert shown(after) <= shown(tensor)


@pytest.mark.parametrize(
    ("parameters", "shape", "message"),
    [
        ({"rows": [0, 9]}, (4, 2), "no row 9 of 4; valid are 0 to 3"),
        ({}, (5,), "is one row; two are needed"),
    ],
)
def test_rows_that_are_not_there_are_refused(
    parameters: dict[str, list[int]], shape: tuple[int, ...], message: str
) -> None:
    """With those that are."""
    with pytest.raises(FaultError, match=message):
        faults.check_tensor("swap_rows", parameters, "all", "float32", shape)


def test_two_rows_are_two() -> None:
    """One row, or three, can never be swapped."""
    for rows in ([1], [0, 1, 2], 3):
        with pytest.raises(FaultError, match="must be two rows"):
            faults.check("swap_rows", {"rows": rows})


def test_a_dimension_that_is_not_there_is_refused() -> None:
    """With those that are."""
    with pytest.raises(FaultError, match="has no dimension 2; valid are 0 to 1"):
        faults.check_tensor("shift", {"dim": 2}, "all", "float32", (3, 4))
