"""The explorer without a mouse, for a screen reader, in every theme and width."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser import axe
from tests.browser.explorer import Explorer
from tests.browser.page import LabPage

SESSION = """
import fi_notebook as fi
from tests import models

case = models.cnn(seed=1)
session = fi.Session(case.step, model=case.model, optimizer=case.optimizer)
trace = session.trace()
"""

DARK = "JupyterLab Dark"
LIGHT = "JupyterLab Light"

_FOCUSED = "() => document.activeElement?.closest('.fi-explorer') !== null"
_THEMED = """async ([theme, name]) => {
  const frame = () => new Promise(requestAnimationFrame);
  const light = String(name === 'light');
  window.jupyterapp.commands.execute('apputils:change-theme', { theme });
  while (document.body.dataset.jpThemeLight !== light) await frame();  // Lab has loaded it
  const begun = performance.now();
  while (!document.querySelector(`.fi-explorer[data-theme="${name}"]`)) await frame();
  return performance.now() - begun;
}"""
_LUMINANCE = """(element) => {
  const [r, g, b] = getComputedStyle(element).backgroundColor.match(/[\\d.]+/g).map(Number);
  return (0.299 * r + 0.587 * g + 0.114 * b) / 255;
}"""
_SIDEWAYS = """(element) => Math.max(element.scrollWidth - element.clientWidth,
  document.documentElement.scrollWidth - window.innerWidth)"""


@pytest.fixture
def lab_shown(show: Callable[..., LabPage]) -> LabPage:
    """The explorer of a small traced step between two other cells."""
    lab = show(SESSION, "session.explore()", "len(session.plan)")
    lab.run_cell(0)
    lab.run_cell(1)
    lab.assert_ran()
    return lab


def press(lab: LabPage, *keys: str) -> None:
    """Press keys, one after another."""
    for key in keys:
        lab.page.keyboard.press(key)


def tab_to(lab: LabPage, selector: str) -> int:
    """Press Tab until an element has the focus; gives how often."""
    for times in range(1, 200):
        press(lab, "Tab")
        if lab.page.evaluate(f"() => document.activeElement?.matches({selector!r})"):
            return times
    raise AssertionError(f"Tab never came to {selector}")


def test_the_keyboard_alone_is_enough(lab_shown: LabPage, measured: Callable[..., None]) -> None:
    """From Tab in to Escape out: a call is found, armed, replayed and its result read; keys
    that delete, add or cut cells in Lab's command mode change no cell.
    """
    lab = lab_shown
    explorer = Explorer(lab)
    lab.page.locator(".jp-Cell").nth(1).focus()
    measured("Tab presses to the search", tab_to(lab, ".fi-search"), "presses")
    lab.page.keyboard.type("op:relu")
    explorer.root.locator(".fi-found", has_text="2 of").wait_for()
    press(lab, "ArrowDown", "ArrowDown", "End")
    explorer.pane("site").get_by_role("heading", name="relu*2:0").wait_for()

    before = [cell["source"] for cell in lab.cells]
    press(lab, "d", "d", "b", "a", "x", "0", "0", "z", "Delete")
    explorer.settle()
    assert [cell["source"] for cell in lab.cells] == before
    press(lab, "End", "Space")
    explorer.tree.locator('[role="checkbox"][data-state="armed"]').first.wait_for()
    measured("Tab presses to Replay", tab_to(lab, ".fi-foot .fi-primary"), "presses")
    press(lab, "Enter")
    explorer.root.locator(".fi-verdict").wait_for()
    said = explorer.root.get_by_role("status").filter(has_text=explorer.outcome.replace("_", " "))
    assert said.count() == 1

    assert lab.page.evaluate(_FOCUSED)
    press(lab, "Escape")
    assert not lab.page.evaluate(_FOCUSED)
    lab.run_cell(2)
    assert lab.output_text(2) == "1"
    assert [cell["source"] for cell in lab.cells] == before


def test_axe_finds_nothing_serious(lab_shown: LabPage, measured: Callable[..., None]) -> None:
    """In light and in dark, with a result in each tab, axe-core names no serious violation;
    the theme is followed within a second, the figures too.
    """
    explorer = Explorer(lab_shown)
    assert not axe.violations(explorer.root)
    explorer.choose("relu*2:0", view="Modules")
    explorer.arm("bitflip", [0, 3, 0, 0], bit=30)
    explorer.replay()
    for theme, name in ((DARK, "dark"), (LIGHT, "light")):
        took = lab_shown.page.evaluate(_THEMED, [theme, name])
        measured(f"{name} theme", took, "ms", limit=1000)
        assert (explorer.root.evaluate(_LUMINANCE) < 0.5) is (name == "dark")
        for tab in ("Log", "Training", "Propagation", "Tensor diff"):
            panel = explorer.tab(tab)
            if tab != "Log":
                panel.locator(".fi-plot .main-svg").first.wait_for()
            found = axe.violations(explorer.root)
            assert not found, f"{name}, {tab}: {found}"


def test_no_width_scrolls_sideways(lab_shown: LabPage) -> None:
    """At 600, 1000 and 1600 px neither the explorer nor the page scrolls sideways; Lab's
    file browser is folded, as a person would who has 600 px.
    """
    lab = lab_shown
    explorer = Explorer(lab)
    lab.execute("application:toggle-left-area")
    try:
        for width in (600, 1000, 1600):
            lab.page.set_viewport_size({"width": width, "height": 900})
            explorer.settle()
            assert explorer.root.evaluate(_SIDEWAYS) <= 0, width
    finally:
        lab.page.set_viewport_size({"width": 1400, "height": 1000})
        lab.execute("application:toggle-left-area")


HOSTILE = """
import torch, fi_notebook as fi
from torch import nn

class Hostile(nn.Module):
    def __init__(self):
        super().__init__()
        for name in NAMES:
            self.add_module(name, nn.Linear(4, 4))

    def forward(self, x):
        for layer in self.children():
            x = layer(x)
        return x

model = Hostile()
session = fi.Session(lambda: model(torch.ones(2, 4)).sum().backward(), model=model)
trace = session.trace()
fault = session.arm("addmm*1", "nan")
"""

NAMES = (
    "<img src=x onerror=struck=1>",
    "<script>struck=1</script>",
    "x" * 100_000,
    "\u202eלבקו",
    "🔥🔥",
    "a\nb\tc",
)


def test_hostile_names_are_text(show: Callable[..., LabPage]) -> None:
    """Names that are markup, 100,000 characters long, right to left, emoji or of several
    lines are text everywhere: in tree, site, plan, result, snapshot; nothing of them runs.
    """
    lab = show(f"NAMES = {NAMES!r}", HOSTILE, "session.explore()")
    lab.run_all()
    lab.assert_ran()
    explorer = Explorer(lab)
    explorer.tree.focus()
    press(lab, "ArrowDown", "ArrowRight")
    for name in NAMES:
        start = " ".join(name[:12].split())
        explorer.tree.get_by_role("row").filter(has_text=start).first.wait_for()
    explorer.choose("addmm*1:0")
    explorer.pane("site").locator(".fi-crumbs", has_text="onerror").wait_for()
    explorer.replay()
    for tab in ("Propagation", "Training", "Log", "Tensor diff"):
        panel = explorer.tab(tab)
        if tab != "Log":
            panel.locator(".fi-plot .main-svg").first.wait_for()
        assert explorer.root.evaluate(_SIDEWAYS) <= 0, tab
    assert not explorer.root.locator("img, script, iframe, object").count()
    assert not lab.page.evaluate("'struck' in window")
    html = "".join(lab.cells[2]["outputs"][-1]["data"]["text/html"])
    assert "&lt;img src=x" in html
    assert "<img" not in html
    assert "<script" not in html
    assert len(html.encode()) < 200_000
