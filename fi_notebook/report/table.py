"""Columns of text that stand under each other.

>>> print(table(["site", "error"], [["relu*1:0", "0.01"], ["mm*1:0", "1.5"]], right={1}))
site      error
relu*1:0   0.01
mm*1:0      1.5
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence

__all__ = ["indented", "table"]


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Collection[int] = (),
) -> str:
    """Lay out rows of text in columns.

    Args:
        header: Names of the columns; empty for no header line.
        rows: Cells, each row as long as the header.
        right: Numbers of the columns that are aligned to the right.
    """
    lines = [*([header] if any(header) else []), *rows]
    if not lines:
        return ""
    widths = [max(_width(cell) for cell in column) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            _padded(cell, width, n in right) for n, (cell, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    )


def indented(text: str, by: int = 2) -> str:
    """A text with every line moved to the right."""
    return "\n".join(" " * by + line if line else line for line in text.splitlines())


def _padded(cell: str, width: int, to_right: bool) -> str:
    space = " " * (width - _width(cell))
    return space + cell if to_right else cell + space


def _width(text: str) -> int:
    """Columns of a terminal that a text takes; wide characters take two."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
