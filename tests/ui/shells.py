"""A stand-in for IPython's shell: its events, and cells that begin and end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

__all__ = ["Shell"]


class Shell:
    """The events of an IPython shell."""

    def __init__(self) -> None:
        """No cell is running and nobody listens."""
        self.events = self
        self.ast_transformers: list[Any] = []
        self.heard: dict[str, list[Any]] = {"pre_run_cell": [], "post_run_cell": []}

    def register(self, event: str, hear: Any) -> None:
        """Listen to an event."""
        self.heard[event].append(hear)

    def unregister(self, event: str, hear: Any) -> None:
        """Listen no more."""
        self.heard[event].remove(hear)

    def begin(self) -> None:
        """A cell begins."""
        for hear in self.heard["pre_run_cell"]:
            hear(None)

    def end(self, count: int) -> None:
        """The cell with this number ends."""
        for hear in self.heard["post_run_cell"]:
            hear(SimpleNamespace(execution_count=count))
