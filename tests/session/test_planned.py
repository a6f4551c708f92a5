"""The plan of a session: arm, disarm, undo, and what may be undone."""

from __future__ import annotations

import torch

from fi_notebook.session import Session
from tests.models import cnn


def _session() -> Session:
    made = cnn()
    session = Session(made.step, model=made.model, optimizer=made.optimizer)
    session.trace()
    return session


def test_undo_and_redo_say_whether_they_can() -> None:
    """Nothing to undo at first; after a change there is, after an undo there is to redo."""
    session = _session()
    assert (session.can_undo, session.can_redo) == (False, False)
    session.arm("relu*1:0", "zero")
    assert (session.can_undo, session.can_redo) == (True, False)
    session.undo()
    assert (session.can_undo, session.can_redo) == (False, True)
    assert len(session.plan) == 0
    session.redo()
    assert [str(fault.target) for fault in session.plan] == ["relu*1:0"]


def test_a_parameter_may_be_called_model() -> None:
    """``corrupt_rank(model=…)`` reaches the fault model; it is no second fault model."""
    made = cnn()
    session = Session(made.step, model=made.model)
    fault = session.arm("c10d::allreduce_*1:0", "corrupt_rank", rank=0, model="negate")
    assert dict(fault.parameters) == {"rank": 0, "model": "negate"}


def test_kept_is_the_golden_tensor_and_runs_nothing() -> None:
    """What was kept is what ``trace.value`` gives; an unknown site has nothing kept."""
    session = _session()
    golden = session.golden
    assert golden is not None
    site = next(s for s in golden.sites if s.op.startswith("relu"))
    kept = session.kept(site)
    assert kept is not None
    assert torch.equal(kept, golden.value(site))
    assert session.kept("relu*99:0") is None
