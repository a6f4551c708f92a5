"""Fault models on bits, beyond the flips of `test_bits`."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook import faults
from fi_notebook.errors import FaultError
from fi_notebook.faults.bits import FORMATS, bit_view, dtype_of


def patterns(tensor: torch.Tensor) -> list[Any]:
    """The raw bits."""
    return bit_view(tensor).tolist()


def test_several_bits_flip_together() -> None:
    """Sign and lowest exponent bit of 1.0: -0.5."""
    assert faults.apply(torch.tensor([1.0]), "bitflip", bit=[31, 23]).item() == -0.5


@pytest.mark.parametrize("field", ["sign", "exponent", "mantissa"])
def test_a_field_flip_stays_in_its_field_and_hits_all_of_it(field: str) -> None:
    """One bit per element, drawn uniformly over the field."""
    low, high = FORMATS["bfloat16"].fields[field]
    values = torch.ones(4000, dtype=torch.bfloat16)
    after = faults.apply(values, "bitflip", seed=3, field=field)
    change = (bit_view(after).int() ^ bit_view(values).int()) & 0xFFFF
    assert set(change.tolist()) == {1 << bit for bit in range(low, high + 1)}


def test_a_bit_error_rate_flips_that_share_of_all_bits() -> None:
    """Of 100,000 x 32 bits at 1e-3, about 3,200: within four standard deviations of 56.5."""
    values = torch.zeros(100_000)
    bits = bit_view(faults.apply(values, "bitflip", seed=2, ber=1e-3)).long() & 0xFFFFFFFF
    flips = sum(int((bits >> bit & 1).sum()) for bit in range(32))
    assert abs(flips - 3200) < 226


@pytest.mark.parametrize(("ber", "expected"), [(0.0, 0), (1.0, -1)])
def test_the_ends_of_the_bit_error_rate(ber: float, expected: int) -> None:
    """0 flips nothing, 1 every bit."""
    assert patterns(faults.apply(torch.zeros(5), "bitflip", ber=ber)) == [expected] * 5


@pytest.mark.parametrize(
    ("part", "expected"), [(None, -1 + 2j), ("real", -1 + 2j), ("imag", 1 - 2j), ("both", -1 - 2j)]
)
def test_a_complex_element_is_struck_in_a_part(part: str | None, expected: complex) -> None:
    """Bit 31 of complex64 is the sign of the part that is named, the real one by default."""
    value = torch.tensor([1 + 2j])
    assert faults.apply(value, "bitflip", bit=31, part=part).item() == expected


def test_a_bit_error_rate_strikes_both_parts_of_complex_elements() -> None:
    """All 64 bits of a complex64 flip at rate 1."""
    assert patterns(faults.apply(torch.zeros(2, dtype=torch.complex64), "bitflip", ber=1)) == [
        [-1, -1],
        [-1, -1],
    ]
    half = faults.apply(torch.zeros(1, dtype=torch.complex64), "bitflip", ber=1, part="imag")
    assert patterns(half) == [[0, -1]]


def test_a_bool_has_one_bit() -> None:
    """Bit 0 inverts it; every other one would make a bool that is neither."""
    values = torch.tensor([True, False])
    assert faults.apply(values, "bitflip", bit=0).tolist() == [False, True]
    with pytest.raises(FaultError, match="bool has no bit 1"):
        faults.apply(values, "bitflip", bit=1)


def test_integers_flip_in_two_s_complement() -> None:
    """Bit 7 of int8 5 is its sign: 5 - 128; of uint8 5 it is worth 128."""
    assert faults.apply(torch.tensor([5], dtype=torch.int8), "bitflip", bit=7).item() == -123
    assert faults.apply(torch.tensor([5], dtype=torch.uint8), "bitflip", bit=7).item() == 133


def test_a_nan_keeps_its_payload() -> None:
    """A signalling NaN comes out with all bits but the flipped one."""
    values = torch.tensor([0x7F800001], dtype=torch.int32).view(torch.float32)
    assert patterns(faults.apply(values, "bitflip", bit=5)) == [0x7F800021]


@given(st.integers(1, 16), st.integers(0, 15))
def test_a_burst_flips_adjacent_bits(length: int, bit: int) -> None:
    """Exactly ``length`` bits from ``bit`` on, where they fit."""
    values = torch.zeros(3, dtype=torch.int16)
    if length + bit > 16:
        with pytest.raises(FaultError, match=r"do not fit int16; its bits are 0 to 15"):
            faults.apply(values, "burst", length=length, bit=bit)
        return
    after = faults.apply(values, "burst", length=length, bit=bit)
    expected = ((1 << length) - 1) << bit
    assert [pattern & 0xFFFF for pattern in patterns(after)] == [expected] * 3


def test_a_burst_starts_anywhere_where_it_fits() -> None:
    """Three bits of uint8 start at bit 0 to 5."""
    after = faults.apply(torch.zeros(500, dtype=torch.uint8), "burst", seed=4, length=3)
    assert set(after.tolist()) == {7 << start for start in range(6)}


def test_a_burst_may_be_as_wide_as_a_float64() -> None:
    """64 bits drawn: there is one place."""
    assert patterns(faults.apply(torch.zeros(1).double(), "burst", length=64)) == [-1]


@given(
    st.sampled_from(["stuck_at_0", "stuck_at_1"]),
    st.sampled_from(sorted(FORMATS)),
    st.integers(0, 63),
    st.integers(0, 2**31),
)
def test_stuck_bits_are_idempotent(model: str, dtype: str, bit: int, seed: int) -> None:
    """Once and twice are the same, and the bit is as it must be."""
    layout = FORMATS[dtype]
    values = faults.apply(torch.ones(5).to(dtype_of(dtype)), "bitflip", seed=seed)
    once = faults.apply(values, model, bit=bit % layout.bits)
    assert patterns(faults.apply(once, model, bit=bit % layout.bits)) == patterns(once)
    part = bit_view(once)[..., 0] if layout.parts == 2 else bit_view(once)
    stuck = [pattern >> bit % layout.bits & 1 for pattern in part.tolist()]
    assert stuck == [int(model == "stuck_at_1")] * 5


def test_a_stuck_field_is_all_zeros_or_ones() -> None:
    """Exponent 0 of 1.5 leaves the subnormal 2**-127; all ones a NaN."""
    value = torch.tensor([1.5])
    assert faults.apply(value, "stuck_at_0", field="exponent").item() == 2.0**-127
    assert faults.apply(value, "stuck_at_1", field="exponent").isnan().all()


def test_a_mask_is_a_number_or_text() -> None:
    """JSON has no hexadecimal numbers, so text does as well."""
    values = torch.tensor([1.0], dtype=torch.float64)
    assert faults.apply(values, "xor_mask", mask=1 << 63).item() == -1.0
    assert faults.apply(values, "xor_mask", mask="0x8000000000000000").item() == -1.0


@pytest.mark.parametrize(
    ("model", "parameters", "message"),
    [
        ("bitflip", {"bit": 70}, "bit=70 cannot be; expected a whole number.* from 0 to 63"),
        ("bitflip", {"bit": -1}, "bit=-1 cannot be"),
        ("bitflip", {"bit": True}, "bit=True cannot be"),
        ("bitflip", {"bit": 1.0}, "bit=1.0 cannot be"),
        ("bitflip", {"bit": [3, 3]}, "distinct"),
        ("bitflip", {"bit": []}, "cannot be"),
        ("bitflip", {"bit": 3, "field": "sign"}, "give one of bit, field and ber"),
        ("bitflip", {"field": "expnent"}, "did you mean 'exponent'"),
        ("bitflip", {"ber": 1.5}, "from 0 to 1"),
        ("bitflip", {"bits": 3}, "bitflip has no parameter 'bits'; did you mean 'bit'"),
        ("burst", {"length": 0}, "from 1 to 64"),
        ("stuck_at_0", {}, "give either bit or field"),
        ("xor_mask", {}, "xor_mask needs mask="),
        ("xor_mask", {"mask": "0xZZ"}, "such as '0x8000'"),
        ("xor_mask", {"mask": 1 << 64}, "cannot be"),
    ],
)
def test_parameters_that_can_never_be_are_refused(
    model: str, parameters: dict[str, Any], message: str
) -> None:
    """Without any tensor, and with what would be valid."""
    with pytest.raises(FaultError, match=message):
        faults.check(model, parameters)


@pytest.mark.parametrize(
    ("model", "parameters", "dtype", "message"),
    [
        ("bitflip", {"bit": 40}, "float16", "float16 has no bit 40; its bits are 0 to 15"),
        ("bitflip", {"field": "exponent"}, "int32", "no field 'exponent'.*sign 31, value 0-30"),
        ("bitflip", {"field": "sign"}, "uint8", "uint8 has no field 'sign'"),
        ("stuck_at_1", {"bit": [3, 9]}, "float8_e5m2", "float8_e5m2 has no bit 9"),
        ("xor_mask", {"mask": 0x100}, "uint8", "mask 0x100 is wider than uint8"),
        ("bitflip", {"bit": 1, "part": "imag"}, "float32", "float32 has no part 'imag'"),
        ("burst", {"part": "real"}, "int8", "it is for complex dtypes"),
        ("xor_mask", {"mask": 1, "part": "real"}, "int8", "it is for complex dtypes"),
    ],
)
def test_what_a_dtype_does_not_have_is_refused(
    model: str, parameters: dict[str, Any], dtype: str, message: str
) -> None:
    """When the dtype is known, with the bits that there are."""
    faults.check(model, parameters)
    with pytest.raises(FaultError, match=message):
        faults.check_tensor(model, parameters, "all", dtype, (4,))
