"""The notebooks run from top to bottom, and so does what makes and reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools import notebooks

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_of_ours_runs(path: Path, tmp_path: Path) -> None:
    """Every cell runs, in a folder of its own, and leaves the saved file as it is."""
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    assert notebooks.errors(notebooks.run(copy).cells) == []
