"""What only a real JupyterLab shows: an interrupted cell."""

from __future__ import annotations

from collections.abc import Callable

from tests.browser.page import LabPage

SESSION = """
import fi_notebook as fi
from tests import models

case = models.mlp(seed=1)
session = fi.Session(case.step, model=case.model, optimizer=case.optimizer)
trace = session.trace()
"""

INTERRUPTED = """
import torch
before = [p.clone() for p in case.model.parameters()]

def endless():
    case.step()
    print("running", flush=True)
    while True:
        case.step()

other = fi.Session(endless, model=case.model, optimizer=case.optimizer)
other.trace()
"""

AFTER_INTERRUPT = """
import torch
assert all(torch.equal(a, b) for a, b in zip(before, case.model.parameters()))
assert not torch.nn.modules.module._global_forward_hooks
assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()
session.replay()
"""


def test_an_interrupt_puts_everything_back(show: Callable[..., LabPage]) -> None:
    """Interrupting a step that never ends leaves the parameters, no hook and no mode, and
    another session of the same model goes on.
    """
    lab = show(SESSION, INTERRUPTED, AFTER_INTERRUPT)
    lab.run_cell(0)
    lab.start_cell(1)
    lab.wait_output(1, "running")
    lab.execute("notebook:interrupt-kernel")
    lab.wait_output(1, "KeyboardInterrupt")
    lab.wait_idle(lab.name)
    lab.run_cell(2)
    assert not lab.errors(2), lab.errors(2)
