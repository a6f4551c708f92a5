"""The pure parts of the widget's JavaScript, tested by node itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parent / "js").glob("*.test.js"))
ASSETS = Path(__file__).parents[1] / "fi_notebook" / "assets"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_javascript(path: Path) -> None:
    """Every test of the file passes under ``node --test``."""
    node = shutil.which("node")
    assert node, "node was not found: the JavaScript tests need Node.js 18 or later on PATH"
    done = subprocess.run([node, "--test", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# pass 0" not in done.stdout, "the file holds no test"


@pytest.mark.parametrize("path", sorted(ASSETS.glob("*.js")), ids=lambda path: path.name)
def test_javascript_stays_small_and_local(path: Path) -> None:
    """One plain module under 100 KB, which imports nothing and names no other host."""
    text = path.read_text("utf-8")
    assert len(text.encode()) < 100_000
    assert "https://" not in text.replace("https://www.w3.org", "")
    assert not [line for line in text.splitlines() if line.startswith("import ")]
