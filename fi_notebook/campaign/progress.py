"""How far a campaign is, in one line, while it runs.

417 of 2,000 (21 %), 212 a second, 7 s left; changed 61 %, masked exact 22 %, …
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fi_notebook.analysis.words import about
from fi_notebook.campaign.journal import Row
from fi_notebook.core.run import OUTCOMES
from fi_notebook.core.words import spoken

__all__ = ["Clock", "Progress"]


@dataclass(frozen=True)
class Progress:
    """How far a campaign is.

    Attributes:
        done: Injections that were made, those of an earlier run included.
        planned: Injections in all.
        seconds: How long this run took so far.
        rate: Injections a second, of this run.
        early: Share of them that ended early.
        counts: How often each outcome came.
    """

    done: int
    planned: int
    seconds: float
    rate: float
    early: float
    counts: dict[str, int]

    @property
    def left(self) -> float:
        """Seconds that are left; NaN where nothing is known yet."""
        return (self.planned - self.done) / self.rate if self.rate else float("nan")

    def __str__(self) -> str:
        """One line."""
        share = self.done / self.planned if self.planned else 1.0
        left = f", {_time(self.left)} left" if self.rate and self.done < self.planned else ""
        most = sorted(self.counts.items(), key=lambda item: -item[1])[:4]
        named = ", ".join(f"{spoken(name)} {about(count / self.done)}" for name, count in most)
        return (
            f"{self.done:,} of {self.planned:,} ({about(share)}), {self.rate:.3g} a second{left}"
            f"{'; ' if named else ''}{named}"
        )


class Clock:
    """Counts what comes.

    Args:
        planned: Injections in all.
        before: Rows of an earlier run.
    """

    def __init__(self, planned: int, before: Sequence[Row]) -> None:
        """Start."""
        self._planned, self._before, self._new = planned, len(before), 0
        self._early = 0
        self._counts = Counter(row.outcome for row in before)
        self._began = time.monotonic()

    def add(self, rows: Sequence[Row]) -> Progress:
        """Some more were made."""
        self._new += len(rows)
        self._early += sum(row.early for row in rows)
        self._counts.update(row.outcome for row in rows)
        seconds = time.monotonic() - self._began
        return Progress(
            done=self._before + self._new,
            planned=self._planned,
            seconds=seconds,
            rate=self._new / seconds if seconds else 0.0,
            early=self._early / self._new if self._new else 0.0,
            counts={name: self._counts[name] for name in OUTCOMES if self._counts[name]},
        )


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
