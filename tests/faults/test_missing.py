"""Work that was not done, or done twice."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fi_notebook import faults
from fi_notebook.errors import FaultError


def struck(name: str, tensor: torch.Tensor, elements: Any = "all", **context: Any) -> torch.Tensor:
    """A copy of the tensor as a call model leaves it."""
    given = faults.Context(**context)
    return faults.corrupt(tensor, name, {}, elements, faults.generator(0), given).corrupted_copy(
        tensor
    )


def test_drop_passes_the_first_input_of_the_same_form_on() -> None:
    """A weight of another shape and a mask of another dtype are passed over."""
    output, x = torch.zeros(2, 2), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    inputs = (torch.ones(3), torch.ones(2, 2, dtype=torch.int64), x)
    assert struck("drop", output, inputs=inputs).tolist() == x.tolist()
    assert struck("drop", output, {"row": 1}, inputs=inputs).tolist() == [[0, 0], [3, 4]]


def test_drop_makes_zeros_where_no_input_fits() -> None:
    """A matrix product of other sizes leaves nothing."""
    assert struck("drop", torch.ones(2), inputs=(torch.ones(3),)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ["stale", "skip_update", "duplicate"])
def test_values_come_from_the_tensor_that_the_engine_gives(name: str) -> None:
    """On the chosen elements alone."""
    tensor, given = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([7.0, 8.0, 9.0])
    assert struck(name, tensor, {"index": 1}, previous=given).tolist() == [1.0, 8.0, 3.0]


@pytest.mark.parametrize("name", ["stale", "skip_update", "duplicate"])
def test_without_such_a_tensor_it_says_why(name: str) -> None:
    """No earlier value, or one of another form."""
    with pytest.raises(FaultError, match=f"{name}: there is no earlier value"):
        struck(name, torch.ones(3))
    with pytest.raises(FaultError, match=r"has shape \(2,\)"):
        struck(name, torch.ones(3), previous=torch.ones(2))


@pytest.mark.parametrize("name", ["stale", "drop", "skip_update", "duplicate"])
def test_apply_refuses_call_models_by_name(name: str) -> None:
    """And says what they need."""
    with pytest.raises(FaultError, match=rf"{name} is a call model \(it needs "):
        faults.apply(torch.ones(3), name)
