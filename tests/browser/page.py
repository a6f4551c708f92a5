"""One browser page on JupyterLab, driven through Lab's own commands and models.

    lab.open("n.ipynb")
    lab.run_all()
    lab.output_text(0)                 # read from the notebook's model, not from the DOM
    lab.explorer().get_by_role("treegrid").wait_for()

Everything that leaves the machine is blocked and remembered, so is every console
error; `assert_quiet` fails on either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.tools import notebooks

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Locator, Page, Route

__all__ = ["LabPage"]

_LOCAL = {"127.0.0.1", "localhost"}
_LOCAL_SCHEMES = {"data", "blob", "about"}

_NOISE = (
    "Failed to load resource",  # a 404 of Lab's own for a setting that nobody has made
    "WebSocket is closed before the connection is established",  # a page that is closing
    "Could not restore the debugger state",  # the kernel went while Lab was asking it,
    "Canceled future for",  # as here
    "Cannot send",  # and here
)
"""Errors of Lab itself that say nothing of us, in the console or as a rejected promise."""

_READY = """(name) => {
  const panel = window.jupyterapp.shell.currentWidget;
  const { context, sessionContext } = panel ?? {};
  return context?.path === name && context.isReady && sessionContext.isReady
    && sessionContext.session?.kernel?.status === 'idle';
}"""

_CELLS = "() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells"

_OPEN = """async ([path, kernel]) => {
  await window.jupyterapp.restored;
  const chosen = kernel ? { kernel: { id: kernel, name: 'python3' } } : {};
  const opened = { path, factory: 'Notebook', ...chosen };
  await window.jupyterapp.commands.execute('docmanager:open', opened);
}"""

_WARM = """async () => {
  await window.jupyterapp.restored;
  const { kernels } = window.jupyterapp.serviceManager;
  const ours = { handleComms: false };  // the comms are the notebook's
  window.fiKernel ??= await kernels.startNew({ name: 'python3' }, ours);
  return window.fiKernel.id;
}"""

_ASK = """async (code) => {
  const { content } = await window.fiKernel.requestExecute({ code }).done;
  if (content.status !== 'ok') throw new Error(content.traceback?.join('\\n') ?? content.status);
}"""

_CLOSE = """async (kept) => {
  const panel = window.jupyterapp.shell.currentWidget;
  if (!kept) await panel.sessionContext.shutdown();
  panel.context.model.dirty = false;
  panel.dispose();
}"""

_PREPARE = "import torch, anywidget, fi_notebook.session, fi_notebook.ui.explorer, tests.models"

_CLEAN = """
import ipywidgets
ipywidgets.Widget.close_all()
get_ipython().run_line_magic("reset", "-f")
"""

_RUN_CELL = """async (index) => {
  const panel = window.jupyterapp.shell.currentWidget;
  panel.content.activeCellIndex = index;
  panel.content.deselectAll();
  await window.jupyterapp.commands.execute('notebook:run-cell');
}"""


class LabPage:
    """A page that shows JupyterLab."""

    def __init__(self, page: Page, url: str) -> None:
        """Watch the page; Lab is loaded when a notebook is first opened."""
        self.page = page
        self.url = url
        self.foreign: list[str] = []
        self.console_errors: list[str] = []
        self.name = ""
        self._kernel = ""  # one that tests use in turn, where it has been started
        self._kept = False
        page.route("**/*", self._route)
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self._on_error(str(error)))

    def _route(self, route: Route) -> None:
        address = urlsplit(route.request.url)
        if address.scheme in _LOCAL_SCHEMES or address.hostname in _LOCAL:
            route.continue_()
        else:
            self.foreign.append(route.request.url)
            route.abort()

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._on_error(message.text)

    def _on_error(self, text: str) -> None:
        if not any(noise in text for noise in _NOISE):
            self.console_errors.append(text)

    def open(self, name: str, *, warm: bool = False) -> None:
        """Open a notebook of the server's folder and wait for its idle kernel.

        Args:
            name: The notebook.
            warm: Use the kernel that has torch and this package imported already; its
                names and widgets are those of this notebook alone.
        """
        self.load()
        if warm and not self._kernel:
            self._kernel = self.page.evaluate(_WARM)
            self.page.evaluate(_ASK, _PREPARE)
        self.page.evaluate(_OPEN, [name, self._kernel if warm else ""])
        self.name = name
        self._kept = warm
        self.wait_idle(name)

    def open_without_kernel(self, name: str) -> None:
        """Open a notebook as a person does who has no kernel for it."""
        self.load()
        self.page.evaluate(_OPEN, [name, ""])
        self.name, self._kept = name, True

    def load(self) -> None:
        """Load Lab itself, at the first call."""
        if not self.page.url.startswith(self.url):
            self.page.goto(f"{self.url}/lab?reset")
            self.page.wait_for_function("() => window.jupyterapp?.shell")

    def wait_idle(self, name: str) -> None:
        """Wait until the notebook is shown and its kernel is idle."""
        self.page.wait_for_function(_READY, arg=name)

    def close(self) -> None:
        """Close the notebook without saving; its kernel ends, or is cleaned for the next."""
        if not self.name:
            return
        if self._kept and self._kernel:
            self.wait_idle(self.name)
            self.page.evaluate(_ASK, _CLEAN)
        self.page.evaluate(_CLOSE, self._kept)
        self.name = ""

    def execute(self, command: str, arguments: dict[str, Any] | None = None) -> None:
        """Execute one of Lab's commands and wait for it."""
        self.page.evaluate(
            "async ([id, args]) => { await window.jupyterapp.commands.execute(id, args); }",
            [command, arguments or {}],
        )

    def run_all(self) -> None:
        """Run every cell and wait for the last."""
        self.execute("notebook:run-all-cells")

    def run_cell(self, index: int) -> None:
        """Run one cell, counted from 0, and wait for it."""
        self.page.evaluate(_RUN_CELL, index)

    def start_cell(self, index: int) -> None:
        """Run one cell, counted from 0, without waiting for it: `finish_cell` does."""
        self.page.evaluate(f"(index) => {{ window.fiCell = ({_RUN_CELL})(index); }}", index)

    def finish_cell(self) -> None:
        """Wait until the cell that `start_cell` ran has ended and its outputs are in the model."""
        self.page.evaluate("async () => { await window.fiCell; }")

    def wait_output(self, index: int, text: str) -> None:
        """Wait until a cell's outputs hold the text."""
        holds = f"([i, text]) => JSON.stringify(({_CELLS})()[i].outputs).includes(text)"
        self.page.wait_for_function(holds, arg=[index, text])

    @property
    def cells(self) -> list[Any]:
        """The cells of the shown notebook with their outputs, from its model."""
        found: list[Any] = self.page.evaluate(_CELLS)
        return found

    def find_cell(self, start: str) -> int:
        """Number of the first cell whose source begins so."""
        sources = ["".join(cell["source"]) for cell in self.cells]
        return next(i for i, source in enumerate(sources) if source.startswith(start))

    def output_text(self, index: int) -> str:
        """What a cell printed or showed as plain text."""
        return notebooks.text(self.cells[index])

    def errors(self, index: int) -> list[str]:
        """Tracebacks of one cell."""
        return notebooks.errors([self.cells[index]])

    def assert_ran(self) -> None:
        """Fail with the traceback where a cell raised."""
        raised = notebooks.errors(self.cells)
        assert not raised, "\n\n".join(raised)

    def explorer(self, number: int = -1) -> Locator:
        """An explorer in the shown notebook, the last by default; scope every selector to it."""
        found = self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .fi-explorer")
        return found.last if number < 0 else found.nth(number)

    def assert_quiet(self) -> None:
        """Fail where something left the machine or the console shows an error; forget both."""
        foreign, errors = self.foreign[:], self.console_errors[:]
        self.foreign.clear()
        self.console_errors.clear()
        assert not foreign, f"requests that left the machine: {foreign}"
        assert not errors, f"console errors: {errors}"
