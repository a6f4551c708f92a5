"""What only a real JupyterLab shows: themes, shortcuts, interrupts, saved notebooks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.explorer import Explorer
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

DARK = "JupyterLab Dark"
LIGHT = "JupyterLab Light"

_LUMINANCE = """(element) => {
  const [r, g, b] = getComputedStyle(element).backgroundColor.match(/[\\d.]+/g).map(Number);
  return (0.299 * r + 0.587 * g + 0.114 * b) / 255;
}"""

_OVERFLOW = "(element) => element.scrollWidth - element.clientWidth"


@pytest.fixture
def explorer(show: Callable[..., LabPage]) -> Explorer:
    """The explorer of a small traced step."""
    lab = show(SESSION, "session.explore()", "len(session.plan)")
    lab.run_cell(0)
    lab.run_cell(1)
    lab.assert_ran()
    return Explorer(lab)


def test_the_theme_is_followed(explorer: Explorer, lab: LabPage) -> None:
    """Light on white, dark on black, and back; the figures stay."""
    explorer.choose("relu*2:0")
    explorer.arm("bitflip", [0, 0], bit=30)
    explorer.replay()
    figure = explorer.tab("Tensor diff").locator(".fi-plot .main-svg").first
    figure.wait_for()
    for theme, name in ((DARK, "dark"), (LIGHT, "light")):
        lab.execute("apputils:change-theme", {"theme": theme})
        lab.page.locator(f'.fi-explorer[data-theme="{name}"]').wait_for()
        assert (explorer.root.evaluate(_LUMINANCE) < 0.5) is (name == "dark")


def test_keys_of_the_explorer_do_nothing_to_the_notebook(explorer: Explorer, lab: LabPage) -> None:
    """Lab's own shortcuts for deleting, inserting and cutting cells change no cell."""
    explorer.choose("relu*1:0")
    explorer.row("relu*1:0").click()
    for key in ("d", "d", "b", "a", "x", "0", "0"):
        lab.page.keyboard.press(key)
    explorer.settle()
    assert len(lab.cells) == 3
    assert lab.find_cell("session.explore") == 1


def test_space_arms_and_the_session_knows(explorer: Explorer, lab: LabPage) -> None:
    """A fault armed by the keyboard is in the session's plan: 1."""
    explorer.choose("relu*1:0")
    explorer.tree.focus()
    lab.page.keyboard.press("Space")
    explorer.tree.locator('[role="checkbox"][data-state="armed"]').first.wait_for()
    lab.run_cell(2)
    assert lab.output_text(2) == "1"


@pytest.mark.parametrize("width", [600, 1000, 1600])
def test_no_width_makes_the_page_scroll_sideways(
    explorer: Explorer, lab: LabPage, width: int
) -> None:
    """Whatever the width of the window, the explorer fits into its cell; Lab's file
    browser is folded, as a person would who has 600 px.
    """
    lab.execute("application:toggle-left-area")
    try:
        lab.page.set_viewport_size({"width": width, "height": 900})
        explorer.settle()
        assert explorer.root.evaluate(_OVERFLOW) <= 0
    finally:
        lab.page.set_viewport_size({"width": 1400, "height": 1000})
        lab.execute("application:toggle-left-area")


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


def test_a_saved_notebook_tells_its_story_without_a_kernel(
    explorer: Explorer, lab: LabPage
) -> None:
    """The output carries a static text/html under 200 KB beside the widget."""
    output = lab.cells[1]["outputs"][-1]["data"]
    html = "".join(output["text/html"])
    assert len(html.encode()) < 200_000
    assert "relu" in html
