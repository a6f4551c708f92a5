from __future__ import annotations

from math import inf, isnan, nan, sqrt

import pytest
import torch

from fi_notebook.engine.measure import difference, measure


def test_every_measure_of_a_small_difference() -> None:
    """(3, 4) against (3, 2): |Δ| = 2, ‖golden‖ = 5, relative error of the element 2/4."""
    found = measure(torch.tensor([3.0, 4.0]), torch.tensor([3.0, 2.0]))
    assert (found.equal, found.exact, found.changed, found.numel) == (False, True, 1, 2)
    assert found.relative_l2 == 2 / 5
    assert (found.max_abs, found.max_rel) == (2.0, 0.5)
    assert found.max_ulp == 2**23  # 2 to 4 is one exponent: 2^23 representable values
    assert found.cosine == pytest.approx(17 / (5 * sqrt(13)))  # 3·3 + 4·2
    assert (found.sign_flips, found.new_nan, found.new_inf) == (0, 0, 0)


def test_one_unit_in_the_last_place_across_zero() -> None:
    """From the smallest positive to the smallest negative number are two steps."""
    tiny = torch.tensor([1], dtype=torch.int32).view(torch.float32)
    found = measure(tiny, -tiny)
    assert (found.max_ulp, found.sign_flips) == (2, 1)


def test_a_sign_flip_has_a_relative_error_of_two() -> None:
    """|-x - x| / |x|."""
    found = measure(torch.tensor([1.5, -2.0]), torch.tensor([-1.5, 2.0]))
    assert (found.relative_l2, found.max_rel, found.cosine) == (2.0, 2.0, -1.0)


def test_new_nan_and_inf_are_counted_and_left_out_of_distances() -> None:
    """A NaN that golden has too is not new."""
    golden = torch.tensor([1.0, 2.0, nan, 4.0])
    found = measure(golden, torch.tensor([nan, inf, nan, 4.0]))
    assert (found.new_nan, found.new_inf, found.changed) == (1, 1, 2)
    assert (found.relative_l2, found.max_abs) == (0.0, 0.0)


def test_blocks_give_what_the_whole_gives() -> None:
    """Over 2^18 elements the measures are put together from blocks."""
    torch.manual_seed(0)
    golden = torch.randn(3 * (1 << 18) + 7)
    faulty = golden.clone()
    faulty[:: 1 << 18] *= 3
    found = measure(golden, faulty)
    delta = (faulty.double() - golden.double()).norm()
    assert found.changed == 4
    assert found.relative_l2 == pytest.approx(float(delta / golden.double().norm()), rel=1e-12)
    cosine = torch.nn.functional.cosine_similarity(golden.double(), faulty.double(), dim=0)
    assert found.cosine == pytest.approx(float(cosine), rel=1e-12)


def test_integers_have_no_ulps() -> None:
    """They are counted as they are."""
    found = measure(torch.tensor([1, 2]), torch.tensor([1, 5]))
    assert found.max_abs == 3
    assert isnan(found.max_ulp)


def test_another_shape_is_said() -> None:
    """And not measured."""
    found = difference("w", torch.zeros(2), torch.zeros(3))
    assert (found.equal, found.note) == (False, "other shape or dtype")
