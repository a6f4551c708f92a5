from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fi_notebook.core.masking import Evidence
from fi_notebook.engine.masking import Masking, Read, evidence
from fi_notebook.engine.outputs import FUNCTIONAL, IN_PLACE, Output
from fi_notebook.engine.store import Kept

SEEN, FIRST, OTHERS = Evidence.SEEN, Evidence.FIRST, Evidence.OTHERS
ZERO, LIMIT, FACTOR = Evidence.ZERO, Evidence.LIMIT, Evidence.FACTOR


def kept(tensor: torch.Tensor) -> Kept:
    """What a golden run kept whole."""
    return Kept(0, tensor, tensor.shape, tensor.dtype)


def looked(op: str, golden: list[Any], faulty: list[Any], output: Any) -> Evidence:
    """The evidence of a call whose arguments were these."""
    before, now = ([torch.tensor(v) for v in values] for values in (golden, faulty))
    reads = [
        Read(f, not torch.equal(g, f), None if torch.equal(g, f) else kept(g))
        for g, f in zip(before, now, strict=True)
    ]
    call: Any = SimpleNamespace(op=op, args=tuple(now), kwargs={})
    made = [Output(torch.tensor(output), 0, None, FUNCTIONAL)]
    return evidence(call, made, reads)


@pytest.mark.parametrize(
    ("op", "golden", "faulty", "output", "expected"),
    [
        ("relu", [[-1.0, 2.0]], [[-3.0, 2.0]], [0.0, 2.0], SEEN | FIRST | ZERO | LIMIT),
        ("tanh", [[50.0, 2.0]], [[90.0, 2.0]], [1.0, 0.9], SEEN | FIRST | LIMIT),
        ("tanh", [[0.5, 2.0]], [[0.6, 2.0]], [0.4, 0.9], SEEN | FIRST),
        ("mul", [[1.0, 2.0], [0.0, 1.0]], [[3.0, 2.0], [0.0, 1.0]], [0.0, 2.0],
         SEEN | FIRST | FACTOR | ZERO | LIMIT),
        ("mul", [[0.0, 1.0], [1.0, 2.0]], [[0.0, 1.0], [3.0, 2.0]], [0.0, 2.0],
         SEEN | OTHERS | FACTOR | ZERO | LIMIT),
        ("mm", [[[1.0, 2.0]], [[0.0], [1.0]]], [[[5.0, 2.0]], [[0.0], [1.0]]], [[2.0]],
         SEEN | FIRST | FACTOR),
        ("mm", [[[1.0, 2.0]], [[3.0], [1.0]]], [[[5.0, 2.0]], [[3.0], [1.0]]], [[2.0]],
         SEEN | FIRST),
        ("mm", [[[0.0, 2.0]], [[3.0], [1.0]]], [[[0.0, 2.0]], [[4.0], [1.0]]], [[2.0]],
         SEEN | OTHERS | FACTOR),
        ("abs", [[1.0, -2.0]], [[-1.0, -2.0]], [1.0, 2.0],
         SEEN | FIRST | Evidence.SIGN | LIMIT),
        ("add", [[1.0], [float("inf")]], [[2.0], [float("inf")]], [float("inf")],
         SEEN | FIRST | Evidence.NONFINITE),
    ],
)  # fmt: skip
def test_what_the_values_say(
    op: str, golden: list[Any], faulty: list[Any], output: Any, expected: Evidence
) -> None:
    """Of the places where an input changed."""
    assert looked(op, golden, faulty, output) == expected


def test_values_that_were_written_over_are_not_at_hand() -> None:
    """After ``relu_`` the argument is the output: only which argument differs is known."""
    masking, tensor = Masking(), torch.zeros(2)
    masking.unequal[0] = kept(torch.tensor([-1.0, -2.0]))
    masking.before([(tensor, (0,))])
    call: Any = SimpleNamespace(op="relu_", args=(tensor,), kwargs={})
    masking.after(call, [Output(tensor, 0, None, IN_PLACE)], range(1, 2))
    assert masking.column(2).tolist() == [0, FIRST]


def test_nothing_is_looked_at_where_no_input_differs() -> None:
    """Nor where an output does."""
    masking, tensor = Masking(), torch.zeros(2)
    call: Any = SimpleNamespace(op="neg", args=(tensor,), kwargs={})
    masking.before([(tensor, (0,))])
    masking.after(call, [Output(tensor, 0, None, FUNCTIONAL)], range(1, 2))
    masking.unequal[0] = masking.unequal[1] = kept(tensor)
    masking.before([(tensor, (0,))])
    masking.after(call, [Output(tensor, 0, None, FUNCTIONAL)], range(1, 2))
    assert masking.column(2).tolist() == [0, 0]
