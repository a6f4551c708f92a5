"""Windows, elements and previews of one tensor."""

from __future__ import annotations

import pytest
import torch

from fi_notebook.errors import FaultError
from fi_notebook.ui.values import COLUMNS, ROWS, element, preview, window


def test_a_small_tensor_is_shown_whole() -> None:
    """The last two axes of the chosen index."""
    tensor = torch.arange(24.0).reshape(2, 3, 4)
    shown = window(tensor, [1, 0, 0])
    assert (shown["rows"], shown["cols"], shown["origin"]) == (3, 4, [0, 0])
    assert shown["fixed"] == [1]
    assert shown["grid"] == list(range(12, 24))


@pytest.mark.parametrize("shape", [(), (5,), (1, 1), (2, 3, 4, 5)])
def test_every_rank_has_a_window(shape: tuple[int, ...]) -> None:
    """A scalar is one cell, a vector one row."""
    shown = window(torch.ones(shape), [0] * len(shape))
    assert shown["rows"] * shown["cols"] == len(shown["grid"]) > 0
    assert shown["shape"] == list(shape)


def test_a_large_tensor_is_shown_around_the_element() -> None:
    """The window stays inside and holds the element."""
    tensor = torch.arange(500.0 * 400).reshape(500, 400)
    shown = window(tensor, [499, 200])
    assert (shown["rows"], shown["cols"]) == (ROWS, COLUMNS)
    assert shown["origin"] == [500 - ROWS, 200 - COLUMNS // 2]


@pytest.mark.parametrize(
    ("dtype", "value", "bits"),
    [
        (torch.float32, 1.0, "3f800000"),
        (torch.float32, -0.0, "80000000"),
        (torch.bfloat16, 1.0, "3f80"),
        (torch.float16, -1.0, "bc00"),
        (torch.float64, -1.0, "bff0000000000000"),
        (torch.int8, -1, "ff"),
        (torch.bool, True, "1"),
    ],
)
def test_an_element_has_its_exact_bits(dtype: torch.dtype, value: float, bits: str) -> None:
    """As the machine holds them."""
    found = element(torch.tensor([value], dtype=dtype), [0])
    assert found["bits"] == bits
    assert found["value"] == value


def test_a_complex_element_has_no_bit_lens() -> None:
    """Its value is shown all the same."""
    assert element(torch.tensor([1 + 2j]), [0]) == {"index": [0], "value": 1 + 2j, "bits": None}


def test_a_preview_changes_nothing() -> None:
    """The tensor stays, the change is told with its bits."""
    tensor = torch.ones(2, 3)
    found = preview(tensor, "bitflip", {"bit": 31}, {"index": [1, 2]}, seed=0)
    assert found["changed"] == 1
    assert found["elements"] == [
        {"index": (1, 2), "before": 1.0, "after": -1.0, "bits": ["3f800000", "bf800000"]}
    ]
    assert torch.equal(tensor, torch.ones(2, 3))


def test_a_preview_refuses_what_the_tensor_does_not_allow() -> None:
    """Bit 40 of a float32 is refused before anything runs."""
    with pytest.raises(FaultError, match="40"):
        preview(torch.ones(2), "bitflip", {"bit": 40}, "all", seed=0)
