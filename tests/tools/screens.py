"""Pictures of the explorer in every state, light and dark, 600 to 1600 px, to be looked at.

    python -m tests.tools.screens test-results/screens            all of them
    python -m tests.tools.screens test-results/screens wrong      one state
    python -m tests.tools.screens test-results/screens --width 400 --theme dark

Writes ``STATE-WIDTH-THEME.png``. The page is the real one in the tests' browser, joined to a
real session by the bridge of ``tests/ui``; only the notebook around it is a stand-in.

Limits: nothing is judged here; that is for a person.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import Page, sync_playwright
from torch import nn

from fi_notebook.session import Session
from fi_notebook.ui.explorer import Explorer
from tests import models
from tests.tools import chromium
from tests.ui.bridge import bridged

__all__ = ["STATES", "take"]

WIDTHS = (600, 1000, 1600)
_TIMEOUT_MS = 60_000

_NOTEBOOK = """(text) => {
  const place = document.querySelector('#place');
  const cell = document.createElement('div');
  cell.className = 'jp-CodeCell';
  cell.hidden = true;
  cell.innerHTML = '<div class="jp-InputPrompt">[2]:</div>'
    + '<div class="jp-InputArea-editor"><div class="cm-content"></div></div>';
  const line = document.createElement('div');
  line.className = 'cm-line';
  line.textContent = text;
  cell.querySelector('.cm-content').append(line);
  document.body.className = 'jp-Notebook';
  document.body.append(cell);
}"""


def _session(*, traced: bool = True) -> Session:
    case = models.cnn(seed=3)
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    if traced:
        session.trace()
    return session


def _not_finite() -> Session:
    net = nn.Linear(4, 4)

    def step() -> torch.Tensor:
        loss = (torch.log(net(torch.zeros(2, 4)).relu() * 0) * 0).sum()
        loss.backward()
        return loss

    session = Session(step, model=net)
    session.trace()
    return session


def _inference(*, returns: bool) -> Session:
    case = models.cnn(seed=3)
    case.model.eval()

    def step() -> torch.Tensor | None:
        with torch.no_grad():
            scores = case.model(case.x)
        return scores if returns else None

    session = Session(step, model=case.model)
    session.trace()
    return session


def _armed(session: Session) -> None:
    session.arm("relu*2:0", "bitflip", elements={"index": [0, 3, 1, 1]}, bit=27)
    session.arm("addmm*1:0", "scale", factor=1.5, steps="0-2")


def _empty(page: Page, explorer: Explorer) -> None:
    """Nothing was traced."""


def _tracing(page: Page, explorer: Explorer) -> None:
    """The step runs for the first time."""
    progress = {"done": 0.4, "total": 1, "text": "golden step 1 of 1, backward, 3 s left"}
    explorer.announce("tracing", progress=progress)
    page.locator(".fi-state[data-state=busy]").wait_for()


def _ready(page: Page, explorer: Explorer) -> None:
    """A site is chosen, nothing is armed."""
    _choose(page, "relu*2:0")


def _arm(page: Page, explorer: Explorer) -> None:
    """Two faults are armed."""
    _armed(explorer.session)
    _choose(page, "relu*2:0")
    page.locator(".fi-fault").nth(1).wait_for(state="attached")


def _wrong(page: Page, explorer: Explorer) -> None:
    """What was typed into the form cannot be."""
    _choose(page, "relu*2:0")
    page.get_by_label("elements").select_option("index")
    page.get_by_label("index of the element").fill("0, 3")
    page.get_by_label("seed").fill("abc")
    page.locator(".fi-wrong", has_text="'abc'").wait_for(state="attached")
    page.get_by_label("seed").scroll_into_view_if_needed()


def _replaying(page: Page, explorer: Explorer) -> None:
    """A long replay is under way."""
    _armed(explorer.session)
    page.locator(".fi-foot").get_by_label("steps", exact=True).fill("5000")
    page.get_by_role("button", name="Replay", exact=True).click()
    page.locator(".fi-state[data-state=busy]", has_text="step").wait_for()
    _tab(page, "Training")
    page.locator(".fi-plot .main-svg").first.wait_for()


def _result(tab: str) -> Callable[[Page, Explorer], None]:
    def shown(page: Page, explorer: Explorer) -> None:
        """A replay was made."""
        _armed(explorer.session)
        explorer.session.replay(steps=8 if tab == "Training" else 1)
        page.locator(".fi-verdict").wait_for()
        _tab(page, tab)
        if tab != "Log":
            page.locator(".fi-plot .main-svg").first.wait_for()

    return shown


def _weight(page: Page, explorer: Explorer) -> None:
    """A weight was struck in inference."""
    explorer.session.arm("param:fc.weight", "bitflip", elements={"index": [3, 5]}, bit=28)
    explorer.session.replay()
    page.locator(".fi-verdict").wait_for()
    _tab(page, "Propagation")
    page.locator(".fi-plot .main-svg").first.wait_for()


def _alert(page: Page, explorer: Explorer) -> None:
    """The golden run itself is not finite."""
    page.get_by_role("button", name="not finite").click()
    page.locator(".fi-title", has_text="log*1:0").wait_for(state="attached")


def _error(page: Page, explorer: Explorer) -> None:
    """A request came to nothing."""
    page.locator(".fi-search").fill("re:(")
    explorer.fail(RuntimeError("CUDA error: an illegal memory access was encountered"))
    page.get_by_role("button", name="why").click()
    page.locator(".fi-entry").first.wait_for()


def _stale(page: Page, explorer: Explorer) -> None:
    """A cell of the trace was edited."""
    page.evaluate(_NOTEBOOK, "def step(): pass  # edited")
    explorer.session.replay()
    page.locator(".fi-state", has_text="stale").wait_for()


def _gone(page: Page, explorer: Explorer) -> None:
    """The kernel was restarted."""
    _result("Tensor diff")(page, explorer)
    page.evaluate("() => window.fiModel.comm_live_update.forEach((hear) => hear())")
    page.locator(".fi-state", has_text="kernel is gone").wait_for()


def _choose(page: Page, site: str) -> None:
    page.get_by_role("button", name="Operators").click()
    page.locator(".fi-search").fill(f"op:{site.partition('*')[0]}")
    page.locator(".fi-row", has_text=site).click()
    page.locator(".fi-title", has_text=site).wait_for(state="attached")
    alone = not page.locator(".fi-search").is_visible()
    if alone:
        page.get_by_role("button", name="tree", exact=True).click()
    page.locator(".fi-search").fill("")
    if alone:
        page.get_by_role("button", name="site", exact=True).click()


def _tab(page: Page, name: str) -> None:
    if not page.locator('[data-name="result"]').is_visible():
        page.get_by_role("button", name="result", exact=True).click()
    page.get_by_role("tab", name=name).click()


STATES: dict[str, tuple[Callable[[], Session], Callable[[Page, Explorer], None]]] = {
    "empty": (lambda: _session(traced=False), _empty),
    "tracing": (lambda: _session(traced=False), _tracing),
    "ready": (_session, _ready),
    "armed": (_session, _arm),
    "wrong": (_session, _wrong),
    "replaying": (_session, _replaying),
    "result-diff": (_session, _result("Tensor diff")),
    "result-propagation": (_session, _result("Propagation")),
    "result-training": (_session, _result("Training")),
    "result-log": (_session, _result("Log")),
    "inference": (lambda: _inference(returns=True), _weight),
    "no-result": (lambda: _inference(returns=False), _weight),
    "not-finite": (_not_finite, _alert),
    "error": (_session, _error),
    "stale": (_session, _stale),
    "kernel-gone": (_session, _gone),
}
"""Every state: what makes the session, and what leads to the state."""


def take(browser: Any, folder: Path, state: str, width: int, *, dark: bool) -> Path:
    """Take one picture; gives its file."""
    make, lead = STATES[state]
    path = folder / f"{state}-{width}-{'dark' if dark else 'light'}.png"
    with bridged(browser, width=width, height=700, dark=dark) as bridge:
        bridge.page.set_default_timeout(_TIMEOUT_MS)
        explorer = Explorer(make())
        if state == "stale":
            _pretend_cells(explorer.session)
        bridge.show(explorer)
        bridge.page.locator(".fi-row, .fi-empty").first.wait_for(state="attached")
        lead(bridge.page, explorer)
        bridge.page.wait_for_timeout(400)  # figures fade in
        bridge.picture(path)
        explorer.session.cancel()
        explorer.executor.wait(20)
        explorer.close()
    return path


def _pretend_cells(session: Session) -> None:
    """Call the file of the step a notebook's cell."""
    golden = session.golden
    assert golden is not None
    golden.tables.sources["In [2]"] = "def step(): pass"  # type: ignore[index]  # a picture's


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.screens", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, help="where the pictures go; is made")
    parser.add_argument("states", nargs="*", metavar="state", help=f"of {', '.join(STATES)}; all")
    parser.add_argument("--width", type=int, nargs="+", default=WIDTHS, help="in pixels")
    parser.add_argument("--theme", choices=("light", "dark"), help="both, if not given")
    asked = parser.parse_args(arguments)
    if unknown := sorted(set(asked.states) - set(STATES)):
        parser.error(f"no state {', '.join(unknown)}; expected of {', '.join(STATES)}")
    return asked


def main() -> None:
    """Take the pictures."""
    asked = parsed()
    asked.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.find(), chromium_sandbox=False
        )
        for state in asked.states or STATES:
            for width in asked.width:
                for theme in [asked.theme] if asked.theme else ["light", "dark"]:
                    dark = theme == "dark"
                    print(take(browser, asked.folder, state, width, dark=dark), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
