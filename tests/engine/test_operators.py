"""Which operators there are, and what is said of one that no step calls."""

from __future__ import annotations

import pytest

from fi_notebook.engine.operators import composed, is_operator, near_operators, uncalled
from fi_notebook.session import FaultWarning, Session
from tests import models

_MADE_OF_OTHERS = "is made of other operators, which are called in its place"


@pytest.mark.parametrize("op", ["addmm", "relu", "_softmax", "c10d::allreduce_"])
def test_an_operator_that_is_called_is_not_composed(op: str) -> None:
    """It is an operator, nothing else is near enough, and it is what a mode sees."""
    assert is_operator(op)
    assert near_operators(op) == ""
    assert composed(op) == ""


@pytest.mark.parametrize("op", ["linear", "matmul", "layer_norm", "conv2d", "reshape"])
def test_a_composite_operator_is_made_of_others(op: str) -> None:
    """torch has it, and calls others in its place."""
    assert is_operator(op)
    assert composed(op) == f"; {op!r} {_MADE_OF_OTHERS}"


def test_a_function_that_is_no_operator_is_made_of_others() -> None:
    """``torch.nn.functional.cross_entropy`` has no operator of its name."""
    assert not is_operator("cross_entropy")
    assert composed("cross_entropy") == f"; 'cross_entropy' {_MADE_OF_OTHERS}"


def test_what_was_called_is_nearer_than_what_torch_has() -> None:
    """``adm`` is near to ``addmv`` too, which this step did not call."""
    assert uncalled("adm", ["t", "addmm", "relu"]) == "; did you mean 'addmm'?"
    assert "'addmv'" in uncalled("adm", ["t", "relu"])
    assert uncalled("Linear", ["t", "addmm"]) == f"; 'linear' {_MADE_OF_OTHERS}"
    assert uncalled("relu", ["t", "relu"]) == ""
    assert uncalled("xyzzyxyzzy", ["t", "addmm"]) == ""


def test_arming_and_replay_say_so() -> None:
    """The warning when it is armed, and the reason why it struck nothing."""
    case = models.CASES["mlp"]()
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    session.trace()
    with pytest.warns(FaultWarning, match="is made of other operators"):
        session.arm("cross_entropy", "zero")
    (missed,) = session.replay().not_injected
    assert (
        missed.reason == f"no call of 'cross_entropy' was made in step 0; 'cross_entropy' "
        f"{_MADE_OF_OTHERS}"
    )
