"""The explorer shown again, by a newer session, without a kernel, and as a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import nbformat
from nbconvert import HTMLExporter

from tests.browser.explorer import Explorer
from tests.browser.lab import LabServer
from tests.browser.page import LabPage

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SETUP = """
%load_ext fi_notebook
import torch
import fi_notebook as fi
from tests import models

case = models.cnn(seed=1)
net, opt = case.model, case.optimizer
"""

EXPLORE = """%%fi_explore model=net optimizer=opt
loss = case.step()
loss
"""

ARM = """
fi_session.arm("relu*2:0", "bitflip", bit=27, elements={"index": 0})
run = fi_session.replay()
"""

_HEAP = "() => performance.memory.usedJSHeapSize"


def heap(lab: LabPage) -> float:
    """Bytes of the page's heap after a collection."""
    session = lab.page.context.new_cdp_session(lab.page)
    session.send("HeapProfiler.collectGarbage")
    session.detach()
    return float(lab.page.evaluate(_HEAP))


def drawn(lab: LabPage) -> Explorer:
    """The explorer, once its first figure is drawn."""
    explorer = Explorer(lab)
    explorer.tab("Tensor diff").locator(".fi-plot .main-svg").first.wait_for()
    return explorer


def test_shown_ten_times_it_keeps_the_heap_flat(
    show: Callable[..., LabPage], measured: Callable[..., None]
) -> None:
    """The display cell is run ten times, with figures each time: under 20 MB more."""
    lab = show(SETUP, EXPLORE, ARM, "fi_session.explore()")
    for index in range(4):
        lab.run_cell(index)
    lab.assert_ran()
    drawn(lab)
    before = heap(lab)
    for _ in range(10):
        lab.run_cell(3)
        drawn(lab)
    measured("heap after ten displays", (heap(lab) - before) / 1e6, "MB more", limit=20)


def test_traced_ten_times_it_keeps_the_heap_flat(
    show: Callable[..., LabPage], measured: Callable[..., None]
) -> None:
    """The cell that traces is run ten times, a new session each: under 20 MB more."""
    lab = show(SETUP, EXPLORE)
    for _ in range(2):
        lab.run_all()
        Explorer(lab)
    before = heap(lab)
    for _ in range(10):
        lab.run_cell(1)
        Explorer(lab)
    measured("heap after ten traces", (heap(lab) - before) / 1e6, "MB more", limit=20)


def test_views_agree_until_a_newer_session_supersedes_them(show: Callable[..., LabPage]) -> None:
    """Two views of one session show one plan, one selection and one result; when the step is
    traced anew both say that they are superseded, and take no more clicks.
    """
    lab = show(SETUP, EXPLORE, "fi_session.explore()", EXPLORE)
    for index in range(3):
        lab.run_cell(index)
    lab.assert_ran()
    first, second = Explorer(lab, 0), Explorer(lab, 1)
    first.choose("relu*2:0")
    second.pane("site").get_by_role("heading", name="relu*2:0").wait_for()
    second.arm("bitflip", [0, 0, 0, 0], bit=30)
    first.root.locator(".fi-fault", has_text="relu*2:0").wait_for()
    first.replay()
    outcome = first.outcome
    assert second.outcome == outcome
    assert second.tile("loss") == first.tile("loss")

    lab.run_cell(3)
    for view in (first, second):
        view.root.locator(".fi-state", has_text="superseded").wait_for()
        assert view.root.get_by_role("button", name="Replay").is_disabled()
        assert view.outcome == outcome  # what it showed stays
    newest = Explorer(lab, 2)
    assert newest.state == "ready"


def test_saved_it_tells_its_story_without_a_kernel(
    show: Callable[..., LabPage], server: LabServer, chromium: Browser
) -> None:
    """Clicked, replayed and saved, the notebook shows tree, plan, outcome and changed element
    through nbconvert, and in Lab without a kernel; the snapshot is under 200 KB.
    """
    lab = show(SETUP, EXPLORE)
    lab.run_cell(0)
    lab.run_cell(1)
    explorer = Explorer(lab)
    explorer.choose("relu*2:0")
    explorer.arm("bitflip", [0, 3, 0, 0], bit=30)
    explorer.replay()
    ((index, *_, bits),) = explorer.changed_elements()
    named = explorer.outcome.replace("_", " ")
    lab.wait_output(1, "bit for bit" if named == "masked exact" else named)
    lab.execute("docmanager:save")

    path = server.notebooks / lab.name
    notebook = nbformat.read(path, as_version=4)
    (html,) = snapshots(notebook)
    assert len(html.encode()) < 200_000
    story = ("Cnn", "conv1", "relu*2:0", "bitflip", "changed", index, *hexes(bits))
    assert [word for word in story if word not in html] == []
    page, _ = HTMLExporter().from_notebook_node(notebook)
    assert [word for word in story if word not in page] == []

    for output in notebook.cells[1].outputs:
        output.get("metadata", {}).pop("widgets", None)
    nbformat.write(notebook, path.with_name("reopened.ipynb"))
    context = chromium.new_context(viewport={"width": 1400, "height": 1000})
    reopened = LabPage(context.new_page(), server.url)
    reopened.open_without_kernel("reopened.ipynb")
    shown = reopened.page.locator(".jp-OutputArea .fi-snapshot")
    shown.wait_for()
    assert [word for word in story if word not in shown.inner_text()] == []
    reopened.close()
    context.close()


def snapshots(notebook: nbformat.NotebookNode) -> list[str]:
    """The static HTML beside each explorer of a saved notebook."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            html = "".join(output.get("data", {}).get("text/html", ""))
            found += [html] * ("fi-snapshot" in html)
    return found


def hexes(bits: str) -> list[str]:
    """The two words of a cell of bits."""
    return [word for word in bits.split() if word.startswith("0x")]
