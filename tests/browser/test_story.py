"""The main story in a real JupyterLab: trace, click, strike, and see what it did."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from fi_notebook import Injector
from tests.browser.explorer import Explorer
from tests.browser.lab import LabServer
from tests.browser.page import LabPage
from tests.browser.plain import PlainRun, PlainStep
from tests.tools.offline import opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

QUICKSTART = Path(__file__).parents[2] / "notebooks" / "01_quickstart.ipynb"
BIT = 27
SITE = "relu*2:0"


@pytest.fixture
def quickstart(server: LabServer, lab: LabPage) -> Iterator[LabPage]:
    """The quickstart in Lab, run up to the explorer."""
    shutil.copy(QUICKSTART, server.notebooks)
    lab.open(QUICKSTART.name, warm=True)
    explore = lab.find_cell("%%fi_explore")
    for index in range(explore + 1):
        lab.run_cell(index)
    lab.assert_ran()
    yield lab
    (server.notebooks / "injector.json").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def plain() -> PlainStep:
    """The same step by plain PyTorch."""
    return PlainStep(QUICKSTART)


@pytest.fixture
def golden(plain: PlainStep) -> PlainRun:
    """The step without a fault."""
    return plain.run()


@pytest.fixture
def element(golden: PlainRun) -> tuple[int, ...]:
    """The largest element of the second relu's output."""
    place = torch.unravel_index(golden.struck.argmax(), golden.struck.shape)
    return tuple(int(axis) for axis in place)


def test_the_numbers_shown_are_those_of_plain_pytorch(
    quickstart: LabPage, plain: PlainStep, golden: PlainRun, element: tuple[int, ...]
) -> None:
    """A bit flip clicked at the second relu shows before, after, bits, loss and gradient
    norm as an independent eager computation has them, and so does a second replay.
    """
    faulty = plain.run(flip=(element, BIT))
    explorer = Explorer(quickstart)
    explorer.choose(SITE)
    explorer.arm("bitflip", element, bit=BIT)
    for _ in range(2):
        explorer.replay()
        ((index, before, after, bits),) = explorer.changed_elements()
        assert index == str(list(element))
        assert before == golden.struck[element].item()
        assert after == faulty.struck[element].item()
        assert bits.startswith(f"{_hex(golden, element)} → {_hex(faulty, element)}")
        assert "bit 27 (exponent)" in bits
        assert explorer.tile("loss") == (golden.loss, faulty.loss)
        norms = (golden.gradient_norm, faulty.gradient_norm)
        assert explorer.tile("gradient norm") == pytest.approx(norms, rel=1e-6)
        assert explorer.outcome == "changed"


def test_what_was_clicked_strikes_headless(
    quickstart: LabPage,
    server: LabServer,
    plain: PlainStep,
    element: tuple[int, ...],
) -> None:
    """The saved ``injector.json`` strikes the same bits through Injector: the step's loss
    and every weight after it equal the plain faulty run's bit for bit.
    """
    explorer = Explorer(quickstart)
    explorer.choose(SITE, view="Modules")
    explorer.arm("bitflip", element, bit=BIT)
    explorer.press("Save injector.json")
    explorer.root.locator(".fi-state", has_text="saved injector.json").wait_for()
    path = server.notebooks / "injector.json"
    assert json.loads(path.read_text("utf-8"))

    names = plain.prepare()
    with Injector(path, model=names["net"]) as injector:
        exec(plain.step, names)
    (injection,) = injector.injections
    assert str(injection.site) == SITE
    faulty = plain.run(flip=(element, BIT))
    assert names["loss"].item() == faulty.loss
    weights = torch.cat([p.detach().flatten() for p in names["net"].parameters()])
    assert torch.equal(weights, faulty.weights)


def test_the_result_is_drawn_in_every_tab(quickstart: LabPage, element: tuple[int, ...]) -> None:
    """After a replay each tab has its figure, drawn by plotly, and its text."""
    explorer = Explorer(quickstart)
    explorer.choose(SITE, view="Source lines")
    explorer.arm("bitflip", element, bit=BIT)
    explorer.replay()
    for tab, words in (
        ("Tensor diff", "1 element of 65"),
        ("Propagation", f"first: {SITE}"),
        ("Training", "golden → faulty"),
    ):
        panel = explorer.tab(tab)
        panel.locator(".fi-plot .main-svg").first.wait_for()
        assert words in panel.inner_text() or tab == "Training"


def test_the_report_opens_offline_and_is_searched(
    quickstart: LabPage,
    server: LabServer,
    chromium: Browser,
    element: tuple[int, ...],
    measured: Callable[..., None],
) -> None:
    """Saved from the footer: one file under 6 MB that shows the same tree, outcome, numbers and
    figures without a kernel or a network, and finds what is searched.
    """
    explorer = Explorer(quickstart)
    explorer.choose(SITE, view="Modules")
    explorer.arm("bitflip", element, bit=BIT)
    explorer.replay()
    changed = explorer.changed_elements()
    explorer.view("Operators")
    explorer.search("op:*relu*")
    rows = explorer.tree.locator(".fi-label").all_text_contents()
    explorer.press("Save report")
    explorer.root.locator(".fi-state", has_text="saved fi-report.html").wait_for()
    path = server.notebooks / "fi-report.html"
    measured("report of the quickstart", path.stat().st_size / 1e6, "MB", limit=6)
    with opened(chromium, path) as page:
        report = Explorer.of(page.locator(".fi-explorer"))
        assert report.outcome == explorer.outcome
        assert report.tile("loss") == explorer.tile("loss")
        assert report.changed_elements() == changed
        report.tab("Training").locator(".fi-plot .main-svg").first.wait_for()
        report.view("Operators")
        report.search("op:*relu*")
        report.settle()
        assert report.found == explorer.found
        assert report.tree.locator(".fi-label").all_text_contents() == rows
    path.unlink()


def test_the_rest_of_the_quickstart_runs(quickstart: LabPage) -> None:
    """Every later cell runs: the Python lines, the saved plan and the training loop; the
    figures between are drawn by the extension that plotly's own package brings to Lab.
    """
    quickstart.run_all()
    quickstart.assert_ran()
    figures = quickstart.page.locator(".jp-RenderedPlotly .main-svg")
    figures.first.wait_for()


def _hex(run: PlainRun, element: tuple[int, ...]) -> str:
    bits = int(run.struck[element].view(torch.int32)) & 0xFFFFFFFF
    return f"0x{bits:08x}"
