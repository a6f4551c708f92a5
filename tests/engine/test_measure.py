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


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.complex64, torch.bfloat16])
@pytest.mark.parametrize(("before", "after"), [(-inf, 5.0), (-inf, inf), (nan, 5.0)])
def test_what_is_no_longer_nan_or_infinite_is_infinitely_far(
    before: float, after: float, dtype: torch.dtype
) -> None:
    """No number is near -inf, NaN or the other infinity: the distance is that of no rounding.

    The cosine is of 1 and 1, which are finite in both. Where the same stays, only 1 to 2 counts.
    """
    golden, faulty = torch.tensor([[1.0, before], [1.0, after]]).to(dtype)
    found = measure(golden, faulty)
    assert (found.relative_l2, found.max_abs, found.cosine) == (inf, inf, 1.0)
    assert (found.changed, found.new_nan, found.new_inf) == (1, 0, 0)
    short = difference("b", golden, faulty)
    assert (short.relative_l2, short.max_abs) == (inf, inf)
    found = measure(golden, torch.tensor([2.0, before]).to(dtype))
    assert (found.relative_l2, found.max_abs, found.changed) == (1.0, 1.0, 1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize(
    ("golden", "faulty", "relative", "cosine"),
    [
        ([1e-170] * 4, [2e-170] * 4, 1.0, 1.0),  # squares of 0: (2 - 1) / 1
        ([1e200, 1.0], [3e200, 2.0], 2.0, 1.0),  # infinite squares: (3 - 1) / 1
        ([3e-200, 4e-200], [3e-200, -4e-200], 1.6, -7 / 25),  # 8 / 5; (9 - 16) / (5 · 5)
        ([1.5e308], [-1.5e308], 2.0, -1.0),  # the difference is infinite too
        ([5e-324], [0.0], 1.0, 0.0),
        ([0.0], [5e-324], inf, 0.0),
        ([0.0], [-0.0], 0.0, 0.0),
        ([1e200, inf], [3e200, inf], 2.0, 1.0),
    ],
)
def test_squares_that_float64_cannot_hold(
    golden: list[float], faulty: list[float], relative: float, cosine: float, dtype: torch.dtype
) -> None:
    """Ratios are those of the numbers, not of their squares, which would be 0 or infinite."""
    a, b = (torch.tensor(side, dtype=torch.float64).to(dtype) for side in (golden, faulty))
    found = measure(a, b)
    assert found.relative_l2 == pytest.approx(relative, rel=1e-15)
    assert found.cosine == pytest.approx(cosine, rel=1e-15)
    assert difference("b", a, b).relative_l2 == found.relative_l2


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
