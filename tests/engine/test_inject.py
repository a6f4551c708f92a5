"""Striking outputs of every kind and dtype: the chosen bits change, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fi_notebook import Session
from fi_notebook.core.run import Run
from tests.tools.traced import same_bits

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SHAPE = (3, 4)


class Kind(NamedTuple):
    """A way to give an output: what is called, its site, and what must stay as it was."""

    call: Callable[[Tensor], dict[str, Tensor]]  # "struck", and others that are looked at
    site: str
    scope: str = "value"
    alike: tuple[str, ...] = ()  # others that share the struck memory


def _functional(x: Tensor) -> dict[str, Tensor]:
    return {"struck": torch.clone(x), "input": x}


def _in_place(x: Tensor) -> dict[str, Tensor]:
    h = torch.empty_like(x)
    alias = h.view(-1)
    return {"struck": h.copy_(x), "alias": alias.view(x.shape), "input": x}


def _view(x: Tensor) -> dict[str, Tensor]:
    base = x.t().contiguous()
    return {"struck": base.t(), "base": base.view(4, 3).mT, "input": x}


def _list_of_views(x: Tensor) -> dict[str, Tensor]:
    base = torch.stack([x, x])
    first, second = torch.unbind(base)
    return {"struck": second, "sibling": first, "base": base.view(2, 3, 4)[1], "input": x}


def _new_list(x: Tensor) -> dict[str, Tensor]:
    first, second = torch.ops.aten.split_copy(torch.cat([x, x]), 3)
    return {"struck": second, "sibling": first, "input": x}


def _strided(x: Tensor) -> dict[str, Tensor]:
    turned = x.t().contiguous().t()  # column-major: clone keeps the strides
    return {"struck": torch.clone(turned), "input": x}


_KINDS = {
    "functional": Kind(_functional, "clone*1:0"),
    "in place": Kind(_in_place, "copy_*1:0", alike=("alias",)),
    "view by value": Kind(_view, "t*2:0"),
    "view by storage": Kind(_view, "t*2:0", "storage", alike=("base",)),
    "list of views": Kind(_list_of_views, "unbind*1:0[1]"),
    "list of views by storage": Kind(_list_of_views, "unbind*1:0[1]", "storage", ("base",)),
    "new list": Kind(_new_list, "split_copy*1:0[1]"),
    "other strides": Kind(_strided, "clone*2:0"),
}

_DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.int8,
    torch.uint8,
    torch.int32,
    torch.int64,
]


class Holder(nn.Module):
    """A model that runs a function on a buffer; it has a parameter, so that it trains."""

    def __init__(self, function: Callable[[Tensor], dict[str, Tensor]], x: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.function, self.x = function, x

    def forward(self) -> dict[str, Tensor]:
        return self.function(self.x)


def _strike(kind: Kind, x: Tensor, model: str, **how: Any) -> tuple[dict, dict, Run]:
    """What the function gave without and with the fault, and the run."""
    seen: list[dict[str, Tensor]] = []
    holder = Holder(kind.call, x)

    def step() -> None:
        given = holder()
        with torch.utils._python_dispatch._disable_current_modes():
            seen.append({name: tensor.detach().clone() for name, tensor in given.items()})

    session = Session(step, model=holder)
    session.trace()
    session.arm(kind.site, model, scope=kind.scope, **how)
    run = session.replay()
    return seen[0], seen[-1], run


def _bits(tensor: Tensor) -> np.ndarray:
    """The bits in row-major order, as unsigned integers."""
    size = tensor.element_size()
    raw = tensor.contiguous().view(-1).view(torch.uint8).numpy()
    return raw.view(_UNSIGNED[size])


def _values(dtype: torch.dtype) -> Tensor:
    plain = torch.arange(12).view(_SHAPE) - 5
    if dtype == torch.uint8:
        plain = plain.abs()
    return (plain.float() * (1.5 if dtype.is_floating_point else 1)).to(dtype)


@pytest.mark.parametrize("dtype", _DTYPES, ids=str)
@pytest.mark.parametrize("name", _KINDS)
def test_one_flipped_bit_is_one_flipped_bit(name: str, dtype: torch.dtype) -> None:
    """Element [1, 2], top bit: its bits are XOR 2^(width - 1), all others as they were."""
    kind, x = _KINDS[name], _values(dtype)
    top = 8 * x.element_size() - 1
    before, after, run = _strike(kind, x, "bitflip", elements={"index": [1, 2]}, bit=top)
    expected = _bits(before["struck"]).copy()
    expected[1 * 4 + 2] ^= _UNSIGNED[x.element_size()](1 << top)
    assert _bits(after["struck"]).tolist() == expected.tolist()
    for other in set(before) - {"struck"}:
        if other in kind.alike:
            assert _bits(after[other]).tolist() == expected.tolist()
        else:
            assert same_bits(before[other], after[other]), other
    (injection,) = run.injections
    assert injection.changed == 1
    assert [change.index for change in injection.elements] == [(1, 2)]
    was, now = injection.tensors()
    assert same_bits(was, before["struck"])
    assert same_bits(now, after["struck"])


@pytest.mark.parametrize(
    ("model", "how", "expected"),
    [
        ("scale", {"factor": 3.0}, lambda v: v * 3),
        ("add", {"value": 0.5}, lambda v: v + 0.5),
        ("set", {"value": 7.0}, lambda v: torch.full_like(v, 7)),
        ("zero", {}, torch.zeros_like),
        ("nan", {}, lambda v: torch.full_like(v, torch.nan)),
        ("inf", {}, lambda v: torch.full_like(v, torch.inf)),
    ],
)
@pytest.mark.parametrize("elements", ["all", {"index": [[0, 3], [2, 0]]}, {"row": 1}], ids=str)
@pytest.mark.parametrize("name", _KINDS)
def test_value_models_reach_exactly_the_chosen_elements(
    name: str,
    elements: Any,
    model: str,
    how: dict[str, float],
    expected: Callable[[Tensor], Tensor],
) -> None:
    """Chosen elements become what arithmetic says; the others keep their bits."""
    before, after, run = _strike(
        _KINDS[name], _values(torch.float32), model, elements=elements, **how
    )
    mask = torch.zeros(_SHAPE, dtype=torch.bool)
    if elements == "all":
        mask[:] = True
    elif "row" in elements:
        mask[1] = True
    else:
        mask[0, 3] = mask[2, 0] = True
    wanted = torch.where(mask, expected(before["struck"]), before["struck"])
    torch.testing.assert_close(after["struck"], wanted, rtol=0, atol=0, equal_nan=True)
    assert same_bits(after["struck"][~mask], before["struck"][~mask])
    assert run.injections[0].changed == int(
        (_bits(before["struck"]) != _bits(after["struck"])).sum()
    )


@pytest.mark.parametrize("name", _KINDS)
def test_noise_and_counts_stay_within_the_chosen_elements(name: str) -> None:
    """Noise on 5 drawn elements changes those 5 that the injection names, the same each time."""
    draws = []
    for _ in range(2):
        before, after, run = _strike(
            _KINDS[name], _values(torch.float32), "noise", elements={"count": 5}, seed=3, std=1.0
        )
        changed = np.flatnonzero(_bits(before["struck"]) != _bits(after["struck"]))
        named = [row * 4 + column for row, column in (c.index for c in run.injections[0].elements)]
        assert named == changed.tolist()
        assert len(named) == 5
        draws.append(_bits(after["struck"]).tolist())
    assert draws[0] == draws[1]


def test_complex_and_bool_are_struck_by_their_bits() -> None:
    """Bit 31 of complex64 negates the real part; bit 0 of a bool turns it over."""
    x = torch.tensor([[1 + 2j, 3 - 4j]])
    before, after, _ = _strike(
        _KINDS["functional"], x, "bitflip", elements={"index": [0, 1]}, bit=31
    )
    assert before["struck"].tolist() == [[1 + 2j, 3 - 4j]]
    assert after["struck"].tolist() == [[1 + 2j, -3 - 4j]]
    truth = torch.tensor([[True, False]])
    _, after, _ = _strike(_KINDS["functional"], truth, "bitflip", elements={"index": [0, 1]}, bit=0)
    assert after["struck"].tolist() == [[True, True]]


def _expanded(x: Tensor) -> dict[str, Tensor]:
    row = x[:1].clone()
    return {"struck": row.expand(3, 4), "base": row}


def _scalar(x: Tensor) -> dict[str, Tensor]:
    return {"struck": x.sum(), "input": x}


def _channels_last(x: Tensor) -> dict[str, Tensor]:
    images = x.view(1, 3, 2, 2).contiguous(memory_format=torch.channels_last)
    return {"struck": torch.abs(images), "input": x}


def test_overlapping_memory_is_struck_in_a_copy() -> None:
    """One element of an expanded row changes alone; the row that it shows does not."""
    kind = Kind(_expanded, "expand*1:0")
    before, after, run = _strike(kind, _values(torch.float32), "zero", elements={"index": [2, 1]})
    expected = before["struck"].clone()
    expected[2, 1] = 0
    assert torch.equal(after["struck"], expected)
    assert same_bits(after["base"], before["base"])
    assert run.injections[0].kind == "view"


def test_a_tensor_of_no_dimensions_is_struck() -> None:
    """A sum of -5 … 6 times 1.5 is 9; scaled by 2 it is 18."""
    _, after, _ = _strike(Kind(_scalar, "sum*1:0"), _values(torch.float32), "scale", factor=2.0)
    assert after["struck"].item() == 18.0


def test_channels_last_keeps_its_strides() -> None:
    """Element [0, 2, 1, 0] is the logical one, whatever the memory order."""
    kind = Kind(_channels_last, "abs*1:0")
    before, after, _ = _strike(
        kind, _values(torch.float32), "set", value=99.0, elements={"index": [0, 2, 1, 0]}
    )
    expected = before["struck"].clone()
    expected[0, 2, 1, 0] = 99
    assert torch.equal(after["struck"], expected)
    assert after["struck"].stride() == before["struck"].stride()
