"""The journal: one line of JSON for each finished injection, only ever appended.

    {"id": 417, "campaign": {…}, "site": "relu*2:0", "fault": {…}, "seed": …, "step": 0,
     "environment": {…}, "outcome": "masked_exact", "reason": "…", "metrics": {…}}

Every line holds the whole identity of its injection, so that it can be made again from
the line alone. A process that is killed leaves at most one torn line at the end: readers
pass over it, and its injection is made again.

Limits: one writer at a time; numbers that are not finite are written as mappings such as
``{"float": "NaN"}``, since JSON has none.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from fi_notebook.core.files import append_whole
from fi_notebook.core.run import OUTCOMES
from fi_notebook.core.words import agreed, counted
from fi_notebook.errors import JournalError, did_you_mean, short

__all__ = ["Journal", "JournalError", "Row", "read_row", "read_rows"]


logger = logging.getLogger("fi_notebook")


@dataclass(frozen=True)
class Row:
    """One finished injection.

    Attributes:
        id: Number of the injection in its campaign, from 1.
        campaign: What the campaign is: ``key``, ``make_session``, ``seed`` and settings.
        site: Where, as text.
        fault: The fault model, its parameters, the elements and the scope.
        seed: Seed of the fault.
        step: In which step it strikes.
        environment: Versions and settings that decide whether bits can be the same.
        outcome: One of the outcomes.
        reason: One plain sentence.
        metrics: Numbers: losses, distances, values before and after.
        place: What describes the site: phase, module, operator, dtype, layer …
        outcome_step: The step at which it showed, or None.
        way: ``slice`` or ``replay``: how it was carried out.
        early: Whether it ended before the step did, since nothing could change any more.
        seconds: How long it took; no part of the result.
        detections: For each detector that was tried its first alarm that the golden run has
            not, as ``{"step": …, "site": …}``, None where it was silent, or ``{"error": …}``;
            None where only a full replay would tell.
        mechanisms: Of what the error died, and in how many calls; None as above.
        planned: How many injections were planned when it was made; 0 where that is not known.
            No part of the result: a longer campaign begins with the shorter one.
    """

    id: int
    campaign: Mapping[str, Any]
    site: str
    fault: Mapping[str, Any]
    seed: int
    step: int
    environment: Mapping[str, Any]
    outcome: str
    reason: str
    metrics: Mapping[str, Any] = field(default_factory=dict)
    place: Mapping[str, Any] = field(default_factory=dict)
    outcome_step: int | None = None
    way: str = "slice"
    early: bool = False
    seconds: float = 0.0
    detections: Mapping[str, Mapping[str, Any] | None] | None = None
    mechanisms: Mapping[str, int] | None = None
    planned: int = 0

    @property
    def detected_by(self) -> list[str]:
        """The detectors that caught it, in the order in which they were tried."""
        return [
            name for name, first in (self.detections or {}).items() if first and "step" in first
        ]

    @property
    def result(self) -> dict[str, Any]:
        """What must be the same whoever makes it, in however long a campaign."""
        return {name: value for name, value in asdict(self).items() if name not in _NO_RESULT}

    def to_json(self) -> str:
        """The line, without its end."""
        return json.dumps(_written(asdict(self)), separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, line: str | bytes) -> Row:
        """Read a line.

        Raises:
            ValueError: It is no whole row.
            JournalError: It is one, and holds what no row can.
        """
        found = _read(json.loads(line))
        names = {known.name for known in fields(cls)}
        if not isinstance(found, dict) or not {"id", "campaign", "outcome"} <= set(found):
            raise ValueError("no row of a campaign")
        try:
            row = cls(**{name: value for name, value in found.items() if name in names})
        except TypeError as error:
            raise ValueError(f"no whole row of a campaign: {error}") from error
        _check(row)
        return row


_NO_RESULT = ("seconds", "planned")

_KINDS: Mapping[str, tuple[type, ...]] = {
    "id": (int,),
    "campaign": (dict,),
    "site": (str,),
    "fault": (dict,),
    "seed": (int,),
    "step": (int,),
    "environment": (dict,),
    "outcome": (str,),
    "reason": (str,),
    "metrics": (dict,),
    "place": (dict,),
    "outcome_step": (int, type(None)),
    "way": (str,),
    "early": (bool,),
    "seconds": (int, float),
    "detections": (dict, type(None)),
    "mechanisms": (dict, type(None)),
    "planned": (int,),
}
"""What each part of a row is, as JSON has it."""


def _check(row: Row) -> None:
    """Refuse a row that holds what no row can.

    Raises:
        JournalError: Says what it holds, and what was expected.
    """
    for name, kinds in _KINDS.items():
        value = getattr(row, name)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            expected = " or ".join(_JSON[kind] for kind in kinds)
            raise JournalError(f"{name} is {short(value)}; expected {expected}")
    if row.id < 1 or 0 < row.planned < row.id:
        span = f"from 1 to {row.planned}" if row.planned else "from 1"
        raise JournalError(f"id is {row.id}; expected a number {span}")
    if row.outcome not in OUTCOMES:
        raise JournalError(f"no outcome {row.outcome!r}{did_you_mean(row.outcome, OUTCOMES)}")


_JSON = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    dict: "a mapping",
    type(None): "null",
}

_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _written(value: Any) -> Any:
    """Numbers that JSON has not, as one-key mappings."""
    if isinstance(value, float) and not math.isfinite(value):
        name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return {"float": name}
    if isinstance(value, Mapping):
        return {key: _written(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_written(item) for item in value]
    return value


def _read(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"float"} and value["float"] in _WORDS:
            return _WORDS[value["float"]]
        return {key: _read(item) for key, item in value.items()}
    return [_read(item) for item in value] if isinstance(value, list) else value


class Journal:
    """The rows of one campaign, in a file or, without a path, in memory only.

    Args:
        path: The file; it need not be there yet.
        key: Key of the campaign; rows of another one are refused.
    """

    def __init__(self, path: str | Path | None, key: str) -> None:
        """Read what is there."""
        self.path = None if path is None else Path(path)
        self.torn = 0
        self.rows: dict[int, Row] = {}
        if self.path is not None and self.path.exists():
            self.rows, self.torn = _read_lines(self.path)
        other = next((_key(row) for row in self.rows.values() if _key(row) != key), None)
        if other is not None:
            raise JournalError(
                f"{path} is the journal of another campaign ({other}, this is {key}): another "
                "session, seed, sites or faults; give another file"
            )

    def append(self, rows: Iterable[Row]) -> list[Row]:
        """Write rows that are new, and give them back; they are on the disk when this returns."""
        new = [row for row in rows if row.id not in self.rows]
        if self.path is not None and new:
            text = "".join(f"{row.to_json()}\n" for row in new)
            append_whole(self.path, _line_end(self.path) + text.encode())
        self.rows.update((row.id, row) for row in new)
        return new


def _key(row: Row) -> str:
    """The campaign that a row belongs to."""
    return str(row.campaign.get("key"))


_BEGINNING = b'{"id":'
"""How every row begins, whole or torn."""


def _read_lines(path: Path) -> tuple[dict[int, Row], int]:
    """The rows of a journal by number, and how many lines are torn: those are passed over.

    Raises:
        JournalError: It is the file of something else, or of several campaigns.
    """
    lines = [line for line in path.read_bytes().splitlines() if line.strip()]
    rows, keys, torn = dict[int, Row](), dict[str, None](), 0
    for number, line in enumerate(lines, 1):
        try:
            row = Row.from_json(line)
        except JournalError as error:
            raise JournalError(f"row {number} of {path} is none of a campaign: {error}") from None
        except ValueError:
            torn += 1  # its writer was killed; the injection is made again
            continue
        rows.setdefault(row.id, row)
        keys[_key(row)] = None
    if not rows and not all(_BEGINNING.startswith(line[: len(_BEGINNING)]) for line in lines):
        raise JournalError(f"{path} is no journal: none of its lines is a row of a campaign")
    if len(keys) > 1:
        raise JournalError(
            f"{path} has rows of {counted(len(keys), 'campaign')} ({', '.join(keys)}), which are "
            "numbered alike; keep those of each in a file of its own"
        )
    if torn:
        which = f"{counted(torn, 'line')} of {path}"
        logger.warning("%s could not be read and %s passed over", which, agreed(torn, "were"))
    return rows, torn


def read_rows(path: str | Path) -> dict[int, Row]:
    """The rows of a journal, by number; torn lines are passed over.

    Args:
        path: The journal.

    Returns:
        At least one row.

    Raises:
        JournalError: It is no journal, of several campaigns, or has no row.
        OSError: There is no such file.
    """
    rows, _ = _read_lines(Path(path))
    if not rows:
        raise JournalError(f"{path} has no row of a campaign; expected a journal of one that ran")
    return rows


def _line_end(path: Path) -> bytes:
    """What ends a torn line, so that the next one stands by itself."""
    if not path.exists() or not path.stat().st_size:
        return b""
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return b"" if file.read(1) == b"\n" else b"\n"


def read_row(text: str) -> Row:
    """The row that ``journal.jsonl:417`` names: that of injection 417.

    Raises:
        JournalError: There is no such journal or row; says which there are.
    """
    name, _, number = text.rpartition(":")
    if not name or not number.isdigit():
        raise JournalError(f"{text!r} names no row; expected text such as 'journal.jsonl:417'")
    if not Path(name).is_file():
        raise JournalError(f"there is no journal {name!r}")
    rows = read_rows(name)
    if int(number) not in rows:
        many = counted(len(rows), "row")
        raise JournalError(
            f"{name} has no row {number}; it has {many}, from {min(rows)} to {max(rows)}"
        )
    return rows[int(number)]
