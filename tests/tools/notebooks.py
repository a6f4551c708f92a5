"""Makes, runs and reads notebooks.

    path = notebooks.write(tmp_path / "n.ipynb", "x = 2", notebooks.markdown("# Two"), "x * 3")
    done = notebooks.run(path)
    notebooks.text(done.cells[2])      # "6"

    python -m tests.tools.notebooks notebooks/01_quickstart.ipynb   runs it, saves its outputs

Limits: a notebook runs in a new kernel of this Python, in its own folder; widgets
keep their model but have nobody to talk to.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat import v4

__all__ = ["code", "errors", "markdown", "read", "run", "text", "write"]

KERNEL = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}

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


def run(path: Path, *, allow_errors: bool = False, timeout_s: int = 120) -> Any:
    """Run a notebook in a new kernel, in its own folder; the file stays as it is.

    Args:
        path: The notebook.
        allow_errors: Go on after a cell that raises.
        timeout_s: How long one cell may take.

    Returns:
        The notebook with its outputs.
    """
    notebook = read(path)
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


def main(paths: list[str]) -> None:
    """Run the notebooks and save them with their outputs."""
    for name in paths:
        path = Path(name)
        nbformat.write(run(path), path)


if __name__ == "__main__":
    main(sys.argv[1:])
