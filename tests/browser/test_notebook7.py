"""Notebook 7 in the same way as JupyterLab: one notebook, explored and watched."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.lab import LabServer
from tests.browser.page import LabPage
from tests.tools import notebooks

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CELLS = (
    """
import fi_notebook as fi
from tests import models

case = models.mlp(seed=1)
session = fi.Session(case.step, model=case.model, optimizer=case.optimizer)
trace = session.trace()
""",
    "session.explore()",
    """
watch = fi.watch(case.model, "relu")
display(watch)
for _ in range(5):
    case.step()
watch.close()
""",
    "print(fi.doctor(), len(session.plan))",
)


class NotebookPage(LabPage):
    """A page that shows Notebook 7, which has one document and the same commands as Lab."""

    def open(self, name: str, **_: Any) -> None:
        """Open a notebook of the server's folder and wait for its idle kernel."""
        self.page.goto(f"{self.url}/notebooks/{name}")
        self.page.wait_for_function("() => window.jupyterapp?.shell?.currentWidget?.context")
        self.name = name
        self.wait_idle(name)

    def _on_error(self, text: str) -> None:
        if "reading 'schema'" not in text:  # Notebook's own, of an empty notebook as well
            super()._on_error(text)


@pytest.mark.timeout(300)
def test_it_is_explored_and_watched(chromium: Browser, tmp_path: Path) -> None:
    """The explorer arms a site by the keyboard, the watch draws five steps, doctor says the
    full widget, nothing leaves the machine, and the console is quiet.
    """
    with LabServer(tmp_path, app="notebook") as server:
        context = chromium.new_context(viewport={"width": 1200, "height": 1000})
        context.set_default_timeout(60_000)
        page = NotebookPage(context.new_page(), server.url)
        notebooks.write(server.notebooks / "n.ipynb", *CELLS)
        page.open("n.ipynb")
        for index in range(3):
            page.run_cell(index)
        page.assert_ran()
        explorer = page.page.locator(".fi-explorer").first
        explorer.get_by_role("searchbox").fill("relu")
        tree = explorer.get_by_role("treegrid")
        label = page.page.locator(".fi-label", has_text="relu*1:0")
        tree.get_by_role("row").filter(has=label).first.click()
        tree.focus()
        page.page.keyboard.press("Space")
        tree.locator('[role="checkbox"][data-state="armed"]').first.wait_for()
        watch = page.page.locator(".fi-watch")
        watch.locator(".fi-words", has_text="up to step 4").wait_for()
        watch.locator(".main-svg").first.wait_for()
        assert not page.page.locator(".fi-snapshot").first.is_visible()
        page.run_cell(3)
        said = page.output_text(3)
        assert "in JupyterLab 4 or Notebook 7: full widget" in said
        assert not said.rstrip().endswith(" 0")
        page.close()
        page.assert_quiet()
        context.close()
