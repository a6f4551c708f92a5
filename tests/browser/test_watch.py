"""The live watch in a real Lab: while a cell runs, and when a notebook is opened again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.browser.explorer import Explorer
from tests.browser.page import LabPage

if TYPE_CHECKING:
    from playwright.sync_api import Locator

SETUP = """
import time
import fi_notebook as fi
from tests import models

case = models.mlp(seed=1)
session = fi.Session(case.step, model=case.model, optimizer=case.optimizer)
trace = session.trace()
"""
EXPLORE = "session.explore()"
WATCH = """
watch = fi.watch(case.model, ["relu", "grad:0.weight"])
watch
"""
LOOP = """
display(watch)
for step in range(400):
    case.step()
    time.sleep(0.02)
    if step == 200:
        case.model[0].weight.data[0, 0] = float("nan")
watch.close()
"""
DONE = "watch.close()"


def view(lab: LabPage) -> Locator:
    """The live view in the notebook that is shown."""
    return lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .fi-watch").last


def drawn_steps(root: Locator) -> int:
    """How many steps plotly has drawn, thinned or not: the last step of the first curve.

    It is -1 where the axes stand and no curve does yet.
    """
    told = "(plot) => plot._fullData?.[0]?.x.at(-1) ?? -1"
    last: int = root.locator(".js-plotly-plot").evaluate(told)
    return last


def reopen(lab: LabPage) -> None:
    """Save the notebook, close it, and open it again; its kernel is still there."""
    lab.execute("docmanager:save")
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.dispose()")
    lab.open(lab.name)


def test_it_is_drawn_while_the_loop_runs(
    show: Callable[..., LabPage], measured: Callable[..., None]
) -> None:
    """Shown and trained in one cell, which never hears the page: the curve grows, an alert
    comes, and the last step is there when the loop has ended.
    """
    lab = show(SETUP, WATCH, LOOP)
    lab.run_cell(0)
    lab.run_cell(1)
    lab.start_cell(2)
    root = view(lab)
    root.locator(".main-svg").first.wait_for()
    first = drawn_steps(root)
    lab.page.wait_for_function(
        "(first) => [...document.querySelectorAll('.fi-watch .js-plotly-plot')]"
        ".at(-1)?._fullData?.[0]?.x.at(-1) > first + 5",
        arg=first,
    )
    running = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status"
    assert lab.page.evaluate(running) == "busy"
    root.locator(".fi-warned", has_text="holds").wait_for()
    root.locator(".fi-words", has_text="up to step 399").wait_for(timeout=60_000)
    root.locator(".fi-chip", has_text="closed").wait_for()
    lab.finish_cell()
    lab.assert_ran()
    assert not lab.page.locator(".fi-snapshot").first.is_visible()
    measured("step of the first picture, of 400 at 50 a second", first, "steps")


def test_opened_again_with_its_kernel_it_is_live(show: Callable[..., LabPage]) -> None:
    """Closed and opened: explorer and watch are there, hear and draw on; nothing is static."""
    lab = show(SETUP, EXPLORE, WATCH, "for _ in range(3): case.step()", DONE, fresh=True)
    for index in range(4):
        lab.run_cell(index)
    reopen(lab)
    root = view(lab)
    root.locator(".fi-words", has_text="up to step 2").wait_for()
    explorer = Explorer(lab, 0)
    explorer.choose("relu*2:0")
    lab.run_cell(3)
    root.locator(".fi-words", has_text="up to step 5").wait_for()
    assert not lab.page.locator(".fi-snapshot").first.is_visible()
    lab.run_cell(4)


def test_opened_again_with_another_kernel_it_is_a_static_result(
    show: Callable[..., LabPage],
) -> None:
    """It says what to do, and shows the last step; where the live view was stands no error."""
    lab = show(SETUP, WATCH, "for _ in range(3): case.step()", DONE, fresh=True)
    for index in range(4):
        lab.run_cell(index)
    lab.wait_output(1, "up to step 2")
    lab.execute("docmanager:save")
    name = lab.name
    lab.close()
    lab.open(name)
    result = lab.page.locator(".fi-snapshot")
    result.wait_for()
    assert "run the cell again for the live view" in result.inner_text()
    assert "training: up to step 2" in result.inner_text()
    gone = lab.page.get_by_text("model not found")
    gone.wait_for(state="attached")
    assert not gone.is_visible()
    told = [error for error in lab.console_errors if "widget model not found" not in error]
    lab.console_errors[:] = told  # Lab tells the console of each view that has no model
