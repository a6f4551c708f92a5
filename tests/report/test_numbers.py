from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook.core.injection import ElementChange
from fi_notebook.report import numbers


@pytest.mark.parametrize(
    ("given_number", "text"),
    [
        (8192, "8,192"),
        (0.000123456, "0.0001235"),
        (1.5, "1.5"),
        (12345.678, "1.235e+04"),
        (nan, "NaN"),
        (inf, "Inf"),
        (-inf, "-Inf"),
        (1 - 2.5j, "1-2.5j"),
        (True, "1"),
    ],
)
def test_numbers_have_four_significant_digits(given_number: complex, text: str) -> None:
    """Whole numbers stand in full, the special ones by name."""
    assert numbers.number(given_number) == text


def test_exact_is_the_shortest_text_of_the_dtype() -> None:
    """The float32 that is nearest to 0.1 is 0.1 there, and longer as a float64."""
    nearest = float(np.float32(0.1))
    assert numbers.exact(nearest, "float32") == "0.1"
    assert numbers.exact(nearest, "float64") == "0.10000000149011612"
    assert numbers.exact(1 + 2j) == "1.0+2.0j"
    assert numbers.exact(7, "int64") == "7"


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_exact_reads_back_to_the_same_float32(value: float) -> None:
    """Nothing is lost in the text."""
    assert np.float32(numbers.exact(value, "float32")) == np.float32(value)


def test_value_adds_the_exact_text_where_it_is_longer() -> None:
    """1.5 is exact as it is."""
    assert numbers.value(1.5) == "1.5"
    assert numbers.value(0.123456789) == "0.1235 (0.123456789)"
    assert numbers.value(nan) == "NaN"


@pytest.mark.parametrize(
    ("dtype", "bits", "fields", "hexadecimal"),
    [
        ("float32", 0x3F800000, "0|01111111|" + "0" * 23, "0x3f800000"),  # 1.0
        ("bfloat16", 0xBF80, "1|01111111|0000000", "0xbf80"),  # -1.0
        ("float16", 0x3C00, "0|01111|0000000000", "0x3c00"),  # 1.0
        ("float8_e4m3fn", 0x38, "0|0111|000", "0x38"),  # 1.0
        ("float8_e5m2", 0x3C, "0|01111|00", "0x3c"),  # 1.0
        ("int8", 0x81, "1|0000001", "0x81"),
        ("uint8", 0x81, "10000001", "0x81"),
        ("uint16", 0x81, "0000000010000001", "0x0081"),
        ("float8_e8m0fnu", 0x7F, "01111111", "0x7f"),  # 1.0
        ("bool", 1, "1", "0x1"),
        ("strange", 5, "101", "0x5"),
    ],
)
def test_bits_are_grouped_by_field(dtype: str, bits: int, fields: str, hexadecimal: str) -> None:
    """Sign, exponent, mantissa, as wide as the dtype."""
    assert numbers.bit_fields(bits, dtype) == fields
    assert numbers.hexadecimal(bits, dtype) == hexadecimal


def test_complex_has_no_bits() -> None:
    """None stands for bits that are not one number."""
    assert (numbers.bit_fields(None, "complex64"), numbers.hexadecimal(None, "complex64")) == (
        "-",
        "-",
    )


def test_changed_bits_are_named_with_their_field() -> None:
    """1.0 to 1.125 is bit 20; 1.0 to -Inf is the sign and the top exponent bit."""
    change = ElementChange((0,), 1.0, 1.125, 0x3F800000, 0x3F900000)
    assert numbers.changed_bits(change, "float32") == "bit 20 (mantissa)"
    change = ElementChange((0,), 1.0, -inf, 0x3F800000, 0xFF800000)
    assert numbers.changed_bits(change, "float32") == "bit 31 (sign), bit 30 (exponent)"
    change = ElementChange((0,), 0.0, nan, 0, 0x7FFFFFFF)
    assert numbers.changed_bits(change, "float32") == "31 bits"
    same = ElementChange((0,), 0.0, 0.0, 0, 0)
    assert numbers.changed_bits(same, "float32") == "none"


def test_ulps_count_the_values_between() -> None:
    """1.0 to 1.125 is 2²⁰ values of float32; across zero both sides count; NaN, integers and
    complex have none.
    """
    moved = ElementChange((0,), 1.0, 1.125, 0x3F800000, 0x3F900000)
    assert numbers.ulps(moved, "float32") == 2**20
    tiny = ElementChange((0,), 1e-45, -3e-45, 0x00000001, 0x80000002)
    assert numbers.ulps(tiny, "float32") == 1 + 2
    zeros = ElementChange((0,), 0.0, -0.0, 0, 0x8000)
    assert numbers.ulps(zeros, "bfloat16") == 0
    largest = ElementChange((0,), 65504.0, inf, 0x7BFF, 0x7C00)
    assert numbers.ulps(largest, "float16") == 1
    scale = ElementChange((0,), 1.0, 4.0, 0x7F, 0x81)  # 2**0 to 2**2, a format without a sign
    assert numbers.ulps(scale, "float8_e8m0fnu") == 2
    assert numbers.ulps(ElementChange((0,), 0.0, nan, 0, 0x7FFFFFFF), "float32") is None
    assert numbers.ulps(ElementChange((0,), 1, 2, 1, 2), "int32") is None
    assert numbers.ulps(ElementChange((0,), 1j, 2j, None, None), "complex64") is None


def test_the_smallest_normal_numbers() -> None:
    """2 to the power of 1 minus the bias: 127, 15, 7; integers have none."""
    assert numbers.smallest_normal("float32") == 2.0**-126 == np.finfo(np.float32).tiny
    assert numbers.smallest_normal("float16") == 2.0**-14 == np.finfo(np.float16).tiny
    assert numbers.smallest_normal("float64") == np.finfo(np.float64).tiny
    assert numbers.smallest_normal("float8_e4m3fn") == 2.0**-6
    assert numbers.smallest_normal("float8_e4m3fnuz") == 2.0**-7
    assert numbers.smallest_normal("float8_e8m0fnu") == 0  # it has no subnormal numbers
    assert numbers.smallest_normal("int32") == 0


def test_shares_shapes_and_indices() -> None:
    """1 / 8192 is 0.0122 %; all and nothing need no percentage."""
    assert numbers.share(1, 8192, "output") == "1 of 8,192 outputs (0.01221 %)"
    assert numbers.share(1, 1, "output") == "1 of 1 output"
    assert numbers.share(0, 6) == "0 of 6"
    assert numbers.share(0, 0) == "0 of 0"
    assert numbers.shape_text((16, 8)) == "16 × 8"
    assert numbers.shape_text(()) == "scalar"
    assert numbers.index_text((0, 3)) == "(0, 3)"
