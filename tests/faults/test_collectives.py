"""Declarations of the fault models of collectives; the engine carries them out."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fi_notebook import faults
from fi_notebook.errors import FaultError

NAMES = ("drop_rank", "duplicate_rank", "corrupt_rank", "stale_buffer", "wrong_reduction")


@pytest.mark.parametrize("name", NAMES)
def test_apply_refuses_it_by_name(name: str) -> None:
    """They strike a whole collective, never a tensor."""
    example = faults.get(name).example
    with pytest.raises(FaultError, match=f"{name} is a call model"):
        faults.apply(torch.ones(3), name, **example)
    with pytest.raises(FaultError, match="strikes a whole call"):
        faults.corrupt(torch.ones(3), name, example, "all", faults.generator(0))


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("drop_rank", {}, "drop_rank needs rank="),
        ("drop_rank", {"rank": -1}, "of at least 0"),
        ("corrupt_rank", {"rank": 1, "model": "negat"}, "did you mean 'negate'"),
        ("corrupt_rank", {"rank": 1, "model": "stale"}, "'stale' is a call model"),
        ("corrupt_rank", {"rank": 1, "model": "scale"}, "scale needs factor="),
        (
            "corrupt_rank",
            {"rank": 1, "model": "bitflip", "parameters": {"bit": 99}},
            "bit=99 cannot be",
        ),
        ("wrong_reduction", {"op": "mean"}, "'sum', 'avg'"),
    ],
)
def test_parameters_that_can_never_be_are_refused(
    name: str, parameters: dict[str, Any], message: str
) -> None:
    """Also those of the model inside."""
    with pytest.raises(FaultError, match=message):
        faults.check(name, parameters)


def test_a_corruption_has_a_model_of_its_own() -> None:
    """Any value model, with its parameters."""
    given = {"rank": 1, "model": "bitflip", "parameters": {"bit": 30}}
    assert faults.check("corrupt_rank", given) == given
