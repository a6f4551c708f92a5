"""Corruptions, their records, and what is checked before a tensor is struck."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook import faults
from fi_notebook.core.injection import ElementChange
from fi_notebook.errors import FaultError
from fi_notebook.faults.bits import FORMATS, bit_view, dtype_of

VALUE_MODELS = [model.name for model in faults.models() if model.kind == "value"]


def sample(dtype: str, shape: tuple[int, ...] = (3, 4)) -> torch.Tensor:
    """Small positive values of a dtype, ones and zeros for bool."""
    values = torch.rand(shape, generator=faults.generator(2)) * 8 + 1
    return (values > 5 if dtype == "bool" else values).to(dtype_of(dtype))


def possible(model: str, dtype: str) -> dict[str, object] | None:
    """Parameters with which a model works on a dtype, or None where it is refused."""
    width = FORMATS[dtype].bits
    parameters = {
        "bitflip": {"bit": 0},
        "burst": {"length": 1},
        "stuck_at_0": {"bit": width - 1},
        "stuck_at_1": {"bit": 0},
        "xor_mask": {"mask": 1},
        "set": {"value": 1},
    }.get(model, faults.get(model).example)
    try:
        faults.check_tensor(model, parameters, "all", dtype, (3, 4))
    except FaultError:
        return None
    return dict(parameters)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("model", VALUE_MODELS)
def test_every_model_works_on_every_dtype_or_is_refused(model: str, dtype: str) -> None:
    """The dtype stays, only chosen elements change, the same seed gives the same fault."""
    parameters = possible(model, dtype)
    inexact = FORMATS[dtype].inexact
    if parameters is None:  # stated: what has no NaN, infinity, sign, zero or mantissa
        small = dtype == "float8_e8m0fnu" and model in ("inf", "negate", "zero")
        no_inf = model == "inf" and dtype in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz")
        assert small or no_inf or (model in ("nan", "inf", "round_to") and not inexact)
        return
    tensor = sample(dtype)
    rows = {"row": [0, 2]}
    after = faults.apply(tensor, model, rows, 3, **parameters)
    assert (after.dtype, after.shape, after.stride()) == (tensor.dtype, (3, 4), (4, 1))
    assert torch.equal(bit_view(after[1]), bit_view(tensor[1]))
    again = faults.apply(tensor, model, rows, 3, **parameters)
    assert torch.equal(bit_view(after), bit_view(again))
    if dtype == "bool":
        assert set(bit_view(after).flatten().tolist()) <= {0, 1}


@pytest.mark.draws_nothing
@pytest.mark.parametrize("model", VALUE_MODELS)
def test_no_model_moves_the_global_generator(model: str) -> None:
    """Draws come from the fault's own generator."""
    parameters = possible(model, "float32")
    assert parameters is not None
    faults.apply(torch.ones(3, 4), model, {"count": 5}, 1, **parameters)


def test_the_order_of_calls_does_not_matter() -> None:
    """Two faults drawn in either order are the same two faults."""
    tensor = torch.zeros(100)

    def fault(name: str) -> torch.Tensor:
        draws = faults.generator(0, name)
        return faults.corrupt(tensor, "random", {}, {"count": 5}, draws).corrupted_copy(tensor)

    first = [fault("a"), fault("b")]
    second = [fault("b"), fault("a")]
    assert torch.equal(first[0], second[1])
    assert torch.equal(first[1], second[0])


def test_changed_counts_bits_not_values() -> None:
    """-0 for 0 is a change; a NaN for the same NaN is none; 5 for 5 is none."""
    tensor = torch.tensor([0.0, math.nan, 5.0])
    negated = faults.corrupt(tensor, "negate", {}, {"index": 0}, faults.generator(0))
    assert negated.changed == 1
    doubled = faults.corrupt(tensor, "scale", {"factor": 1}, "all", faults.generator(0))
    assert (doubled.changed, doubled.changes((3,))) == (0, ())


def test_changes_are_records_with_bits() -> None:
    """Coordinates, values and raw patterns of what changed, in row-major order."""
    tensor = torch.tensor([[1.0, 2.0], [0.0, 4.0]])
    found = faults.corrupt(tensor, "scale", {"factor": -1}, "all", faults.generator(0))
    assert found.changes((2, 2), limit=2) == (
        ElementChange((0, 0), 1.0, -1.0, 0x3F800000, 0xBF800000),
        ElementChange((0, 1), 2.0, -2.0, 0x40000000, 0xC0000000),
    )
    assert len(found.changes((2, 2))) == 4


@pytest.mark.parametrize(
    ("dtype", "before", "after"),
    [
        ("bfloat16", 0x3F80, 0xBF80),
        ("float8_e4m3fn", 0x38, 0xB8),
        ("int8", 0x01, 0xFF),
        ("int64", 0x1, 0xFFFF_FFFF_FFFF_FFFF),
        ("complex64", None, None),
    ],
)
def test_raw_bits_are_unsigned(dtype: str, before: int | None, after: int | None) -> None:
    """1 and -1 in each format; complex values have two parts and so no single pattern."""
    tensor = torch.ones(1).to(dtype_of(dtype))
    (change,) = faults.corrupt(tensor, "negate", {}, "all", faults.generator(0)).changes((1,))
    assert (change.before, change.after) == (1, -1)
    assert (change.before_bits, change.after_bits) == (before, after)


def test_what_was_before_is_kept_when_the_tensor_is_overwritten() -> None:
    """The record does not change with the tensor."""
    tensor = torch.ones(3)
    found = faults.corrupt(tensor, "zero", {}, "all", faults.generator(0))
    found.write_into(tensor)
    assert (found.before.tolist(), found.changed) == ([1.0, 1.0, 1.0], 3)


@given(st.sampled_from(VALUE_MODELS), st.integers(0, 12), st.integers(0, 2**31))
def test_only_chosen_elements_change(model: str, count: int, seed: int) -> None:
    """On bits, for every value model."""
    tensor = sample("float32")
    parameters = possible(model, "float32")
    assert parameters is not None
    draws = faults.generator(seed)
    found = faults.corrupt(tensor, model, parameters, {"count": count}, draws)
    after = found.corrupted_copy(tensor)
    differs = (bit_view(after) != bit_view(tensor)).flatten().nonzero().flatten().tolist()
    chosen = range(12) if found.indices is None else found.indices.tolist()
    assert len(chosen) == count
    assert set(differs) <= set(chosen)
    assert found.changed == len(differs)


def test_parameters_may_be_called_like_arguments_of_apply() -> None:
    """``elements`` and ``seed`` by keyword, the rest goes to the model."""
    after = faults.apply(torch.ones(4), "set", elements={"index": 2}, seed=5, value="-inf")
    assert after.tolist() == [1.0, 1.0, -math.inf, 1.0]


@pytest.mark.parametrize("value", [[1, 2], 3.0, None, "x"])
def test_what_is_no_tensor_is_refused(value: object) -> None:
    """With what it is and what would do."""
    with pytest.raises(FaultError, match=f"cannot strike a {type(value).__name__}; expected a ten"):
        faults.apply(value, "zero")  # type: ignore[arg-type]  # what the test is about


def test_the_part_that_still_stands() -> None:
    """Of three struck elements one was written since: the other NaNs are given back."""
    tensor = torch.tensor([1.0, 2.0, 3.0, 4.0])
    chosen = faults.corrupt(
        tensor, "set", {"value": math.nan}, {"index": [[0], [1], [3]]}, faults.generator(0)
    )
    chosen.write_into(tensor)
    assert chosen.still_in(tensor) is chosen
    tensor[1] = 7.0
    chosen.still_in(tensor).reversed().write_into(tensor)
    assert tensor.tolist() == [1.0, 7.0, 3.0, 4.0]
