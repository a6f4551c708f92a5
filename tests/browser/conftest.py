"""One JupyterLab and one page for all browser tests; each test opens its own notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.lab import LabServer
from tests.browser.measured import TIMES, Measured, lines, slowness
from tests.browser.page import LabPage
from tests.tools import notebooks

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ViewportSize

_TIMEOUT_MS = 60_000
_NUMBERS = pytest.StashKey[list[Measured]]()
_VIEWPORT: ViewportSize = {"width": 1400, "height": 1000}


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A JupyterLab of our own."""
    with LabServer(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture(scope="session")
def lab_page(server: LabServer, chromium: Browser) -> Iterator[LabPage]:
    """The page that every test uses in turn."""
    context = chromium.new_context(viewport=_VIEWPORT, reduced_motion="reduce")
    context.set_default_timeout(_TIMEOUT_MS)
    yield LabPage(context.new_page(), server.url)
    context.close()


@pytest.fixture
def lab(lab_page: LabPage, request: pytest.FixtureRequest) -> Iterator[LabPage]:
    """The page; afterwards nothing may have left the machine, and no console error be shown.

    A picture of a failed test's page is kept in ``test-results/``.
    """
    yield lab_page
    failed = getattr(request.node, "failed", False)
    if failed:
        folder = Path(str(request.config.rootpath)) / "test-results"
        folder.mkdir(exist_ok=True)
        lab_page.page.screenshot(path=folder / f"{request.node.name}.png")
    lab_page.close()
    lab_page.assert_quiet()


@pytest.fixture
def show(server: LabServer, lab: LabPage, request: pytest.FixtureRequest) -> Callable[..., LabPage]:
    """Writes the given cells as a notebook and opens it, in the warm kernel or in a new one."""

    def open_notebook(*cells: Any, fresh: bool = False) -> LabPage:
        path = notebooks.write(server.notebooks / f"{request.node.name}.ipynb", *cells)
        lab.open(path.name, warm=not fresh)
        return lab

    return open_notebook


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Keeps a number for the table after the run, and fails where it reaches its limit."""
    numbers = request.config.stash.setdefault(_NUMBERS, [])

    def keep(what: str, value: float, unit: str, limit: float | None = None) -> None:
        slowed = slowness() if limit is not None and unit in TIMES and value >= limit else 1.0
        number = Measured(request.node.name, what, value, unit, limit, slowed)
        numbers.append(number)
        assert number.kept, f"{what}: {value:.4g} {unit}, limit {limit:g} × {slowed:.1f}"

    return keep


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print what was measured."""
    numbers = config.stash.get(_NUMBERS, [])
    if numbers:
        terminalreporter.section("numbers of the explorer")
        for line in lines(numbers):
            terminalreporter.write_line(line)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Remember on the test itself that it failed, for the picture."""
    report = yield
    item.failed = getattr(item, "failed", False) or report.failed  # type: ignore[attr-defined]
    return report
