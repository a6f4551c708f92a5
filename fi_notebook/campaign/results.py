"""What the rows of a campaign say: tables, rates, and columns for pictures.

    results = Results(rows)
    results.rates(by="layer")      one line per layer and outcome, with Wilson intervals;
                                   .to_pandas() is their table
    results.compare(other)         Newcombe intervals of the differences
    results.to_pandas()            every row, NaN rows included

Limits: rates are of what was injected; ``not_injected`` is counted beside them and is in
no denominator. ``inactive`` (struck, nothing changed) is an outcome of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fi_notebook.campaign.design import Drawn, draws_of, tried_once
from fi_notebook.campaign.journal import Row, read_rows
from fi_notebook.campaign.statistics import (
    CONFIDENCE,
    HARM,
    NOT_TESTED,
    Contrast,
    Coverage,
    Rate,
    contrasts,
    rates_of,
)
from fi_notebook.core.frames import pandas
from fi_notebook.core.run import HARMLESS, OUTCOMES
from fi_notebook.core.words import counted
from fi_notebook.errors import ArgumentError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

    from fi_notebook.campaign.pictures import Pictures
    from fi_notebook.campaign.worker import Job

__all__ = ["BY", "EVERY", "UNIONS", "Rates", "Results", "group_in"]

BY = (
    *("site", "layer", "phase", "op", "bit", "field", "model", "fault"),
    *("dtype", "step", "outcome", "all"),
)
"""What rates can be grouped by."""

_MASKED = ("masked_exact", "masked_tolerance")

EVERY = "every"
"""Every outcome, also those that never came."""

UNIONS: Mapping[str, tuple[str, ...]] = {
    HARM: tuple(name for name in OUTCOMES if name not in HARMLESS),
    "masked": _MASKED,
    "nan": ("nan_immediate", "nan_delayed"),
}
"""Several outcomes that have one rate together."""


class Rates(list[Rate]):
    """Rates, one for each group and outcome."""

    def to_pandas(self) -> pd.DataFrame:
        """One line per rate.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        names = [field.name for field in fields(Rate)]
        return pandas().DataFrame([astuple(rate) for rate in self], columns=names)


@dataclass(frozen=True)
class Results:
    """The rows of one campaign, by number.

    Attributes:
        rows: The rows.
        planned: How many injections the campaign plans; 0 where nobody says it.
    """

    rows: tuple[Row, ...]
    planned: int = 0

    def __repr__(self) -> str:
        """How many injections, and how they ended; the rows are too long to print."""
        ends = ", ".join(f"{name} {n}" for name, n in self.counts.items())
        return f"<Results of {self.made}: {ends or 'none yet'}>"

    @property
    def made(self) -> str:
        """How many were made, and of how many where there are more: ``200 of 4,768 injections``."""
        if self.planned <= len(self):
            return counted(len(self), "injection")
        return f"{len(self):,} of {counted(self.planned, 'injection')}"

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
            Its rows by number; of as many as the longest campaign that wrote it planned.

        Raises:
            JournalError: It is no journal, of several campaigns, or has no row.
            OSError: There is no such file.
        """
        rows = tuple(row for _, row in sorted(read_rows(path).items()))
        return cls(rows, max(row.planned for row in rows))

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
        found = [group_in(row, by) for row in self.rows]
        kinds = {row.place.get("dtype") for row in self.rows if row.place.get("bit") is not None}
        if by != "bit" or len(kinds) < 2:
            return found
        dtypes = [row.place.get("dtype") for row in self.rows]  # bit 14 is another in each
        return [b if b == "-" else f"{dtype}:{b}" for b, dtype in zip(found, dtypes, strict=True)]

    def rates(
        self,
        by: str = "all",
        confidence: float = CONFIDENCE,
        of: str | Iterable[str] | None = None,
    ) -> Rates:
        """The rate of every outcome in every group, with its interval.

        Args:
            by: One of `BY`.
            confidence: Confidence of the intervals.
            of: An outcome, one of `UNIONS` (``harm``, ``masked``, ``nan``), ``every``, or several
                of these; None is the outcomes that came.

        Raises:
            ArgumentError: Nothing is grouped by that, or there is no such outcome.
        """
        kinds = {name: (name,) for name in self.counts} if of is None else _kinds(of)
        found = rates_of(kinds, self.groups(by), self.outcomes, self.draws, confidence)
        return Rates(sorted(found, key=lambda rate: _by_bit(rate.group)) if by == "bit" else found)

    def compare(self, other: Results, confidence: float = CONFIDENCE) -> list[Contrast]:
        """Every outcome here and there: other minus this, with the interval."""
        draws = (self.draws, other.draws)
        return contrasts(self.outcomes, other.outcomes, OUTCOMES, confidence, draws)

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
            Coverage.of(detector, kind, self._caught(detector, ends), self.draws, confidence)
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
    def draws(self) -> list[Drawn]:
        """How each row was drawn."""
        known = next((row.campaign for row in self.rows if "population" in row.campaign), {})
        return draws_of([row.place for row in self.rows], tried_once(known))

    @property
    def weights(self) -> list[float]:
        """For how many faults each row stands: its stratum's size by how many of it were made."""
        return [drawn.weight for drawn in self.draws]

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

    def rates_to_pandas(
        self,
        by: str = "all",
        confidence: float = CONFIDENCE,
        of: str | Iterable[str] | None = None,
    ) -> pd.DataFrame:
        """`Rates.to_pandas` of `rates`, whose arguments it takes."""
        return self.rates(by, confidence, of).to_pandas()

    @property
    def figures(self) -> Pictures:
        """The pictures of the results."""
        from fi_notebook.campaign.pictures import Pictures

        return Pictures(self)

    def save_html(self, path: str | Path) -> Path:
        """Write the results as one file that opens offline.

        Args:
            path: The file; one that is there is replaced.

        Returns:
            The path of the file.

        Raises:
            OSError: It cannot be written there.
        """
        from fi_notebook.campaign.pictures import save_html

        return save_html(self, path)

    def columns(self) -> dict[str, np.ndarray]:
        """What the pictures are drawn from: one array per column, one item per row."""
        rows = self.rows
        losses = [row.metrics.get("losses") or [row.metrics.get("loss")] for row in rows]
        return {
            **{by: np.asarray(self.groups(by), dtype=object) for by in BY},
            "weight": np.asarray(self.weights),
            "bit": np.asarray([_whole(row.place.get("bit")) for row in rows], dtype=np.int64),
            "bit_name": np.asarray(self.groups("bit"), dtype=object),
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


def _kinds(of: str | Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Which outcomes are meant, by name."""
    every = {name: (name,) for name in OUTCOMES}
    known = {name: {name: ends} for name, ends in (every | dict(UNIONS)).items()} | {EVERY: every}
    found: dict[str, tuple[str, ...]] = {}
    for name in [of] if isinstance(of, str) else of:
        if name not in known:
            raise ArgumentError(f"no outcome {name!r}{did_you_mean(str(name), known)}")
        found |= known[name]
    return found


def _by_bit(group: str) -> tuple[str, int]:
    """Where a bit stands: ``-``, then by number, format by format."""
    dtype, _, bit = group.rpartition(":")
    return dtype, int(bit) if bit.isdigit() else -1


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
        "fault": row.place.get("fault"),
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
