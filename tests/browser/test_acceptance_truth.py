"""What the explorer says is so: numbers, places and alerts against independent ones."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.browser.explorer import Explorer
from tests.browser.lab import LabServer
from tests.browser.page import LabPage

STEP = """
import torch
from torch import nn

torch.manual_seed(4)
first, second, last = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 2)
net = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
x, y = torch.randn(4, 6), torch.tensor([0, 1, 1, 0])

def step():
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.zero_grad()
    return loss
"""

SESSION = """
import fi_notebook as fi
session = fi.Session(step, model=net, optimizer=opt)
session.trace()
session.explore()
"""

ELEMENT = (0, 3)


class Plain:
    """The same step by plain PyTorch, with a sign flipped after the second relu."""

    def __init__(self, *, flipped: bool) -> None:
        """Run it once."""
        names: dict[str, Any] = {}
        exec(STEP, names)
        net, x, y = (names[name] for name in ("net", "x", "y"))
        hidden = torch.relu(net[2](torch.relu(net[0](x))))
        if flipped:
            hidden.data[ELEMENT] = -hidden.data[ELEMENT]  # in the storage that autograd saved
        self.struck = hidden.detach().clone()
        loss = nn.functional.cross_entropy(net[4](hidden), y)
        loss.backward()
        gradients = [p.grad for p in net.parameters() if p.grad is not None]
        norms = [torch.linalg.vector_norm(each, dtype=torch.float64) for each in gradients]
        squares = torch.stack([norm.square() for norm in norms])
        self.loss, self.norm = loss.item(), squares.sum().sqrt().item()

    def bits(self) -> str:
        """The element's bits as hexadecimal digits."""
        return f"0x{struct.unpack('<I', struct.pack('<f', self.struck[ELEMENT].item()))[0]:08x}"


def test_a_sign_flip_is_what_plain_pytorch_makes_of_it(show: Callable[..., LabPage]) -> None:
    """Element (0, 3) of the second relu, sign flipped: before, after, bits, loss and the
    gradient norm equal an eager computation bit for bit, twice; disarmed, the
    replay is the golden run bit for bit.
    """
    golden, faulty = Plain(flipped=False), Plain(flipped=True)
    assert golden.struck[ELEMENT] > 0  # there is a sign to flip
    assert golden.loss != faulty.loss
    lab = show(STEP, SESSION)
    lab.run_cell(0)
    lab.run_cell(1)
    explorer = Explorer(lab)
    explorer.choose("relu*2:0")
    explorer.arm("bitflip", ELEMENT, bit=31)
    for _ in range(2):
        explorer.replay()
        ((index, before, after, bits),) = explorer.changed_elements()
        assert index == str(list(ELEMENT))
        assert (before, after) == (golden.struck[ELEMENT].item(), faulty.struck[ELEMENT].item())
        assert bits.startswith(f"{golden.bits()} → {faulty.bits()}")
        assert "bit 31 (sign)" in bits
        assert explorer.tile("loss") == (golden.loss, faulty.loss)
        assert explorer.tile("gradient norm") == (golden.norm, faulty.norm)
    explorer.press("Disarm all")
    explorer.root.get_by_text("nothing is armed").wait_for(state="attached")
    explorer.replay()
    assert explorer.tile("loss") == (golden.loss, golden.loss)
    equal = explorer.pane("result").locator(".fi-tile", has_text="sites that differ")
    assert equal.locator(".fi-big").inner_text() == "0"


def test_places_are_those_of_the_notebook(show: Callable[..., LabPage], server: LabServer) -> None:
    """A function of In [2] that is called in In [5], a module of a .py file and the magic's own
    cell: each line is labelled by its place and shown with its text; a cell that was edited
    or run again since makes the view stale.
    """
    (server.notebooks / "nets.py").write_text(NETS, "utf-8")
    lab = show(
        "%load_ext fi_notebook\nimport torch, nets",
        "def criterion(out, y):\n    gap = out - y\n    return gap.pow(2).mean()",
        "net = nets.Net()",
        "opt = torch.optim.SGD(net.parameters(), lr=0.1)",
        "%%fi_explore model=net optimizer=opt\n"
        "out = net(torch.ones(4, 3))\n"
        "loss = criterion(out, torch.zeros(4, 2))\n"
        "loss.backward()\n"
        "opt.step()\n"
        "opt.zero_grad()\n"
        "loss",
        fresh=True,
    )
    lab.run_all()
    lab.assert_ran()
    explorer = Explorer(lab)
    source = explorer.pane("site").locator(".fi-source")
    for site, label, line in (
        ("pow*1:0", "In [2]:3", "return gap.pow(2).mean()"),
        ("tanh*1:0", "nets.py:8", "return torch.tanh(self.fc(x))"),
        ("sub*1:0", "In [2]:2", "gap = out - y"),
    ):
        explorer.choose(site)
        assert label in source.get_by_role("button").all_inner_texts()
        marked = source.locator("[data-marked]")
        assert marked.locator(".fi-text").inner_text().strip() == line
        assert marked.locator(".fi-lineno").inner_text() == label.rpartition(":")[2]
    source.get_by_role("button", name="In [5]:3").click()
    source.locator("[data-marked]", has_text="loss = criterion(out, torch.zeros(4, 2))").wait_for()
    explorer.view("Source lines")
    explorer.search("")
    for name in ("In [2]", "In [5]", "nets.py"):
        explorer.row(name).wait_for()

    assert explorer.state == "ready"
    lab.page.locator(".jp-Cell").nth(1).locator(".cm-line").first.click()
    lab.page.keyboard.press("End")
    lab.page.keyboard.type("  # looked at again")
    explorer.root.locator(".fi-state", has_text="stale: In [2] was edited").wait_for()
    for _ in range(len("  # looked at again")):
        lab.page.keyboard.press("Backspace")
    explorer.root.locator(".fi-state", has_text="ready").wait_for()
    lab.run_cell(1)
    explorer.tree.click()
    again = "stale: In [2] was run again as In [6]"
    explorer.root.locator(".fi-state", has_text=again).wait_for()


NETS = """import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__(); self.fc = nn.Linear(3, 2)
    def forward(self, x):
        return torch.tanh(self.fc(x))
"""

LOG_OF_ZERO = """
import torch, fi_notebook as fi
from torch import nn

net = nn.Linear(2, 2)

def step():
    hidden = net(torch.zeros(1, 2)).relu() * 0
    logged = torch.log(hidden)
    loss = (logged * 0).sum()
    loss.backward()
    return loss

session = fi.Session(step, model=net)
session.trace()
session.explore()
"""


def test_an_alert_leads_to_the_logarithm_of_zero(show: Callable[..., LabPage]) -> None:
    """A click on the alert goes to ``log``, whose inputs were finite, with its line shown; its
    two −Inf and the two NaN that came of them are told apart.
    """
    lab = show(LOG_OF_ZERO)
    lab.run_all()
    lab.assert_ran()
    explorer = Explorer(lab)
    explorer.root.get_by_role("button", name="not finite").click()
    explorer.pane("site").get_by_role("heading", name="log*1:0").wait_for()
    explorer.pane("site").locator("[data-marked]", has_text="torch.log(hidden)").wait_for()
    assert bad(explorer) == {"NaN": "0", "+Inf": "0", "−Inf": "2"}
    largest = explorer.pane("site").locator(".fi-stat", has_text="max")
    assert largest.inner_text() == "max\n–"  # of no finite element
    explorer.choose("mul*2:0")
    assert bad(explorer) == {"NaN": "2", "+Inf": "0", "−Inf": "0"}
    explorer.search("bad:inf")
    explorer.view("Timeline")
    assert "all −Inf" in explorer.row("log*1:0").inner_text()
    explorer.search("bad:nan")
    assert "all NaN" in explorer.row("mul*2:0").inner_text()


def bad(explorer: Explorer) -> dict[str, str]:
    """How many elements the site pane calls NaN, +Inf and −Inf."""
    stats = explorer.pane("site").locator(".fi-stat")
    shown = dict(text.split("\n") for text in stats.all_inner_texts())
    return {name: shown[name] for name in ("NaN", "+Inf", "−Inf")}
