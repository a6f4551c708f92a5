"""A whole exploration as one HTML file that opens offline and looks as the widget does.

    save_html(session, "report.html")

The file holds the same page as the widget, read-only, the same messages that a kernel
would send, and plotly.js once. A content security policy allows its own scripts by
their hashes and nothing else; it makes no request.

Limits: values are not in it, only statistics, injections and figures.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fi_notebook import assets
from fi_notebook.core.fault import FaultPlan
from fi_notebook.core.files import written_whole
from fi_notebook.core.run import Run
from fi_notebook.core.trace import Trace
from fi_notebook.report.figures_json import run_figures, templates
from fi_notebook.report.html import allowed, script_json, script_text
from fi_notebook.report.pack import pack
from fi_notebook.report.payload import plan_payload, run_payload, trace_payload
from fi_notebook.report.snapshot import snapshot_html

__all__ = ["Explored", "report_html", "save_html"]


_START = (
    "openReport(document.getElementById('fi'), "
    "JSON.parse(document.getElementById('fi-data').textContent));"
)


class Explored(Protocol):
    """What is exported: a session, or anything with its records."""

    @property
    def golden(self) -> Trace | None:
        """The golden run."""

    @property
    def plan(self) -> FaultPlan:
        """The armed faults."""

    @property
    def run(self) -> Run | None:
        """The last replay."""


def save_html(session: Explored, path: str | Path) -> Path:
    """Write the exploration to a file, whole or not at all.

    Args:
        session: What was explored.
        path: Where to.

    Returns:
        The path.
    """
    page = report_html(session).encode()
    with written_whole(path) as file:
        file.write(page)
    return Path(path)


def report_html(session: Explored) -> str:
    """The exploration as the text of one HTML file."""
    blocks = [_block(*message) for message in _messages(session)]
    scripts = [script_text(assets.plotly_source())] if session.run is not None else []
    page = script_text(assets.page())
    module = f"{page}\n{_START}\n"
    golden = session.golden
    title = str(golden.info.get("model", "report")) if golden is not None else "report"
    return "".join(
        (
            "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
            f'<meta http-equiv="Content-Security-Policy" content="{allowed((*scripts, module))}">',
            "<meta name='viewport' content='width=device-width'>",
            "<meta name='color-scheme' content='light dark'>",
            f"<title>fi_notebook: {escape(title)}</title>",
            f"<style>{assets.style()}</style>",
            "<style>body{margin:0}.fi-explorer{height:100vh!important;border:0;resize:none}</style>",
            "</head><body><div id='fi'></div>",
            f"<noscript>{snapshot_html(golden, session.plan, session.run)}</noscript>",
            f"<script type='application/json' id='fi-data'>{script_json(blocks)}</script>",
            *(f"<script>{each}</script>" for each in scripts),
            f"<script type='module'>{module}</script></body></html>",
        )
    )


def _messages(
    session: Explored,
) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, np.ndarray]]]:
    yield "hello", {"models": [], "templates": templates()}, {}
    if session.golden is not None:
        yield ("trace", *trace_payload(session.golden))
    yield "plan", {"faults": plan_payload(session.plan, session.golden)}, {}
    if session.run is not None:
        yield ("run", *run_payload(session.run))
        figures, texts = run_figures(session.run)
        yield "figures", {"figures": figures, "texts": texts}, {}


def _block(kind: str, data: Mapping[str, Any], columns: Mapping[str, np.ndarray]) -> dict[str, Any]:
    packed = pack(kind, data, columns)
    block = base64.b64encode(packed.block).decode()
    return {"head": packed.head, "deflated": packed.deflated, "block": block}
