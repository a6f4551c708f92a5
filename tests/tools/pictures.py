"""Static twins of plotly figures, so that a saved notebook shows them on any page.

    with Painter() as painter:
        svg = painter.paint(figure_json)        # what the browser would have drawn, as SVG

JupyterLab draws a figure from its JSON with the extension that the plotly package
brings; a forge shows the SVG beside it. It is drawn by plotly's own script in the
browser of the tests (`tests.tools.chromium`), on white, without a network.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import plotly
from playwright.sync_api import sync_playwright
from typing_extensions import Self

from tests.tools import chromium

__all__ = ["FIGURE", "SVG", "Painter"]

FIGURE = "application/vnd.plotly.v1+json"
SVG = "image/svg+xml"

_SCRIPT = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
_WIDTH = 760
_HEIGHT = 420  # where a figure has none of its own
_PAINT = """async ([figure, width, height]) => Plotly.toImage(
  { data: figure.data, layout: { ...figure.layout, paper_bgcolor: 'white' } },
  { format: 'svg', width, height, imageDataOnly: true },
)"""


class Painter:
    """A page that holds plotly's script; a context manager."""

    def __enter__(self) -> Self:
        """Start the browser."""
        self._playwright = sync_playwright().start()
        self._browser = self._playwright.chromium.launch(
            executable_path=chromium.find(), args=["--no-sandbox"]
        )
        self._page = self._browser.new_page()
        self._page.set_content("<body></body>")
        self._page.add_script_tag(path=_SCRIPT)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the browser."""
        self._browser.close()
        self._playwright.stop()

    def paint(self, figure: Mapping[str, Any]) -> str:
        """The SVG of a figure, given as the JSON of its MIME output."""
        layout = figure.get("layout", {})
        size = [layout.get("width", _WIDTH), layout.get("height", _HEIGHT)]
        svg: str = self._page.evaluate(_PAINT, [figure, *size])
        return svg
