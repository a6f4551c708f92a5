"""Fault models on values, and how they compute on each dtype."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook import faults
from fi_notebook.errors import FaultError
from fi_notebook.faults.bits import FORMATS, bit_view, dtype_of
from fi_notebook.faults.numbers import random_patterns, round_to_integers
from fi_notebook.faults.values import finite_std

INTEGERS = [name for name, layout in FORMATS.items() if layout.kind in ("int", "uint")]


def struck(values: Any, model: str, dtype: str = "float32", **parameters: Any) -> list[Any]:
    """What a model makes of a list of values."""
    tensor = torch.tensor(values, dtype=dtype_of(dtype))
    after = faults.apply(tensor, model, **parameters)
    assert after.dtype == tensor.dtype
    return after.double().tolist() if after.is_floating_point() else after.tolist()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_floats_compute_as_torch_does(dtype: str) -> None:
    """A product or sum of a tensor and a number."""
    values = torch.randn(100, generator=faults.generator(0)).to(dtype_of(dtype))
    assert torch.equal(faults.apply(values, "scale", factor=1.1), values * 1.1)
    assert torch.equal(faults.apply(values, "add", value=0.3), values + 0.3)
    assert torch.equal(faults.apply(values, "clamp", low=-0.5, high=0.7), values.clamp(-0.5, 0.7))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_float8_computes_in_float32(dtype: str) -> None:
    """And is rounded to the dtype by torch."""
    values = torch.randn(100, generator=faults.generator(0)).to(dtype_of(dtype))
    expected = (values.float() * 1.1).to(values.dtype)
    after = faults.apply(values, "scale", factor=1.1)
    assert torch.equal(after.view(torch.uint8), expected.view(torch.uint8))


@pytest.mark.parametrize(
    ("dtype", "values", "parameters", "expected"),
    [
        ("int64", [1, 2, 3, -3], {"factor": 1.5}, [2, 3, 4, -4]),  # 1.5, 3, 4.5, -4.5 to even
        ("int8", [1, 100, -100], {"factor": 2}, [2, 127, -128]),  # held at the ends
        ("uint8", [1, 200], {"factor": 1.5}, [2, 255]),
        ("uint8", [1, 200], {"factor": -1}, [0, 0]),
        ("int64", [2**53 + 1], {"factor": 1}, [2**53 + 1]),  # exact: no float64 in between
        ("int64", [2**53 + 1], {"factor": 1.0}, [2**53 + 1]),  # a float is whole as well
        ("int64", [1, 0, -1], {"factor": 2**53 + 1}, [2**53 + 1, 0, -(2**53) - 1]),
        ("uint64", [1, 2], {"factor": 2**63 + 1}, [2**63 + 1, 2**64 - 1]),
        ("int64", [2**62, -(2**62)], {"factor": 3}, [2**63 - 1, -(2**63)]),
        ("int64", [2**62], {"factor": 1e300}, [2**63 - 1]),
        ("uint64", [2**63, 5], {"factor": 2}, [2**64 - 1, 10]),
        ("bool", [True, False], {"factor": 0.5}, [True, False]),
        ("bool", [True, False], {"factor": 0}, [False, False]),
        ("complex64", [1 + 2j], {"factor": -2}, [-2 - 4j]),
        ("complex32", [1 + 2j], {"factor": -2}, [-2 - 4j]),
    ],
)
def test_scale(dtype: str, values: list[Any], parameters: dict[str, Any], expected: Any) -> None:
    """Exact for whole factors on integers, else half to even, held at the ends."""
    assert struck(values, "scale", dtype, **parameters) == expected


@pytest.mark.parametrize(
    ("dtype", "values", "value", "expected"),
    [
        ("int8", [100, -100], 100, [127, 0]),
        ("int8", [1], 0.5, [2]),  # 1.5 to even
        ("uint8", [5], -10, [0]),
        ("int64", [2**63 - 1, 2**63 - 10], 5, [2**63 - 1, 2**63 - 5]),
        ("int64", [2**53 + 1], 0.0, [2**53 + 1]),
        ("int64", [-5, 1], 2**63, [2**63 - 5, 2**63 - 1]),
        ("uint64", [2**64 - 1], -5, [2**64 - 6]),
        ("uint64", [2**64 - 3], 5, [2**64 - 1]),
        ("bool", [True, False], 1, [True, True]),
        ("bool", [True, False], -1, [False, True]),
        ("complex64", [1 + 2j], 3, [4 + 2j]),
        ("float16", [65504.0], 65504, [math.inf]),
    ],
)
def test_add(dtype: str, values: list[Any], value: float, expected: list[Any]) -> None:
    """On the real part of complex numbers; integers are held at the ends."""
    assert struck(values, "add", dtype, value=value) == expected


@pytest.mark.parametrize("dtype", INTEGERS)
@given(st.data(), st.integers(-1000, 1000))
def test_whole_arithmetic_on_integers_is_python_s_held_at_the_ends(
    dtype: str, data: st.DataObject, number: int
) -> None:
    """Scale and add against exact integers, over the whole range of the dtype and beyond."""
    number += data.draw(st.sampled_from([0, 2**53, -(2**53), 2**63, -(2**63), 2**64]))
    ends = torch.iinfo(dtype_of(dtype))
    values = data.draw(st.lists(st.integers(ends.min, ends.max), min_size=1, max_size=9))

    def held(exact: int) -> int:
        return min(max(exact, ends.min), ends.max)

    assert struck(values, "scale", dtype, factor=number) == [held(v * number) for v in values]
    assert struck(values, "add", dtype, value=number) == [held(v + number) for v in values]
    assert struck(values, "negate", dtype) == [held(-v) for v in values]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_rounding_to_integers_holds_at_the_ends(dtype: str) -> None:
    """Half to even; NaN becomes 0, infinities the ends, also where float64 has not the end."""
    ends = torch.iinfo(dtype_of(dtype))
    wide = torch.tensor([0.5, 1.5, 2.5, math.nan, math.inf, -math.inf, 1e30], dtype=torch.float64)
    expected = [0, 2, 2, 0, ends.max, ends.min, ends.max]
    assert round_to_integers(wide, dtype_of(dtype)).tolist() == expected


@pytest.mark.parametrize("text", ["nan", "inf", "-inf"])
def test_set_takes_nan_and_infinities_through_json(text: str) -> None:
    """As text, since JSON has no such numbers."""
    parameters = json.loads(json.dumps({"value": text}))
    for dtype in ("float32", "bfloat16", "float8_e5m2", "complex64"):
        (after,) = struck([1.0], "set", dtype, **parameters)
        real = after.real if isinstance(after, complex) else after
        assert math.isnan(real) if text == "nan" else real == float(text)


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        ("int8", 300, "int8 cannot hold 300; valid are whole numbers from -128 to 127"),
        ("int8", 1.5, "int8 cannot hold 1.5"),
        ("int64", "nan", "int64 cannot hold nan"),
        ("bool", 2, "bool cannot hold 2; valid are whole numbers from 0 to 1"),
        ("float16", 1e6, "float16 cannot hold 1000000.0; its largest value is 65504; for an inf"),
        ("float8_e4m3fn", "inf", "float8_e4m3fn has no infinity; its largest value is 448"),
        ("float8_e4m3fn", 449, "its largest value is 448$"),
    ],
)
def test_set_refuses_what_a_dtype_cannot_hold(dtype: str, value: Any, message: str) -> None:
    """With what it can."""
    with pytest.raises(FaultError, match=message):
        faults.check_tensor("set", {"value": value}, "all", dtype, (3,))


def test_set_fills_every_dtype() -> None:
    """Also where torch itself does not fill."""
    for dtype in FORMATS:
        assert struck([0, 1], "set", dtype, value=1) == [1, 1]
    assert struck([0], "set", "uint64", value=2**64 - 1) == [2**64 - 1]
    assert struck([0], "set", "complex64", value=2) == [2 + 0j]


NARROW = [d for d in FORMATS if d.startswith(("float16", "bfloat16", "float8")) and "e8m0" not in d]


@pytest.mark.parametrize("dtype", NARROW)
@given(data=st.data())
def test_set_rounds_once(dtype: str, data: st.DataObject) -> None:
    """Near the middle of two values it is the nearer one, of a tie the even one, by fractions."""
    low = torch.tensor([1]).to(dtype_of(dtype))
    width = 8 * low.element_size()
    last = int(bit_view(torch.tensor(torch.finfo(low.dtype).max).to(low.dtype)))
    bits = data.draw(st.integers(0, last - 1))
    carrier = torch.uint8 if width == 8 else torch.int16
    pair = torch.tensor([bits, bits + 1], dtype=carrier).view(low.dtype).double().tolist()
    middle = sum(pair) / 2
    nudge = data.draw(st.sampled_from([0.0, 2.0**-30, -(2.0**-30), 2.0**-45, -(2.0**-45)]))
    given_value = middle * (1 + nudge)
    first, second = (abs(Fraction(given_value) - Fraction(end)) for end in pair)
    even = bits + bits % 2
    expected = pair[even - bits] if first == second else pair[second < first]
    assert struck([0.0], "set", dtype, value=given_value) == [expected]
    if not dtype.endswith("fnuz"):
        assert struck([0.0], "set", dtype, value=-given_value) == [-expected]


def test_complex_numbers_are_scaled_and_added_to_by_part() -> None:
    """No part makes NaN of an infinite other one, and a zero keeps its sign."""
    values = [complex(math.inf, 1), complex(1, -0.0)]
    infinite, signed_zero = struck(values, "scale", "complex64", factor=2)
    assert infinite == complex(math.inf, 2)
    assert (signed_zero, math.copysign(1, signed_zero.imag)) == (2, -1)
    infinite, signed_zero = struck(values, "add", "complex64", value=2)
    assert infinite == complex(math.inf, 1)
    assert (signed_zero, math.copysign(1, signed_zero.imag)) == (3, -1)


def test_nan_inf_zero_negate() -> None:
    """The constants, by part where it is complex."""
    (number,) = struck([1 + 1j], "nan", "complex64")
    assert math.isnan(number.real)
    assert math.isnan(number.imag)
    assert struck([1.0], "inf") == [math.inf]
    assert struck([1.0], "inf", negative=True) == [-math.inf]
    assert struck([1.0, -2.0], "zero") == [0.0, 0.0]
    assert [math.copysign(1, v) for v in struck([0.0, -0.0], "negate")] == [-1.0, 1.0]
    assert struck([True, False], "negate", "bool") == [False, True]
    assert struck([1 - 2j], "negate", "complex64") == [-1 + 2j]
    assert struck([0.0, 1.0], "negate", "float8_e4m3fnuz") == [0.0, -1.0]  # it has no -0


@pytest.mark.parametrize("model", ["nan", "inf"])
def test_integers_have_no_nan_or_infinity(model: str) -> None:
    """Refused, with the numbers that they have."""
    with pytest.raises(FaultError, match=f"{model}: int32 cannot hold {model}"):
        faults.check_tensor(model, {}, "all", "int32", (3,))
    with pytest.raises(FaultError, match="needs a floating-point dtype, not int32"):
        faults.check_tensor("scale", {"factor": model}, "all", "int32", (3,))


@pytest.mark.parametrize("dtype", [d for d, layout in FORMATS.items() if layout.inexact])
def test_random_finite_is_finite(dtype: str) -> None:
    """Every part, and nearly every value differs from the others where there are many."""
    after = faults.apply(torch.ones(5000).to(dtype_of(dtype)), "random_finite", seed=2)
    wide = after.to(torch.complex128) if after.is_complex() else after.double()
    assert torch.isfinite(wide).all()
    assert len(set(wide.tolist())) > 100


def test_random_finite_draws_every_finite_pattern() -> None:
    """Of the 256 patterns of float8_e5m2, 248 are finite: Inf and NaN take 2 x 4."""
    after = faults.apply(torch.ones(20_000).to(torch.float8_e5m2), "random_finite")
    assert len(set(after.view(torch.uint8).tolist())) == 248
    whole = faults.apply(torch.zeros(20_000, dtype=torch.uint8), "random_finite")
    assert len(set(whole.tolist())) == 256


def test_random_uniform_keeps_its_range() -> None:
    """Floats between the ends; every whole number from low to high, both included."""
    after = faults.apply(torch.zeros(10_000), "random_uniform", low=-2.0, high=3.0)
    assert -2 <= float(after.min()) < -1.99
    assert 2.99 < float(after.max()) <= 3
    whole = faults.apply(torch.zeros(1000, dtype=torch.int16), "random_uniform", low=-2, high=3)
    assert set(whole.tolist()) == {-2, -1, 0, 1, 2, 3}
    assert faults.apply(torch.zeros(3), "clamp", low=1.5, high=1.5).tolist() == [1.5] * 3


@pytest.mark.parametrize("dtype", [*NARROW, "float8_e8m0fnu", "float32", "complex64"])
def test_random_uniform_never_leaves_its_range(dtype: str) -> None:
    """Of 0.0999 to 0.1 the narrow dtypes round up to beyond the largest value."""
    low = 0.02
    after = faults.apply(
        torch.zeros(5_000).to(dtype_of(dtype)), "random_uniform", low=low, high=0.1
    )
    parts = torch.view_as_real(after) if after.is_complex() else after
    assert low <= float(parts.double().min()) <= float(parts.double().max()) <= 0.1


@pytest.mark.parametrize(
    ("model", "dtype", "low", "high", "message"),
    [
        ("random_uniform", "int32", 0.2, 0.8, "no whole number lies from low=0.2 to high=0.8"),
        ("random_uniform", "uint8", 2.5, 2.9, "no whole number lies from low=2.5 to high=2.9"),
        ("clamp", "int32", 0.2, 0.8, "no whole number lies from low=0.2 to high=0.8"),
        ("clamp", "bool", 0.2, 0.8, "no whole number lies from low=0.2 to high=0.8"),
        ("random_uniform", "bfloat16", 0.1, 0.1, "no value of bfloat16 lies from low=0.1 to"),
        ("random_uniform", "float16", 1e5, 1e6, "no value of float16 lies from low=100000.0 to"),
        ("random_uniform", "float8_e8m0fnu", -1, 0, "no value of float8_e8m0fnu lies from low=-1"),
    ],
)
def test_a_range_without_a_value_is_refused(
    model: str, dtype: str, low: float, high: float, message: str
) -> None:
    """Nothing could be drawn or held there."""
    with pytest.raises(FaultError, match=message):
        faults.check_tensor(model, {"low": low, "high": high}, "all", dtype, (3,))


@pytest.mark.parametrize("dtype", ["int64", "float64", "int32"])
def test_each_bit_of_a_random_pattern_is_a_coin(dtype: str) -> None:
    """Of 4,000 patterns half of each bit, within six deviations of √4,000 / 2 = 31.6."""
    values = torch.zeros(4_000, dtype=dtype_of(dtype))
    bits = bit_view(random_patterns(values, faults.generator(1)))
    ones = [int((bits >> n & 1).sum()) for n in range(8 * values.element_size())]
    assert all(abs(count - 2_000) < 6 * 31.7 for count in ones)


def test_random_is_the_standard_normal_distribution() -> None:
    """Mean 0 and deviation 1 of 100,000 draws, within five deviations."""
    after = faults.apply(torch.zeros(100_000), "random", seed=3)
    assert abs(float(after.mean())) < 5 / 100_000**0.5
    assert abs(float(after.std()) - 1) < 5 / 200_000**0.5


@pytest.mark.parametrize(
    ("relative", "expected"), [(False, 0.1), (True, 0.8), ("element", 0.8), ("tensor", 0.3)]
)
def test_noise_has_the_deviation_it_says(relative: Any, expected: float) -> None:
    """Absolute 0.1, relative to each value 8, or to the tensor's deviation of 3."""
    tensor = torch.full((40_000,), 8.0)
    tensor[::2], tensor[1::2] = (5.0, 11.0) if relative == "tensor" else (8.0, 8.0)
    noise = faults.apply(tensor, "noise", seed=1, std=0.1, relative=relative) - tensor
    assert abs(float(noise.double().std()) - expected) < 0.02 * expected


def test_the_tensor_s_deviation_is_of_its_finite_elements() -> None:
    """5 and 11 have mean 8 and deviation 3, whatever else is there, piece by piece."""
    values = torch.tensor([5.0, 11.0, math.nan, math.inf])
    assert finite_std(values) == 3.0
    assert finite_std(torch.tensor([5, 11], dtype=torch.uint8)) == 3.0
    assert finite_std(torch.tensor([math.nan])) == 0.0


def test_clamp_holds_values() -> None:
    """NaN stays NaN; integers keep whole numbers inside the range."""
    assert struck([-3.0, 0.5, 9.0], "clamp", low=-1, high=6) == [-1.0, 0.5, 6.0]
    assert math.isnan(struck([math.nan], "clamp", high=6)[0])
    assert struck([-5, 2, 9], "clamp", "int8", low=-1.5, high=6.5) == [-1, 2, 6]
    assert struck([2**60 + 1], "clamp", "int64", low=0) == [2**60 + 1]
    assert struck([3 - 9j], "clamp", "complex64", low=-1, high=1) == [1 - 1j]


@pytest.mark.parametrize(
    ("model", "parameters", "message"),
    [
        ("clamp", {}, "give low, high or both"),
        ("clamp", {"low": None}, "give low, high or both"),
        ("scale", {"factor": 10**400}, "'inf' or '-inf' that float64 can hold"),
        ("random_uniform", {"low": -(10**400)}, "a finite number that float64 can hold"),
        ("shift", {"by": 2**64}, "expected a whole number, below 2"),
        ("clamp", {"low": 2, "high": 1}, "low=2 is above high=1"),
        ("random_uniform", {"low": 2}, "low=2 is above high=1.0"),
        ("noise", {"std": -1}, "of at least 0"),
        ("noise", {"relative": "tensr"}, "did you mean 'tensor'"),
        ("scale", {}, "scale needs factor="),
        ("scale", {"factor": "two"}, "a number, 'nan', 'inf' or '-inf'"),
        ("scale", {"fctor": 2}, "scale has no parameter 'fctor'; did you mean 'factor'"),
        ("inf", {"negative": 1}, "True or False"),
    ],
)
def test_parameters_that_can_never_be_are_refused(
    model: str, parameters: dict[str, Any], message: str
) -> None:
    """With what would be valid."""
    with pytest.raises(FaultError, match=message):
        faults.check(model, parameters)


@pytest.mark.parametrize(
    ("model", "parameters", "dtype", "expected"),
    [
        ("scale", {"factor": 2**64}, "float32", [2.0**64, -(2.0**64)]),
        ("scale", {"factor": 1e39}, "float32", [math.inf, -math.inf]),
        ("scale", {"factor": 2**64}, "int8", [127, -128]),
        ("add", {"value": 2**64}, "float64", [2.0**64, 2.0**64]),
        ("add", {"value": 2**70}, "int64", [2**63 - 1, 2**63 - 1]),
        ("set", {"value": 2**64}, "float32", [2.0**64, 2.0**64]),
        ("clamp", {"low": 1e39}, "float32", [math.inf, math.inf]),
        ("clamp", {"high": 1e39}, "float32", [1.0, -1.0]),
        ("clamp", {"low": -(2**70), "high": 0}, "float32", [0.0, -1.0]),
        ("clamp", {"low": -1e308, "high": 1e308}, "int64", [1, -1]),
        ("random_uniform", {"low": 1e308, "high": 1.1e308}, "int64", [2**63 - 1] * 2),
        ("random_uniform", {"low": 2**64, "high": 2**65}, "uint8", [255, 255]),
    ],
)
def test_numbers_beyond_a_dtype_are_held_or_infinite(
    model: str, parameters: dict[str, Any], dtype: str, expected: list[Any]
) -> None:
    """As the dtype's own arithmetic has it: 1 and -1, struck with numbers it cannot hold."""
    given = [1, 0] if dtype == "uint8" else [1, -1]
    assert struck(given, model, dtype, **parameters) == expected


def test_a_range_wider_than_float64_is_drawn_from_all_the_same() -> None:
    """Both ends are held by float64, their distance is not."""
    found = struck([0.0] * 8, "random_uniform", "float64", low=-1.7e308, high=1.7e308)
    assert all(math.isfinite(number) for number in found)
    assert min(found) < 0 < max(found)
