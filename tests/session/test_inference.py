"""A model in evaluation mode, or without gradients: struck like any other, and told of in words."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fi_notebook.errors import FaultError
from fi_notebook.session import FaultWarning, Session
from tests import models


def _line() -> nn.Linear:
    """y = w x with w = (2), for x = 3 it is 6."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 2.0)
    return model


def _inference(model: nn.Module) -> Session:
    def step() -> Tensor:
        with torch.no_grad():
            return model(torch.tensor([[3.0]]))

    session = Session(step, model=model)
    session.trace()
    return session


@pytest.mark.parametrize("training", [True, False])
def test_a_parameter_is_struck_before_the_first_forward(training: bool) -> None:
    """w = 20 gives 60 instead of 6; afterwards w is 2 again."""
    model = _line().train(training)
    session = _inference(model)
    session.arm("param:weight", "scale", factor=10.0)
    run = session.replay()
    assert (run.comparison.loss.golden, run.comparison.loss.faulty) == (6.0, 60.0)
    assert len(run.injections) == 1
    assert model.weight.item() == 2.0


def test_a_frozen_model_is_trained_on_from_the_right_parameter() -> None:
    """Loss 20 * 3 instead of 6; the update starts from 2: 2 - 0.5 * 3 in both runs."""
    model = _line().eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = model(torch.tensor([[3.0]])).sum()
        loss.backward()
        optimizer.step()
        return loss

    session = Session(step, model=model, optimizer=optimizer)
    session.trace()
    session.arm("param:weight", "scale", factor=10.0)
    run = session.replay()
    assert (run.comparison.loss.golden, run.comparison.loss.faulty) == (6.0, 60.0)
    assert all(parameter.equal for parameter in run.comparison.parameters)


def test_a_call_that_takes_no_number_is_named_as_it_is_to_be_asked_for() -> None:
    """By the session when it is armed, and by the run when it never fired."""
    session = _inference(_line().eval())
    said = "no call of 'mm' took a number of the step, 1 was made as 'other/mm'"
    with pytest.warns(FaultWarning, match=said):
        session.arm("mm", "zero")
    (missed,) = session.replay().not_injected
    assert missed.reason == (
        "no call of 'mm' took a number in step 0: the model ran in evaluation mode "
        "(model.training is False); 1 was made as 'other/mm'"
    )


def test_a_selection_that_no_element_fits_is_no_value_that_was_there_already() -> None:
    """``where`` of more than a billion chooses nothing."""
    case = models.mlp()
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    golden = session.trace()
    session.arm("relu*1:0", "zero", elements={"where": "> 1e9"})
    run = session.replay()
    assert run.outcome.name == "inactive"
    assert run.outcome.reason == (
        "f1 struck relu*1:0 in step 0, but no element fits its selection, so it changed nothing"
    )
    trials = session.trials()
    (fault,) = session.plan
    assert trials.run(fault, golden.find("relu")[0], 0).outcome == run.outcome


def test_a_micro_batch_that_the_step_does_not_have_is_told() -> None:
    """Of two, the sixth: when armed, and when it never fired."""
    case = models.mlp()

    def step() -> None:
        for _ in range(2):
            case.criterion(case.model(case.x), case.y).backward()
        case.optimizer.step()
        case.optimizer.zero_grad()

    session = Session(step, model=case.model, optimizer=case.optimizer)
    session.trace()
    for target in ("relu", "param:0.weight"):
        with pytest.warns(
            FaultWarning, match="the step has 2 micro batches, counted from 0; none is 5"
        ):
            session.arm(target, "zero", micro_batches=5)
    assert [missed.reason for missed in session.replay().not_injected] == [
        "no call of 'relu' was made in step 0, micro batch 5 (the last step had 2)",
        "there was no 'param:0.weight' to strike in step 0, micro batch 5 (the last step had 2)",
    ]
    with pytest.raises(FaultError, match="is struck once in a step, before its optimizer steps"):
        session.arm("grad:0.weight", "zero", micro_batches=1)
