"""A campaign as one HTML file that opens offline: rates, pictures, what was done.

The pictures are drawn by the plotly.js in the file; a content security policy allows
the file's own scripts by their hashes and nothing else. Without scripts the tables stay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from fi_notebook import assets
from fi_notebook.core.files import written_whole
from fi_notebook.report.figures import campaign as pictures
from fi_notebook.report.html import allowed, html_table, script_json, script_text

__all__ = ["save_campaign"]

_STYLE = (
    "body{font:14px system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .8rem;text-align:right;"
    "border-bottom:1px solid #8884}td:first-child,th:first-child,td:nth-child(2),"
    "th:nth-child(2){text-align:left}h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:2rem}"
)
_DRAW = (
    "const data = JSON.parse(document.getElementById('figures').textContent);"
    "const dark = matchMedia('(prefers-color-scheme: dark)').matches ? 1 : 0;"
    "data.forEach((pair, n) => Plotly.newPlot('figure' + n, pair[dark].data, pair[dark].layout, "
    "{responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: '', "
    "modeBarButtons: [['toImage'], ['zoom2d', 'pan2d'], ['resetScale2d']]}));"
)
_HEADER = ("group", "outcome", "count", "of", "rate", "from", "to")


def save_campaign(
    columns: Mapping[str, np.ndarray],
    tables: Mapping[str, Sequence[Sequence[str]]],
    facts: Sequence[str],
    path: str | Path,
) -> Path:
    """Write the report, whole or not at all.

    Args:
        columns: What the pictures are drawn from.
        tables: Rates by title; each row has group, outcome, count, of how many, rate and
            the ends of its interval.
        facts: Plain sentences about the campaign.
        path: Where to.
    """
    page = _page(columns, tables, facts).encode()
    with written_whole(path) as file:
        file.write(page)
    return Path(path)


def _page(
    columns: Mapping[str, np.ndarray],
    tables: Mapping[str, Sequence[Sequence[str]]],
    facts: Sequence[str],
) -> str:
    figures = _figures(columns)
    scripts = [script_text(assets.plotly_source()), _DRAW]
    return "".join(
        (
            "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
            f'<meta http-equiv="Content-Security-Policy" content="{allowed(scripts)}">',
            "<meta name='viewport' content='width=device-width'>",
            "<meta name='color-scheme' content='light dark'>",
            f"<title>fi_notebook: campaign</title><style>{_STYLE}</style></head><body>",
            "<h1>Fault-injection campaign</h1>",
            *(f"<p>{escape(fact)}</p>" for fact in facts),
            *(f"<div id='figure{n}'></div>" for n in range(len(figures))),
            *(
                f"<h2>{escape(title)}</h2>{html_table(_HEADER, rows)}"
                for title, rows in tables.items()
            ),
            f"<script type='application/json' id='figures'>{script_json(figures)}</script>",
            *(f"<script>{script}</script>" for script in scripts),
            "</body></html>",
        )
    )


def _figures(columns: Mapping[str, np.ndarray]) -> list[list[Any]]:
    """Each picture, light and dark."""
    drawn = (pictures.outcomes, pictures.heat_map, pictures.timeline, pictures.losses)
    return [
        [json.loads(picture(columns, dark=dark).to_json()) for dark in (False, True)]
        for picture in drawn
    ]
