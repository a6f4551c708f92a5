"""What a step changes beside the optimizer: schedulers, and what nobody gave."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.optim import lr_scheduler

from fi_notebook.errors import SessionError
from fi_notebook.session import Session
from tests.models import Case, mlp

Schedule = Callable[[torch.optim.Optimizer], object]

SCHEDULES: dict[str, Schedule] = {
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=20),
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0, threshold=10.0),
}


def _scheduled(case: Case, scheduler: object, *arguments: float) -> Callable[[], torch.Tensor]:
    def step() -> torch.Tensor:
        loss = case.step()
        scheduler.step(*arguments)  # type: ignore[attr-defined]  # each of them has it
        return loss

    return step


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("named", [True, False])
def test_a_scheduler_that_nobody_gave_is_put_back(name: str, *, named: bool) -> None:
    """Three golden and three faulty steps are equal without a fault, and the scheduler is
    where it was, whether the optimizer was named or found.
    """
    case = mlp()
    scheduler = SCHEDULES[name](case.optimizer)
    before = dict(vars(scheduler))
    step = _scheduled(case, scheduler, *([1.0] if name == "plateau" else []))
    session = Session(step, model=case.model, optimizer=case.optimizer if named else None)
    run = session.replay(steps=3)
    assert [r.loss for r in run.golden] == [r.loss for r in run.faulty]
    after = vars(scheduler)
    assert {k: v for k, v in after.items() if k != "_step_count"} == {
        k: v for k, v in before.items() if k != "_step_count"
    }
    assert after.get("_step_count") == before.get("_step_count")


def test_steps_before_the_strike_must_be_those_of_the_golden_run() -> None:
    """A counter that lives in a closure sets the next learning rate; the fault strikes in
    step 2 only, so step 1 shows that something is not put back.
    """
    case = mlp()
    made = [0]

    def step() -> torch.Tensor:
        loss = case.step()
        made[0] += 1
        case.optimizer.param_groups[0]["lr"] = 0.1 * made[0]
        return loss

    session = Session(step, model=case.model, optimizer=case.optimizer)
    session.arm("t*1:0", "zero", steps=2)
    with pytest.raises(SessionError, match="not repeatable: no fault had struck, but step 1"):
        session.replay(steps=3)


def test_an_optimizer_of_another_model_is_refused() -> None:
    """The model was made anew and the optimizer was not: the step would train nothing."""
    old, new = mlp(0), mlp(1)
    with pytest.raises(SessionError, match="SGD holds no parameter of the model"):
        Session(new.step, model=new.model, optimizer=old.optimizer)
