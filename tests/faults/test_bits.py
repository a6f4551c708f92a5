"""Bit tables, integer views and the flips that are known independently."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook import faults
from fi_notebook.errors import FaultError
from fi_notebook.faults.bits import FORMATS, bit_view, describe_bit, dtype_of, format_of, from_bits

ONE = {  # 1.0 with one bit flipped: bit 31 -> -1; bit 30 -> inf; ...
    "float32": {
        31: -1, 30: math.inf, 29: 2.0**-64, 28: 2.0**-32, 27: 2.0**-16, 26: 2.0**-8, 25: 2.0**-4,
        24: 0.25, 23: 0.5, 22: 1.5, 21: 1.25, 20: 1.125,
    },
    "bfloat16": {
        15: -1, 14: math.inf, 13: 2.0**-64, 12: 2.0**-32, 11: 2.0**-16, 10: 2.0**-8, 9: 2.0**-4,
        8: 0.25, 7: 0.5, 6: 1.5, 5: 1.25, 4: 1.125, 3: 1.0625, 0: 1.0078125,
    },
    "float16": {
        15: -1, 14: math.inf, 13: 2.0**-8, 12: 2.0**-4, 11: 0.25, 10: 0.5, 9: 1.5, 8: 1.25,
        0: 1.0009765625,
    },
    "float8_e4m3fn": {7: -1, 6: 256, 5: 0.0625, 4: 0.25, 3: 0.5, 2: 1.5, 1: 1.25, 0: 1.125},
    "float8_e5m2": {7: -1, 6: math.inf, 5: 2.0**-8, 4: 2.0**-4, 3: 0.25, 2: 0.5, 1: 1.5, 0: 1.25},
}  # fmt: skip

PRINTED = {  # the same results as they are printed to six digits
    2.0**-64: "5.42101e-20",
    2.0**-32: "2.32831e-10",
    2.0**-16: "1.52588e-05",
    2.0**-8: "0.00390625",
}
TOP = {name: layout.fields["exponent"][1] for name, layout in FORMATS.items() if name in ONE}


def flipped(value: float, dtype: str, bit: int) -> float:
    """One value with one bit flipped."""
    tensor = torch.tensor([value]).to(dtype_of(dtype))
    return float(faults.apply(tensor, "bitflip", bit=bit).double())


@pytest.mark.parametrize(
    ("dtype", "bit", "expected"),
    [(dtype, bit, value) for dtype, row in ONE.items() for bit, value in row.items()],
)
def test_one_flipped_bit_of_one(dtype: str, bit: int, expected: float) -> None:
    """Each flip of 1.0 gives the value that its bit pattern stands for."""
    assert flipped(1.0, dtype, bit) == expected
    assert PRINTED.get(expected, f"{expected:.6g}") == f"{flipped(1.0, dtype, bit):.6g}"


@pytest.mark.parametrize("dtype", ONE)
def test_zero_becomes_two_or_minus_zero(dtype: str) -> None:
    """Flipping the top exponent bit of 0 gives 2, the sign bit -0."""
    assert flipped(0.0, dtype, TOP[dtype]) == 2.0
    minus = flipped(0.0, dtype, TOP[dtype] + 1)
    assert (minus, math.copysign(1, minus)) == (0.0, -1.0)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float32", -0.75 * 2.0**128),  # exponent 126 | 128 = 254: -1.5 * 2**127
        ("bfloat16", -0.75 * 2.0**128),
        ("float16", -49152.0),
        ("float8_e4m3fn", -192.0),
        ("float8_e5m2", -49152.0),
    ],
)
def test_the_top_exponent_bit_of_minus_three_quarters(dtype: str, expected: float) -> None:
    """-0.75 becomes huge but stays finite in every format."""
    assert flipped(-0.75, dtype, TOP[dtype]) == expected


def test_a_top_exponent_flip_makes_as_many_non_finite_as_the_normal_law_says() -> None:
    """27.18 % of N(0,1) lie between 1 and 2 in magnitude, and become Inf or NaN."""
    values = torch.randn(1_000_000, generator=faults.generator(5))
    share = (~torch.isfinite(faults.apply(values, "bitflip", bit=30))).double().mean()
    assert abs(share - 0.2718) < 0.002  # three standard deviations are 0.0013


@pytest.mark.parametrize(
    ("dtype", "expected"), [("float32", 0.0085), ("bfloat16", 0.0170), ("float16", 0.0170)]
)
def test_a_uniformly_drawn_bit_seldom_makes_a_non_finite_value(dtype: str, expected: float) -> None:
    """0.2718 / 32 = 0.85 % of float32, 0.2718 / 16 = 1.70 % of the 16-bit formats."""
    values = torch.randn(1_000_000, generator=faults.generator(6)).to(dtype_of(dtype))
    share = (~torch.isfinite(faults.apply(values, "bitflip", seed=1))).double().mean()
    assert abs(share - expected) < 0.0005


def test_a_sign_flip_has_relative_error_two() -> None:
    """|x - (-x)| / |x| is exactly 2."""
    values = torch.randn(1000, generator=faults.generator(1))
    error = (faults.apply(values, "bitflip", field="sign") - values).abs() / values.abs()
    assert torch.equal(error, torch.full_like(values, 2.0))


@pytest.mark.parametrize("dtype", FORMATS)
@given(pattern=st.integers(0, 2**64 - 1), bit=st.integers(0, 63), seed=st.integers(0, 99))
def test_a_flip_twice_is_the_identity(dtype: str, pattern: int, bit: int, seed: int) -> None:
    """On every bit pattern of every dtype, NaN payloads included."""
    layout = FORMATS[dtype]
    raw = bytearray((pattern & 1 if dtype == "bool" else pattern).to_bytes(8, "little") * 2)
    size = dtype_of(dtype).itemsize
    values = torch.frombuffer(raw[:size], dtype=torch.uint8).view(dtype_of(dtype))
    once = faults.apply(values, "bitflip", bit=bit % layout.bits)
    assert not torch.equal(bit_view(once), bit_view(values))
    assert torch.equal(
        bit_view(faults.apply(once, "bitflip", bit=bit % layout.bits)), bit_view(values)
    )
    drawn = faults.apply(values, "bitflip", seed=seed)  # the same seed draws the same bit
    assert torch.equal(bit_view(faults.apply(drawn, "bitflip", seed=seed)), bit_view(values))


@pytest.mark.parametrize(
    ("dtype", "bit", "text"),
    [
        ("float32", 31, "bit 31 (sign)"),
        ("float32", 30, "bit 30 (exponent)"),
        ("bfloat16", 6, "bit 6 (mantissa)"),
        ("int8", 7, "bit 7 (sign)"),
        ("uint8", 7, "bit 7 (value)"),
        ("complex64", 23, "bit 23 (exponent)"),
        ("float8_e8m0fnu", 7, "bit 7 (exponent)"),
    ],
)
def test_a_bit_is_shown_with_its_field(dtype: str, bit: int, text: str) -> None:
    """A bit number never stands alone."""
    assert describe_bit(dtype, bit) == text


def test_a_bit_that_is_not_there_is_refused_with_those_that_are() -> None:
    """The message lists the fields of the dtype."""
    with pytest.raises(FaultError, match=r"float16 has no bit 16; its bits are 0 to 15 \(sign 15"):
        describe_bit("float16", 16)


@pytest.mark.parametrize("dtype", FORMATS)
def test_the_fields_cover_every_bit_once(dtype: str) -> None:
    """Each bit belongs to exactly one field."""
    spans = FORMATS[dtype].fields.values()
    covered = sorted(bit for low, high in spans for bit in range(low, high + 1))
    assert covered == list(range(FORMATS[dtype].bits))


@pytest.mark.parametrize("name", ["qint8", "quint8", "qint32"])
def test_quantised_dtypes_are_refused_with_the_reason(name: str) -> None:
    """Their scale is no part of the bits."""
    with pytest.raises(FaultError, match="quantised"):
        format_of(name)


def test_an_unknown_dtype_is_refused_with_near_names() -> None:
    """A slip in a dtype name is answered with the right one."""
    with pytest.raises(FaultError, match="did you mean 'float32'"):
        format_of("float31")


def test_bits_go_to_values_and_back() -> None:
    """`from_bits` undoes `bit_view`, for complex values part by part."""
    values = torch.tensor([1 + 2j, float("nan") - 0j])
    assert torch.equal(bit_view(from_bits(bit_view(values), values.dtype)), bit_view(values))
