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


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning")
@pytest.mark.parametrize("dtype", [torch.complex32, torch.complex64, torch.complex128])
def test_a_complex_number_is_one_element(dtype: torch.dtype) -> None:
    """|3 + 4j| = 5, of 0 and 1; a sign that flips in both parts is one."""
    found = measure(torch.tensor([0j, 1]).to(dtype), torch.tensor([3 + 4j, 1]).to(dtype))
    assert (found.changed, found.numel) == (1, 2)
    assert (found.max_abs, found.relative_l2, found.max_rel) == (5.0, 5.0, inf)
    assert found.cosine == pytest.approx(1 / sqrt(26))  # (0, 0, 1, 0) and (3, 4, 1, 0)
    assert isnan(found.max_ulp)
    found = measure(torch.tensor([1 + 1j, 1]).to(dtype), torch.tensor([-1 - 1j, 1]).to(dtype))
    assert (found.sign_flips, found.changed) == (1, 1)
    assert found.max_rel == pytest.approx(2.0)


def test_a_complex_number_with_a_part_that_is_nan_is_nan_and_nothing_else() -> None:
    """Counted once, and not as infinite; its finite part is in no distance."""
    golden = torch.tensor([1 + 1j, 1, 2, 3, complex(nan, inf)])
    others = [complex(nan, nan), complex(5, nan), complex(inf, nan), complex(inf, 3), complex(inf)]
    found = measure(golden, torch.tensor(others))
    assert (found.new_nan, found.new_inf, found.changed) == (3, 2, 5)
    assert (found.relative_l2, found.max_abs, found.sign_flips) == (0.0, 0.0, 0)


@pytest.mark.parametrize(
    ("dtype", "golden", "faulty"),
    [
        (torch.int64, 2**53, 2**53 + 1),
        (torch.int64, 2**60, 2**60 + 32),  # bit 5
        (torch.int64, -(2**63), 2**63 - 1),
        (torch.uint64, 2**64 - 1, 2**64 - 4),
        (torch.uint64, 0, 2**64 - 1),
        (torch.int32, -(2**31), 2**31 - 1),
    ],
)
def test_integers_are_as_far_apart_as_they_are(
    dtype: torch.dtype, golden: int, faulty: int
) -> None:
    """Their difference, rounded once, where float64 has not the integers themselves."""
    found = measure(torch.tensor([golden, 1], dtype=dtype), torch.tensor([faulty, 1], dtype=dtype))
    assert found.max_abs == float(abs(faulty - golden))


def test_neighbours_of_a_dtype_without_sign_are_one_step_apart() -> None:
    """Bits 127 and 128 of e8m0 are 1 and 2, its top bit one of the exponent."""
    one, two = (torch.tensor([n], dtype=torch.uint8).view(torch.float8_e8m0fnu) for n in (127, 128))
    assert measure(one, two).max_ulp == 1
