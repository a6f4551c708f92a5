"""Which sites of the golden run a fault chooses: those that a replay of it strikes."""

from __future__ import annotations

import itertools
import random
import warnings
from typing import Any

import pytest
import torch
from torch import nn

from fi_notebook.core.chosen import chosen_rows
from fi_notebook.errors import FaultError, SiteError
from fi_notebook.report.payload import plan_payload
from fi_notebook.session import Session

TARGETS = ("relu", "addmm", "mm", "mul", "add_", "relu*2", "mul*2:0", "threshold_backward", "neg")
PHASES: tuple[Any, ...] = ((), "forward", "backward", "optimizer", "other", ("loss", "other"))
MODULES = (None, None, (), "0", "1", "2.weight", ("0.bias", "1"))


def two_updates() -> Session:
    """Two batches and an update, a metric of no parameter, a third batch and its update."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    data = torch.randn(3, 5, 3)

    def batch(n: int) -> torch.Tensor:
        loss = net(data[n]).mul(2.0).square().mean()
        loss.backward()
        return loss

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        batch(0)
        batch(1)
        optimizer.step()
        torch.relu(data[0]).mul(3.0).neg()
        loss = batch(2)
        torch.relu(data[1]).mul(5.0)
        optimizer.step()
        torch.relu(data[2]).mul(7.0)
        return loss

    return Session(step, model=net, optimizer=optimizer)


def filters(seed: int, lines: list[str]) -> dict[str, Any]:
    """Filters drawn from all there are, one or two at a time."""
    draw = random.Random(seed)
    drawn = {
        "phases": draw.choice(PHASES),
        "modules": draw.choice(MODULES),
        "micro_batches": draw.choice((0, 1, 2, "1-")),
        "code": tuple(draw.sample(lines, draw.choice((1, 2)))),
    }
    return {name: drawn[name] for name in draw.sample(sorted(drawn), draw.choice((0, 1, 1, 2)))}


def test_the_rows_of_the_page_are_those_that_a_replay_strikes() -> None:
    """For 60 faults with drawn filters, two of each target without any: never more, never less."""
    session = two_updates()
    golden = session.trace()
    lines = sorted({frame.label for site in golden.sites for frame in site.code})
    struck = 0
    for seed, target in zip(range(60), itertools.cycle(TARGETS), strict=False):
        given = filters(seed, lines) if seed >= len(TARGETS) else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                session.arm(target, "negate", id="f1", **given)
            except (FaultError, SiteError):
                continue
        run = session.replay()
        (shown,) = plan_payload(session.plan, golden)
        assert shown["rows"] == sorted({golden.row(i.site) for i in run.injections}), given
        assert shown["rows"] == chosen_rows(session.plan["f1"], golden).tolist()
        struck += bool(shown["rows"])
    assert struck >= 20


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ["relu*1:0", "relu*2:0", "relu*4:0", "relu*5:0"]),
        ({"micro_batches": 1}, ["relu*2:0"]),
        ({"phases": "other"}, ["relu*3:0", "relu*5:0", "relu*6:0"]),
    ],
)
def test_a_late_call_is_one_with_no_forward_since_the_update(
    given: dict[str, Any], expected: list[str]
) -> None:
    """The metric between two updates is the third relu, and no fault's unless it is asked for;
    that in the midst of the third batch, before its update, is the step's own.
    """
    session = two_updates()
    golden = session.trace()
    session.arm("relu", "zero", **given)
    rows = chosen_rows(session.plan["f1"], golden)
    assert [str(golden.site(row)) for row in rows] == expected
