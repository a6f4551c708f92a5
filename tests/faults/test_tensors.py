"""Reading and writing chosen elements over every memory layout, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook import faults
from fi_notebook.errors import FaultError
from fi_notebook.faults.bits import FORMATS, bit_view, dtype_of
from fi_notebook.faults.tensors import coordinates, materialised, overlaps, pieces, refusal, take
from tests.tools.traced import same_bits

LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(0, 1),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "every second": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "offset": lambda x: torch.cat([x[:1], x])[1:],
    "flipped strides": lambda x: x.permute(3, 2, 1, 0),
    "narrow": lambda x: torch.cat([x, x], dim=1)[:, : x.shape[1]],
}


def numbers(dtype: str = "float32") -> torch.Tensor:
    """Distinct bit patterns, NaNs among them, in a 2 x 3 x 4 x 5 tensor."""
    raw = torch.randint(256, (120 * dtype_of(dtype).itemsize,), generator=faults.generator(1))
    raw = raw % 2 if dtype == "bool" else raw
    return raw.to(torch.uint8).view(dtype_of(dtype)).view(2, 3, 4, 5)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("elements", ["all", {"count": 7}, {"row": 3}])
def test_only_the_chosen_elements_change(layout: str, dtype: str, elements: object) -> None:
    """In place and in a copy, whatever the strides; bits of the others stay, NaNs included."""
    tensor = LAYOUTS[layout](numbers(dtype))
    before, strides, pointer = tensor.clone(), tensor.stride(), tensor.data_ptr()
    found = faults.corrupt(tensor, "bitflip", {"bit": 0}, elements, faults.generator(4))  # type: ignore[arg-type]
    assert same_bits(tensor, before)  # corrupt reads only
    copy = found.corrupted_copy(tensor)
    assert (copy.stride(), copy.dtype) == (strides, tensor.dtype)
    assert same_bits(tensor, before)
    found.write_into(tensor)
    assert (tensor.stride(), tensor.data_ptr()) == (strides, pointer)
    assert same_bits(tensor, copy)

    struck = torch.zeros(tensor.numel(), dtype=torch.bool)
    struck[slice(None) if found.indices is None else found.indices] = True
    differs = bit_view(tensor.contiguous()) != bit_view(before.contiguous())
    differs = differs.reshape(tensor.numel(), -1).any(1)
    assert torch.equal(differs, struck)
    assert found.changed == int(struck.sum())


@pytest.mark.parametrize("dtype", FORMATS)
def test_elements_outside_a_view_stay(dtype: str) -> None:
    """Writing into a part of a storage leaves the rest of it."""
    base = numbers(dtype)
    before = base.clone()
    part = base[:, 1, ::2, 1:4]
    faults.corrupt(part, "bitflip", {"bit": 0}, "all", faults.generator(0)).write_into(part)
    inside = torch.zeros(base.shape, dtype=torch.bool)
    inside[:, 1, ::2, 1:4] = True
    differs = (bit_view(base) != bit_view(before)).reshape(*base.shape, -1).any(-1)
    assert torch.equal(differs, inside)


@pytest.mark.parametrize("elements", ["all", {"index": 0}, {"index": []}, {"count": 1}])
def test_a_tensor_without_dimensions(elements: object) -> None:
    """Has one element, at no coordinates."""
    tensor = torch.tensor(1.0)
    found = faults.corrupt(tensor, "scale", {"factor": 3}, elements, faults.generator(0))  # type: ignore[arg-type]
    assert [change.index for change in found.changes(())] == [()]
    found.write_into(tensor)
    assert tensor.shape == ()
    assert tensor.item() == 3.0


def test_an_empty_tensor_stays_empty() -> None:
    """Nothing is struck, and nothing fails."""
    tensor = torch.zeros(0, 4)
    found = faults.corrupt(tensor, "scale", {"factor": 3}, "all", faults.generator(0))
    found.write_into(tensor)
    assert (found.changed, found.changes((0, 4))) == (0, ())


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x[:1].expand(3, 4),
        lambda x: x.flatten().unfold(0, 4, 2),
        lambda x: torch.as_strided(x, (2, 3), (1, 1)),
    ],
)
def test_a_tensor_whose_elements_share_memory_is_copied_not_written(
    make: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    """One write would change several elements: refused in place, done in a copy."""
    tensor = make(torch.arange(12.0).view(3, 4))
    before = tensor.clone()
    found = faults.corrupt(tensor, "add", {"value": 100}, {"index": 1}, faults.generator(0))
    with pytest.raises(FaultError, match=r"share memory.*materialised"):
        found.write_into(tensor)
    assert torch.equal(tensor, before)
    after = faults.apply(tensor, "add", {"index": 1}, value=100)
    assert after.is_contiguous()
    assert int((after != before).sum()) == 1


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((3, 4), (4, 1), False),
        ((3, 4), (1, 3), False),
        ((3, 4), (0, 1), True),
        ((1, 4), (0, 1), False),
        ((3, 4), (3, 1), True),
        ((2, 2), (5, 2), False),
        ((0, 4), (0, 0), False),
    ],
)
def test_overlap_is_seen_from_the_strides(
    shape: tuple[int, int], strides: tuple[int, int], expected: bool
) -> None:
    """A stride that does not clear what lies within it."""
    assert overlaps(torch.as_strided(torch.zeros(20), shape, strides)) is expected


def test_a_leaf_that_requires_grad_is_written() -> None:
    """No graph is made and no version counter moves: memory does not tell autograd."""
    weight = torch.nn.Parameter(torch.ones(3))
    version = weight._version
    y = (weight * 2).sum()
    faults.corrupt(weight, "set", {"value": 9}, {"index": 1}, faults.generator(0)).write_into(
        weight
    )
    assert weight.tolist() == [1.0, 9.0, 1.0]
    assert (weight._version, weight.requires_grad, weight.is_leaf) == (version, True, True)
    y.backward()
    after = faults.apply(weight, "zero")
    assert (after.requires_grad, after.grad_fn, type(after)) == (False, None, torch.Tensor)


def test_a_tensor_within_a_graph_is_written() -> None:
    """Backward then sees the faulty value, as it sees faulty memory."""
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    y = x.exp()
    faults.corrupt(y, "set", {"value": 100}, {"index": 0}, faults.generator(0)).write_into(y)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad[0] == 100.0  # exp's gradient is its output


def test_inference_tensors_are_written() -> None:
    """Within inference mode."""
    with torch.inference_mode():
        tensor = torch.ones(3)
        faults.corrupt(tensor, "zero", {}, {"index": 0}, faults.generator(0)).write_into(tensor)
        assert tensor.tolist() == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("elements", ["all", {"index": [0, 1]}])
def test_lazily_conjugated_and_negated_tensors_are_written_by_value(elements: object) -> None:
    """The view reads the new value; the memory below holds its conjugate."""
    base = torch.tensor([[1 + 2j, 3 + 4j]])
    for lazy in (base.clone().conj(), base.clone().conj().imag):
        before = lazy.resolve_conj().resolve_neg().clone()
        assert torch.equal(take(lazy, None), before.flatten())
        expected = faults.apply(before, "scale", elements, factor=2)  # type: ignore[arg-type]
        after = faults.apply(lazy, "scale", elements, factor=2)  # type: ignore[arg-type]
        assert torch.equal(after, expected)
        found = faults.corrupt(lazy, "scale", {"factor": 2}, elements, faults.generator(0))  # type: ignore[arg-type]
        found.write_into(lazy)
        assert torch.equal(lazy.resolve_conj().resolve_neg(), expected)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.eye(2).to_sparse(), "layout sparse_coo is not supported"),
        (lambda: torch.eye(2).to_sparse_csr(), "layout sparse_csr is not supported"),
        (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "quantised"),
        (lambda: torch.empty(2, device="meta"), "meta device"),
        (lambda: torch.empty(2, dtype=torch.float4_e2m1fn_x2), "no fault can strike dtype"),
        (lambda: torch.nested.nested_tensor([torch.ones(2)]), "nested tensors are not supported"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_struck_is_refused_with_the_reason(
    make: Callable[[], torch.Tensor], message: str
) -> None:
    """Sparse, quantised, nested, without values, or of a dtype without elements."""
    tensor = make()
    assert message in refusal(tensor)
    with pytest.raises(FaultError, match=message):
        faults.apply(tensor, "zero")


def test_another_dtype_is_not_written() -> None:
    """Values of one dtype never go into a tensor of another."""
    found = faults.corrupt(torch.ones(2), "zero", {}, "all", faults.generator(0))
    with pytest.raises(FaultError, match="cannot write"):
        found.write_into(torch.ones(2, dtype=torch.int32))


@given(st.lists(st.integers(1, 5), max_size=4).map(tuple))
def test_coordinates_are_those_of_torch(shape: tuple[int, ...]) -> None:
    """Against unravel_index."""
    flat = torch.arange(torch.Size(shape).numel())
    expected = torch.unravel_index(flat, shape) if shape else ()
    assert all(map(torch.equal, coordinates(flat, shape), expected))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pieces_come_in_row_major_order(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Together they are the flattened tensor; contiguous ones are no copies."""
    monkeypatch.setattr("fi_notebook.faults.tensors.PIECE", 13)
    tensor = LAYOUTS[layout](torch.arange(120.0).view(2, 3, 4, 5))
    starts, values = zip(*pieces(tensor), strict=True)
    assert torch.equal(torch.cat(values), tensor.flatten())
    assert list(starts) == [sum(map(len, values[:i])) for i in range(len(values))]
    if tensor.is_contiguous():
        assert values[0].data_ptr() == tensor.data_ptr()


def test_a_copy_has_memory_of_its_own() -> None:
    """Also of a view with gaps, whose strides it keeps."""
    tensor = torch.arange(12.0).view(3, 4)[:, ::2]
    copy = materialised(tensor)
    assert copy.stride() == (4, 2)
    assert copy.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr()
    assert torch.equal(copy, tensor)


def test_one_element_of_a_large_tensor_costs_no_copy() -> None:
    """Only the element is kept: no tensor of the size is made, read or compared."""
    tensor = torch.zeros(1 << 24)
    with torch.profiler.profile(profile_memory=True) as profile:
        found = faults.corrupt(tensor, "bitflip", {"bit": 30}, {"count": 1}, faults.generator(0))
        found.write_into(tensor)
        found.changes(tuple(tensor.shape))
    made = sum(event.self_cpu_memory_usage for event in profile.key_averages())
    assert made < 1 << 16
    assert (found.before.numel(), found.changed) == (1, 1)


def test_implied_zeros_are_refused_by_name() -> None:
    """Zeros that have no memory are refused, a slice of them too."""
    zeros = torch._efficientzerotensor((3,))
    expected = (
        "a tensor of implied zeros, as forward-mode differentiation makes them, "
        "has no memory of its own"
    )
    assert [refusal(zeros), refusal(zeros[1:])] == [expected, expected]
