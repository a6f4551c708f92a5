from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook.report.scale import SymLog, tick_label


def test_a_narrow_range_is_linear() -> None:
    """Values from 1 to 4 (within 20 times their median) are not bent at all."""
    scale = SymLog.fitting([1, 2, 4])
    assert scale.forward([0, 1, 2, 4]).tolist() == [0, 0.25, 0.5, 1]


def test_an_extreme_leaves_the_bulk_its_place() -> None:
    """3e38 beside values up to 3: the bulk has 2 of at most 1 + 1 + 2.5 units."""
    scale = SymLog.fitting([-3, -1, 1, 3], [3e38])
    low, high = scale.forward([-3, 3e38])
    assert (low, high) == pytest.approx((-1, 3.5))


def test_extremes_of_float64_stay_finite() -> None:
    """The largest and the smallest number have a place."""
    scale = SymLog.fitting([5e-324, 1e-300], [1.7e308])
    assert np.isfinite(scale.forward([5e-324, 1.7e308, -1.7e308])).all()
    assert np.isfinite(scale.inverse(scale.forward([1.7e308]))).all()


def test_nothing_finite_has_a_scale_too() -> None:
    """An empty tensor, zeros alone, NaN alone."""
    for values in ([], [0.0], [np.nan, np.inf]):
        assert SymLog.fitting(values) == SymLog(1.0, 1.0)


@given(
    st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=20),
    st.lists(st.floats(-1e30, 1e30), min_size=2, max_size=20),
)
def test_the_scale_is_monotonic_and_invertible(golden: list, values: list) -> None:
    """Order is kept, and a position is its value again within rounding."""
    scale = SymLog.fitting(golden, values)
    ordered = np.sort(np.asarray(values))
    positions = scale.forward(ordered)
    assert (np.diff(positions) >= 0).all()
    assert scale.inverse(positions) == pytest.approx(
        ordered, rel=1e-6, abs=scale.threshold * 1e-300
    )


def test_ticks_are_round_and_apart() -> None:
    """Between -3 and 3e38: zero, the bulk, then powers of ten, no two closer than 9 %."""
    scale = SymLog.fitting([-3, -1, 1, 3], [3e38])
    positions, labels = scale.ticks(-3, 3e38)
    assert {"0", "2", "1e26", "1e13"} <= set(labels)
    assert min(np.diff(positions)) >= 0.09 * (positions[-1] - positions[0])


def test_tick_labels_are_short() -> None:
    """No plus sign, no leading zero in the exponent."""
    labels = {0.5: "0.5", 1e30: "1e30", 1e-5: "1e-5", -1e30: "-1e30", 1e4: "1e4", 100.0: "100"}
    assert [tick_label(value) for value in labels] == list(labels.values())
