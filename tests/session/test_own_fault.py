"""A fault model of a person's own that raises is an error, not an outcome."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from fi_notebook import faults
from fi_notebook.faults import Context
from fi_notebook.session import Session
from tests.models import cnn


@pytest.fixture
def broken() -> Iterator[str]:
    """A registered fault model that raises."""

    @faults.register("broken_for_test")
    def broken_for_test(values: torch.Tensor, _ctx: Context) -> torch.Tensor:
        """Raises whenever it strikes."""
        del values
        raise ZeroDivisionError("in my own fault")

    yield "broken_for_test"
    faults.unregister("broken_for_test")


def test_it_is_raised_and_the_next_replay_is_clean(broken: str) -> None:
    """The replay raises what the fault raised; everything is put back, and without the
    fault the session goes on with a replay that is equal to golden.
    """
    made = cnn()
    session = Session(made.step, model=made.model, optimizer=made.optimizer)
    session.trace()
    before = [parameter.detach().clone() for parameter in made.model.parameters()]
    session.arm("relu*1:0", broken)
    with pytest.raises(ZeroDivisionError, match="in my own fault"):
        session.replay()
    assert all(map(torch.equal, before, made.model.parameters()))
    session.disarm()
    assert session.replay().comparison.equal


def test_a_step_that_swallows_it_does_not_hide_it(broken: str) -> None:
    """The step catches every exception; the replay raises what the fault raised all the
    same, since the step did not go on as it would have.
    """
    made = cnn()

    def step() -> torch.Tensor | None:
        try:
            return made.step()
        except Exception:  # noqa: BLE001  # what the test is about
            return None

    session = Session(step, model=made.model, optimizer=made.optimizer)
    session.trace()
    session.arm("relu*1:0", broken)
    with pytest.raises(ZeroDivisionError, match="in my own fault"):
        session.replay()
