"""Who holds a gradient for a moment makes autograd copy it: a step that repeats all the same."""

from __future__ import annotations

import pytest
from torch import Tensor

from fi_notebook import Session
from tests import models


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
