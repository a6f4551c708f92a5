"""The pages of the widgets as static files, read by them and by the export.

    page()                  the explorer: modules of ``explorer/`` joined into one ES module
    page("watch")           the live view of a watch, from those of them that it needs
    page("board")           the live view of a campaign, likewise
    packed()                what is sent of a page: a few lines that inflate and import it
    style()                 the explorer's style sheet; style("watch") that of a watch
    text("watch.css")       one of the files
    plotly_source()         plotly.js, once per page

A widget is one module of text, in which no relative import works. So the files are put
one after another, imported ones first, without their ``import`` lines, their full-line
doc comments and every ``export`` but those of the entry point. What is sent is deflated
and imported from a blob, as anywidget itself imports what it is given.

Limits: a name stands once in all files together; an import renames nothing.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

__all__ = ["ENTRIES", "modules", "packed", "page", "plotly_source", "style", "text"]

ENTRIES = ("main", "watch", "board")
"""The entry points: what the pages of the explorer, a watch and a campaign begin with."""

_IMPORT = re.compile(r'^import [^;]*? from "\./(\w+)\.js";\n', re.MULTILINE)
_DOC = re.compile(r"^[ ]*/\*\*(?:(?!\*/).)*\*/\n", re.MULTILINE | re.DOTALL)
_EXPORT = re.compile(r"^export (?=function|async|class|const)", re.MULTILINE)

_LOADER = """\
const bytes = Uint8Array.from(atob("CODE"), (each) => each.charCodeAt(0));
const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
const code = new Blob([await new Response(inflated).text()], { type: "text/javascript" });
const url = URL.createObjectURL(code);
const page = await import(/* webpackIgnore: true */ url);
URL.revokeObjectURL(url);
export default page.default;
"""


def text(name: str) -> str:
    """Text of one of the static files, such as ``explorer.css``."""
    return (files(__package__) / name).read_text(encoding="utf-8")


def style(*own: str) -> str:
    """The style sheet of a widget: what all have, how they fit their surroundings, its own."""
    return "".join(text(f"{name}.css") for name in ("explorer", "fit", *own))


@cache
def page(entry: str = "main") -> str:
    """A widget as one ES module: its default export is the widget."""
    return "".join(_joinable(name, entry) for name in modules(entry))


@cache
def packed(entry: str = "main") -> str:
    """The same module, deflated, and the lines that import it."""
    code = base64.b64encode(zlib.compress(page(entry).encode(), 9)).decode()
    return _LOADER.replace("CODE", code)


def modules(entry: str = "main") -> list[str]:
    """Names of the modules of a page, each after those that it imports."""
    order: dict[str, None] = {}
    _visit(entry, order)
    return list(order)


def _visit(name: str, order: dict[str, None]) -> None:
    if name in order:
        return
    for imported in _imports(name):
        _visit(imported, order)
    order[name] = None


def _imports(name: str) -> Iterator[str]:
    return (found[1] for found in _IMPORT.finditer(text(f"explorer/{name}.js")))


def _joinable(name: str, entry: str) -> str:
    """A module's text without what only the separate file needs."""
    source = _DOC.sub("", _IMPORT.sub("", text(f"explorer/{name}.js")))
    source = re.sub(r"\n{2,}", "\n", source)
    return source if name == entry else _EXPORT.sub("", source)


def plotly_source() -> str:
    """The plotly.js that the installed plotly package carries; nothing comes from a network."""
    return (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
