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
SIGN, ROUNDED = Evidence.SIGN, Evidence.ROUNDED


def kept(tensor: torch.Tensor) -> Kept:
    """What a golden run kept whole."""
    return Kept(0, tensor, tensor.shape, tensor.dtype)


def looked(func: Any, golden: list[Any], faulty: list[Any], *rest: Any) -> Evidence:
    """The evidence of a call that was made of these, and hid what differs."""
    before, now = ([torch.tensor(v) for v in values] for values in (golden, faulty))
    reads = [
        Read(f, not torch.equal(g, f), None if torch.equal(g, f) else kept(g))
        for g, f in zip(before, now, strict=True)
    ]
    results = [func(*tensors, *rest) for tensors in (before, now)]
    output, expected = (r[0] if isinstance(r, tuple) else r for r in reversed(results))
    assert torch.equal(output, expected)
    name = func.name().removeprefix("aten::").partition(".")[0]
    call: Any = SimpleNamespace(op=name, func=func, args=(*now, *rest), kwargs={})
    return evidence(call, [Output(output, 0, None, FUNCTIONAL)], reads)


A = torch.ops.aten


@pytest.mark.parametrize(
    ("func", "golden", "faulty", "expected"),
    [
        (A.relu.default, [[-1.0, 2.0]], [[-3.0, 2.0]], SEEN | FIRST | ZERO | LIMIT),
        (A.tanh.default, [[50.0, 2.0]], [[90.0, 2.0]], SEEN | FIRST | LIMIT),  # 1 in float64 too
        (A.tanh.default, [[10.0, 2.0]], [[11.0, 2.0]], SEEN | FIRST | LIMIT | ROUNDED),
        (A.exp.default, [[1e-9]], [[2e-9]], SEEN | FIRST | LIMIT | ROUNDED),
        (A.mul.Tensor, [[1.0, 2.0], [0.0, 1.0]], [[3.0, 2.0], [0.0, 1.0]],
         SEEN | FIRST | FACTOR | ZERO | LIMIT),
        (A.mul.Tensor, [[0.0, 1.0], [1.0, 2.0]], [[0.0, 1.0], [3.0, 2.0]],
         SEEN | OTHERS | FACTOR | ZERO | LIMIT),
        (A.mul.Tensor, [[3.0], [3.0]], [[-3.0], [-3.0]], SEEN | FIRST | OTHERS | SIGN),
        (A.div.Tensor, [[0.0, 1.0], [2.0, 1.0]], [[0.0, 1.0], [8.0, 1.0]],
         SEEN | OTHERS | FACTOR | ZERO | LIMIT),
        (A.mm.default, [[[1.0, 2.0]], [[0.0], [1.0]]], [[[5.0, 2.0]], [[0.0], [1.0]]],
         SEEN | FIRST | FACTOR),
        (A.mm.default, [[[0.0, 2.0]], [[3.0], [1.0]]], [[[0.0, 2.0]], [[4.0], [1.0]]],
         SEEN | OTHERS | FACTOR),
        (A.mm.default, [[[1e-9, 2.0]], [[3.0], [1.0]]], [[[2e-9, 2.0]], [[3.0], [1.0]]],
         SEEN | FIRST | ROUNDED),
        (A.abs.default, [[1.0, -2.0]], [[-1.0, -2.0]], SEEN | FIRST | SIGN | LIMIT),
        (A.cos.default, [[1.0, -2.0]], [[-1.0, -2.0]], SEEN | FIRST | SIGN),
        (A.addcmul.default, [[1.0], [3.0], [3.0]], [[1.0], [-3.0], [-3.0]], SEEN | OTHERS | SIGN),
        (A.addcdiv.default, [[1.0], [0.0], [3.0]], [[1.0], [0.0], [7.0]],
         SEEN | OTHERS | FACTOR | LIMIT),
        (A.mse_loss.default, [[1.5, 2.0], [0.5, 0.0]], [[-0.5, 2.0], [0.5, 0.0]],
         SEEN | FIRST | SIGN),  # |1.5 - 0.5| = |-0.5 - 0.5|
        (A.add.Tensor, [[1.0], [float("inf")]], [[2.0], [float("inf")]],
         SEEN | FIRST | Evidence.NONFINITE),
    ],
)  # fmt: skip
def test_what_the_values_say(
    func: Any, golden: list[Any], faulty: list[Any], expected: Evidence
) -> None:
    """Of the places where an input changed."""
    assert looked(func, golden, faulty) == expected


@pytest.mark.parametrize(
    ("gradient", "golden", "faulty", "expected"),
    [
        (1.0, 2.0, 3.0, Evidence.SLOPE),  # on either way
        (1.0, -2.0, -3.0, Evidence.SLOPE | ZERO | LIMIT),  # off either way
        (0.0, 0.0, 4e-34, FACTOR | ZERO | LIMIT),  # it went on, and no gradient came in
    ],
)
def test_a_backward_is_told_by_its_slope(
    gradient: float, golden: float, faulty: float, expected: Evidence
) -> None:
    """The derivative that a gradient of ones has, or that no gradient came in."""
    seen = looked(A.threshold_backward.default, [[gradient], [golden]], [[gradient], [faulty]], 0)
    assert seen & ~LIMIT == (SEEN | OTHERS | expected) & ~LIMIT  # 1 is no limit of its own


NAN = float("nan")


@pytest.mark.parametrize(
    ("func", "golden", "faulty", "expected"),
    [
        (A.bmm.default, [[[[NAN, NAN, 1.0]]], [[[1.0] * 2] * 3]],
         [[[0.0, NAN, 1.0]]], SEEN | FIRST | Evidence.NONFINITE),  # one row, another shape
        (A.bmm.default, [[[[NAN, NAN, 1.0], [1.0] * 3]], [[[1.0] * 2] * 3]],
         [[[0.0, NAN, 1.0], [1.0] * 3]], SEEN | FIRST | Evidence.NONFINITE),
        (A.mm.default, [[[1.0, 1.0]], [[1.0, NAN], [1.0, NAN]]],
         [[3.0, 1.0]], FIRST),  # of two columns one is NaN: the other is not told
        (A.mv.default, [[[NAN, NAN], [1.0, 1.0]], [1.0, 1.0]], [[0.0, NAN], [1.0, 1.0]], FIRST),
        (A.sum.default, [[NAN, NAN]], [0.0, NAN], SEEN | FIRST | Evidence.NONFINITE),
    ],
)  # fmt: skip
def test_beside_nan_only_what_is_proven_is_said(
    func: Any, golden: list[Any], faulty: Any, expected: Evidence
) -> None:
    """All that the change could reach is NaN, or the values tell nothing."""
    seen = evidence_of(func, [torch.tensor(v) for v in golden], torch.tensor(faulty))
    assert seen == expected


INF = float("inf")


@pytest.mark.parametrize(
    ("func", "golden", "faulty", "rest"),
    [
        (A.index_select.default, [[1.0, NAN], [5.0, 6.0]], [[2.0, NAN], [5.0, 6.0]],
         (1, torch.tensor([1, 1]))),  # of the first column nothing is read
        (A.gather.default, [[1.0, NAN]], [[2.0, NAN]], (1, torch.tensor([[1, 1]]))),
        (A.masked_fill.Scalar, [1.0, 5.0], [2.0, 5.0], (torch.tensor([True, False]), -INF)),
        (A.masked_fill.Scalar, [1.0, 5.0], [2.0, 5.0], (torch.tensor([True, False]), -1e9)),
        (A.max_pool2d_with_indices.default, [[[INF, 1.0, 100.0]]], [[[INF, 0.5, 100.0]]],
         ([1, 3], [1, 1], [0, 1])),  # the second window is Inf, the third 100
    ],
)  # fmt: skip
def test_of_what_is_selected_no_value_says_why(
    func: Any, golden: Any, faulty: Any, rest: tuple[Any, ...]
) -> None:
    """What stands at the same index comes from elsewhere, or is what was filled in."""
    seen = evidence_of(func, [torch.tensor(golden)], torch.tensor(faulty), *rest)
    assert seen == SEEN | FIRST


@pytest.mark.parametrize(
    ("row", "expected"),
    [([1.0, 2.0], FIRST), ([1.0, NAN], SEEN | FIRST | Evidence.NONFINITE)],
)
def test_a_normalisation_beside_nan_is_told_by_all_of_it(
    row: list[float], expected: Evidence
) -> None:
    """Of two rows the first is NaN, and then the second is or is not."""
    golden, faulty = torch.tensor([[1.0, NAN], row]), torch.tensor([[2.0, NAN], row])
    rest = ([2], None, None, 1e-5)
    assert evidence_of(A.native_layer_norm.default, [golden], faulty, *rest) == expected


def test_a_nan_of_another_tensor_of_a_list_says_nothing() -> None:
    """The first norm is NaN, the second, of what lost its sign, is finite."""
    tensors = [torch.tensor([NAN]), torch.tensor([1.0])]
    norms = [torch.tensor(NAN), torch.tensor(1.0)]
    reads = [Read(tensors[0], False), Read(tensors[1], True, kept(torch.tensor([-1.0])))]
    call: Any = SimpleNamespace(op="_foreach_norm", args=(tensors,), kwargs={})
    made = [Output(norm, 0, n, FUNCTIONAL) for n, norm in enumerate(norms)]
    seen = evidence(call, made, reads)
    assert not seen & Evidence.NONFINITE


def evidence_of(func: Any, golden: list[torch.Tensor], first: torch.Tensor, *rest: Any) -> Evidence:
    """The evidence of a call of which another first tensor is read."""
    now = [first, *golden[1:]]
    reads = [Read(first, True, kept(golden[0])), *(Read(each, False) for each in golden[1:])]
    name = func.name().removeprefix("aten::").partition(".")[0]
    call: Any = SimpleNamespace(op=name, func=func, args=(*now, *rest), kwargs={})
    made = func(*now, *rest)
    output = made[0] if isinstance(made, tuple) else made
    return evidence(call, [Output(output, 0, None, FUNCTIONAL)], reads)


def test_what_a_nan_weight_takes_is_not_outside() -> None:
    """Every output is NaN, whatever is read; with a stride of 2 the last column is not."""
    before = torch.ones(1, 1, 4)
    after = before.clone()
    after[0, 0, 3] = 2.0
    rest = (None, [2], [0], [1], False, [0], 1)
    for width, expected in ((2, Evidence.NONFINITE), (1, Evidence.NONFINITE)):
        weight = torch.full((1, 1, width), NAN)
        seen = evidence_of(A.convolution.default, [before, weight], after, *rest)
        assert seen == SEEN | FIRST | expected
    weight = torch.ones(1, 1, 1)
    seen = evidence_of(A.convolution.default, [before, weight], after, *rest)
    assert seen == SEEN | FIRST | Evidence.OUTSIDE
    weight = torch.tensor([[[NAN]], [[1.0]]])
    assert evidence_of(A.convolution.default, [before, weight], after, *rest) == FIRST


def test_what_lies_in_no_window_is_outside() -> None:
    """Of 3 x 3 the windows of 2 x 2 take the first four; the fifth is in one, the ninth in none."""
    golden = [[[[float(3 * row + column) for column in range(3)] for row in range(3)]]]
    faulty = [[[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 1e6]]]]
    for func in (A.max_pool2d_with_indices.default, A.avg_pool2d.default):
        assert looked(func, golden, faulty, [2, 2]) & Evidence.OUTSIDE
    faulty = [[[[-5.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0]]]]
    seen = looked(A.max_pool2d_with_indices.default, golden, faulty, [2, 2])
    assert not seen & Evidence.OUTSIDE


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
