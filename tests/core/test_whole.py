from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fi_notebook.core.whole import check_whole, is_whole


@pytest.mark.parametrize(
    ("value", "low", "whole"),
    [
        (0, 0, True),
        (1, 1, True),
        (0, 1, False),
        (-1, 0, False),
        *((other, 0, False) for other in (True, 2.0, "2", None, np.int64(2))),
    ],
)
def test_a_whole_number_is_an_int_from_the_lowest_on(value: Any, low: int, whole: bool) -> None:
    """True is none, nor is what only looks like one."""
    assert is_whole(value, low) is whole


def test_what_is_none_is_refused_by_name() -> None:
    """What was given and what was expected, as the error that is asked for."""
    check_whole("steps", 2, 1)
    with pytest.raises(LookupError) as told:
        check_whole("steps", 0, 1, LookupError)
    assert str(told.value) == "steps is 0; expected a whole number from 1"
