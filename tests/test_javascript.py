"""The pure parts of the widget's JavaScript, tested by node itself."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest

from fi_notebook import assets

FILES = sorted((Path(__file__).parent / "js").glob("*.test.js"))
MODULES = sorted((Path(assets.__file__).parent / "explorer").glob("*.js"))
NODE = shutil.which("node") or "node"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_javascript(path: Path) -> None:
    """Every test of the file passes under ``node --test``."""
    assert shutil.which(NODE), "node was not found: the JavaScript tests need Node.js 18 or later"
    done = subprocess.run([NODE, "--test", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# pass 0" not in done.stdout, "the file holds no test"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module_is_short_and_local(path: Path) -> None:
    """A file of one concern: at most 400 lines, no other host named, nothing renamed."""
    text = path.read_text("utf-8")
    assert text.startswith("/** ")
    assert len(text.splitlines()) <= 400
    assert "https://" not in text
    imports = [line for line in text.splitlines() if line.startswith("import ")]
    assert all(re.fullmatch(r'import \{ [\w, ]+ \} from "\./\w+\.js";', line) for line in imports)


def test_every_module_is_joined_after_what_it_imports() -> None:
    """No file is forgotten, and no two import each other."""
    orders = [assets.modules(entry) for entry in assets.ENTRIES]
    assert {name for order in orders for name in order} == {path.stem for path in MODULES}
    for order, path in [(order, path) for order in orders for path in MODULES]:
        if path.stem not in order:
            continue
        for imported in re.findall(
            r'^import .*"\./(\w+)\.js";', path.read_text("utf-8"), re.MULTILINE
        ):
            assert order.index(imported) < order.index(path.stem), f"{path.stem}: {imported}"


@pytest.mark.parametrize(
    ("entry", "exported"),
    [("main", "default,openReport"), ("watch", "default,merged,spoken"), ("board", "default")],
)
def test_the_joined_page_is_one_module(entry: str, exported: str, tmp_path: Path) -> None:
    """Node reads it, so no name stands twice; it exports the widget and what else it offers."""
    path = tmp_path / "page.mjs"
    path.write_text(assets.page(entry), "utf-8")
    done = subprocess.run(
        [NODE, "-p", f"import({path.as_uri()!r}).then((m) => console.log(Object.keys(m).join()))"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert exported in done.stdout, done.stderr


def test_a_page_is_local() -> None:
    """It imports nothing, and what documents the files stays at home."""
    assert not re.search(r"^(import .*|/\*\*.*\*/|/\*\*| \* .*)$", assets.page(), re.MULTILINE)


def test_what_is_sent_is_small_and_holds_the_page() -> None:
    """Under 100 KB; the text that it inflates is the page itself."""
    sent = assets.packed()
    assert len(sent.encode()) < 100_000
    (code,) = re.findall(r'atob\("([\w+/=]+)"\)', sent)
    assert zlib.decompress(base64.b64decode(code)).decode() == assets.page()
