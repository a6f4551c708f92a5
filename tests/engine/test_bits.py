from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook.engine.bits import (
    _hash_on_device,
    changed_mask,
    equal_bits,
    position_hash,
    raw,
)

VALUES = torch.arange(1.0, 13.0).reshape(3, 4)


def hashed(tensor: torch.Tensor) -> int:
    """The hash as a number."""
    return int(position_hash(tensor))


@pytest.mark.parametrize(
    "changed",
    [
        VALUES[[1, 0, 2]],
        VALUES.flip(1),
        VALUES * torch.tensor([[-1.0], [-1.0], [1.0]]),
        torch.nextafter(VALUES, torch.tensor(100.0)),
    ],
    ids=["row swap", "mirrored", "paired sign flips", "one ULP"],
)
def test_the_hash_sees_what_sums_and_xors_miss(changed: torch.Tensor) -> None:
    """The elements are the same, or their sum is, but the bits at some place are not."""
    assert hashed(changed) != hashed(VALUES)
    assert not equal_bits(changed, VALUES)


def test_the_hash_is_not_linear() -> None:
    """+1, -2, +1 ULP in neighbours cancel in every weighted sum with even steps."""
    changed = VALUES.flatten().clone()
    changed.view(torch.int32)[3:6] += torch.tensor([1, -2, 1], dtype=torch.int32)
    assert hashed(changed) != hashed(VALUES)


def test_nan_payloads_and_signs_of_zero_count() -> None:
    """0x7FC00000 and 0x7FC00001 are both NaN; 0.0 and -0.0 are equal numbers."""
    first, second = (
        torch.tensor([bits], dtype=torch.int32).view(torch.float32)
        for bits in (0x7FC00000, 0x7FC00001)
    )
    assert equal_bits(first, first)
    assert not equal_bits(first, second)
    assert hashed(first) != hashed(second)
    assert not equal_bits(torch.zeros(1), -torch.zeros(1))


@given(st.integers(0, 3_000), st.sampled_from([torch.float32, torch.bfloat16, torch.int64]))
def test_equal_bits_have_equal_hashes_whatever_the_strides(count: int, dtype: torch.dtype) -> None:
    """A transposed view hashes as its contiguous copy does."""
    tensor = torch.arange(count * 2).reshape(2, count).to(dtype).t()
    assert hashed(tensor) == hashed(tensor.contiguous())


@pytest.mark.parametrize("shape", [(4, 5), (1, 1), (3, 0)])
def test_an_expanded_tensor_has_the_hash_of_its_copy(shape: tuple[int, ...]) -> None:
    """One element that stands for many, as the gradient of a sum does."""
    expanded = torch.tensor(1.5).expand(shape)
    assert hashed(expanded) == hashed(expanded.contiguous())


def test_blocks_are_hashed_by_their_place() -> None:
    """Two blocks of 2^15 elements that change places."""
    tensor = torch.cat([torch.zeros(1 << 15), torch.ones(1 << 15)])
    assert hashed(tensor) != hashed(tensor.flip(0))
    assert hashed(tensor[: 1 << 15]) != hashed(tensor)


def test_a_changed_complex_element_counts_once() -> None:
    """Both of its parts differ."""
    golden = torch.tensor([1 + 1j, 2 + 2j])
    faulty = torch.tensor([1 + 1j, 3 + 3j])
    assert changed_mask(golden, faulty).tolist() == [False, True]


@pytest.mark.parametrize("count", [0, 1, 3, 8, 9, 32_768, 32_769, 70_001])
def test_devices_agree_on_the_hash(count: int) -> None:
    """Block by block on the host or all at once, whole words or not: the same number."""
    flat = raw(torch.randn(count, generator=torch.Generator().manual_seed(count)).bfloat16())
    assert int(_hash_on_device(flat)) == int(position_hash(flat.view(torch.bfloat16)))


def test_a_block_that_moves_is_seen() -> None:
    """Ones in the first block of 2^14 words, or in the second."""
    first = torch.zeros(4, 1 << 15)
    second = first.clone()
    first[0], second[1] = 1, 1
    assert hashed(first) != hashed(second)
