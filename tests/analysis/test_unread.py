from __future__ import annotations

import numpy as np
import pytest

from fi_notebook.analysis.compare import compare
from fi_notebook.analysis.unread import last_followed
from fi_notebook.core.stats import STATISTICS
from fi_notebook.core.trace import Trace
from tests.traces import Call, build


def _step(op: str = "to_sparse") -> Trace:
    """Row 0 leads to 1 and that to 2, of which neither is read; 3 reads them, 4 nothing."""
    trace = build(
        Call("relu"),
        Call(op, inputs=(0,)),
        Call("coalesce", inputs=(1,)),
        Call("mm", inputs=(2,)),
        Call(op),
    )
    for name in STATISTICS:
        trace.site_columns[name][[1, 2, 4]] = -1 if name in STATISTICS[5:] else np.nan
    return trace


def test_what_is_not_read_differs_where_its_inputs_do() -> None:
    """Through any number of such calls; without an input it is equal."""
    faulty = _step()
    faulty.site_columns["norm"][[0, 3]] = 3.0
    compared = compare(_step(), faulty)
    assert compared.diverged.tolist() == [0, 1, 2, 3]
    assert compared.unread.tolist() == [1, 2]
    assert last_followed(compared) is None  # row 3 reads the last, and differs
    effects = [compared.effect(row) for row in range(5)]
    assert effects == ["introduced", "passed on", "passed on", "passed on", "equal"]


def test_what_is_not_read_masks_nothing() -> None:
    """Whether the error ended in row 1, 2 or 3 is not known, so none is named."""
    faulty = _step()
    faulty.site_columns["norm"][0] = 3.0
    compared = compare(_step(), faulty)
    assert [compared.effect(row) for row in (1, 2, 3)] == ["passed on", "passed on", "equal"]
    assert last_followed(compared) == 2


@pytest.mark.parametrize("op", ["empty_like", "new_empty"])
def test_bare_memory_differs_in_nothing(op: str) -> None:
    """There is nothing in it to compare."""
    faulty = _step(op)
    faulty.site_columns["norm"][0] = 3.0
    assert compare(_step(op), faulty).diverged.tolist() == [0]
