"""How quick the explorer is: opening it, and a step of 100,000 calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser import meter
from tests.browser.explorer import Explorer
from tests.browser.lab import LabServer
from tests.browser.page import LabPage
from tests.tools import notebooks

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IMPORTS = "import torch\nfrom torch import nn\nimport fi_notebook as fi\nfi.Session"

OPEN = """
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(32, 8), torch.randint(4, (32,))

def step():
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.zero_grad()
    return loss

session = fi.Session(step, model=net, optimizer=opt)
session.trace()
session.explore()
"""

LARGE = """
from tests import traces
from tests.models import mlp

case = mlp(seed=1)
session = fi.Session(case.step, model=case.model, optimizer=case.optimizer)
session.trace()
session._golden.trace = traces.large(100_000)
"""

COUNT = """
frame = session.golden.to_pandas()
int(((frame.op == "op7") & (frame.phase == "backward")).sum())
"""

DEPTH = """const box = root.querySelector('[aria-label="open the tree to depth"]');
box.value = [...box.options].find((each) => each.textContent === "%s").value;
box.dispatchEvent(new Event('change'));"""

SEARCH = """const box = root.querySelector('.fi-search');
box.value = "%s"; box.dispatchEvent(new Event('input'));"""


@pytest.fixture
def unopened(server: LabServer, chromium: Browser) -> Iterator[LabPage]:
    """A page that has shown no widget yet, nor loaded anything of one."""
    context = chromium.new_context(viewport={"width": 1400, "height": 1000})
    lab = LabPage(context.new_page(), server.url)
    lab.open(notebooks.write(server.notebooks / "cold.ipynb", IMPORTS, OPEN).name)
    yield lab
    lab.close()
    context.close()
    lab.assert_quiet()


def test_it_opens_cold(unopened: LabPage, measured: Callable[..., None]) -> None:
    """A two-layer model is traced and shown in under 3 s after the imports, by a page that
    never showed a widget; script and data together are under 1.5 MB.
    """
    unopened.run_cell(0)
    opened = meter.run_until(unopened, 1, ".fi-row")
    unopened.assert_ran()
    assert Explorer(unopened).row("Sequential").count() == 1
    measured("traced and shown", opened["shown"] / 1000, "s", limit=3)
    measured("script and data", opened["bytes"] / 1e6, "MB", limit=1.5)
    measured("messages", opened["messages"], "messages")


class TestHundredThousandCalls:
    """A step of 100,000 calls."""

    @pytest.fixture
    def large(self, show: Callable[..., LabPage]) -> LabPage:
        """A session with such a step, not shown yet."""
        lab = show(IMPORTS, LARGE, "session.explore()", COUNT)
        lab.run_cell(0)
        lab.run_cell(1)
        lab.assert_ran()
        return lab

    def test_it_is_shown_scrolled_expanded_and_searched(
        self, large: LabPage, measured: Callable[..., None]
    ) -> None:
        """First rows, scrolling, expanding and searching keep their limits; few rows exist,
        and the search counts what pandas counts, with the ancestors of each site open.
        """
        opened = meter.run_until(large, 2, ".fi-row")
        measured("first rows after the cell", opened["after"], "ms", limit=1500)
        explorer = Explorer(large)
        measured("expand all", self.expand(explorer), "ms", limit=100)
        rows = int(explorer.tree.get_attribute("aria-rowcount") or 0)
        assert rows > 100_000
        measured("frame p95 while scrolling", meter.scrolled(explorer.tree), "ms", limit=35)
        measured("row elements", explorer.tree.get_by_role("row").count(), "rows", limit=61)

        large.run_cell(3)
        wanted = int(large.output_text(3))
        text = "op:op7 phase:backward"
        took = min(self.search(explorer, text) for _ in range(3))
        assert explorer.found.startswith(f"{wanted:,} of 100,000")
        measured("search", took, "ms", limit=150)
        levels = explorer.tree.get_by_role("row").evaluate_all(
            "rows => rows.map((row) => [row.ariaLevel, row.ariaExpanded])"
        )
        assert all(expanded != "false" for _, expanded in levels)
        assert max(int(level) for level, _ in levels) > 1

    def expand(self, explorer: Explorer) -> float:
        """Milliseconds from "open all" in a folded tree to what it shows; the best of a few."""
        found = []
        for _ in range(3):
            meter.painted(explorer.root, DEPTH % "fold all")
            found.append(meter.painted(explorer.root, DEPTH % "open all"))
        return min(found)

    def search(self, explorer: Explorer, text: str) -> float:
        """Milliseconds from the last key of a search to what it shows."""
        explorer.search("")
        explorer.settle()
        return meter.painted(explorer.root, SEARCH % text)


def test_a_search_finds_what_pandas_counts(show: Callable[..., LabPage]) -> None:
    """``op:native_layer_norm* phase:backward`` on a transformer: as many as in the table."""
    lab = show(
        "import fi_notebook as fi\nfrom tests.models import transformer",
        "case = transformer(seed=1)\n"
        "session = fi.Session(case.step, model=case.model, optimizer=case.optimizer)\n"
        "frame = session.trace().to_pandas()\n"
        "norms = frame[frame.op.str.startswith('native_layer_norm')]\n"
        "int((norms.phase == 'backward').sum()), len(frame)",
        "session.explore()",
    )
    lab.run_all()
    lab.assert_ran()
    found, total = eval(lab.output_text(1))
    assert found > 0
    explorer = Explorer(lab)
    explorer.search("op:native_layer_norm* phase:backward")
    explorer.root.locator(".fi-found", has_text=f"{found} of {total}").wait_for()
    explorer.row("native_layer_norm_backward*1:0").wait_for()
