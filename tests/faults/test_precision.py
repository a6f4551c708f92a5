"""Fewer decimals, fewer bits, and the presets."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook import faults
from fi_notebook.errors import FaultError
from fi_notebook.faults.bits import bit_view, dtype_of


def struck(values: list[float], model: str, dtype: str = "float32", **parameters: Any) -> list[Any]:
    """What a model makes of a list of values."""
    tensor = torch.tensor(values, dtype=torch.float64).to(dtype_of(dtype))
    return faults.apply(tensor, model, **parameters).double().tolist()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.23456, 1.235),
        (0.0625, 0.062),  # 62.5 to even
        (0.1875, 0.188),  # 187.5 to even
        (-0.0625, -0.062),
        (3e-4, 0.0),
        (-2.5, -2.5),
        (123456.7894, 123456.789),
    ],
)
def test_delete_keeps_three_decimals(value: float, expected: float) -> None:
    """Rounded half to even, in float64."""
    assert struck([value], "delete", "float64") == [expected]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("float32", 3e38),
        ("float64", 1e308),
        ("float64", -1.7e308),
        ("float32", math.inf),
        ("bfloat16", 3e38),
        ("float16", 65504.0),
        ("float64", 2.0**50 + 0.25),
    ],
)
def test_delete_leaves_huge_values(dtype: str, value: float) -> None:
    """torch.round(decimals=3) makes an infinity of 3e38."""
    before = torch.tensor([value], dtype=dtype_of(dtype))
    assert torch.equal(faults.apply(before, "delete"), before)


def test_delete_keeps_nan_payloads_and_integers() -> None:
    """There is nothing to round."""
    nan = torch.tensor([0x7FC01234], dtype=torch.int32).view(torch.float32)
    assert bit_view(faults.apply(nan, "delete")).item() == 0x7FC01234
    assert faults.apply(torch.tensor([2**60 + 1]), "delete").item() == 2**60 + 1


@given(st.floats(-1e6, 1e6), st.integers(0, 6))
def test_decimals_are_numpy_s(value: float, decimals: int) -> None:
    """Scaled, rounded half to even, and scaled back, as numpy.round does."""
    numpy = torch.tensor([value], dtype=torch.float64).numpy()
    assert struck([value], "round_decimals", "float64", decimals=decimals) == [
        float(numpy.round(decimals)[0])
    ]


def test_a_result_is_rounded_to_a_narrow_dtype_once() -> None:
    """No neighbour of the result is nearer to the exact one, as by way of float32 one may be."""
    values = torch.randn(10_000, generator=faults.generator(0)).to(torch.bfloat16)
    exact = (values.double() * 1000).round() / 1000
    after = faults.apply(values, "delete")
    for end in (-math.inf, math.inf):
        other = after.nextafter(torch.tensor(end, dtype=torch.bfloat16))
        assert ((after - exact).abs() <= (other - exact).abs()).all()


@pytest.mark.parametrize("form", ["bfloat16", "float16", "float8_e5m2", "float8_e4m3fn"])
def test_rounding_to_a_format_is_torch_s_cast(form: str) -> None:
    """From float32, subnormals and values in range; e4m3 holds what is above at 448."""
    values = torch.randn(20_000, generator=faults.generator(0)) * 2.0 ** torch.randint(
        -30, 9, (20_000,), generator=faults.generator(1)
    )
    values = values.clamp(-448, 448)
    cast = values.to(dtype_of(form)).float()
    assert torch.equal(bit_view(faults.apply(values, "round_to", format=form)), bit_view(cast))


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        ("bf16", 1 + 2.0**-8, 1.0),  # a tie to even
        ("bf16", 1 + 3 * 2.0**-8, 1 + 2.0**-6),
        ("bf16", 1 + 2.0**-8 + 2.0**-23, 1 + 2.0**-7),
        ("tf32", 1 + 2.0**-11, 1.0),
        ("tf32", 1 + 2.0**-10, 1 + 2.0**-10),
        ("fp16", 65519.0, 65504.0),
        ("fp16", 65520.0, math.inf),
        ("fp16", 2.0**-25, 0.0),
        ("fp16", 3 * 2.0**-25, 2.0**-23),
        ("e4m3", 500.0, 448.0),
        ("e5m2", -1e6, -math.inf),
        ("bf16", -math.inf, -math.inf),
    ],
)
def test_rounding_to_the_nearest(form: str, value: float, expected: float) -> None:
    """Half to even; above the range infinite, or the largest value where there is no infinity."""
    assert struck([value], "round_to", format=form) == [expected]


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        ("bf16", 1 + 3 * 2.0**-8, 1 + 2.0**-7),
        ("bf16", -1.999, -(2 - 2.0**-7)),
        ("fp16", 1e9, 65504.0),
        ("e4m3", 2.0**-10, 0.0),
    ],
)
def test_rounding_toward_zero(form: str, value: float, expected: float) -> None:
    """Never away from zero, and never beyond the largest value."""
    assert struck([value], "round_to", format=form, rounding="toward_zero") == [expected]


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 51))
def test_mantissa_bits_toward_zero_are_cleared_bits(value: float, kept: int) -> None:
    """Against the integer view: the low 52 - kept bits of a normal float64 become zero."""
    if 0 < abs(value) < 2.0**-1022:
        return  # a subnormal has fewer bits to keep
    before = torch.tensor([value], dtype=torch.float64)
    after = faults.apply(before, "round_to", mantissa=kept, rounding="toward_zero")
    cleared = before.view(torch.int64) & -(1 << (52 - kept))
    assert torch.equal(after.view(torch.int64), cleared)


def test_rounding_keeps_nan_and_dtype_and_parts() -> None:
    """In complex values each part is rounded."""
    assert math.isnan(struck([math.nan], "round_to", format="bf16")[0])
    value = torch.tensor([complex(1 + 2.0**-9, 3 + 2.0**-10)])
    assert faults.apply(value, "round_to", format="bf16").item() == 1 + 3j


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "give either format or mantissa"),
        ({"format": "bf16", "mantissa": 3}, "give either format or mantissa"),
        ({"format": "bf61"}, "did you mean 'bf16'"),
        ({"mantissa": 53}, "from 0 to 52"),
        ({"format": "tf32", "rounding": "up"}, "'nearest', 'toward_zero'"),
    ],
)
def test_parameters_that_can_never_be_are_refused(parameters: Any, message: str) -> None:
    """With what would be valid."""
    with pytest.raises(FaultError, match=message):
        faults.check("round_to", parameters)


def test_integers_have_no_mantissa() -> None:
    """Refused with the reason."""
    with pytest.raises(FaultError, match="needs a floating-point dtype, not int32"):
        faults.apply(torch.ones(2, dtype=torch.int32), "round_to", format="bf16")


def test_the_presets() -> None:
    """Light is 1.5 times, heavy 100 times, delete keeps three decimals."""
    values = torch.tensor([1.0, -2.5, 0.0, 3e-4])
    assert torch.equal(faults.apply(values, "light"), values * 1.5)
    assert torch.equal(faults.apply(values, "heavy"), values * 100)
    assert faults.apply(values, "delete").tolist() == [1.0, -2.5, 0.0, 0.0]
    whole = torch.tensor([1, 2, 3])
    assert faults.apply(whole, "light").tolist() == [2, 3, 4]  # 1.5, 3, 4.5 to even
    assert faults.apply(whole.to(torch.int8), "heavy").tolist() == [100, 127, 127]
