"""Which elements: the form of a selection, draws, and selections by place and by value."""

from __future__ import annotations

import json
import operator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook import faults
from fi_notebook.errors import FaultError
from fi_notebook.faults.elements import check_fit, choose, selections
from fi_notebook.faults.select_by_draw import draw_distinct, fraction_count

TEXTS: dict[str, dict[str, str | None]] = json.loads(
    Path(__file__).with_name("element_texts.json").read_text("utf-8")
)
"""By selection: what a person types, and what the page sends of it, None where it refuses; the
page's own test, `tests/js/reading.test.js`, reads the same file."""

SHAPES = st.lists(st.integers(1, 6), max_size=4).map(tuple)


def chosen(elements: Any, tensor: torch.Tensor, seed: int = 0) -> list[int]:
    """Flat indices that a selection chooses."""
    indices = choose(elements, tensor, faults.generator(seed))
    return list(range(tensor.numel())) if indices is None else indices.tolist()


def mask(elements: Any, shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    """A tensor of this shape that is True where a selection chooses."""
    found = torch.zeros(shape, dtype=torch.bool)
    found.view(-1)[chosen(elements, found, seed)] = True
    return found


def where(elements: Any, shape: tuple[int, ...], seed: int = 0) -> list[list[int]]:
    """Coordinates that a selection chooses."""
    return mask(elements, shape, seed).nonzero().tolist()


# the form


def test_every_selection_of_the_design_is_there() -> None:
    """By name, each with examples that can be written as JSON and read back."""
    names = "all count fraction index slice run strided row column channel tile block"
    assert [s.name for s in selections()] == [*names.split(), "top", "nonzero", "where"]
    for selection in selections():
        for example in selection.examples:
            faults.check_elements(json.loads(json.dumps(example)))


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        ("al", "no element selection 'al'; did you mean 'all'"),
        ({"rwo": 1}, "did you mean 'row'"),
        ({"row": 1, "column": 2}, "a mapping with one key"),
        ({}, "is not a selection"),
        (5, "is not a selection"),
        ("row", "write {'row': 2}"),
        ({"all": None}, "write 'all'"),
        ({"count": -1}, "a whole number of at least 0"),
        ({"count": 1.5}, "whole number"),
        ({"count": True}, "whole number"),
        ({"fraction": 1.01}, "a number from 0 to 1"),
        ({"fraction": -0.1}, "a number from 0 to 1"),
        ({"fraction": float("nan")}, "a number from 0 to 1"),
        ({"fraction": "half"}, "a number from 0 to 1"),
        ({"index": "3"}, "whole number"),
        ({"row": "abc"}, r"several, or 'any', a whole number$"),
        ({"index": [[0], 1]}, "expected one coordinate such as"),
        ({"run": 0}, "at least 1"),
        ({"run": {"len": 3}}, "no 'len'; did you mean 'length'"),
        ({"run": {"start": 3}}, "'length' is missing"),
        ({"strided": 0}, "at least 1"),
        ({"row": "some"}, "whole number"),
        ({"row": []}, "whole number"),
        ({"tile": 4}, "such as \\[4, 4\\]"),
        ({"tile": [0, 4]}, "at least 1"),
        ({"block": []}, "such as"),
        ({"slice": "0:"}, None),
        ({"slice": "a"}, "cannot read 'a'"),
        ({"slice": "0::0"}, "cannot read"),
        ({"slice": ""}, "the text of a Python slice"),
        ({"slice": "..., ..."}, "once only"),
        ({"slice": "__import__('os')"}, "cannot read"),
        ({"top": 0}, "at least 1"),
        ({"where": "0.5"}, "expected a comparison"),
        ({"where": "> x"}, "expected a comparison"),
        ({"where": "== nan"}, "one of 'nan'"),
        ({"where": 3}, "expected a comparison"),
    ],
)
def test_a_selection_that_can_never_be_is_refused(elements: Any, message: str | None) -> None:
    """Without any tensor, and with what would be one."""
    if message is None:
        faults.check_elements(elements)
        return
    with pytest.raises(FaultError, match=message):
        faults.check_elements(elements)


@pytest.mark.parametrize("name", TEXTS)
def test_the_kernel_reads_the_texts_that_the_page_sends_and_no_others(name: str) -> None:
    """What the page sends of a typed text is read; what the page refuses is refused here too."""
    read = [sent for sent in TEXTS[name].values() if sent is not None]
    refused = [typed for typed, sent in TEXTS[name].items() if sent is None]
    assert read
    assert refused
    for text in read:
        faults.check_elements({name: text})
    for text in refused:
        with pytest.raises(FaultError, match=f"elements {{'{name}': "):
            faults.check_elements({name: text})


@pytest.mark.parametrize(
    ("elements", "shape", "message"),
    [
        ({"row": 9}, (4, 5), "row 9 of 4: valid are 0 to 3"),
        ({"column": 5}, (4, 5), "column 5 of 5: valid are 0 to 4"),
        ({"channel": 3}, (2, 3, 8, 8), "channel 3 of 3"),
        ({"channel": 0}, (4,), "no channels"),
        ({"index": 20}, (4, 5), "flat index 20 of 20: valid are 0 to 19"),
        ({"index": [4, 0]}, (4, 5), "dimension 0: index 4 of 4: valid are 0 to 3"),
        ({"index": [0, 3]}, (4,), r"several elements are written as \[\[0\], \[3\]\]"),
        (
            {"count": 21},
            (4, 5),
            "^count 21: the tensor of shape .* has 20 elements; valid counts are 0 to 20",
        ),
        ({"run": 21}, (4, 5), "has 20 elements"),
        ({"run": {"length": 16, "start": 5}}, (4, 5), "valid starts are 0 to 4"),
        ({"strided": {"period": 3, "offset": 20}}, (4, 5), "valid offsets are 0 to 19"),
        ({"tile": [5, 1]}, (4, 5), r"valid is at most \[4, 5\]"),
        ({"tile": [1, 2, 3]}, (4, 5), "expected rows and columns"),
        ({"tile": {"shape": [2, 2], "at": [3, 0]}}, (4, 5), r"corners are \[0, …\] to \[2, 3\]"),
        ({"block": [1, 1, 1]}, (4, 5), "has 2 dimensions"),
        ({"block": {"shape": [1], "at": [1]}}, (4, 5), "does not fit"),
        ({"slice": "0, 0, 0"}, (4, 5), "names 3 dimensions"),
        ({"slice": "7"}, (4, 5), "dimension 0: index 7 of 4"),
        ({"slice": ":, 5:"}, (4, 5), "chooses nothing: dimension 1 has the indices 0 to 4"),
        ({"top": 21}, (4, 5), "has 20 elements"),
        ({"count": 1}, (0, 5), "is empty"),
        ({"index": 0}, (0,), "is empty"),
    ],
)
def test_what_a_shape_does_not_have_is_refused(
    elements: Any, shape: tuple[int, ...], message: str
) -> None:
    """When the shape is known, with what would be valid."""
    faults.check_elements(elements)
    with pytest.raises(FaultError, match=message):
        faults.check_tensor("zero", {}, elements, "float32", shape)
    with pytest.raises(FaultError, match=message):
        faults.apply(torch.zeros(shape), "zero", elements)


@pytest.mark.parametrize("elements", ["all", "nonzero", {"fraction": 0.5}, {"where": "> 0"}])
def test_an_empty_tensor_has_no_elements_to_choose(elements: Any) -> None:
    """A fault on it is inactive."""
    assert chosen(elements, torch.zeros(0, 3)) == []


# draws


@given(st.integers(0, 300), st.data(), st.integers(0, 2**31))
def test_count_draws_distinct_elements(n: int, data: st.DataObject, seed: int) -> None:
    """As many as it says, sorted, none twice, the same for the same seed."""
    k = data.draw(st.integers(0, n))
    found = draw_distinct(k, n, faults.generator(seed)).tolist()
    assert len(found) == k == len(set(found))
    assert found == sorted(found)
    assert all(0 <= index < n for index in found)
    assert draw_distinct(k, n, faults.generator(seed)).tolist() == found


@given(st.floats(0, 1), st.integers(1, 500), st.integers(0, 99))
def test_fraction_draws_its_share(fraction: float, n: int, seed: int) -> None:
    """Rounded half to even; at least one where the fraction is above zero."""
    expected = max(round(fraction * n), 1) if fraction > 0 else 0
    found = chosen({"fraction": fraction}, torch.zeros(n), seed)
    assert len(found) == len(set(found)) == fraction_count(fraction, n) == expected


def test_every_pair_is_equally_likely() -> None:
    """Of 6 pairs of 4 elements in 6,000 draws, each 1,000 times: five deviations of 29."""
    tensor = torch.zeros(4)
    pairs = [tuple(chosen({"count": 2}, tensor, seed)) for seed in range(6000)]
    counts = {pair: pairs.count(pair) for pair in set(pairs)}
    assert len(counts) == 6
    assert all(abs(count - 1000) < 145 for count in counts.values())


@pytest.mark.parametrize("k", [3, 97])
def test_few_and_many_of_a_hundred_are_drawn_alike(k: int) -> None:
    """Each element k times in 100 over 3,000 draws, whether few are drawn or few left out."""
    hits = torch.zeros(100)
    for seed in range(3000):
        hits[draw_distinct(k, 100, faults.generator(seed))] += 1
    assert (hits / 3000 - k / 100).abs().max() < 0.016  # five deviations of 0.0031


# by place


def test_one_coordinate_several_or_a_flat_index() -> None:
    """The three forms of index; negative ones count from the end, none counts twice."""
    assert where({"index": [1, 2]}, (2, 3)) == [[1, 2]]
    assert where({"index": [[1, 2], [0, 0], [-1, -1]]}, (2, 3)) == [[0, 0], [1, 2]]
    assert where({"index": 5}, (2, 3)) == [[1, 2]]
    assert where({"index": -1}, (2, 3)) == [[1, 2]]
    assert where({"index": []}, ()) == [[]]
    assert where({"index": 0}, ()) == [[]]


def test_rows_and_columns_are_those_of_the_matrix() -> None:
    """All dimensions but the last are its rows: as a matrix product sees a batch."""
    assert where({"row": 1}, (3, 2)) == [[1, 0], [1, 1]]
    assert where({"row": [0, -1]}, (3, 2)) == [[0, 0], [0, 1], [2, 0], [2, 1]]
    assert where({"column": 1}, (3, 2)) == [[0, 1], [1, 1], [2, 1]]
    assert where({"row": 4}, (2, 3, 2)) == [[1, 1, 0], [1, 1, 1]]  # 4 = 1 * 3 + 1
    assert where({"row": 0}, (3,)) == [[0], [1], [2]]
    assert where({"column": 2}, (3,)) == [[2]]


def test_any_line_is_drawn() -> None:
    """One whole line, and every one of them over many seeds."""
    rows = {where({"row": "any"}, (3, 2), seed)[0][0] for seed in range(40)}
    assert rows == {0, 1, 2}
    assert mask({"column": "any"}, (5, 4), 1).sum() == 5
    assert mask({"channel": "any"}, (2, 3, 4), 1).sum() == 8


def test_a_channel_is_dimension_one() -> None:
    """Over the whole batch and image."""
    expected = torch.zeros(2, 3, 2, 2, dtype=torch.bool)
    expected[:, 1] = True
    assert torch.equal(mask({"channel": 1}, (2, 3, 2, 2)), expected)
    assert where({"channel": 2}, (2, 3)) == [[0, 2], [1, 2]]  # a batch of vectors


def test_all_elements_may_be_drawn() -> None:
    """As many as there are; the shape has them."""
    check_fit({"count": 6}, "float32", (2, 3))
    assert chosen({"count": 6}, torch.zeros(2, 3)) == [0, 1, 2, 3, 4, 5]


def test_a_tile_is_a_rectangle_of_the_matrix() -> None:
    """At the place given, or anywhere where the whole of it fits."""
    expected = torch.zeros(5, 6, dtype=torch.bool)
    expected[1:3, 3:6] = True
    assert torch.equal(mask({"tile": {"shape": [2, 3], "at": [1, 3]}}, (5, 6)), expected)
    corners = {tuple(where({"tile": [4, 4]}, (5, 6), seed)[0]) for seed in range(100)}
    assert corners == {(row, column) for row in (0, 1) for column in (0, 1, 2)}
    assert all(mask({"tile": [4, 4]}, (5, 6), seed).sum() == 16 for seed in range(10))


def test_a_block_is_a_box_over_the_last_dimensions() -> None:
    """One image and channel are drawn with its place in the image."""
    expected = torch.zeros(2, 3, 4, 4, dtype=torch.bool)
    expected[1, 2, 1:3, 2:4] = True
    assert torch.equal(
        mask({"block": {"shape": [2, 2], "at": [1, 2, 1, 2]}}, (2, 3, 4, 4)), expected
    )
    found = mask({"block": [3, 2]}, (2, 3, 4, 4), 7)
    assert found.sum() == 6
    assert found.any(-1).any(-1).sum() == 1


@pytest.mark.parametrize(
    "text",
    ["0, :, 3:7", "..., ::2", ":", "-1", "1:, ..., -3:", "::-1", "[1, 2]", "0,0,0", "..., 3"],
)
def test_a_slice_text_chooses_what_python_chooses(text: str) -> None:
    """By the same rules as numpy's, but for the order."""
    numbers = torch.arange(2 * 4 * 8).view(2, 4, 8)
    expected = eval(f"numbers.numpy()[{text.strip('[]')}]")
    assert chosen({"slice": text}, numbers) == sorted(expected.flatten().tolist())


def test_a_run_is_consecutive() -> None:
    """From the given start, or from every start where it fits."""
    tensor = torch.zeros(4, 5)
    assert chosen({"run": {"length": 3, "start": 4}}, tensor) == [4, 5, 6]
    starts = set()
    for seed in range(60):
        found = chosen({"run": 16}, tensor, seed)
        assert found == list(range(found[0], found[0] + 16))
        starts.add(found[0])
    assert starts == {0, 1, 2, 3, 4}


def test_a_stride_is_a_period() -> None:
    """Every k-th element in row-major order."""
    assert chosen({"strided": 32}, torch.zeros(2, 40)) == [0, 32, 64]
    assert chosen({"strided": {"period": 32, "offset": 3}}, torch.zeros(2, 40)) == [3, 35, 67]


@given(
    SHAPES,
    st.sampled_from(["index", "row", "column", "tile", "block", "run", "count"]),
    st.integers(0, 99),
    st.data(),
)
def test_selections_are_sorted_distinct_and_inside(
    shape: tuple[int, ...], name: str, seed: int, data: st.DataObject
) -> None:
    """Whatever the shape: valid indices, in order, each once."""
    tensor = torch.zeros(shape)
    rows, columns = tensor.reshape(-1, shape[-1] if shape else 1).shape
    size = st.integers
    argument = {
        "index": lambda: data.draw(size(-tensor.numel(), tensor.numel() - 1)),
        "row": lambda: data.draw(st.lists(size(0, rows - 1), min_size=1)),
        "column": lambda: "any",
        "tile": lambda: [data.draw(size(1, rows)), data.draw(size(1, columns))],
        "block": lambda: [data.draw(size(1, extent)) for extent in shape] or [1],
        "run": lambda: data.draw(size(1, tensor.numel())),
        "count": lambda: data.draw(size(0, tensor.numel())),
    }[name]()
    if name == "block" and not shape:
        return
    found = chosen({name: argument}, tensor, seed)
    assert found == sorted(set(found))
    assert all(0 <= index < tensor.numel() for index in found)


# by value


def test_top_chooses_the_largest_magnitudes() -> None:
    """NaN counts as infinite, and the earlier of equal ones is taken."""
    values = torch.tensor([1.0, -3.0, 3.0, float("nan"), 2.0, -3.0, float("-inf")])
    assert chosen({"top": 2}, values) == [3, 6]
    assert chosen({"top": 3}, values) == [1, 3, 6]
    assert chosen({"top": 4}, values) == [1, 2, 3, 6]
    assert chosen({"top": 7}, values) == list(range(7))


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=40), st.data())
def test_top_is_a_stable_sort(values: list[int], data: st.DataObject) -> None:
    """Against Python's own sort by magnitude."""
    k = data.draw(st.integers(1, len(values)))
    order = sorted(range(len(values)), key=lambda i: -abs(values[i]))
    assert chosen({"top": k}, torch.tensor(values)) == sorted(order[:k])


def test_top_reads_a_large_tensor_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same elements, however the pieces fall, and in any layout."""
    monkeypatch.setattr("fi_notebook.faults.tensors.PIECE", 7)
    values = torch.randint(-9, 9, (6, 5, 4), generator=faults.generator(3))
    flat = values.flatten().tolist()
    order = sorted(range(len(flat)), key=lambda i: -abs(flat[i]))
    for tensor in (values, values.permute(2, 0, 1).contiguous().permute(1, 2, 0)):
        assert chosen({"top": 11}, tensor) == sorted(order[:11])
        assert chosen("nonzero", tensor) == [i for i, value in enumerate(flat) if value]
        assert chosen({"where": "> 3"}, tensor) == [i for i, v in enumerate(flat) if v > 3]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("> 0.5", [1, 5]),
        (">0.5", [1, 5]),
        ("x >= 0.5", [0, 1, 5]),
        ("< 0", [2, 6]),
        ("== 0.5", [0]),
        ("!= 0.5", [1, 2, 3, 4, 5, 6]),
        ("abs(x) > 1", [1, 2, 5, 6]),
        ("|x| <= 0.5", [0, 3]),
        ("abs < 1e-3", [3]),
        ("== inf", [5]),
        ("nan", [4]),
        ("inf", [5, 6]),
        ("finite", [0, 1, 2, 3]),
    ],
)
def test_where_compares_values(condition: str, expected: list[int]) -> None:
    """NaN passes '!=' alone, as everywhere."""
    values = torch.tensor([0.5, 2.0, -3.0, 0.0, float("nan"), float("inf"), float("-inf")])
    assert chosen({"where": condition}, values) == expected


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint64"])
def test_where_compares_with_numbers_beyond_int64(dtype: str) -> None:
    """10**30 is above 2 in every dtype, and -10**30 below."""
    values = torch.tensor([1, 2]).to(getattr(torch, dtype))
    assert chosen({"where": f"< {10**30}"}, values) == [0, 1]
    assert chosen({"where": f"<= -{10**30}"}, values) == []


def test_where_on_integers_is_exact() -> None:
    """2**53 + 1 is not 2**53, and 300 is above every int8."""
    wide = torch.tensor([2**53, 2**53 + 1])
    assert chosen({"where": f"> {2**53}"}, wide) == [1]
    ends = torch.tensor([2**63 - 2, 2**63 - 1])
    assert chosen({"where": f">= {2**63 - 1}"}, ends) == [1]
    assert chosen({"where": f"> {2**63}"}, ends) == []
    assert chosen({"where": f">= -{2**63}"}, torch.tensor([-(2**63), 1])) == [0, 1]
    assert chosen({"where": f"> -{2**63}"}, torch.tensor([-(2**63), 1])) == [1]
    assert chosen({"where": "< 300"}, torch.tensor([1, 2], dtype=torch.int8)) == [0, 1]
    assert chosen({"where": "> 1.5"}, torch.tensor([1, 2])) == [1]
    assert chosen({"where": "> 1"}, torch.tensor([1, 2], dtype=torch.uint64)) == [1]
    assert chosen("nonzero", torch.tensor([True, False])) == [0]


_COMPARED = {"<": operator.lt, "<=": operator.le, "==": operator.eq, ">": operator.gt}


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "uint64"])
@given(st.data())
def test_integers_are_compared_and_ordered_as_python_s(dtype: str, data: st.DataObject) -> None:
    """Themselves and their magnitudes, near the numbers that they are compared with."""
    ends = torch.iinfo(getattr(torch, dtype))
    near = st.sampled_from([ends.min, 0, 2**53, 2**62, ends.max]) if ends.bits == 64 else st.just(0)
    number = data.draw(near) + data.draw(st.integers(-3, 3))
    whole = st.integers(number - 2, number + 2) | st.integers(ends.min, ends.max)
    values = data.draw(st.lists(whole.filter(lambda x: ends.min <= x <= ends.max), min_size=1))
    tensor = torch.tensor(values, dtype=getattr(torch, dtype))
    for sign, compare in _COMPARED.items():
        plain = [n for n, x in enumerate(values) if compare(x, number)]
        absolute = [n for n, x in enumerate(values) if compare(abs(x), number)]
        assert chosen({"where": f"{sign} {number}"}, tensor) == plain
        assert chosen({"where": f"abs(x) {sign} {number}"}, tensor) == absolute
    largest = max(range(len(values)), key=lambda n: (abs(values[n]), -n))
    assert chosen({"top": 1}, tensor) == [largest]


def test_a_whole_number_with_a_point_is_compared_exactly() -> None:
    """2**53 as float64, which 2**53 + 1 would be rounded to."""
    wide = torch.tensor([2**53, 2**53 + 1])
    assert chosen({"where": "> 9007199254740992.0"}, wide) == [1]


def test_complex_numbers_have_no_order() -> None:
    """Their magnitudes have."""
    values = torch.tensor([3 + 4j, 1j])
    assert chosen({"where": "abs(x) >= 5"}, values) == [0]
    assert chosen({"top": 1}, values) == [0]
    with pytest.raises(FaultError, match="has no order; compare abs"):
        check_fit({"where": "> 1"}, "complex64", (2,))


@pytest.mark.parametrize("dtype", [d for d in faults.bits.FORMATS if not d.startswith("complex")])
def test_selections_by_value_work_on_every_dtype(dtype: str) -> None:
    """Also where torch itself does not compare."""
    values = torch.tensor([1, 0, 1] if dtype == "bool" else [2, 1, 4]).float()
    tensor = values.to(faults.bits.dtype_of(dtype))
    assert len(chosen("nonzero", tensor)) == (2 if dtype == "bool" else 3)
    assert chosen({"top": 1}, tensor) == ([0] if dtype == "bool" else [2])
    assert chosen({"where": ">= 1"}, tensor) == ([0, 2] if dtype == "bool" else [0, 1, 2])
