"""Who holds a tensor for a moment makes torch make other calls: a step that repeats all the same.

A profiler that looks at frames does so. Autograd copies a gradient that is held rather than
taking it, and a result of `zeros_like` that is held is detached.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fi_notebook import Session
from tests import models
from tests.tools.holder import Holder


@pytest.mark.parametrize("holds", [(True, False), (False, True)])
def test_a_gradient_that_is_copied_in_one_run_alone_repeats(holds: tuple[bool, bool]) -> None:
    """Held in the golden run or in the one that is to be like it, as a profiler may; and struck."""
    case, held, runs = models.mlp(), list[Tensor](), iter((*holds, holds[1], holds[1], holds[1]))
    holding = [False]
    weight = next(case.model.parameters())
    hook = weight.register_hook(lambda grad: held.append(grad) if holding[0] else None)

    def step() -> Tensor:
        holding[0] = next(runs)
        held.clear()
        return case.step()

    session = Session(step, model=case.model, optimizer=case.optimizer)
    golden = session.trace()
    session.arm("relu*1:0", "scale", factor=2.0)
    run = session.replay()
    assert len(run.injections) == 1
    assert run.comparison is not None
    copies = [
        [site for site in trace.find() if site.op == "copy_" and site.phase == "backward"]
        for trace in (golden, run.comparison.faulty)
    ]
    assert len(copies[0]) - len(copies[1]) == (1 if holds[0] else -1)
    hook.remove()


@pytest.mark.parametrize("run", range(3))
def test_a_result_that_is_held_in_one_run_alone_repeats(run: int) -> None:
    """In the golden run, in its repetition or in the faulty one: nothing differs for it."""
    holds = [n == run for n in range(3)]
    case, runs = models.mlp(), iter(holds)
    case.optimizer = torch.optim.AdamW(case.model.parameters())

    def step() -> Tensor:
        with Holder("zeros_like" if next(runs) else "nothing"):
            return case.step()

    session = Session(step, model=case.model, optimizer=case.optimizer)
    golden = session.trace()
    session.arm("relu*1:0", "scale", factor=1.0)
    found = session.replay()
    assert found.comparison is not None
    detached = [
        sum(site.op == "detach" and site.phase == "optimizer" for site in trace.find())
        for trace in (golden, found.comparison.faulty)
    ]
    assert (detached[0] > 0, detached[1] > 0) == (holds[0], holds[2])
    assert found.comparison.equal
    assert not found.comparison.structural
    assert found.outcome.name == "inactive"


def test_a_gradient_that_is_held_in_the_faulty_run_alone_is_no_difference() -> None:
    """It is copied there: the fault, which scales by one, changes nothing."""
    case, held, runs = models.mlp(), list[Tensor](), iter((False, False, True))
    weight = next(case.model.parameters())
    hook = weight.register_hook(lambda grad: held.append(grad) if next(runs) else None)
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    session.trace()
    session.arm("relu*1:0", "scale", factor=1.0)
    found = session.replay()
    hook.remove()
    assert held
    assert found.comparison is not None
    assert found.comparison.equal
    assert found.outcome.name == "inactive"
