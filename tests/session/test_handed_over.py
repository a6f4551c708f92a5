"""Memory that other processes hand over comes when it comes: no difference, unless a fault struck.

A worker of a data loader does so: two runs of a step take the same batches in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from fi_notebook import Run, Session
from tests import models

_ORDERS = ((0, 1), (1, 0))


def _handed_over(case: models.Case, orders: Iterator[tuple[int, ...]]) -> Callable[[], Tensor]:
    """A step whose two batches are taken over in the next order, and used in theirs."""
    batches = [torch.randn(4, 5).untyped_storage() for _ in range(2)]
    targets = torch.randn(4, 3)

    def step() -> Tensor:
        taken = {n: torch.empty(0).set_(batches[n], 0, (4, 5), (5, 1)) for n in next(orders)}
        loss = torch.zeros(())
        for number in range(2):
            loss = case.criterion(case.model(taken[number]), targets)
            loss.backward()
        case.optimizer.step()
        case.optimizer.zero_grad()
        return loss.detach()

    return step


def _replayed(target: str, factor: float) -> Run:
    """Golden, its repetition, faulty: the last takes the second batch first."""
    case = models.mlp()
    step = _handed_over(case, iter((_ORDERS[0], *_ORDERS)))
    session = Session(step, model=case.model, optimizer=case.optimizer)
    session.trace()
    session.arm(target, "scale", factor=factor)
    run = session.replay()
    assert run.comparison is not None
    return run


def test_batches_that_come_in_another_order_are_no_difference() -> None:
    """What is struck is scaled by one."""
    found = _replayed("relu*1:0", 1.0)
    assert found.comparison.equal
    assert found.outcome.name == "inactive"


def test_a_fault_on_a_batch_that_comes_in_another_order_is_one() -> None:
    """Both takings differ from golden; the struck one alone counts, and what reads it."""
    found = _replayed("other/set_*1:0", 2.0)
    differ = [str(found.comparison.site(int(row))) for row in found.comparison.diverged]
    assert differ[0] == "other/set_*1:0"
    assert "other/set_*2:0" not in differ
    assert "addmm*1:0" not in differ  # the batch that came first is used second
    assert "addmm*3:0" in differ


def test_a_detach_of_a_struck_parameter_is_a_difference() -> None:
    """No site made the parameter: its first reader is where the error is introduced."""
    case = models.mlp()
    weight = next(case.model.parameters())

    def step() -> Tensor:
        return case.criterion(case.model(case.x) * weight.detach().sum(), case.y)

    session = Session(step, model=case.model)
    session.trace()
    session.arm("param:0.weight", "set", value=3.0, elements={"index": 0})
    compared = session.replay().comparison
    row = compared.golden.row("detach*1:0")
    assert not compared.columns["equal"][row]
    assert compared.columns["changed"][row] == 1
