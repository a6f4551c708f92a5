from __future__ import annotations

import numpy as np

from fi_notebook.report.heat import by_module, by_rank
from tests.records import comparison
from tests.traces import Call, build

NESTED = build(
    Call("mm", "layers.0"),
    Call("mm", "layers.1"),
    Call("mm", "layers.1", phase="backward"),
    modules={"": "Net", "layers": "Sequential", "layers.0": "L", "layers.1": "L"},
)


def test_a_module_shows_the_largest_error_at_or_below_it() -> None:
    """Errors 0.1 and 0.5 in layers.0 and layers.1: layers and the root show 0.5."""
    table = by_module(comparison({"mm*1:0": 0.1, "mm*2:0": 0.5}, NESTED))
    assert table.rows == ("(model)", "layers", "layers.0", "layers.1")
    assert table.columns == ("forward", "backward")
    assert table.errors[:, 0].tolist() == [0.5, 0.5, 0.1, 0.5]
    assert table.texts()[:, 1].tolist() == ["=", "=", "", "="]


def test_nan_and_inf_are_counted_in_place_of_the_error() -> None:
    """Two outputs with new NaN below the root."""
    compared = comparison({"mm*1:0": 0.1, "mm*2:0": 0.5}, NESTED)
    compared.columns["new_nan"][:2] = 7
    assert by_module(compared).texts()[0, 0] == "2 NaN/Inf"


def test_ranks_are_rows() -> None:
    """Rank 1 is bit-equal."""
    table = by_rank({0: comparison({"mm*1:0": 0.1}, NESTED), 1: comparison({}, NESTED)})
    assert table.rows == ("rank 0", "rank 1")
    assert table.texts()[:, 0].tolist() == ["0.1", "="]


def test_nothing_compared_is_an_empty_table() -> None:
    """No ranks, no calls."""
    assert by_rank({}).rows == ()
    assert by_module(comparison({}, build())).errors.size == 0


def test_taking_rows_keeps_columns() -> None:
    """Rows 1 and 2 of four."""
    table = by_module(comparison({"mm*1:0": 0.1}, NESTED)).take(np.asarray([1, 2]))
    assert table.rows == ("layers", "layers.0")
    assert table.texts().shape == (2, 2)
