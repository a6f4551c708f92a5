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

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from functools import cached_property
from pathlib import Path
from typing import Any

from fi_notebook.campaign.counted import Counted
from fi_notebook.campaign.draws import CampaignError, check_above_zero, check_whole, draw
from fi_notebook.campaign.execute import carried_out, workers_of
from fi_notebook.campaign.journal import Journal
from fi_notebook.campaign.plan import DryRun, Stop, check_stop, chunk_of, in_strata, job_of, key_of
from fi_notebook.campaign.population import Point, Population, Sites
from fi_notebook.campaign.progress import Clock, Progress
from fi_notebook.campaign.results import Results, group_in, weights_of
from fi_notebook.campaign.resume import Company, check_resumed
from fi_notebook.campaign.sample import check_sample, grouping, planned
from fi_notebook.campaign.specs import ONE, FaultSpec, check_elements
from fi_notebook.campaign.statistics import effective, sample_size
from fi_notebook.campaign.worker import Bench, Job, Settings, importable, loaded, source_of, text_of
from fi_notebook.core.fault import Elements
from fi_notebook.core.site import Site
from fi_notebook.core.steps import Steps
from fi_notebook.core.words import agreed, counted
from fi_notebook.session import Session
from fi_notebook.session.evaluation import Evaluate

__all__ = ["Campaign"]

logger = logging.getLogger("fi_notebook")


class Campaign(Counted):
    """A sample of faults on one training step.

    Args:
        make_session: A function without arguments that gives a `Session`, or its name as
            ``module:function``; other processes must be able to import it.
        sites: Targets such as ``relu`` or ``param:*.weight``, filters of `Trace.find`, or a test;
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
        full: Whether every injection is replayed in full: several times slower, and each row
            says which of the session's detectors caught it and of what its error died.
        evaluate: Called with the model after each step of a full replay, or its name as
            ``module:function``; its metrics are in every row. Implies ``full``.

    Raises:
        CampaignError: Something can never be; says what would be.
        FaultError: A fault model, a parameter or a selection of elements can never be.
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
        full: bool = False,
        evaluate: Evaluate | str | None = None,
    ) -> None:
        """Plan nothing yet; the session is made when it is first needed."""
        check_whole(steps=steps, threads=threads, **({} if n is None else {"n": n}))
        check_whole(0, seed=seed, audit=audit)
        check_above_zero(timeout=timeout)
        check_elements(elements)
        check_sample(strategy, strata, by, n)
        self._source = source_of(make_session)
        self._specs = FaultSpec.all_of(faults)
        self._how: dict[str, Any] = {
            "sites": sites,
            "elements": elements,
            "steps": _struck(steps, at),
            "seed": seed,
        }
        self._plan: dict[str, Any] = {"strategy": strategy, "strata": strata, "by": by}
        self._n, self.seed, self.steps = n, seed, steps
        self._threads, self._timeout, self._audit = threads, timeout, audit
        self._evaluate = None if evaluate is None else source_of(evaluate, "evaluate")
        self._full = full or evaluate is not None
        self._session: Session | None = None
        super().__init__()

    def __repr__(self) -> str:
        """What it tries, and how much of that was made; plans nothing."""
        models = ", ".join(dict.fromkeys(spec.model for spec in self._specs))
        planned = "" if self._n is None else f" of {self._n:,}"
        return f"<Campaign of {models}, seed {self.seed}: {len(self.results):,}{planned} made>"

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

        Returns:
            The campaign; nothing has run yet.
        """
        return cls.of_sites(session, [site], elements=elements, strategy="exhaustive", **how)

    @classmethod
    def of_sites(cls, session: Session, sites: Sites, **how: Any) -> Campaign:
        """A campaign on a session that there is already, in this process.

        Args:
            session: The session; its plan and runs stay as they are.
            sites: Targets such as ``relu``, filters of `Trace.find`, or a test of each site.
            **how: What else a campaign takes.

        Returns:
            The campaign; nothing has run yet.
        """
        campaign = cls(lambda: session, sites=sites, **how)
        campaign._session = session  # it is our own
        return campaign

    @classmethod
    def of_subtree(cls, session: Session, module: str, *, n: int = 400, **how: Any) -> Campaign:
        """Sweep a module and everything below it, in this process.

        Args:
            session: The session; its plan and runs stay as they are.
            module: Path of the module; ``""`` is the whole model.
            n: How many injections.
            **how: What else a campaign takes.

        Returns:
            The campaign; nothing has run yet.
        """
        return cls.of_sites(session, {"module": module}, n=n, **how)

    # the plan

    @cached_property
    def bench(self) -> Bench:
        """The session of this process, with its golden run."""
        return Bench(self._settings, self._session)

    @cached_property
    def population(self) -> Population:
        """Every fault that could be tried."""
        return Population.of(self.bench.places, specs=self._specs, **self._how)

    @cached_property
    def points(self) -> list[Point]:
        """The faults that are tried, in order."""
        n = self._n
        if n is None and self._plan["strategy"] != "exhaustive":
            n = sample_size(len(self.population))
        points = planned(self.population, n, seed=self.seed, **self._plan)
        if self._n is not None and len(points) < self._n:
            there = counted(len(points), "possible fault")
            logger.warning("n is %s, but there are only %s: each is tried once", self._n, there)
        return points

    @cached_property
    def jobs(self) -> list[Job]:
        """The injections, from number 1."""
        row = self.bench.places.row
        sites = {row(site): site for site in self.population.sites}
        jobs = [
            job_of(number, sites[point.row], point, self.seed)
            for number, point in enumerate(self.points, 1)
        ]
        if self._plan["strategy"] != "stratified":
            return jobs
        by = grouping(self._plan["strata"], self._plan["by"])
        sizes = {name: len(group) for name, group in self.population.by(by).items()}
        return in_strata(jobs, by, sizes)

    @property
    def strata(self) -> dict[str, int]:
        """How many injections are planned in each stratum."""
        by = grouping(self._plan["strata"], self._plan["by"])
        return dict(Counter(group_in(job, by) for job in self.jobs))

    @cached_property
    def _settings(self) -> Settings:
        source, more = text_of(self._source), dict[str, Any]()
        if self._full:
            more = {"full": True, "evaluate": text_of(self._evaluate)}
        what = (self._how, self._plan, self.steps, self._threads, *more.values())
        key = key_of(source, self._specs, *what)
        campaign = {"key": key, "make_session": source, "seed": self.seed, "steps": self.steps}
        campaign |= {"threads": self._threads, **more}
        return Settings(self._source, campaign, self._timeout, self._audit, self._evaluate)

    def dry_run(self, tried: int = 20) -> DryRun:
        """How many injections, how long, and how wide the intervals will be.

        Args:
            tried: How many injections are made to time them.

        Returns:
            How many, how long in seconds, and the margin; ``print`` shows it.

        Raises:
            CampaignError: ``tried`` is no whole number from 1.
        """
        check_whole(tried=tried)
        jobs = self.jobs
        some = [jobs[k] for k in draw(len(jobs), tried, self.seed, "dry run")]
        seconds = _seconds_each(self.bench, some) * len(jobs)
        return DryRun(
            population=len(self.population),
            n=len(jobs),
            seconds=seconds,
            why=self.bench.trials.why,
            draws=self.population.has_draws,
            worth=effective(weights_of([job.place for job in jobs])),
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

        Returns:
            The rows; `results` from now on.

        Raises:
            CampaignError: Other processes cannot import ``make_session``, or ``stop`` or
                ``chunk`` can never be.
            JournalError: The journal is of another campaign, or of another golden run.
        """
        if stop is not None:
            check_above_zero(1, stop=stop)
            check_stop(self._plan["strategy"])
        if chunk is not None:
            check_whole(chunk=chunk)
        self._cancelled = False
        kept = Journal(journal, self._settings.campaign["key"])
        check_resumed(journal, kept.rows, self.jobs, self.bench.environment)
        company = Company(self.bench.environment)
        jobs = [job for job in self.jobs if job.id not in kept.rows]
        clock = Clock(len(self.jobs), list(kept.rows.values()))
        who = self.bench if executor is None else importable(self._settings, executor)
        size = chunk or chunk_of(len(jobs), 1 if executor is None else workers_of(executor))
        asked = Stop(
            len(self.jobs), kept.rows, stop, lambda: self._cancelled or bool(cancel and cancel())
        )
        self._rows, self.running, self.progress = asked.results, True, clock.add(())
        try:
            self._tell()
            for rows in carried_out(self._settings, jobs, who, chunk=size, stop=asked):
                company.look(rows)
                self.progress = clock.add(kept.append(rows))
                self._tell()
                if on_progress is not None:
                    on_progress(self.progress)
                asked.look()
        finally:
            made = asked.results()
            self._rows, self.running = lambda: made, False
            self._tell()
        return self.results

    def open(self, number: int) -> Session:
        """One injection in a session: its fault armed and replayed, ready to be explored.

        Args:
            number: Its number, from 1.

        Returns:
            A new session; that of a sweep is the session itself.

        Raises:
            CampaignError: It was not made; says which were.
        """
        from fi_notebook.campaign.again import opened

        made = {row.id: row for row in self.results}
        if number not in made:
            span = f"1 to {max(made)}" if made else "none yet"
            raise CampaignError(f"there is no injection {number}; made were {span}")
        evaluate = None if self._evaluate is None else loaded(self._evaluate, "evaluate")
        return opened(made[number], loaded(self._source), evaluate)


def _struck(steps: int, at: Any) -> list[int]:
    """The steps of those that are replayed in which the faults strike."""
    struck = [n for n in range(steps) if n in Steps.parse(at)]
    beyond = [last for _, last, *_ in Steps.parse(at).ranges if last is not None and last >= steps]
    if not struck or beyond:
        replayed = f"{counted(steps, 'step')} {agreed(steps, 'are')} replayed"
        raise CampaignError(f"at is {at!r}, and {replayed}; choose one of them")
    return struck


def _seconds_each(bench: Bench, jobs: Sequence[Job]) -> float:
    """How long one injection takes, once the first has made ready what they share."""
    bench.rows(jobs[:1], audit=False)
    began = time.perf_counter()
    bench.rows(jobs, audit=False)
    return (time.perf_counter() - began) / max(1, len(jobs))
