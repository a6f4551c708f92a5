"""What is known of memory, and reading it without a trace."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fi_notebook.engine.bits import position_hash
from fi_notebook.engine.measure import difference, measure
from fi_notebook.engine.ruler import Ruler
from fi_notebook.engine.stats import EXACT, Statistics, tensor_stats
from fi_notebook.engine.storages import array_over
from fi_notebook.report.arrays import elements_of
from fi_notebook.session.ends import result_difference


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3),
        torch.arange(6.0).reshape(2, 3).t(),
        torch.arange(12, dtype=torch.int16)[1::3],
        torch.tensor(2.5, dtype=torch.float64),
        torch.ones(2, 3, dtype=torch.bool)[:, :1].expand(2, 4),
        torch.empty(0, 3),
    ],
)
def test_an_array_over_a_tensor_has_its_elements(tensor: Tensor) -> None:
    """Of the same shape, dtype and order as numpy's own view."""
    found, expected = array_over(tensor), tensor.clone().numpy()
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()
    assert found.shape == expected.shape


def test_an_array_over_a_tensor_is_its_memory_and_cannot_be_written() -> None:
    """A later write through the tensor shows in the array, and none goes the other way."""
    tensor = torch.zeros(3)
    found = array_over(tensor)
    tensor[1] = 7
    assert found.tolist() == [0, 7, 0]
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 1


def test_an_array_over_a_tensor_keeps_its_memory() -> None:
    """As long as any view of the array lives, and no longer."""
    tensor = torch.arange(4.0)
    found = array_over(tensor)[2:]
    alive = weakref.ref(tensor)
    del tensor
    gc.collect()
    assert alive() is not None
    assert found.tolist() == [2, 3]
    del found
    gc.collect()
    assert alive() is None


def _statistics(a: Tensor, b: Tensor) -> None:
    taken = Statistics()
    taken.add(a)
    taken.add(b)
    taken.columns()


_LOOKS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "statistics": _statistics,
    "one statistics": lambda a, _b: tensor_stats(a),
    "hash": lambda a, _b: position_hash(a),
    "measure": measure,
    "single": lambda a, b: measure(a, b, Ruler(single=True)),
    "difference": lambda a, b: difference("x", a, b),
    "results": lambda a, b: result_difference([a], [b]),
    "drawn": lambda a, _b: elements_of(a),
}


@pytest.mark.parametrize("odd", [1.0, torch.nan])
@pytest.mark.parametrize("numel", [5, EXACT + 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("look", _LOOKS)
def test_memory_that_was_looked_at_can_be_resized(
    look: str, dtype: torch.dtype, numel: int, odd: float
) -> None:
    """As it could before: FSDP takes the memory of its weights away and gives it back."""
    a, b = torch.full((2, numel), 3, dtype=dtype).unbind()
    b[0] = odd if dtype.is_floating_point else 1
    _LOOKS[look](b, a)
    storage = a.untyped_storage()
    assert storage.resizable()
    storage.resize_(0)


def test_numpy_forbids_what_is_tested_here() -> None:
    """The same after ``tensor.numpy()``: no."""
    tensor = torch.zeros(3)
    assert isinstance(tensor.numpy(), np.ndarray)
    assert not tensor.untyped_storage().resizable()
