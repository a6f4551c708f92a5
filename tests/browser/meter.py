"""Times and bytes as the page has them, by its own clock.

opened = meter.run_until(lab, 1, ".fi-row")     run cell 1; when is the first row there?
opened["shown"], opened["after"]                ms from the start and from the cell's end
opened["bytes"], opened["messages"]             what the kernel sent on comms meanwhile

meter.painted(explorer.root, script)            ms from an action to the frame that shows it
meter.scrolled(explorer.tree)                   ms between frames while it scrolls
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.browser.page import LabPage

if TYPE_CHECKING:
    from playwright.sync_api import Locator

__all__ = ["listen", "painted", "received", "run_until", "scrolled"]

_LISTEN = """() => {
  const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
  const heard = window.fiHeard = { bytes: 0, times: [] };
  const hear = (_, { msg, direction }) => {
    if (direction !== 'recv' || !msg.header.msg_type.startsWith('comm_')) return;
    const size = (buffer) => buffer.byteLength ?? buffer.length ?? 0;
    heard.bytes += JSON.stringify(msg.content).length;
    heard.bytes += (msg.buffers ?? []).reduce((sum, buffer) => sum + size(buffer), 0);
    heard.times.push(Date.parse(msg.header.date));
  };
  kernel.anyMessage.connect(hear);
  window.fiUnheard = () => kernel.anyMessage.disconnect(hear);
}"""

_RECEIVED = "() => { window.fiUnheard(); return window.fiHeard; }"

_RUN_UNTIL = """async ([index, selector]) => {
  const panel = window.jupyterapp.shell.currentWidget;
  panel.content.activeCellIndex = index;
  panel.content.deselectAll();
  const begun = performance.now();
  const shown = new Promise((done) => {
    const look = () => (panel.node.querySelector(selector)
      ? requestAnimationFrame(() => done(performance.now())) : setTimeout(look, 5));
    look();
  });
  const run = window.jupyterapp.commands.execute('notebook:run-cell');
  const ended = await run.then(() => performance.now());
  const there = await shown;
  return { shown: there - begun, after: there - ended };
}"""

_PAINTED = """async (root, action) => {
  const begun = performance.now();
  (new Function('root', action))(root);
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now() - begun;
}"""

_SCROLLED = """async (grid) => {
  const times = [];
  const frame = () => new Promise(requestAnimationFrame);
  let last = await frame();
  for (let n = 0; n < 120; n += 1) {
    grid.scrollTop += n < 60 ? 700 : 4700;
    const now = await frame();
    times.push(now - last);
    last = now;
  }
  return times.sort((a, b) => a - b);
}"""


def listen(lab: LabPage) -> None:
    """Count what the kernel sends on comms from now on."""
    lab.page.evaluate(_LISTEN)


def received(lab: LabPage) -> dict[str, Any]:
    """Bytes since `listen`, and the kernel's time of each message in ms; counting ends."""
    heard: dict[str, Any] = lab.page.evaluate(_RECEIVED)
    return heard


def run_until(lab: LabPage, index: int, selector: str) -> dict[str, float]:
    """Run a cell; ms until an element is shown, from the start and from the cell's end."""
    listen(lab)
    times: dict[str, float] = lab.page.evaluate(_RUN_UNTIL, [index, selector])
    heard = received(lab)
    return times | {"bytes": heard["bytes"], "messages": len(heard["times"])}


def painted(root: Locator, action: str, times: int = 1) -> float:
    """The least ms of a few, from an action (JavaScript on ``root``) to the frame after it.

    The frame that shows a change and the one after it are waited for, so that 17 to 33 ms
    of each number are the screen's own.
    """
    return min(float(root.evaluate(_PAINTED, action)) for _ in range(times))


def scrolled(grid: Locator, times: int = 3) -> float:
    """The 95th percentile of the ms between frames while the tree scrolls; the best of a few."""
    rounds = [grid.evaluate(_SCROLLED) for _ in range(times)]
    return min(float(each[int(len(each) * 0.95)]) for each in rounds)
