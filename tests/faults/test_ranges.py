"""The values of a dtype that lie in a range."""

from __future__ import annotations

import math

import pytest

from fi_notebook.faults.bits import format_of
from fi_notebook.faults.ranges import ends_inside


@pytest.mark.parametrize(
    ("dtype", "low", "high", "expected"),
    [
        ("int32", -1.5, 2.5, (-1, 2)),
        ("float64", 0.1, 0.3, (0.1, 0.3)),
        ("bfloat16", 0.1, 0.1, (0.10009765625, 0.099609375)),  # 205 and 204 times 2**-11
        ("float16", -1e-50, 1e-50, (0.0, 0.0)),
        ("float16", 1e-50, 65510, (2.0**-24, 65504)),  # the smallest and the largest
        ("float8_e4m3fnuz", -300, -1e-50, (-240, -(2.0**-10))),  # it has no -0
        ("float8_e8m0fnu", -1, 3, (2.0**-127, 2)),
        ("float32", 1e39, 1e40, (math.inf, (2 - 2.0**-23) * 2.0**127)),
        ("complex32", 0, 0.1, (0, 1638 * 2.0**-14)),  # 0.1 * 2**14 = 1638.4
    ],
)
def test_the_ends_of_a_range_are_rounded_towards_its_inside(
    dtype: str, low: float, high: float, expected: tuple[float, float]
) -> None:
    """The least value that is not below, the largest that is not above."""
    assert ends_inside(low, high, format_of(dtype)) == expected
