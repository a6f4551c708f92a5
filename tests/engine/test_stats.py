"""Statistics of tensors against numpy in float64: every dtype, size and odd value."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from fi_notebook.core.stats import TensorStats
from fi_notebook.engine.stats import EXACT, Statistics, euclidean_norm, tensor_stats

_SIZES = [1, 2, 100, EXACT, EXACT + 1, 4 * EXACT]


def _expected(tensor: Tensor) -> dict[str, float]:
    """The same in numpy, over the finite elements."""
    values = tensor.abs() if tensor.is_complex() else tensor
    numbers = values.double().numpy().reshape(-1)
    finite = numbers[np.isfinite(numbers)]
    return {
        "min": finite.min() if len(finite) else math.nan,
        "max": finite.max() if len(finite) else math.nan,
        "mean": finite.mean() if len(finite) else math.nan,
        "std": finite.std() if len(finite) else math.nan,
        "norm": np.linalg.norm(finite) if len(finite) else math.nan,
        "nan": np.isnan(numbers).sum(),
        "posinf": (numbers == np.inf).sum(),
        "neginf": (numbers == -np.inf).sum(),
        "zeros": (numbers == 0).sum(),
    }


def _assert_right(found: TensorStats, tensor: Tensor, rel: float = 1e-12) -> None:
    for name, value in _expected(tensor).items():
        assert getattr(found, name) == pytest.approx(value, rel=rel, nan_ok=True), name


@pytest.mark.parametrize("size", _SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_floats_are_as_numpy_has_them(dtype: torch.dtype, size: int) -> None:
    """Exact up to `EXACT` elements; beyond, mean, spread and norm to float32's digits."""
    tensor = torch.randn(size).to(dtype)
    tensor[::7] = 0
    found = tensor_stats(tensor)
    exact = size <= EXACT or dtype == torch.float64
    for name, value in _expected(tensor).items():
        close = 1e-12 if exact or name not in ("mean", "std", "norm") else 1e-4
        assert getattr(found, name) == pytest.approx(value, rel=close, abs=close / 10), name
    assert found.dtype == str(dtype).removeprefix("torch.")


@pytest.mark.parametrize("size", [9, EXACT + 9])
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_counted_and_left_out(odd: float, size: int) -> None:
    """Three odd values among finite ones: counted by kind, the rest summarised without them."""
    tensor = torch.arange(size, dtype=torch.float32)
    tensor[[1, 4, 6]] = odd
    _assert_right(tensor_stats(tensor), tensor)
    assert tensor_stats(tensor).nonfinite == 3


def test_a_tensor_without_a_finite_element_has_counts_only() -> None:
    """NaN, Inf and -Inf alone: min to norm are NaN, the counts are 1, 1 and 1."""
    found = tensor_stats(torch.tensor([math.nan, math.inf, -math.inf]))
    assert [found.nan, found.posinf, found.neginf, found.zeros] == [1, 1, 1, 0]
    assert all(math.isnan(getattr(found, name)) for name in ("min", "max", "mean", "std", "norm"))


@pytest.mark.parametrize("scale", [1e24, 1e-30])
def test_sums_that_float32_cannot_hold_are_taken_in_float64(scale: float) -> None:
    """A finite 1e24 has a square of 1e48, 1e-30 one of 1e-60: the norm is right all the same."""
    tensor = torch.ones(EXACT + 1) * scale
    _assert_right(tensor_stats(tensor), tensor, rel=1e-6)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(-3, 9),
        torch.arange(20, dtype=torch.uint8),
        torch.tensor([True, False, True]),
        torch.tensor([3 + 4j, 0j]),
        torch.randn(6).to(torch.float8_e4m3fn),
        torch.arange(12.0).view(3, 4).t(),
        torch.ones(1).expand(5, 4),
        torch.tensor(2.5),
    ],
    ids=["int64", "uint8", "bool", "complex", "float8", "transposed", "expanded", "scalar"],
)
def test_other_dtypes_and_layouts(tensor: Tensor) -> None:
    """Integers, bool, complex by magnitude, float8, strides and no dimensions."""
    plain = tensor.float() if tensor.dtype == torch.float8_e4m3fn else tensor
    _assert_right(tensor_stats(tensor), plain)


def test_empty_and_sparse_tensors_have_none() -> None:
    """Nothing to summarise: NaN for numbers and -1 for counts."""
    statistics = Statistics()
    statistics.add(torch.empty(0))
    statistics.add(torch.eye(2).to_sparse())
    statistics.add(None)
    columns = statistics.columns()
    assert np.isnan(columns["mean"]).all()
    assert columns["nan"].tolist() == [-1, -1, -1]


def test_the_norm_over_several_tensors() -> None:
    """3, 4 and 12 in three tensors have the norm 13; NaN comes through."""
    tensors = [torch.tensor([3.0]), torch.tensor(4.0).bfloat16(), torch.tensor([[0.0, 12.0]])]
    assert euclidean_norm(tensors) == 13.0
    assert euclidean_norm([]) == 0.0
    assert math.isnan(euclidean_norm([torch.tensor([math.nan])]))


def test_squares_beyond_float64_are_infinite_whatever_the_size() -> None:
    """Ones and one of -1e200, few and many: mean right, norm and deviation infinite."""
    for size in (10, 10_000):
        values = torch.ones(size, dtype=torch.float64)
        values[3] = -1e200
        found = tensor_stats(values)
        assert (found.norm, found.std, found.min) == (math.inf, math.inf, -1e200)
        assert found.mean == pytest.approx(-1e200 / size)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning")
def test_half_precision_complex_numbers_are_summarised_in_single_precision() -> None:
    """6e4 + 6e4i has the magnitude 84,853, which no half holds."""
    part = torch.full((10,), 6e4).half()
    found = tensor_stats(torch.complex(part, part))
    assert found.posinf == 0
    assert found.max == pytest.approx(6e4 * math.sqrt(2), rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_a_complex_number_counts_by_its_magnitude(dtype: torch.dtype) -> None:
    """Finite where both parts are, beyond float32 too; NaN where one part is NaN."""
    large = complex(2.25e38, 3e38)  # 0.75e38 times (3, 4): 3.75e38
    odd = [complex(math.nan, math.inf), complex(math.inf, 1)]
    found = tensor_stats(torch.tensor([large, 0j, *odd], dtype=dtype))
    assert (found.nan, found.posinf, found.zeros) == (1, 1, 1)
    assert found.max == pytest.approx(3.75e38)
    assert euclidean_norm([torch.tensor([large, 0j], dtype=dtype)]) == pytest.approx(3.75e38)
