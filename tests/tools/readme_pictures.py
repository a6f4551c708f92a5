"""The pictures of the README: the quickstart in the explorer, as a person has it.

    python -m tests.tools.readme_pictures docs/images

Runs the quickstart's cells in an IPython shell of its own, so that the lines are those of
the notebook, clicks what its text says, and keeps three pictures.

Limits: the notebook around the explorer is not in them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell
from playwright.sync_api import sync_playwright

from fi_notebook.core.files import path_argument
from fi_notebook.ui.explorer import Explorer
from tests.tools import chromium, notebooks
from tests.ui.bridge import bridged

if TYPE_CHECKING:
    from playwright.sync_api import Page

QUICKSTART = Path(__file__).parents[2] / "notebooks" / "01_quickstart.ipynb"
SITE = "relu*2:0"
BIT = 27
SIZE = {"width": 1440, "height": 860}


def quickstart() -> Any:
    """The quickstart's session, traced."""
    shell = InteractiveShell.instance()
    for cell in notebooks.read(QUICKSTART).cells:
        if cell.cell_type != "code":
            continue
        shell.run_cell(cell.source, store_history=True).raise_error()
        if "fi_session" in shell.user_ns:
            return shell.user_ns["fi_session"]
    raise LookupError(f"{QUICKSTART.name} explores no cell")


def strike(page: Page, session: Any) -> None:
    """Arm the bit flip at the largest element of the second relu, and replay."""
    struck = session.golden.value(SITE)
    element = [int(axis) for axis in (struck == struck.max()).nonzero()[0]]
    page.get_by_role("button", name="Operators", exact=True).click()
    page.locator(".fi-search").fill("op:relu")
    page.locator(".fi-row", has_text=SITE).click()
    page.locator(".fi-title", has_text=SITE).wait_for()
    form = page.get_by_role("form", name="fault")
    form.get_by_label("elements").select_option("index")
    form.get_by_label("index of the element").fill(", ".join(map(str, element)))
    page.locator(f'[data-bit="{BIT}"]').click()
    page.get_by_role("button", name="Arm at ").click()
    page.locator(".fi-fault").wait_for(state="attached")
    page.locator(".fi-search").fill("")
    page.get_by_role("button", name="Modules", exact=True).click()


def replay(page: Page, steps: int, tab: str) -> None:
    """Replay some steps and show a tab of the result."""
    page.locator(".fi-foot").get_by_label("steps", exact=True).fill(str(steps))
    before = page.locator(".fi-verdict")
    run = before.get_attribute("data-run") if before.count() else ""
    page.get_by_role("button", name="Replay", exact=True).click()
    page.locator(f'.fi-verdict:not([data-run="{run}"])').wait_for()
    page.get_by_role("tab", name=tab).click()
    page.locator(".fi-plot .main-svg").first.wait_for()
    page.wait_for_timeout(1500)  # the figures fade in


def main(folder: str) -> None:
    """Take the pictures."""
    session, place = quickstart(), Path(folder)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.find(), chromium_sandbox=False
        )
        for dark in (False, True):
            with bridged(browser, dark=dark, **SIZE) as bridge:
                explorer = Explorer(session)
                page = bridge.page
                page.set_default_timeout(120_000)
                bridge.show(explorer)
                page.locator(".fi-row").first.wait_for()
                page.add_style_tag(content=".fi-explorer { height: 840px !important; }")
                session.disarm()
                strike(page, session)
                if dark:
                    replay(page, 12, "Training")
                    bridge.picture(place / "dark_training.png")
                else:
                    replay(page, 1, "Propagation")
                    bridge.picture(place / "explorer.png")
                    page.get_by_role("tab", name="Tensor diff").click()
                    page.locator(".fi-plot .main-svg").first.wait_for()
                    page.wait_for_timeout(1500)  # as above
                    bridge.picture(place / "tensor_diff.png")
                explorer.executor.wait(20)
                explorer.close()
        browser.close()


if __name__ == "__main__":
    main(str(path_argument("Take the pictures of the README.")))
