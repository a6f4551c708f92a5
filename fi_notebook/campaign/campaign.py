"""Many faults of one session: planned, made, counted.

    campaign = fi.Campaign("my_training:make_session", faults=["bitflip"], n=2000, seed=1)
    print(campaign.dry_run())        how many, how long, how wide the intervals will be
    campaign.run(journal="run.jsonl")
    campaign.rates(by="layer")

A person's function makes the session, so that any process can have one. What is made is
written to the journal; run again with the same journal, it goes on where it stopped.

Limits: sites are those of the golden run's first step; a fault in a later step strikes
the same call there.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fi_notebook.campaign.execute import carried_out, workers_of
from fi_notebook.campaign.journal import Journal, Row
from fi_notebook.campaign.progress import Clock, Progress
from fi_notebook.campaign.results import Results
from fi_notebook.campaign.sample import (
    ONE,
    CampaignError,
    FaultSpec,
    Point,
    Population,
    Sites,
    group_of,
    planned,
    seed_of,
)
from fi_notebook.campaign.statistics import CONFIDENCE, Contrast, Rate, margin_of, sample_size
from fi_notebook.campaign.worker import Bench, Job, Settings, source_of
from fi_notebook.core.fault import Elements, Fault
from fi_notebook.core.site import Site
from fi_notebook.core.steps import Steps
from fi_notebook.session import Session

if TYPE_CHECKING:
    import pandas as pd

    from fi_notebook.campaign.pictures import Pictures

__all__ = ["Campaign", "DryRun"]

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
        margin: Half the width of the interval of a rate of one half (Leveugle).
        needed: How many injections a margin of 5 % needs.
        why: Why faults are replayed in full and not as slices, or ``""``.
    """

    population: int
    n: int
    seconds: float
    margin: float
    needed: int
    why: str = ""

    def __str__(self) -> str:
        """A few plain sentences."""
        slow = f"\nEvery fault runs the whole step: {self.why}." if self.why else ""
        return (
            f"{self.n:,} injections of {self.population:,} possible faults, about "
            f"{self.seconds:.3g} s in one process.\nA rate will be known to within ± "
            f"{self.margin:.2%} at 95 % confidence; ± 5 % needs {self.needed:,} injections.{slow}"
        )


class Campaign:
    """A sample of faults on one training step.

    Args:
        make_session: A function without arguments that gives a `Session`, or its name as
            ``module:function``; other processes must be able to import it.
        sites: Targets such as ``relu``, filters of `Trace.find`, or a test of each site;
            None is every computed floating-point value.
        faults: Fault models: names, (name, parameters) pairs or mappings.
        elements: ``one`` (each element is a fault of its own), a number of drawn ones,
            or a selection such as ``{"row": 2}``.
        n: How many injections; None is what a margin of 5 % needs.
        strategy: ``random``, ``stratified`` or ``exhaustive``.
        seed: Seed of the sample, of each fault and of the session.
        strata: What a stratified campaign is divided by, or the planned counts.
        by: What the names of planned counts are of.
        steps: How many steps are replayed.
        at: In which of them the faults strike.
        threads: Threads of torch in each process.
        timeout: Seconds that one injection may take.
        audit: Of how many injections one is also replayed in full, and the first of each
            phase; 0 is none.

    Raises:
        CampaignError: Something can never be; says what would be.
    """

    def __init__(
        self,
        make_session: Callable[[], Session] | str,
        *,
        sites: Sites = None,
        faults: Sequence[Any] = ("bitflip",),
        elements: Elements | int = ONE,
        n: int | None = None,
        strategy: str = "random",
        seed: int = 0,
        strata: str | Mapping[str, int] = "layer",
        by: str = "layer",
        steps: int = 1,
        at: int | str | Iterable[int] = 0,
        threads: int = 1,
        timeout: float = 60.0,
        audit: int = 1000,
    ) -> None:
        """Plan nothing yet; the session is made when it is first needed."""
        specs = [faults] if isinstance(faults, (str, FaultSpec)) else faults
        self._source = source_of(make_session)
        self._specs = [FaultSpec.of(given) for given in specs]
        struck = [n for n in range(steps) if n in Steps.parse(at)]  # type: ignore[arg-type]  # Steps takes lists
        if not struck:
            raise CampaignError(f"at is {at!r}, and {steps} steps are replayed; choose one of them")
        self._how = {"sites": sites, "elements": elements, "steps": struck, "seed": seed}
        self._plan = {"strategy": strategy, "strata": strata, "by": by}
        self._n, self.seed, self.steps = n, seed, steps
        self._threads, self._timeout, self._audit = threads, timeout, audit
        self._session: Session | None = None
        self._cancelled = False
        self.results = Results(())
        self.progress: Progress | None = None

    @classmethod
    def of_site(
        cls, session: Session, site: Site | str, *, elements: int = 8, **how: Any
    ) -> Campaign:
        """Sweep one site: every bit of a few elements, in this process.

        Args:
            session: The session; its plan and runs stay as they are.
            site: The site.
            elements: How many elements are drawn.
            **how: What else a campaign takes.
        """
        return cls.of_sites(session, [site], elements=elements, strategy="exhaustive", **how)

    @classmethod
    def of_sites(cls, session: Session, sites: Sites, **how: Any) -> Campaign:
        """A campaign on a session that there is already, in this process."""
        campaign = cls(lambda: session, sites=sites, **how)
        campaign._session = session  # noqa: SLF001  # it is our own
        return campaign

    @classmethod
    def of_subtree(cls, session: Session, module: str, *, n: int = 400, **how: Any) -> Campaign:
        """Sweep a module and everything below it, in this process."""
        return cls.of_sites(session, {"module": module}, n=n, **how)

    # the plan

    @cached_property
    def bench(self) -> Bench:
        """The session of this process, with its golden run."""
        return Bench(self._settings, self._session)

    @cached_property
    def population(self) -> Population:
        """Every fault that could be tried."""
        return Population.of(self.bench.trials.trace, specs=self._specs, **self._how)

    @cached_property
    def points(self) -> list[Point]:
        """The faults that are tried, in order."""
        n = self._n
        if n is None and self._plan["strategy"] != "exhaustive":
            n = sample_size(len(self.population))
        return planned(self.population, n, seed=self.seed, **self._plan)

    @cached_property
    def jobs(self) -> list[Job]:
        """The injections, from number 1."""
        sites = {site_row(self, site): site for site in self.population.sites}
        return [
            _job(number, sites[point.row], point, self.seed)
            for number, point in enumerate(self.points, 1)
        ]

    @property
    def strata(self) -> dict[str, int]:
        """How many injections are planned in each stratum."""
        name = self._plan["strata"] if isinstance(self._plan["strata"], str) else self._plan["by"]
        counts: dict[str, int] = {}
        for job in self.jobs:
            group = str(job.place.get(str(name), job.site))
            counts[group] = counts.get(group, 0) + 1
        return counts

    @cached_property
    def _settings(self) -> Settings:
        source = self._source if isinstance(self._source, str) else repr(self._source)
        campaign = {
            "key": _key(source, self._specs, self._how, self._plan, self.steps, self._threads),
            "make_session": source,
            "seed": self.seed,
            "steps": self.steps,
            "threads": self._threads,
        }
        return Settings(self._source, campaign, self._timeout, self._audit)

    def dry_run(self, tried: int = 20) -> DryRun:
        """How many injections, how long, and how wide the intervals will be.

        Args:
            tried: How many injections are made to time them.
        """
        some = self.jobs[:: max(1, len(self.jobs) // tried)][:tried]
        self.bench.rows(some[:1])
        began = time.perf_counter()
        self.bench.rows(some)
        each = (time.perf_counter() - began) / max(1, len(some))
        size = len(self.population)
        return DryRun(
            population=size,
            n=len(self.jobs),
            seconds=each * len(self.jobs),
            margin=margin_of(len(self.jobs), size),
            needed=sample_size(size),
            why=self.bench.trials.why,
        )

    # the run

    def run(
        self,
        executor: Executor | Callable[[], Executor] | None = None,
        *,
        journal: str | Path | None = None,
        stop: float | None = None,
        chunk: int | None = None,
        cancel: Callable[[], bool] | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Results:
        """Make the injections; what a journal has already is not made again.

        Args:
            executor: Who makes them: any `concurrent.futures.Executor`, or a function
                that makes one; None is this process.
            journal: File of the rows.
            stop: Width at which the widest interval of a rate is narrow enough.
            chunk: How many are made in one task.
            cancel: Asked now and then; true stops the campaign and keeps what is done.
            on_progress: Told after each task.

        Raises:
            CampaignError: Other processes cannot import ``make_session``.
        """
        self._cancelled = False
        kept = Journal(journal, self._settings.campaign["key"])
        jobs = [job for job in self.jobs if job.id not in kept.rows]
        clock = Clock(len(self.jobs), list(kept.rows.values()))
        who = self._who(executor)
        size = chunk or _chunk(len(jobs), 1 if executor is None else workers_of(executor))
        asked = _Asked(self, cancel, kept.rows, stop)
        for rows in carried_out(self._settings, jobs, who, chunk=size, stop=asked):
            self.progress = clock.add(kept.append(rows))
            if on_progress is not None:
                on_progress(self.progress)
            asked.look()
        self.results = Results(tuple(asked.chosen()))
        return self.results

    def cancel(self) -> None:
        """Stop a campaign that is running, from any thread; what is done is kept."""
        self._cancelled = True

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def _who(self, executor: Any) -> Any:
        if executor is None:
            return self.bench
        if not isinstance(self._source, str) or self._session is not None:
            raise CampaignError(
                "other processes cannot import make_session; put the function into a module and "
                "give its name as 'module:function', or run the campaign in this process"
            )
        return executor

    # what came of it

    def rates(self, by: str = "all", confidence: float = CONFIDENCE) -> list[Rate]:
        """The rate of each outcome by `results.BY`, with Wilson intervals."""
        return self.results.rates(by, confidence)

    def compare(self, other: Campaign | Results, confidence: float = CONFIDENCE) -> list[Contrast]:
        """Every outcome of this campaign and another one, with the interval of the difference."""
        theirs = other.results if isinstance(other, Campaign) else other
        return self.results.compare(theirs, confidence)

    def to_pandas(self) -> pd.DataFrame:
        """One line per injection."""
        return self.results.to_pandas()

    @property
    def figures(self) -> Pictures:
        """The pictures of the campaign."""
        from fi_notebook.campaign.pictures import Pictures

        return Pictures(self.results)

    def save_html(self, path: str | Path) -> Path:
        """Write the campaign as one file that opens offline."""
        from fi_notebook.campaign.pictures import save_html

        return save_html(self.results, path)


class _Asked:
    """Whether a campaign is to stop, and which rows it then has."""

    def __init__(
        self,
        campaign: Campaign,
        cancel: Callable[[], bool] | None,
        rows: Mapping[int, Row],
        stop: float | None,
    ) -> None:
        self._campaign, self._cancel, self._rows, self._width = campaign, cancel, rows, stop
        self._known, self._enough = 0, 0
        self.look()

    def __call__(self) -> bool:
        cancelled = self._campaign.is_cancelled or (self._cancel is not None and self._cancel())
        return bool(self._enough) or cancelled

    def look(self) -> None:
        """Judge the stop rule on beginnings of the plan, whatever else is done already."""
        if self._width is None:
            return
        while not self._enough and self._has(self._known + 1, self._known + _CHECK):
            self._known += _CHECK
            rows = Results(tuple(self._rows[number] for number in range(1, self._known + 1)))
            if rows.width() <= self._width:
                self._enough = self._known

    def _has(self, first: int, last: int) -> bool:
        return all(number in self._rows for number in range(first, last + 1))

    def chosen(self) -> list[Row]:
        """The rows of the plan by number, up to where the stop rule held."""
        last = self._enough or len(self._campaign.jobs)
        return [self._rows[number] for number in range(1, last + 1) if number in self._rows]


def site_row(campaign: Campaign, site: Site) -> int:
    """Row of a site in the campaign's golden run."""
    return campaign.bench.trials.trace.row(site)


def _job(number: int, site: Site, point: Point, seed: int) -> Job:
    spec = point.spec
    parameters = dict(spec.parameters) if point.bit is None else {"bit": point.bit}
    elements: Any = {"index": point.element} if point.element is not None else spec.elements
    fault = Fault(
        id="f1",
        target=site.target,
        model=spec.model,
        parameters=parameters,
        elements=elements,
        steps=Steps.parse(point.step),
        seed=seed_of(seed, number),
        scope=spec.scope,
    )
    names = ("layer", "phase", "op", "field", "model")
    place = {name: group_of(name, site, point) for name in names}
    place |= {"bit": point.bit, "dtype": site.dtype, "order": point.row}
    return Job(number, str(site), point.step, fault, place)


def _chunk(jobs: int, workers: int) -> int:
    """Large enough to be worth a task, small enough to share the work."""
    return max(1, min(_CHUNK, jobs // (8 * workers)))


def _key(source: str, specs: Sequence[FaultSpec], *rest: Any) -> str:
    """What two runs must have in common to share a journal."""
    what = [source, [repr(spec) for spec in specs], repr(rest)]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]
