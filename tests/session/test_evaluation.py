"""What ``evaluate`` may be and say, and what is left as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fi_notebook.errors import SessionError
from fi_notebook.session import Session
from tests import models


@pytest.fixture
def session() -> Session:
    """One of the MLP, traced, with a fault."""
    case = models.mlp()
    made = Session(case.step, model=case.model, optimizer=case.optimizer)
    made.trace()
    made.arm("relu*1:0", "zero")
    return made


@pytest.mark.parametrize(
    ("evaluate", "metrics"),
    [
        (lambda _: 0.5, {"metric": 0.5}),
        (lambda _: torch.tensor([[0.5]], requires_grad=True), {"metric": 0.5}),
        (lambda _: np.float32(0.5), {"metric": 0.5}),
        (lambda _: {"a": 1, "b": torch.tensor(2.0)}, {"a": 1.0, "b": 2.0}),
        (lambda _model, extra=1: extra, {"metric": 1.0}),
    ],
)
def test_numbers_by_name(
    session: Session, evaluate: Callable[[nn.Module], Any], metrics: dict[str, float]
) -> None:
    """One number is the ``metric``."""
    run = session.replay(evaluate=evaluate)
    assert run.golden[0].metrics == run.faulty[0].metrics == metrics


def test_a_draw_and_a_mode_are_left_as_they_were(session: Session) -> None:
    """It seeds, draws and calls ``eval``; training goes on in training mode."""

    def evaluate(model: nn.Module) -> Tensor:
        torch.manual_seed(7)
        return model.eval()(torch.rand(1, 5)).sum()

    before = torch.get_rng_state()
    session.replay(steps=2, evaluate=evaluate)
    assert torch.equal(torch.get_rng_state(), before)
    assert session.model.training


@pytest.mark.parametrize(
    ("evaluate", "said"),
    [
        (5, "evaluate is 5; expected a callable that takes the model"),
        (lambda: 1.0, r"evaluate\(\) cannot be called: too many positional arguments; expected a"),
        (lambda model, data: data, r"cannot be called: missing a required argument: 'data'"),
        (lambda _: None, "evaluate gave a NoneType as 'metric'; expected a number"),
        (lambda _: "high", "evaluate gave a str as 'metric'; expected a number"),
        (lambda _: {"accuracy": "high"}, "evaluate gave a str as 'accuracy'; expected a number"),
        (lambda _: torch.ones(3), "evaluate gave a Tensor as 'metric'; expected a number"),
    ],
)
def test_what_cannot_be_is_refused(session: Session, evaluate: Any, said: str) -> None:
    """What was given, and what would do; the session goes on."""
    with pytest.raises(SessionError, match=said):
        session.replay(evaluate=evaluate)
    assert session.replay().injections
