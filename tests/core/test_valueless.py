from __future__ import annotations

import torch

from fi_notebook.core.valueless import MADE_LIKE, UNWRITTEN


def test_every_operator_that_torch_has_of_a_kind_is_listed() -> None:
    """What is public and named ``empty`` or ``new_empty``; what is named ``like`` or ``new``."""
    names = torch._C._dispatch_get_all_op_names()
    packets = {name.partition(".")[0].removeprefix("aten::") for name in names}
    public = {name for name in packets if not name.startswith("_") and "::" not in name}
    assert {name for name in public if name.startswith(("empty", "new_empty"))} == UNWRITTEN
    assert {name for name in public if name.endswith("_like") or name.startswith("new_")} == (
        MADE_LIKE
    )
