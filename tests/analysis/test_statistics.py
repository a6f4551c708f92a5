"""What two traces tell of each other without a tensor."""

from __future__ import annotations

from math import sqrt

import pytest
import torch

from fi_notebook.analysis.compare import compare
from fi_notebook.analysis.statistics import EXACT
from fi_notebook.core.stats import TensorStats
from fi_notebook.core.trace import Trace
from fi_notebook.engine import stats
from tests.traces import Call, build

MANY = 10_000


def _trace(count: int, dtype: str = "float32", **statistics: float) -> Trace:
    """One output of so many elements with these statistics."""
    trace = build(Call("mm", "a", outputs=((count,),), dtype=dtype))
    for name, value in statistics.items():
        trace.site_columns[name][0] = value
    return trace


def _bound(count: int, dtype: str, *both: dict[str, float]) -> float:
    """The relative L2 of two outputs with these statistics."""
    found = compare(*(_trace(count, dtype, **statistics) for statistics in both))
    return float(found.columns["relative_l2"][0])


def test_what_counts_as_many_is_what_the_engine_sums_in_float32() -> None:
    """Both rooms have the same number."""
    assert EXACT == stats.EXACT


def test_rounding_of_the_deviation_is_no_distance() -> None:
    """Around 1000 the variance is off by up to 2 * 0.000052 * 1000², so that 0 may be 0.18."""
    around = {"mean": 1000.0, "norm": 1000.0 * sqrt(MANY), "min": 999.0, "max": 1001.0}
    both = ({**around, "std": 0.0}, {**around, "std": 0.18})
    assert _bound(MANY, "float32", *both) == 0
    assert _bound(MANY, "bfloat16", *both) == 0
    for count, dtype in ((MANY, "float64"), (MANY, "int64"), (EXACT, "float32")):
        size = 1000.0 * sqrt(MANY) / sqrt(count)
        assert _bound(count, dtype, *both) == pytest.approx(0.18 / size)


def test_what_is_left_after_rounding_is_the_bound() -> None:
    """Of norms 100 and 101 together 201 * 0.00005 is taken off; of means 2 * 0.000002."""
    flat = {"mean": 0.0, "std": 0.0}
    norms = _bound(MANY, "float32", {**flat, "norm": 100.0}, {**flat, "norm": 101.0})
    assert norms == pytest.approx((1 - 201 * 5e-5) / 100)
    means = ({"mean": 0.0, "std": 1.0, "norm": 100.0}, {"mean": 0.1, "std": 1.0, "norm": 100.0})
    assert _bound(MANY, "float32", *means) == pytest.approx(0.1 - 2 * 2e-6)  # norm = sqrt(MANY)


def test_the_bound_is_of_the_finite_elements() -> None:
    """Three of six are -Inf: the mean of the others moved by 1, sqrt(3 * 1²) over 3."""
    masked = {"std": 0.0, "norm": 3.0, "neginf": 3}
    found = _bound(6, "float32", {**masked, "mean": 0.0}, {**masked, "mean": 1.0})
    assert found == pytest.approx(sqrt(3) / 3)


@pytest.mark.parametrize("seed", range(4))
def test_a_permutation_is_no_further_than_it_is(seed: int) -> None:
    """The statistics are the engine's, of values whose mean dwarfs their deviation."""
    torch.manual_seed(seed)
    values = torch.randn(30_001) * 1e-3 + 1000
    other = values[torch.randperm(len(values))]
    both = [_of(stats.tensor_stats(each)) for each in (values, other)]
    far = float((other.double() - values.double()).norm() / values.double().norm())
    assert 0 <= _bound(len(values), "float32", *both) <= far


def _of(found: TensorStats) -> dict[str, float]:
    return {name: getattr(found, name) for name in ("min", "max", "mean", "std", "norm")}
