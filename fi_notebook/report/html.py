"""What the HTML of reports and snapshots is made of.

    html_table(("site", "error"), [("relu*1:0", "0.01")])       a table; every text is escaped
    script_json(figures), script_text(page)                     what stands in a script element
    allowed([page, plotly])                                     the policy that lets these run

Limits: what is drawn, such as a curve, comes as markup and is not escaped.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from html import escape
from typing import Any

from fi_notebook.report.names import bounded

__all__ = ["allowed", "html_table", "script_json", "script_text"]


def html_table(
    heads: Iterable[str], rows: Iterable[Iterable[str]], drawn: Iterable[str] | None = None
) -> str:
    """A table of texts, all escaped.

    Args:
        heads: Names of the columns.
        rows: Cells of each row.
        drawn: Markup of one more cell for each row, which is not escaped.

    Returns:
        The table element.
    """
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    lines = ["".join(f"<td>{escape(bounded(cell))}</td>" for cell in row) for row in rows]
    if drawn is not None:
        lines = [f"{line}<td>{cell}</td>" for line, cell in zip(lines, drawn, strict=True)]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def script_json(value: Any) -> str:
    """JSON that cannot end the script element that it stands in."""
    return json.dumps(value).replace("<", "\\u003c")


def script_text(script: str) -> str:
    """A script that cannot end its own element: our own files hold no such text.

    Raises:
        ValueError: It does.
    """
    if "</script" in script.lower():
        raise ValueError("a script to be embedded holds the text '</script'")
    return script


def allowed(scripts: Iterable[str]) -> str:
    """A content security policy: these scripts, styles and pictures of the file, nothing else."""
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; font-src data:"
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
