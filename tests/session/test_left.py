"""What a step leaves behind is named where it does not repeat."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from fi_notebook.errors import SessionError
from fi_notebook.session import Session


def _session(x: torch.Tensor, state: tuple[object, ...] = ()) -> Session:
    torch.manual_seed(0)
    net = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = net(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    return Session(step, model=net, optimizer=optimizer, state=state)


def test_a_gradient_that_stays_on_an_input_is_named() -> None:
    """The error names the tensor, and the argument that puts it back."""
    session = _session(torch.ones(4, 3, requires_grad=True))
    session.trace()
    said = "A gradient stays on 'x', which the step uses and no model or optimizer holds, "
    with pytest.raises(SessionError, match=re.escape(said)) as caught:
        session.replay()
    assert str(caught.value).endswith("give the session state=[x]")


def test_an_input_that_is_given_as_state_repeats() -> None:
    """What the error advises works, and leaves no gradient."""
    x = torch.ones(4, 3, requires_grad=True)
    session = _session(x, state=(x,))
    session.arm("addmm*1:0", "zero")
    assert len(session.replay().injections) == 1
    assert x.grad is None
