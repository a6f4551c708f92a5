"""What a campaign plans, and when it has enough.

A point of the population becomes a job with a number; the stop rule looks at beginnings
of the plan only, so that it does not depend on which worker was faster.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fi_notebook.campaign.draws import CampaignError, seed_of
from fi_notebook.campaign.journal import Row
from fi_notebook.campaign.population import Point, group_of
from fi_notebook.campaign.results import Results, group_in
from fi_notebook.campaign.specs import FaultSpec
from fi_notebook.campaign.statistics import margin_of_worth, sample_size
from fi_notebook.campaign.worker import Job, text_of
from fi_notebook.core.site import Site
from fi_notebook.core.words import counted

__all__ = ["DryRun", "Stop", "chunk_of", "in_strata", "job_of", "key_of", "named"]

_CHUNK = 50
_CHECK = 50
"""The stop rule is asked after each so many injections, by number."""


@dataclass(frozen=True)
class DryRun:
    """What a campaign would do.

    Attributes:
        population: How many faults there are to choose from.
        n: How many injections are planned.
        seconds: How long they take in one process, from a few that were tried.
        why: Why faults are replayed in full and not as slices, or ``""``.
        draws: Whether a fault draws, so that it is another one each time.
        worth: How many equally likely draws the ``n`` are worth at worst; see `design`.
        elements: How many elements were drawn, of which all faults are; 0 where none were.
    """

    population: int
    n: int
    seconds: float
    why: str = ""
    draws: bool = False
    worth: float = math.nan
    elements: int = 0

    @property
    def margin(self) -> float:
        """Half the width of the interval of a rate of one half, at most (Leveugle)."""
        return margin_of_worth(self.n if math.isnan(self.worth) else self.worth)

    @property
    def needed(self) -> int:
        """How many injections a margin of 5 % needs."""
        return sample_size(self.population)

    def __str__(self) -> str:
        """A few plain sentences."""
        slow = f"\nEvery fault runs the whole step: {self.why}." if self.why else ""
        return (
            f"{counted(self.n, 'injection')} of {counted(self.population, 'possible fault')}, "
            f"about {self.seconds:.3g} s in one process.\n{self._wide}{slow}"
        )

    @property
    def _wide(self) -> str:
        """How much the rates will tell."""
        within = f"to within ± {self.margin:.2%} at 95 % confidence"
        every = self.n >= self.population and not self.draws
        if self.elements:
            exact = ", so the rates among them are exact" if every else ""
            return (
                f"{'All' if every else 'They'} are of {counted(self.elements, 'drawn element')}"
                f"{exact}; of all elements a rate will be known {within} at worst, since faults of "
                "one element may end alike."
            )
        if every:
            return "Every one of them is tried, so the rates are exact."
        needed = counted(self.needed, "injection")
        return f"A rate will be known {within}; ± 5 % needs {needed}."


def check_stop(strategy: str) -> None:
    """Refuse a stop rule where all that is planned is wanted.

    Raises:
        CampaignError: Every fault is to be tried.
    """
    if strategy == "exhaustive":
        raise CampaignError(
            "stop is for campaigns that draw: an exhaustive one tries every fault; choose "
            "strategy='random', or leave stop out"
        )


class Stop:
    """Whether a campaign is to stop, and which rows it then has.

    Args:
        planned: How many injections are planned.
        rows: Those that were made, by number; it grows.
        width: Width at which the widest interval is narrow enough, or None.
        cancelled: Whether the person has had enough.
    """

    def __init__(
        self,
        planned: int,
        rows: Mapping[int, Row],
        width: float | None,
        cancelled: Callable[[], bool],
    ) -> None:
        """Look at what there is already."""
        self._planned, self._rows, self._width, self._cancelled = planned, rows, width, cancelled
        self._known, self._enough = 0, 0
        self.look()

    def __call__(self) -> bool:
        """Whether no more injections are to be begun."""
        return bool(self._enough) or self._cancelled()

    def look(self) -> None:
        """Judge the stop rule on beginnings of the plan, whatever else is done already."""
        if self._width is None:
            return
        while not self._enough and self._has(self._known + 1, self._known + _CHECK):
            self._known += _CHECK
            rows = Results(tuple(self._rows[number] for number in range(1, self._known + 1)))
            if rows.width() <= self._width:
                self._enough = self._known

    @property
    def fell_short(self) -> bool:
        """Whether all that was planned was made, and the widest interval is too wide still."""
        if self._width is None or self._enough or not self._has(1, self._planned):
            return False
        return self.results().width() > self._width

    def _has(self, first: int, last: int) -> bool:
        return all(number in self._rows for number in range(first, last + 1))

    def results(self) -> Results:
        """The rows of the plan by number, up to where the stop rule held."""
        last = self._enough or self._planned
        found = (self._rows[number] for number in range(1, last + 1) if number in self._rows)
        return Results(tuple(found), self._planned)


def job_of(number: int, site: Site, point: Point, seed: int) -> Job:
    """The injection of a point."""
    fault = point.fault(site, seed_of(seed, number))
    names = ("layer", "phase", "op", "field", "model", "fault")
    place: dict[str, Any] = {name: group_of(name, site, point) for name in names}
    place |= {"bit": point.bit, "dtype": site.dtype, "order": point.row}
    if point.drawn:
        place["unit"] = point.element
    return Job(number, str(site), point.step, fault, place)


def in_strata(jobs: Sequence[Job], by: str, sizes: Mapping[str, int]) -> list[Job]:
    """The injections with the stratum of each, and how many faults there are in it."""
    strata = [group_in(job, by) for job in jobs]
    return [
        replace(job, place={**job.place, "stratum": name, "stratum_size": sizes[name]})
        for job, name in zip(jobs, strata, strict=True)
    ]


def chunk_of(jobs: int, workers: int) -> int:
    """Large enough to be worth a task, small enough to share the work."""
    return max(1, min(_CHUNK, jobs // (8 * workers)))


def key_of(source: str, specs: Sequence[FaultSpec], *rest: Any) -> str:
    """What two runs must have in common to share a journal; functions by their names."""
    what = [source, [repr(spec) for spec in specs], named(rest)]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]


def named(value: Any) -> str:
    """A value as text; that of a function has its name and no address, which no run shares."""
    if isinstance(value, Mapping):
        return str({name: named(item) for name, item in value.items()})
    if isinstance(value, (list, tuple)):
        return str([named(item) for item in value])
    return str(text_of(value)) if callable(value) else repr(value)
