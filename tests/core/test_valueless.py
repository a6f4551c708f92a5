from __future__ import annotations

import numpy as np
import torch

from fi_notebook.core.valueless import MADE_LIKE, UNWRITTEN, is_bare, is_of
from tests.traces import Call, build


def test_every_operator_that_torch_has_of_a_kind_is_listed() -> None:
    """What is public and named ``empty`` or ``new_empty``; what is named ``like`` or ``new``."""
    names = torch._C._dispatch_get_all_op_names()
    packets = {name.partition(".")[0].removeprefix("aten::") for name in names}
    public = {name for name in packets if not name.startswith("_") and "::" not in name}
    assert {name for name in public if name.startswith(("empty", "new_empty"))} == UNWRITTEN
    assert {name for name in public if name.endswith("_like") or name.startswith("new_")} == (
        MADE_LIKE
    )


def test_bare_memory_is_that_of_an_operator_or_of_an_output() -> None:
    """All that ``empty`` gives, and of a recurrent kernel the fourth output; -1 is no site."""
    trace = build(Call("empty"), Call("mm"), Call("mkldnn_rnn_layer", outputs=((2,),) * 4))
    rows = np.arange(len(trace))
    assert is_bare(trace, rows).tolist() == [True, False, False, False, False, True]
    assert is_of(trace, np.array([1, 0, -1]), {"mm"}).tolist() == [True, False, False]
    assert is_of(build(), np.array([-1]), {"mm"}).tolist() == [False]
