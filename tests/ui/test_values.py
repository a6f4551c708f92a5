"""Windows, elements and previews of one tensor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from fi_notebook.core.fault import Fault
from fi_notebook.core.site import Site, Target
from fi_notebook.core.steps import Steps
from fi_notebook.errors import FaultError
from fi_notebook.ui.values import COLUMNS, LINE, MOST, ROWS, element, preview, window


def test_planes_of_the_last_two_axes_stand_side_by_side() -> None:
    """Both planes of the axis before, each of 3 × 4, in the order of memory."""
    shown = window(torch.arange(24.0).reshape(2, 3, 4))
    assert (shown["facets"], shown["rows"], shown["cols"]) == (2, 3, 4)
    assert shown["corner"] == [0, 0, 0]
    assert shown["grid"] == list(range(24))


@pytest.mark.parametrize(
    "shape", [(), (5,), (70,), (5000,), (1, 1), (2, 3, 4, 5), (3, 100, 80, 90)]
)
def test_every_shape_has_a_window(shape: tuple[int, ...]) -> None:
    """Of at most `MOST` elements; a vector goes over lines of 32."""
    shown = window(torch.ones(shape))
    places = shown["facets"] * shown["rows"] * shown["cols"]
    assert 0 < len(shown["grid"]) <= min(places, MOST)
    assert shown["shape"] == list(shape)
    assert len(shown["corner"]) == len(shape)


def test_a_large_tensor_is_shown_around_the_element() -> None:
    """The window stays inside and holds the element."""
    tensor = torch.arange(500.0 * 400).reshape(500, 400)
    shown = window(tensor, around=[499, 200])
    assert (shown["rows"], shown["cols"]) == (ROWS, COLUMNS)
    assert shown["corner"] == [500 - ROWS, 200 - COLUMNS // 2]
    assert shown["grid"][0] == tensor[500 - ROWS, 200 - COLUMNS // 2]


@pytest.mark.parametrize("at", [0, 31, 1100, 2999])
def test_a_long_vector_is_shown_in_whole_lines_around_the_element(at: int) -> None:
    """The first line begins at a multiple of 32, and the element is in one of them."""
    shown = window(torch.arange(3000.0), around=[at])
    assert shown["corner"][0] % LINE == 0
    assert at in shown["grid"]


def test_the_corner_stays_where_it_is_asked_for() -> None:
    """A click inside the window does not move it; a corner that is too far is brought inside."""
    tensor = torch.arange(6.0 * 8 * 4 * 4).reshape(6, 8, 4, 4)
    assert window(tensor, [3, 0, 0, 0], around=[0, 0, 0, 0])["corner"] == [3, 0, 0, 0]
    assert window(tensor, [9, 9, 9, 9])["corner"] == [5, 0, 0, 0]
    assert window(tensor, [5, 0, 0, 0])["grid"] == tensor[5].reshape(-1).tolist()


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


def fault(model: str, elements: Any, *, seed: int = 0, **parameters: Any) -> Fault:
    """A fault at the second relu, in step 0."""
    target = Target.parse("relu*2:0")
    return Fault("f1", target, model, parameters, elements, Steps.parse(0), seed)


def site(shape: tuple[int, ...]) -> Site:
    """The second relu's output, of this shape."""
    return Site("relu", 2, shape=shape, dtype="float32")


def test_a_preview_changes_nothing() -> None:
    """The tensor stays, the change is told with its bits."""
    tensor = torch.ones(2, 3)
    found = preview(tensor, fault("bitflip", {"index": [1, 2]}, bit=31), site((2, 3)))
    assert found["changed"] == 1
    assert found["comes_up"]
    assert found["elements"] == [
        {"index": [1, 2], "before": 1.0, "after": -1.0, "bits": ["3f800000", "bf800000"]}
    ]
    assert torch.equal(tensor, torch.ones(2, 3))


def test_a_preview_refuses_what_the_tensor_does_not_allow() -> None:
    """Bit 40 of a float32 is refused before anything runs."""
    with pytest.raises(FaultError, match="40"):
        preview(torch.ones(2), fault("bitflip", "all", bit=40), site((2,)))


def test_a_preview_tells_whether_the_probability_comes_up() -> None:
    """Of 40 seeds with probability 0.5 some come up and some do not, as their draws say."""
    rare = [replace(fault("zero", "all", seed=n), probability=0.5) for n in range(40)]
    up = [preview(torch.ones(2), each, site((2,)))["comes_up"] for each in rare]
    assert 8 <= sum(up) <= 32  # 40 fair coins: outside once in 10,000
