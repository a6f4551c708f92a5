"""Makes, runs and reads notebooks.

    path = notebooks.write(tmp_path / "n.ipynb", "x = 2", notebooks.markdown("# Two"), "x * 3")
    done = notebooks.run(path)
    notebooks.text(done.cells[2])      # "6"
    notebooks.answers(path)            # the Python of its hidden answers

    python -m tests.tools.notebooks notebooks/*.ipynb   runs them, saves them with outputs

A saved notebook has a static picture beside each figure, a digest of its sources, and
nothing that only this machine knows (times, widget state).

Limits: a notebook runs in a new kernel of this Python, in its own folder; widgets
keep their model but have nobody to talk to.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from textwrap import dedent
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat import v4

from tests.tools.pictures import FIGURE, SVG, Painter

__all__ = [
    "answers",
    "code",
    "digest",
    "errors",
    "markdown",
    "read",
    "run",
    "save",
    "text",
    "write",
]

KERNEL = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}

_WIDGET = "application/vnd.jupyter.widget-view+json"

_LARGEST_FIGURE = 40_000
"""Characters of a figure's JSON that are saved beside its picture; a larger one goes."""

_ANSWER = re.compile(r"^ *```python\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def code(source: str) -> Any:
    """A code cell."""
    return v4.new_code_cell(source)


def markdown(source: str) -> Any:
    """A text cell."""
    return v4.new_markdown_cell(source)


def write(path: Path, *cells: Any) -> Path:
    """Write a notebook of these cells; a string is a code cell."""
    made = [code(cell) if isinstance(cell, str) else cell for cell in cells]
    for number, cell in enumerate(made):
        cell["id"] = f"cell-{number}"  # the same each time it is written
    notebook = v4.new_notebook(cells=made, metadata={"kernelspec": KERNEL})
    nbformat.write(notebook, path)
    return path


def read(path: Path) -> Any:
    """Read a notebook."""
    return nbformat.read(path, as_version=4)


def answers(path: Path) -> list[str]:
    """The Python that its hidden answers show, in order."""
    texts = [cell.source for cell in read(path).cells if "<details>" in cell.source]
    return [dedent(block) for text in texts for block in _ANSWER.findall(text)]


def run(path: Path, *extra: str, allow_errors: bool = False, timeout_s: int = 120) -> Any:
    """Run a notebook in a new kernel, in its own folder; the file stays as it is.

    Args:
        path: The notebook.
        *extra: Cells that are run after its own.
        allow_errors: Go on after a cell that raises.
        timeout_s: How long one cell may take.

    Returns:
        The notebook with its outputs.
    """
    notebook = read(path)
    notebook.cells += [code(source) for source in extra]
    client = NotebookClient(
        notebook,
        timeout=timeout_s,
        kernel_name="python3",
        allow_errors=allow_errors,
        resources={"metadata": {"path": str(path.parent)}},
    )
    return client.execute()


def text(cell: Any) -> str:
    """Everything that a cell printed or showed as plain text."""
    parts = []
    for output in cell.get("outputs", []):
        shown = output.get("text") or output.get("data", {}).get("text/plain", "")
        parts.append("".join(shown) if isinstance(shown, list) else shown)
    return "\n".join(parts)


def errors(cells: list[Any]) -> list[str]:
    """Tracebacks of the cells that raised."""
    return [
        _ANSI.sub("", "\n".join(output["traceback"]))
        for cell in cells
        for output in cell.get("outputs", [])
        if output["output_type"] == "error"
    ]


def digest(notebook: Any) -> str:
    """What the sources of a notebook's cells come to; saved with its outputs."""
    sources = "\0".join(cell["source"] for cell in notebook.cells if cell["cell_type"] == "code")
    return hashlib.sha256(sources.encode()).hexdigest()[:16]


def save(path: Path, *, painter: Painter, timeout_s: int = 120) -> None:
    """Run a notebook in a folder of its own and save it with its outputs.

    Args:
        path: The notebook; what it writes beside itself is thrown away.
        painter: Draws the static picture of each figure.
        timeout_s: How long one cell may take.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copy(path, folder))
        done = run(copy, timeout_s=timeout_s)
    done["metadata"] = {
        "kernelspec": KERNEL,
        "language_info": {"name": "python"},
        "outputs_of": digest(done),
    }
    for number, cell in enumerate(done.cells):
        cell["id"], cell["metadata"] = f"cell-{number:02}", {}
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            data.pop(_WIDGET, None)  # its state is not saved; the snapshot beside it stays
            _add_picture(data, painter)
    nbformat.write(done, path)


def _add_picture(data: Any, painter: Painter) -> None:
    """Put the static twin beside a figure, and a line of text for whom it is neither."""
    figure = data.get(FIGURE)
    if figure is None:
        return
    plain = json.loads(json.dumps(figure))
    title = plain.get("layout", {}).get("title", {}).get("text", "")
    data[SVG] = painter.paint(plain)
    data["text/plain"] = f"Figure: {title}"
    if len(json.dumps(plain)) > _LARGEST_FIGURE:
        del data[FIGURE]


def main(paths: list[str]) -> None:
    """Run the notebooks and save them with their outputs."""
    with Painter() as painter:
        for name in paths:
            save(Path(name), painter=painter)


if __name__ == "__main__":
    main(sys.argv[1:])
