"""The structured twin of the log: one JSON line per injection, as it happens.

    {"event": "injection", "fault": "f1", "site": "relu*2:0", "step": 0, "rank": 0, …}
    {"event": "not_injected", "fault": "f2", "reason": "…", "rank": 0}
    {"event": "end", "step": 20, "rank": 0, "world_size": 4}

Several ranks may write to one file. Each line is on the disk, whole, before training goes on.
Where it cannot be written, that is an error of the step: a run whose record is lost is worth
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fi_notebook.core.files import append_whole, json_float
from fi_notebook.core.injection import ElementChange, Injection, NotInjected
from fi_notebook.core.stats import TensorStats

__all__ = ["EventFile"]


class EventFile:
    """A file of JSON lines.

    Args:
        path: The file; lines are added to what it holds.

    Raises:
        OSError: The folder does not exist or cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        """Make the file, so that a wrong path fails before the training begins."""
        self._path = Path(path).absolute()  # a script may go to another folder
        append_whole(self._path, b"")

    def write(self, injection: Injection, model: str) -> None:
        """Write one injection."""
        site = injection.site
        self._line(
            {
                "event": "injection",
                "fault": injection.fault,
                "model": model,
                "site": str(site),
                "step": injection.step,
                "rank": injection.rank,
                "phase": site.phase,
                "module": site.module,
                "parameter": site.parameter,
                "code": [frame.label for frame in site.code],
                "kind": injection.kind,
                "changed": injection.changed,
                "before": _stats(injection.before),
                "after": _stats(injection.after),
                "elements": [_change(change) for change in injection.elements],
                "note": injection.note,
            }
        )

    def finish(self, missed: Iterable[NotInjected], step: int, rank: int, world_size: int) -> None:
        """Write what did not fire on a rank of so many, and how far training came."""
        for one in missed:
            told = {"event": "not_injected", "fault": one.fault, "reason": one.reason}
            self._line(told | {"rank": rank})
        self._line({"event": "end", "step": step, "rank": rank, "world_size": world_size})

    def _line(self, mapping: dict[str, Any]) -> None:
        append_whole(self._path, (json.dumps(mapping, allow_nan=False) + "\n").encode())


def _stats(stats: TensorStats) -> dict[str, Any]:
    return {name: _number(value) for name, value in asdict(stats).items()}


def _change(change: ElementChange) -> dict[str, Any]:
    return {
        "index": list(change.index),
        "before": _number(change.before),
        "after": _number(change.after),
        "before_bits": change.before_bits,
        "after_bits": change.after_bits,
    }


def _number(value: Any) -> Any:
    """A value as JSON holds it: NaN and the infinities as text, complex as two parts."""
    if isinstance(value, complex):
        return [_number(value.real), _number(value.imag)]
    return json_float(value) if isinstance(value, float) else value
