"""The explorer as a person uses it: what they click, and the numbers that they read.

    explorer = Explorer(lab)
    explorer.choose("relu*2:0", view="Operators")
    explorer.arm("bitflip", element=[0, 3], bit=31)
    explorer.replay()
    explorer.tile("loss")              # (golden, faulty), exact

Numbers are read from the hover text, which is exact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tests.browser.page import LabPage

if TYPE_CHECKING:
    from playwright.sync_api import Locator

__all__ = ["Explorer"]


class Explorer:
    """The explorer in the notebook that is shown."""

    def __init__(self, lab: LabPage, number: int = -1) -> None:
        """Find it, the last by default, and wait until its tree is there."""
        self._look_at(lab.explorer(number))

    @classmethod
    def of(cls, root: Locator) -> Explorer:
        """The explorer in this element of any page, such as a saved report's."""
        made = cls.__new__(cls)
        made._look_at(root)
        return made

    def _look_at(self, root: Locator) -> None:
        self.root = root
        self.tree = root.get_by_role("treegrid")
        self.tree.wait_for()

    def view(self, name: str) -> None:
        """Show one view of the tree: Modules, Source lines, Operators or Timeline."""
        self.root.get_by_role("button", name=name, exact=True).click()

    def search(self, text: str) -> None:
        """Type into the search box."""
        self.root.get_by_role("searchbox").fill(text)

    def row(self, text: str) -> Locator:
        """The row of the tree with this name."""
        name = re.compile(rf"^{re.escape(text)}$")
        label = self.root.page.locator(".fi-label", has_text=name)
        return self.tree.get_by_role("row").filter(has=label)

    def choose(self, site: str, view: str = "Operators") -> None:
        """Click through the tree to a site, and wait until the site pane shows it."""
        self.view(view)
        self.search(site.partition("*")[0])
        self.row(site).click()
        self.pane("site").get_by_role("heading", name=site).wait_for()

    def pane(self, name: str) -> Locator:
        """One of the panes: tree, site or result."""
        return self.root.locator(f'[data-name="{name}"]')

    def arm(self, model: str, element: Sequence[int], **parameters: Any) -> None:
        """Fill the fault form for one element and arm; waits until the kernel confirms."""
        form = self.root.get_by_role("form", name="fault")
        form.get_by_label("fault model").select_option(model)
        self.settle()
        form.get_by_label("elements").select_option("index")
        self.settle()
        form.get_by_label("index of the element").fill(", ".join(map(str, element)))
        for name, value in parameters.items():
            form.get_by_label(name, exact=True).fill(str(value))
        self.root.get_by_role("button", name="Arm at ").click()
        self.tree.locator('[role="checkbox"][data-state="armed"]').first.wait_for()

    def set_steps(self, steps: int) -> None:
        """How many steps the next replay runs."""
        self.root.locator(".fi-foot").get_by_label("steps", exact=True).fill(str(steps))

    def settle(self) -> None:
        """Wait until what was changed is drawn: the second frame from now."""
        frames = (
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        self.root.page.evaluate(frames)

    def replay(self) -> None:
        """Press Replay and wait for the outcome."""
        verdict = self.root.locator(".fi-verdict")
        before = verdict.get_attribute("data-run") if verdict.count() else ""
        self.press("Replay")
        self.root.locator(f'.fi-verdict:not([data-run="{before}"])').wait_for()

    @property
    def found(self) -> str:
        """How many sites the search leaves: "n of N sites"."""
        return self.root.locator(".fi-found").inner_text()

    @property
    def state(self) -> str:
        """What the footer says is going on."""
        return self.root.locator(".fi-state").inner_text()

    def press(self, name: str) -> None:
        """Press a button of the footer."""
        self.root.get_by_role("button", name=name, exact=True).click()

    def tab(self, name: str) -> Locator:
        """Show a tab of the result, and its pane where there was no room; gives its panel."""
        if not self.pane("result").is_visible():
            self.press("result")
        self.pane("result").get_by_role("tab", name=name).click()
        return self.pane("result").get_by_role("tabpanel")

    @property
    def outcome(self) -> str:
        """Name of the outcome."""
        return self.root.locator(".fi-verdict").get_attribute("data-outcome") or ""

    def tile(self, name: str) -> tuple[float, float]:
        """Golden and faulty value of a tile, exact."""
        tiles = self.pane("result").locator(".fi-tile")
        tile = tiles.filter(has=self.root.page.locator(".fi-key", has_text=name)).first
        golden, faulty = (exact(each) for each in tile.locator(".fi-num").all())
        return golden, faulty

    def changed_elements(self) -> list[tuple[str, float, float, str]]:
        """Rows of the table of changed elements: index, before, after, bits."""
        rows = self.tab("Tensor diff").get_by_role("table", name="changed elements")
        found = []
        for row in rows.locator("tbody tr").all():
            index, before, after, bits, _ = row.locator("td").all()
            one, other = exact(before.locator(".fi-num")), exact(after.locator(".fi-num"))
            found.append((index.inner_text().strip(), one, other, bits.inner_text().strip()))
        return found


def exact(number: Locator) -> float:
    """The exact value of a number, from its hover text."""
    return float((number.get_attribute("title") or "").partition(" ")[0])
