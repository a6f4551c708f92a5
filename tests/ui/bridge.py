"""The real widget, the real page and a real Chromium, without Jupyter in between.

    with bridged(browser) as bridge:
        explorer = Explorer(session)
        bridge.show(explorer)
        bridge.page.get_by_role("button", name="Replay").click()

`comm.create_comm` gives comms whose messages wait in a queue; the page fetches them
through one binding and sends its own through another, while the test waits in any of
playwright's calls. Changes of the widget's state go the same way, in both directions.
Every console error is kept in ``bridge.errors``.
"""

from __future__ import annotations

import base64
import json
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from comm.base_comm import BaseComm

from fi_notebook.ui.plotly_source import plotly_source

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

__all__ = ["Bridge", "bridged", "comms"]

_PAGE = """<!doctype html><meta charset="utf-8"><style id="theme"></style><style id="css"></style>
<body style="margin:0;padding:8px"><div id="place"></div></body>"""

_START = """async ([state, css, plotly]) => {
  document.querySelector('#css').textContent = css;
  const heard = {};
  const tell = (event, ...what) => (heard[event] ?? []).forEach((hear) => hear(...what));
  const bytes = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const shared = { get: () => bytes(plotly) };
  const set = {};
  const model = {
    get: (name) => state[name], off() {},
    on: (events, hear) => events.split(' ').forEach((event) => (heard[event] ??= []).push(hear)),
    set: (name, value) => { state[name] = set[name] = value; },
    save_changes: () => window.fiSend(JSON.stringify({ set })),
    send: (content) => window.fiSend(JSON.stringify(content)),
    widget_manager: { get_model: async (id) => id === state._plotly ? shared : model },
  };
  const pull = async () => {
    for (const [content, buffers] of await window.fiPull()) {
      if (content.update) {
        Object.assign(state, content.update);
        Object.keys(content.update).forEach((name) => tell(`change:${name}`));
      } else tell('msg:custom', content, buffers.map(bytes));
    }
    setTimeout(pull, 5);
  };
  const url = URL.createObjectURL(new Blob([state._esm], { type: 'text/javascript' }));
  const widget = (await import(url)).default;
  window.fiModel = heard;
  window.fiShow = (place) => widget.render({ model, el: place });
  await widget.initialize?.({ model });
  await window.fiShow(document.querySelector('#place'));
  pull();
}"""


class _Comm(BaseComm):
    """A comm whose messages wait for the page."""

    waiting: queue.Queue[tuple[Any, list[str]]]

    def publish_msg(
        self,
        msg_type: str,
        data: Any = None,
        metadata: Any = None,
        buffers: Any = None,
        **keys: Any,
    ) -> None:
        """Keep custom messages and changes of the state, in order."""
        if msg_type == "comm_msg" and data.get("method") == "custom":
            encoded = [base64.b64encode(bytes(each)).decode() for each in buffers or []]
            self.waiting.put((data["content"], encoded))
        elif msg_type == "comm_msg" and data.get("method") == "update":
            self.waiting.put(({"update": data["state"]}, []))


class Bridge:
    """One page that shows one widget."""

    def __init__(self, page: Page, waiting: queue.Queue[tuple[Any, list[str]]]) -> None:
        """Listen to the page."""
        self.page = page
        self.errors: list[str] = []
        self.sent: list[dict[str, Any]] = []
        self.received: list[tuple[Any, int]] = []
        self._waiting = waiting
        self._lose = 0
        self._widget: Any = None
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._said)
        page.expose_binding("fiPull", self._pull)
        page.expose_binding("fiSend", self._send)

    def show(self, widget: Any) -> None:
        """Show a widget in the page."""
        self._widget = widget
        state = {name: value for name, value in widget.get_state().items() if name != "layout"}
        source = base64.b64encode(plotly_source()._deflated).decode()
        self.page.set_content(_PAGE)
        self.page.evaluate(_START, [state, state.pop("_css"), source])

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def _pull(self, source: Any) -> list[tuple[Any, list[str]]]:
        found = []
        while not self._waiting.empty():
            message = self._waiting.get()
            if self._lose:
                self._lose -= 1
            else:
                found.append(message)
        self.received += [(content, sum(map(len, buffers))) for content, buffers in found]
        return found

    def _send(self, source: Any, text: str) -> None:
        content = json.loads(text)
        self.sent.append(content)
        data = {"method": "custom", "content": content}
        if "set" in content:
            data = {"method": "update", "state": content["set"], "buffer_paths": []}
        self._widget.comm.handle_msg({"content": {"data": data}, "buffers": []})

    def lose_next(self) -> None:
        """Lose the next message to the page, as a full connection does."""
        self._lose += 1

    def picture(self, path: Path | str) -> None:
        """Keep a screenshot."""
        self.page.screenshot(path=path)


@contextmanager
def comms() -> Iterator[queue.Queue[tuple[Any, list[str]]]]:
    """Comms whose custom messages wait in a queue, without any page."""
    waiting: queue.Queue[tuple[Any, list[str]]] = queue.Queue()

    def create(**arguments: Any) -> _Comm:
        made = _Comm(**arguments)
        made.waiting = waiting
        return made

    with mock.patch("comm.create_comm", create):
        yield waiting


@contextmanager
def bridged(
    browser: Browser, width: int = 1400, height: int = 760, *, dark: bool = False
) -> Iterator[Bridge]:
    """A page and comms that lead to it; both end with the block."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
    )
    context.set_default_timeout(10_000)
    with comms() as waiting:
        yield Bridge(context.new_page(), waiting)
    context.close()
