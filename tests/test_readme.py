"""The README does what it says, and its links lead somewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fi_notebook as fi
from fi_notebook.campaign.again import from_file
from fi_notebook.campaign.campaign import ARGUMENTS
from fi_notebook.core.run import COMPARISON_COLUMNS, EFFECTS, OUTCOMES
from fi_notebook.core.trace import FLAGS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LONGEST = 180  # lines; what takes more room stands in docs/


def _blocks() -> list[str]:
    """Its Python, but for the magics."""
    found = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [block for block in found if not block.startswith("%")]


def test_its_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Block after block, in a person's own names; the saved plan strikes headless."""
    monkeypatch.chdir(tmp_path)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    names: dict[str, Any] = {
        "net": net,
        "opt": torch.optim.Adam(net.parameters()),
        "criterion": nn.CrossEntropyLoss(),
        "x": torch.randn(16, 4),
        "y": torch.randint(3, (16,)),
    }
    for block in _blocks():
        exec(block, names)  # the README's own code
    names["step"]()
    report = names["injector"].report()
    names["injector"].close()
    assert report.startswith("1 injection, training came to step 0")
    printed = capsys.readouterr().out
    assert "f1 struck relu*2:0" in printed
    assert "training: 7 sites, up to step 19; max" in printed
    assert json.loads((tmp_path / "injector.json").read_text())["version"] == 2
    assert (tmp_path / "report.html").is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    """Each link that is no address is a file beside the page."""
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_it_counts_right_and_stays_short() -> None:
    """As many fault models as there are, every outcome, every notebook in order."""
    assert f"[{len(fi.faults.names())} fault models]" in README
    models = f"{len(fi.faults.names())} models, own functions"
    others = (ROOT / "docs" / "other_tools.md").read_text(encoding="utf-8")
    assert models in others
    assert f"| outcomes | {len(OUTCOMES)}, over one step or many |" in others
    assert all(f"`{outcome}`" in README for outcome in OUTCOMES)
    notebooks = [path.name for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]
    assert re.findall(r"\(notebooks/(.*?)\)", README) == notebooks
    assert len(README.splitlines()) <= LONGEST


def test_every_column_of_a_comparison_is_explained() -> None:
    """In the table of docs/comparison.md, each by its name."""
    page = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named >= set(COMPARISON_COLUMNS)


def test_every_argument_of_a_campaign_is_explained(tmp_path: Path) -> None:
    """In docs/campaigns.md, whose file is one that can be read."""
    page = (ROOT / "docs" / "campaigns.md").read_text(encoding="utf-8")
    assert set(ARGUMENTS) <= set(re.findall(r"[`\"](\w+)=?[`\"]", page))
    (example,) = re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    path = tmp_path / "campaign.json"
    made = example.replace("my_training:make_session", "fi_notebook.demo:make_demo")
    path.write_text(made, encoding="utf-8")
    assert repr(from_file(path)) == "<Campaign of bitflip, scale, zero, seed 1: 0 of 60 made>"


_PAGE = (ROOT / "docs" / "explorer.md").read_text(encoding="utf-8")
_SCRIPTS = {
    path.stem: path.read_text(encoding="utf-8")
    for path in (ROOT / "fi_notebook" / "assets" / "explorer").glob("*.js")
}
_WRITTEN = {" ": "Space", "Escape": "Esc", "r": "R"} | {
    f"Arrow{way}": sign for way, sign in (("Up", "↑"), ("Down", "↓"), ("Left", "←"), ("Right", "→"))
}


def _listed(script: str, name: str) -> list[str]:
    """The texts of a list that a script of the explorer holds."""
    (found,) = re.findall(rf"const {name} = \[(.*?)\];", _SCRIPTS[script], re.DOTALL)
    return re.findall(r'"([^"]+)"', found)


def test_every_search_field_and_mark_is_explained() -> None:
    """Each field in the table, with an example; each mark and effect by its name."""
    rows = dict(re.findall(r"^\| `(\w+:)` \|(.*)$", _PAGE, re.MULTILINE))
    assert list(rows) == [f"{name}:" for name in _listed("search", "FIELDS")]
    assert all(f"`{name}" in row for name, row in rows.items())
    assert all(mark in rows["is:"] for mark in FLAGS)
    assert all(effect in rows["effect:"] for effect in EFFECTS)


def test_every_key_of_the_explorer_is_explained() -> None:
    """Each that a script asks for, in the way that it is written on a keyboard."""
    asked = set()
    for script in _SCRIPTS.values():
        asked |= set(re.findall(r'event\.key(?:\.toLowerCase\(\))? === "([^"]+)"', script))
        asked |= set(
            re.findall(r"\b(Arrow(?:Up|Down|Left|Right)|Home|End|Page(?:Up|Down)):", script)
        )
    assert {"/", "*", "Escape", "Home"} <= asked
    assert [key for key in asked if f"`{_WRITTEN.get(key, key)}`" not in _PAGE] == []


def test_every_word_of_the_magics_is_explained() -> None:
    """Options of the cell magic, words of the line magic."""
    magics = (ROOT / "fi_notebook" / "magics.py").read_text(encoding="utf-8")
    options = re.findall(r"_OPTIONS = \((.*?)\)", magics)[0]
    words = re.findall(r'^    "(\w+)": _', magics, re.MULTILINE)
    assert all(f"{name}=" in _PAGE for name in re.findall(r'"(\w+)"', options))
    assert [word for word in words if f"`%fi_plan {word}" not in _PAGE] == []
    assert len(words) == 4


def test_everything_that_is_pressed_is_explained() -> None:
    """The tabs of the result, the views, the statistics of the bars, the buttons of the footer."""
    tabs = re.findall(r'\["\w+", "([^"]+)"\]', _SCRIPTS["result"])
    views = re.findall(r'"([^"]+)"', re.findall(r"const titles = {(.*?)}", _SCRIPTS["head"])[0])
    buttons = re.findall(r'button\("([^"]+)"', _SCRIPTS["foot"])
    assert (len(tabs), len(views), "Replay" in buttons) == (5, 4, True)
    shown = {*tabs, *views, *(name for name in buttons if name != "why")}
    prose = " ".join(_PAGE.split())
    assert [name for name in shown if f"*{name}*" not in prose] == []
    assert {"std", "norm", "zeros", "relative L2"} <= set(re.findall(r"`([^`]+)`", _PAGE))
