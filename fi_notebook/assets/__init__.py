"""The page of the explorer as static files, read by the widget and by the export."""

from __future__ import annotations

from importlib.resources import files

__all__ = ["plotly_source", "text"]


def text(name: str) -> str:
    """Text of one of the static files, such as ``explorer.js``."""
    return (files(__package__) / name).read_text(encoding="utf-8")


def plotly_source() -> str:
    """The plotly.js that the installed plotly package carries; nothing comes from a network."""
    return (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
