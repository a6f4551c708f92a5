"""A session on a step whose forward and backward run within the optimizer's step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fi_notebook import Campaign, Session
from tests import models
from tests.tools import traced

CLOSURE = pytest.mark.parametrize("closure", [False, True])


def _session(closure: bool, *, before: int = 1) -> Session:
    """A clipped step with a metric, whose optimizer steps with a closure or after the backward."""
    case = models.mlp()
    optimizer = torch.optim.Adam(case.model.parameters(), lr=0.01)

    def forward_backward() -> Tensor:
        optimizer.zero_grad()
        out = case.model(case.x)
        loss = case.criterion(out, case.y)
        with torch.no_grad():
            out.argmax(1).double()
        loss.backward()
        nn.utils.clip_grad_norm_(case.model.parameters(), 1.0)
        return loss

    def step() -> Any:
        if closure:
            return optimizer.step(forward_backward)
        loss = forward_backward()
        optimizer.step()
        return loss

    for _ in range(before):
        step()
    return Session(step, model=case.model, optimizer=optimizer)


def test_the_calls_of_a_closure_stand_where_they_would_without() -> None:
    """Phase, module and parameter of every call; what is without gradients as well."""
    with_it, without = (
        [
            (call.name, call.phase, call.module, call.parameter)
            for call in traced.calls(_session(closure).trace())
            if not call.op.startswith("profiler::") and call.counted
        ]
        for closure in (True, False)
    )
    assert with_it == without
    phases = {name: phase for name, phase, *_ in with_it}
    assert phases["argmax*1"] == "loss"
    assert phases["linalg_vector_norm*1"] == "other"


@pytest.mark.parametrize("before", [0, 1])
def test_gradients_are_those_that_the_closure_makes(before: int) -> None:
    """Clipped to a norm of 1, the same in three steps as without; the fault is in all of them."""
    runs = []
    for closure in (False, True):
        session = _session(closure, before=before)
        session.trace()
        session.arm("relu*1:0", "scale", factor=100.0)
        run = session.replay(steps=3)
        assert [d.equal for d in run.comparison.gradients] == 4 * [False]
        runs.append([(g.gradient_norm, f.gradient_norm) for g, f in zip(run.golden, run.faulty)])
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 3


@CLOSURE
@pytest.mark.parametrize("before", [0, 1])
def test_a_gradient_is_struck_before_the_update(closure: bool, before: int) -> None:
    """One gradient of four, and its parameter, differ."""
    session = _session(closure, before=before)
    session.trace()
    session.arm("grad:0.weight", "scale", factor=-3.0)
    run = session.replay()
    assert run.outcome.name == "changed"
    for differences in (run.comparison.gradients, run.comparison.parameters):
        assert [d.name for d in differences if not d.equal] == ["0.weight"]


@CLOSURE
def test_a_campaign_on_gradients_counts_none_as_masked(closure: bool) -> None:
    """Each of ten elements that are set to 1 changes Adam's update of its parameter."""
    session = _session(closure)
    session.trace()
    faults = [("set", {"value": 1.0})]
    campaign = Campaign.of_sites(session, ["grad:0.weight"], faults=faults, n=10, audit=1)
    campaign.run()
    assert campaign.to_pandas().outcome.tolist() == 10 * ["changed"]
