"""``stale`` in a session: what the site held in the step before."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fi_notebook.session import Session


@pytest.fixture
def late() -> tuple[Session, str]:
    """y = x w with w = 1 and x = i + 1 in step i, loss y²; and the site of y."""
    net = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        net.weight.fill_(1.0)

    def step(i: int) -> torch.Tensor:
        loss = net(torch.tensor([[i + 1.0]])).square().sum()
        loss.backward()
        net.zero_grad()
        return loss

    session = Session(step, model=net)
    trace = session.trace()
    return session, next(str(s) for s in trace if s.phase == "forward" and s.op != "t")


def test_stale_takes_the_value_of_the_step_before(late: tuple[Session, str]) -> None:
    """Step 2 would hold 3 and holds the 2 of step 1, so the loss is 4 instead of 9."""
    session, site = late
    session.arm(site, "stale", steps=2)
    run = session.replay(steps=3)
    (injection,) = run.injections
    assert (injection.elements[0].before, injection.elements[0].after) == (3.0, 2.0)
    assert [record.loss for record in run.golden] == [1.0, 4.0, 9.0]
    assert [record.loss for record in run.faulty] == [1.0, 4.0, 4.0]


def test_stale_in_every_step_is_one_step_late(late: tuple[Session, str]) -> None:
    """Steps 1 to 4 hold 1, 2, 3, 4 instead of 2, 3, 4, 5: what was computed, not what was put
    in its place, else all would hold 1.
    """
    session, site = late
    session.arm(site, "stale", steps="1-")
    run = session.replay(steps=5)
    assert [record.loss for record in run.faulty] == [1.0, 1.0, 4.0, 9.0, 16.0]
    assert [i.elements[0].after for i in run.injections] == [1.0, 2.0, 3.0, 4.0]


def test_stale_in_the_first_step_says_what_to_strike() -> None:
    """Nothing came before step 0."""
    net = nn.Linear(1, 1)
    session = Session(lambda: net(torch.ones(1, 1)).sum().backward(), model=net)
    session.trace()
    session.arm("addmm*1:0", "stale")
    assert "no earlier value of this site yet; strike step 1 or a later one" in str(
        session.replay().outcome
    )
