from __future__ import annotations

import pytest
import torch

from fi_notebook.engine.makers import Makers
from fi_notebook.engine.outputs import FUNCTIONAL, IN_PLACE, VIEW, Output


def test_views_of_one_storage_are_told_apart() -> None:
    """Of a split in three each part was made by its own output; the whole by the product."""
    makers, whole = Makers(), torch.zeros(2, 6)
    makers.note(Output(whole, 0, None, FUNCTIONAL), 0)
    parts = whole.split(2, dim=1)
    for index, part in enumerate(parts):
        makers.note(Output(part, 0, index, VIEW), 1 + index)
    assert [makers.of(part) for part in parts] == [(1,), (2,), (3,)]
    assert makers.of(whole) == (0,)
    assert makers.of(whole.t()) == (0,)  # a view that nobody noted


def test_a_write_makes_every_view_anew() -> None:
    """After ``relu_`` of the whole, the parts were made by it."""
    makers, whole = Makers(), torch.zeros(2, 6)
    makers.note(Output(whole, 0, None, FUNCTIONAL), 0)
    part = whole[:, :2]
    makers.note(Output(part, 0, None, VIEW), 1)
    makers.note(Output(whole, 0, None, IN_PLACE), 2)
    assert makers.of(part) == makers.of(whole) == (2,)


def test_a_write_of_a_part_leaves_the_rest_to_who_made_it() -> None:
    """The whole was made by both, the part by the write alone."""
    makers, whole = Makers(), torch.zeros(2, 6)
    makers.note(Output(whole, 0, None, FUNCTIONAL), 0)
    part = whole[:, :2]
    makers.note(Output(part, 0, None, IN_PLACE), 1)
    assert makers.of(whole) == (0, 1)
    assert makers.of(part) == (1,)


def test_of_very_many_partial_writes_the_last_are_known() -> None:
    """A cache that is filled row by row."""
    makers, cache = Makers(), torch.zeros(100, 4)
    makers.note(Output(cache, 0, None, FUNCTIONAL), 0)
    for row in range(100):
        makers.note(Output(cache[row], 0, None, IN_PLACE), 1 + row)
    assert makers.of(cache) == tuple(range(69, 101))


def test_what_no_call_made_has_no_maker() -> None:
    """A parameter or a batch."""
    assert Makers().of(torch.zeros(3)) == ()


@pytest.mark.filterwarnings("ignore:Sparse CS. tensor support is in beta:UserWarning")
def test_a_sparse_tensor_is_known_by_its_values() -> None:
    """It was made by the call that gave it, and its values by it as well."""
    makers = Makers()
    for row, layout in enumerate((torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)):
        sparse = torch.eye(3).to_sparse(layout=layout)
        makers.note(Output(sparse, 0, None, FUNCTIONAL), row)
        assert makers.of(sparse) == (row,)
        values = sparse._values() if layout == torch.sparse_coo else sparse.values()
        assert makers.of(values) == (row,)
