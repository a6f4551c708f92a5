"""The notebooks run from top to bottom and are saved as they ran."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools import notebooks
from tests.tools.pictures import SVG

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
QUICK = ("01_quickstart", "03_bits", "05_how_errors_spread")
"""The notebooks that `make test` runs; `make soak` runs the others."""

LARGEST = 500_000  # bytes of a saved notebook
LONGEST_S = 60

MACHINE_PATH = re.compile(r"(?<![\w.])/(home|root|tmp|work|usr|opt|var|mnt|Users)/|[A-Z]:\\\\")
WARNING = re.compile(r"warning", re.IGNORECASE)


def _with_marks(path: Path) -> Any:
    marks = [] if path.stem in QUICK else [pytest.mark.soak]
    if path.stem == "09_your_own_model":
        marks.append(pytest.mark.skipif(sys.version_info < (3, 11), reason="extra teach"))
    return pytest.param(path, id=path.stem, marks=marks)


def _said(cell: Any) -> Iterator[str]:
    """Every text that a cell shows, however it shows it; pictures are drawings, not text."""
    yield notebooks.text(cell)
    for output in cell.get("outputs", []):
        yield "".join(output.get("data", {}).get("text/html", ""))


def test_a_notebook_is_made_run_and_read(tmp_path: Path) -> None:
    """Two cells and a text between: 2 × 3 = 6 is read from the last."""
    path = notebooks.write(tmp_path / "n.ipynb", "x = 2", notebooks.markdown("# Two"), "x * 3")
    done = notebooks.run(path)
    assert notebooks.text(done.cells[2]) == "6"
    assert notebooks.errors(done.cells) == []
    assert notebooks.read(path).cells[2].outputs == []


def test_a_cell_that_raises_is_told(tmp_path: Path) -> None:
    """The traceback of a failed cell is found, without its colours."""
    path = notebooks.write(tmp_path / "n.ipynb", "1 / 0")
    (traceback,) = notebooks.errors(notebooks.run(path, allow_errors=True).cells)
    assert traceback.endswith("ZeroDivisionError: division by zero")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", [_with_marks(path) for path in NOTEBOOKS])
def test_a_notebook_of_ours_runs(path: Path, tmp_path: Path) -> None:
    """Every cell runs, in a folder of its own, within a minute and without a warning."""
    start = time.monotonic()
    done = notebooks.run(_copied(path, tmp_path))
    took = time.monotonic() - start
    assert notebooks.errors(done.cells) == []
    _assert_quiet(done)
    assert took < LONGEST_S


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", [_with_marks(path) for path in NOTEBOOKS])
def test_the_answers_of_a_notebook_run(path: Path, tmp_path: Path) -> None:
    """The Python of each hidden answer, after all its cells; each asserts what it says."""
    answers = notebooks.answers(path)
    assert len(answers) >= 3
    done = notebooks.run(_copied(path, tmp_path), *answers)
    assert notebooks.errors(done.cells) == []


def _copied(path: Path, folder: Path) -> Path:
    """A notebook in a folder where it may write."""
    copy = folder / path.name
    copy.write_bytes(path.read_bytes())
    return copy


def _assert_quiet(notebook: Any) -> None:
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.get("name") != "stderr", output["text"]
        for text in _said(cell):
            assert not WARNING.search(text), text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_saved_as_it_ran(path: Path) -> None:
    """Outputs of these very sources, from a new kernel, with a picture, and small.

    Where this fails: ``python -m tests.tools.notebooks notebooks/NAME.ipynb``.
    """
    notebook = notebooks.read(path)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert notebook.metadata["outputs_of"] == notebooks.digest(notebook)
    assert notebook.metadata["kernelspec"]["name"] == "python3"
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert notebooks.errors(cells) == []
    _assert_quiet(notebook)
    assert any(SVG in output.get("data", {}) for cell in cells for output in cell.outputs)
    assert path.stat().st_size < LARGEST


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_tells_nothing_of_the_machine_that_ran_it(path: Path) -> None:
    """Neither its text nor its outputs hold an absolute path."""
    for cell in notebooks.read(path).cells:
        for text in (cell.source, *_said(cell)):
            assert not MACHINE_PATH.search(text), text
