"""What the rows of a campaign say: tables, rates, and columns for pictures.

    results = Results(rows)
    results.rates(by="layer")      one line per layer and outcome, with Wilson intervals
    results.compare(other)         Newcombe intervals of the differences
    results.to_pandas()            every row, NaN rows included

Limits: rates are of what was injected; ``not_injected`` is counted beside them and is in
no denominator. ``inactive`` (struck, nothing changed) is an outcome of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fi_notebook.campaign.journal import Row, read_rows
from fi_notebook.campaign.statistics import (
    CONFIDENCE,
    HARM,
    NOT_TESTED,
    Contrast,
    Coverage,
    Rate,
    contrasts,
    rates,
)
from fi_notebook.core.frames import pandas
from fi_notebook.core.run import HARMLESS, OUTCOMES
from fi_notebook.core.words import counted
from fi_notebook.errors import ArgumentError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

    from fi_notebook.campaign.worker import Job

__all__ = ["BY", "Results", "group_in"]

BY = ("site", "layer", "phase", "op", "bit", "field", "model", "dtype", "step", "outcome", "all")
"""What rates can be grouped by."""

_MASKED = ("masked_exact", "masked_tolerance")


@dataclass(frozen=True)
class Results:
    """The rows of one campaign, by number.

    Attributes:
        rows: The rows.
    """

    rows: tuple[Row, ...]

    def __repr__(self) -> str:
        """How many injections, and how they ended; the rows are too long to print."""
        ends = ", ".join(f"{name} {n}" for name, n in self.counts.items())
        return f"<Results of {counted(len(self), 'injection')}: {ends or 'none yet'}>"

    def __len__(self) -> int:
        """How many injections were made."""
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        """The rows by number."""
        return iter(self.rows)

    @classmethod
    def load(cls, path: str | Path) -> Results:
        """Read a journal; torn lines are passed over.

        Args:
            path: The journal.

        Returns:
            Its rows by number.

        Raises:
            JournalError: It is no journal, of several campaigns, or has no row.
            OSError: There is no such file.
        """
        return cls(tuple(row for _, row in sorted(read_rows(path).items())))

    @property
    def outcomes(self) -> list[str]:
        """The outcome of each row."""
        return [row.outcome for row in self.rows]

    @property
    def counts(self) -> dict[str, int]:
        """How often each outcome came, in the order of `OUTCOMES`."""
        found = Counter(self.outcomes)
        return {name: found[name] for name in OUTCOMES if found[name]}

    def groups(self, by: str) -> list[str]:
        """The group of each row.

        Raises:
            ArgumentError: Nothing is grouped by that.
        """
        if by not in BY:
            raise ArgumentError(f"nothing is grouped by {by!r}{did_you_mean(by, BY)}")
        return [group_in(row, by) for row in self.rows]

    def rates(self, by: str = "all", confidence: float = CONFIDENCE) -> list[Rate]:
        """The rate of every outcome in every group, with its interval.

        Args:
            by: One of `BY`.
            confidence: Confidence of the intervals.
        """
        return rates(self.groups(by), self.outcomes, OUTCOMES, confidence, self.weights)

    def compare(self, other: Results, confidence: float = CONFIDENCE) -> list[Contrast]:
        """Every outcome here and there: other minus this, with the interval."""
        weights = (self.weights, other.weights)
        return contrasts(self.outcomes, other.outcomes, OUTCOMES, confidence, weights)

    def coverage(self, confidence: float = CONFIDENCE) -> list[Coverage]:
        """How often each detector caught injections that did harm, and those of each outcome.

        What it catches of the harmless is a false alarm. An alarm that the golden run has too
        catches nothing.

        Args:
            confidence: Confidence of the intervals.

        Returns:
            For each detector `statistics.HARM` first, then every outcome that came; nothing where
            no injection was replayed in full (`Campaign` with ``full``).
        """
        kinds = {HARM: {name for name in self.counts if name not in HARMLESS}}
        kinds |= {name: {name} for name in self.counts if name != NOT_TESTED}
        detectors = dict.fromkeys(name for row in self.rows for name in row.detections or ())
        return [
            Coverage.of(detector, kind, self._caught(detector, ends), self.weights, confidence)
            for detector in detectors
            for kind, ends in kinds.items()
        ]

    def _caught(self, detector: str, ends: Container[str]) -> dict[int, bool]:
        """Whether it caught each injection that ended so, where it was tried and did not fail."""
        found = {}
        for number, row in enumerate(self.rows):
            tried = row.detections or {}
            if row.outcome in ends and detector in tried:
                first = tried[detector]
                if first is None or "error" not in first:
                    found[number] = first is not None
        return found

    @cached_property
    def weights(self) -> list[float]:
        """For how many faults each row stands: its stratum's size by how many of it were made."""
        return weights_of([row.place for row in self.rows])

    def width(self, confidence: float = CONFIDENCE) -> float:
        """Width of the widest interval of any outcome's rate; 1 where nothing is known."""
        found = [r.high - r.low for r in self.rates("all", confidence) if r.n]
        return max(found, default=1.0)

    def to_pandas(self) -> pd.DataFrame:
        """One line per row; numbers that are NaN stay.

        ``weight`` is for how many faults a row stands where strata differ (`statistics.rates`),
        ``golden`` the golden run that it was made on; ``differing`` counts outputs of the struck
        step. ``way`` is ``slice`` or ``replay``, ``early`` whether it ended before the step did.
        ``detected_by``, ``detected_step`` and ``mechanisms`` say which detectors caught it, when
        first, and of what its error died; of rows of a campaign that is not ``full`` nothing,
        since a slice takes no statistics of calls.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        rows = zip(self.rows, self.weights, strict=True)
        return pandas().DataFrame([flat(row) | {"weight": weight} for row, weight in rows])

    def rates_to_pandas(self, by: str = "all", confidence: float = CONFIDENCE) -> pd.DataFrame:
        """`rates` as a table.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        frame = pandas().DataFrame
        found = self.rates(by, confidence)
        names = ("group", "outcome", "count", "n", "rate", "low", "high")
        return frame(
            [[getattr(rate, name) for name in names] for rate in found], columns=list(names)
        )

    def columns(self) -> dict[str, np.ndarray]:
        """What the pictures are drawn from: one array per column, one item per row."""
        rows = self.rows
        losses = [row.metrics.get("losses") or [row.metrics.get("loss")] for row in rows]
        return {
            **{by: np.asarray(self.groups(by), dtype=object) for by in BY},
            "weight": np.asarray(self.weights),
            "bit": np.asarray([_whole(row.place.get("bit")) for row in rows], dtype=np.int64),
            "order": np.asarray([_whole(row.place.get("order")) for row in rows], dtype=np.int64),
            "losses": _array([np.asarray(items, dtype=float) for items in losses]),
        }


def group_in(injection: Row | Job, by: str) -> str:
    """The group of an injection, planned or made: what the strata are called and the rates.

    Args:
        injection: The injection.
        by: One of `BY`.

    Returns:
        Its group; ``-`` where it has none, as the bit of a fault that flips none.
    """
    if by == "all":
        return "all"
    if by in ("step", "site", "outcome"):
        return str(getattr(injection, by))
    found = injection.place.get(by)
    return "-" if found is None else str(found)


def weights_of(places: Sequence[Mapping[str, Any]]) -> list[float]:
    """For how many faults each injection stands, from its stratum; 1 where there are no strata."""
    made = Counter(place.get("stratum") for place in places)
    return [
        place["stratum_size"] / made[place["stratum"]] if "stratum" in place else 1.0
        for place in places
    ]


def _array(items: Sequence[np.ndarray]) -> np.ndarray:
    """An array of arrays, whatever their lengths."""
    made = np.empty(len(items), dtype=object)
    for place, item in enumerate(items):
        made[place] = item
    return made


def _whole(value: Any) -> int:
    return -1 if value is None or value == "-" else int(value)


def flat(row: Row) -> dict[str, Any]:
    """A row as one line of a table."""
    elements = row.fault.get("elements")
    return {
        "id": row.id,
        "site": row.site,
        **{name: row.place.get(name) for name in ("phase", "layer", "op", "dtype")},
        "model": row.fault.get("model"),
        "bit": row.place.get("bit"),
        "field": row.place.get("field"),
        "elements": str(row.fault.get("elements")),
        "element": elements.get("index") if isinstance(elements, Mapping) else None,
        "scope": row.fault.get("scope"),
        "parameters": str(row.fault.get("parameters")),
        "step": row.step,
        "seed": row.seed,
        "outcome": row.outcome,
        "outcome_step": row.outcome_step,
        "masked": row.outcome in _MASKED,
        "reason": row.reason,
        **{name: value for name, value in row.metrics.items() if name != "losses"},
        "way": row.way,
        "early": row.early,
        "seconds": row.seconds,
        **{name: row.environment.get(name) for name in ("torch", "machine", "golden")},
        **_seen(row),
    }


def _seen(row: Row) -> dict[str, Any]:
    """What only a full replay tells."""
    if row.detections is None:
        return {"detected_by": None, "detected_step": None, "mechanisms": None}
    steps = [first["step"] for first in row.detections.values() if first and "step" in first]
    died = ", ".join(f"{name} ({count})" for name, count in (row.mechanisms or {}).items())
    return {
        "detected_by": ", ".join(row.detected_by),
        "detected_step": min(steps, default=None),
        "mechanisms": died,
    }
