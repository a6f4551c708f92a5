"""The quick measures against the plain ones, element by element in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook.engine.measure import _Part, measure
from fi_notebook.engine.ruler import QUICK, Ruler
from fi_notebook.engine.stats import EXACT

_KINDS = sorted(QUICK, key=str)
_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def _assert_same(golden: torch.Tensor, faulty: torch.Tensor) -> None:
    """What the ruler finds is what the plain measures find."""
    (found,) = map(_Part._make, Ruler(golden.numel()).measure(golden, faulty))
    plain = _Part.of(golden, faulty)
    for name in _Part._fields:
        mine, theirs = getattr(found, name), getattr(plain, name)
        scale = math.sqrt(plain.golden * plain.faulty) if name == "product" else 0.0
        assert mine == pytest.approx(theirs, rel=1e-12, abs=1e-14 * scale, nan_ok=True), name


@given(
    st.sampled_from(_KINDS),
    st.lists(st.tuples(st.integers(), st.integers()), min_size=1, max_size=40),
)
def test_any_bits(kind: torch.dtype, pairs: list[tuple[int, int]]) -> None:
    """Any two rows of bits: NaN payloads, infinities, subnormal numbers, zeros of both signs."""
    width = torch.empty(0, dtype=kind).element_size()
    rows = [[number % 256 ** min(width, 7) for number in row] for row in zip(*pairs, strict=True)]
    shift = 256**7 if width == 8 else 1
    rows = [[number * shift % 2**64 for number in row] for row in rows]
    half = 1 << (8 * width - 1)
    sides = [
        torch.tensor([(n + half) % (2 * half) - half for n in row], dtype=_BITS[width]).view(kind)
        for row in rows
    ]
    if width == 8:  # squares beyond float64 are infinite in both, in their own ways
        sides = [torch.where(side.abs() < 1e150, side, torch.sign(side)) for side in sides]
    _assert_same(sides[0], sides[1])


@pytest.mark.parametrize("kind", _KINDS, ids=str)
def test_neighbours_and_large_changes(kind: torch.dtype) -> None:
    """Gaussian numbers, a few of them flipped, grown, made zero, NaN or infinite."""
    golden = torch.randn(5_000, generator=torch.Generator().manual_seed(0)).to(kind)
    faulty = golden * 1.01
    faulty[[3, 70, 900]] *= torch.tensor([-1, 1000, 0]).to(kind)
    _assert_same(golden, faulty)
    faulty[[5, 6, 7]] = torch.tensor([math.nan, math.inf, -math.inf]).to(kind)
    golden[[7, 8]] = torch.tensor([math.inf, math.nan]).to(kind)
    _assert_same(golden, faulty)


def test_what_is_brief_says_the_same_of_less() -> None:
    """Changed elements, relative L2, largest difference, new NaNs and infinities."""
    golden = torch.randn(100_000, generator=torch.Generator().manual_seed(0))
    faulty = golden.clone()
    faulty[40_000:] += 1e-3
    faulty[[1, 2]] = torch.tensor([math.nan, math.inf])
    whole, short = measure(golden, faulty), measure(golden, faulty, Ruler(brief=True))
    for name in ("equal", "changed", "numel", "relative_l2", "max_abs", "new_nan", "new_inf"):
        assert getattr(whole, name) == getattr(short, name), name


def test_tensors_that_lie_alike_are_measured_where_they_lie() -> None:
    """Transposed both, or one of them: the same measures."""
    golden = torch.randn(300, 200, generator=torch.Generator().manual_seed(0)).t()
    faulty = golden * 1.5
    assert faulty.stride() == golden.stride()
    one, other = measure(golden, faulty), measure(golden, faulty.contiguous())
    assert one._replace(relative_l2=0, cosine=0) == other._replace(relative_l2=0, cosine=0)
    assert one.relative_l2 == pytest.approx(other.relative_l2, rel=1e-12)


_VIEWS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda t: t[:, 0],
    lambda t: t[3],
    lambda t: t.reshape(-1)[::2],
    lambda t: t[:, ::3],
    lambda t: t.t(),
    lambda t: t[:, 0].expand(5, -1),
    lambda t: t[1, 1].expand(64),
]


@pytest.mark.parametrize("view", _VIEWS)
def test_views_with_gaps_are_measured_as_what_they_show(
    view: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    """A column, every second element, one element many times: as a copy of it would be."""
    golden = torch.randn(100, 64, generator=torch.Generator().manual_seed(0))
    faulty = golden.clone()
    faulty[1, 1] += 1
    faulty[90, 0] += 5
    found = measure(view(golden), view(faulty))
    copied = measure(view(golden).clone().contiguous(), view(faulty).clone().contiguous())
    assert found._replace(relative_l2=0, cosine=0) == copied._replace(relative_l2=0, cosine=0)
    assert found.relative_l2 == pytest.approx(copied.relative_l2, rel=1e-12)
    assert found.cosine == pytest.approx(copied.cosine, rel=1e-12)


def test_a_room_that_was_used_says_nothing_of_the_next_block() -> None:
    """Large, small, NaN, and another dtype: one ruler measures each as a new one does."""
    numbers, ruler = torch.Generator().manual_seed(0), Ruler()
    for size, kind in ((30_000, torch.float32), (7, torch.float64), (900, torch.bfloat16)) * 2:
        golden = torch.randn(size, generator=numbers).to(kind)
        faulty = golden * -1.5
        faulty[size // 2] = math.nan
        assert measure(golden, faulty, ruler) == measure(golden, faulty, Ruler())


_SCALES = (1e-30, 1e-12, 1.0, 1e12, 1e25)


@pytest.mark.parametrize("kind", _KINDS, ids=str)
@pytest.mark.parametrize("scale", _SCALES)
@pytest.mark.parametrize("change", [-1.0, 1e-6, 0.01, 3.0, 1e6])
def test_single_precision_says_the_same_to_five_digits(
    kind: torch.dtype, scale: float, change: float
) -> None:
    """Numbers of any size, changed little or much, some in sign: counts and distances are equal."""
    numbers = torch.Generator().manual_seed(0)
    golden = torch.randn(EXACT + 1, generator=numbers)
    faulty = golden * (1 + change * torch.rand(EXACT + 1, generator=numbers))
    faulty[::100] = golden[::100]
    _assert_near(*((side.double() * scale).to(kind) for side in (golden, faulty)))


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 3e38, -0.0])
def test_single_precision_gives_way_where_it_is_not_enough(odd: float) -> None:
    """NaN, infinity, and a number whose square float32 cannot hold, in one run or both."""
    golden = torch.randn(2 * EXACT, generator=torch.Generator().manual_seed(0))
    faulty = golden + 1e-3
    faulty[5] = odd
    _assert_near(golden, faulty)
    golden[[5, 6]] = odd
    _assert_near(golden, faulty)
    _assert_near(golden, golden.clone())
    _assert_near(torch.zeros_like(golden), -torch.zeros_like(golden))


def test_a_large_error_does_not_hide_the_angle() -> None:
    """One element of 2^14 that grows to 1e20: the cosine is that element's share, 1/128."""
    golden = torch.ones(1 << 14)
    faulty = golden.clone()
    faulty[7] = 1e20
    found = measure(golden, faulty, Ruler(single=True))
    assert found.cosine == pytest.approx(1 / 128, rel=1e-6)  # 1e20 / (sqrt(2^14) * 1e20)
    assert found.changed == 1
    assert found.max_abs == pytest.approx(1e20)


def _assert_near(golden: torch.Tensor, faulty: torch.Tensor) -> None:
    """Single precision finds the same counts, and the same sizes to five digits."""
    (found,) = map(_Part._make, Ruler(golden.numel(), single=True).measure(golden, faulty))
    plain = _Part.of(golden, faulty)
    for name in ("changed", "sign_flips", "new_nan", "new_inf"):
        assert getattr(found, name) == getattr(plain, name), name
    for name in ("difference", "golden", "faulty", "max_abs", "max_rel", "ulps"):
        expected = pytest.approx(getattr(plain, name), rel=1e-5, nan_ok=True)
        assert getattr(found, name) == expected, name
    sizes = math.sqrt(plain.golden * plain.faulty)
    assert found.product == pytest.approx(plain.product, rel=1e-12, abs=1e-5 * sizes)


@pytest.mark.parametrize("kind", _KINDS, ids=str)
def test_distances_are_whole_numbers_of_representable_values(kind: torch.dtype) -> None:
    """Three values on from 1000, and across zero, measured either way."""
    golden = torch.tensor([1000.0, 0.0], dtype=kind)
    faulty = (golden.view(_BITS[golden.element_size()]) + 3).view(kind)
    near = (golden[:1], faulty[:1], 3)
    across = (-faulty[1:], faulty[1:], 6)
    for one, other, expected in (near, across):
        assert _Part.of(one, other).ulps == expected
        assert measure(one, other).max_ulp == expected


def test_a_multiple_of_a_constant_points_the_same_way() -> None:
    """131,072 equal numbers three times as large: sums that round alike give no cosine above 1."""
    golden = torch.full((1 << 17,), 45.827545843304634).bfloat16()
    found = measure(golden, golden * 3, Ruler(single=True))
    assert 0.9999 < found.cosine <= 1
    assert found.relative_l2 == pytest.approx(91.25 / 45.75, rel=1e-4)  # 137 beside 45.75


def test_a_largest_error_of_nothing_is_no_negative_zero() -> None:
    """-1 became NaN: of the others, 0 / -1 each, the largest relative error is 0, not -0."""
    golden = torch.tensor([-1.0, -1.0, -1.0])
    found = measure(golden, torch.tensor([-1.0, math.nan, -1.0]))
    assert math.copysign(1, found.max_rel) == math.copysign(1, found.max_abs) == 1
