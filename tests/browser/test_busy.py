"""The explorer while the kernel is busy, and when it is gone: what needs a real Lab."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.explorer import Explorer
from tests.browser.page import LabPage
from tests.tools import notebooks

pytestmark = pytest.mark.browser

QUICKSTART = Path(__file__).parents[2] / "notebooks" / "01_quickstart.ipynb"
SLEEP = "import time\nfor _ in range(40):\n    time.sleep(0.1)"  # 4 s of a busy main thread


@pytest.fixture
def explored(show: Callable[..., LabPage]) -> LabPage:
    """The quickstart up to the explorer, with a cell that sleeps and one that does not."""
    cells = [c.source for c in notebooks.read(QUICKSTART).cells if c.cell_type == "code"]
    magic = next(i for i, text in enumerate(cells) if text.startswith("%%fi_explore"))
    lab = show(*cells[: magic + 1], SLEEP, "'done'")
    for index in range(magic + 1):
        lab.run_cell(index)
    lab.assert_ran()
    return lab


def primed(lab: LabPage) -> Explorer:
    """The explorer, after its pings have led the control comm past the main thread."""
    explorer = Explorer(lab)
    for _ in range(2):
        explorer.choose("relu*2:0")
        explorer.choose("relu*1:0")
    return explorer


def start(lab: LabPage, index: int) -> None:
    """Run a cell without waiting for it."""
    lab.start_cell(index)
    lab.page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status "
        "=== 'busy'"
    )


def test_a_replay_waits_for_the_cell_that_runs(explored: LabPage) -> None:
    """Pressed while a cell runs it says which one, and runs when that has ended."""
    explorer = primed(explored)
    start(explored, len(explored.cells) - 2)
    explorer.press("Replay")
    explorer.root.locator(".fi-state", has_text="is running").wait_for(timeout=3000)
    explorer.root.locator(".fi-verdict").wait_for()


def test_stop_is_heard_while_a_cell_waits(explored: LabPage) -> None:
    """A long replay ends within a second of Stop, and the waiting cell runs."""
    explorer = primed(explored)
    explorer.set_steps(100_000)
    explorer.press("Replay")
    explorer.root.locator(".fi-state[data-state=busy]", has_text="step").wait_for()
    start(explored, len(explored.cells) - 1)
    explorer.press("Stop")
    explorer.root.locator(".fi-state", has_text="cancelled").wait_for(timeout=3000)
    explored.finish_cell()
    assert "done" in explored.output_text(len(explored.cells) - 1)


def test_a_restarted_kernel_leaves_a_read_only_view(explored: LabPage) -> None:
    """The view says that the kernel is gone, and shows what it showed."""
    explorer = Explorer(explored)
    rows = explorer.root.locator(".fi-row")
    rows.first.wait_for()
    shown = rows.count()
    explored.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
    )
    told = explorer.root.locator(".fi-state", has_text="kernel is gone; run the cells again")
    told.wait_for()
    rows.nth(shown // 2).wait_for()  # the longer footer leaves room for fewer of them
    assert explorer.root.get_by_role("button", name="Replay").is_disabled()
