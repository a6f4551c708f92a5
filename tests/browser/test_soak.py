"""The page after long use: its heap stays flat."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.explorer import Explorer
from tests.browser.page import LabPage

pytestmark = [pytest.mark.browser, pytest.mark.soak]

SESSION = """
import fi_notebook as fi
from tests import models

case = models.cnn(seed=1)
session = fi.Session(case.step, model=case.model, optimizer=case.optimizer)
trace = session.trace()
fault = session.arm("relu*2:0", "bitflip", bit=27, elements={"index": 0})
run = session.replay()
"""

_HEAP = "() => performance.memory.usedJSHeapSize"


def _heap(lab: LabPage) -> float:
    session = lab.page.context.new_cdp_session(lab.page)
    session.send("HeapProfiler.collectGarbage")
    session.detach()
    return float(lab.page.evaluate(_HEAP))


def test_showing_the_explorer_again_keeps_the_heap_flat(show: Callable[..., LabPage]) -> None:
    """The display cell is run ten times: the page's heap grows by less than 20 MB."""
    lab = show(SESSION, "session.explore()")
    lab.run_cell(0)
    lab.run_cell(1)
    lab.assert_ran()
    Explorer(lab).tab("Tensor diff").locator(".fi-plot .main-svg").first.wait_for()
    before = _heap(lab)
    for _ in range(10):
        lab.run_cell(1)
        Explorer(lab).tab("Tensor diff").locator(".fi-plot .main-svg").first.wait_for()
    assert _heap(lab) - before < 20_000_000
