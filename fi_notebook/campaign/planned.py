"""The part of a campaign that is its plan: what is tried, in which order, and how long it takes.

    campaign.population           every fault that could be tried
    campaign.jobs                 the injections, from number 1
    print(campaign.dry_run())     how many, how long, how wide the intervals will be

Nothing is struck here but what a dry run tries.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from fi_notebook.campaign.counted import Counted
from fi_notebook.campaign.design import draws_of, least_worth, tried_once
from fi_notebook.campaign.draws import CampaignError, check_above_zero, check_whole, draw
from fi_notebook.campaign.plan import DryRun, in_strata, job_of, key_of, named
from fi_notebook.campaign.population import Point, Population, Sites
from fi_notebook.campaign.results import group_in
from fi_notebook.campaign.sample import LAYER, check_sample, grouping, planned
from fi_notebook.campaign.specs import ONE, FaultSpec, check_elements
from fi_notebook.campaign.statistics import sample_size
from fi_notebook.campaign.worker import Bench, Job, Settings, source_of, text_of
from fi_notebook.core.fault import Elements
from fi_notebook.core.steps import Steps
from fi_notebook.core.versions import installed
from fi_notebook.core.words import agreed, counted
from fi_notebook.session import Session
from fi_notebook.session.evaluation import Evaluate

__all__ = ["Planned"]

logger = logging.getLogger("fi_notebook")


class Planned(Counted):
    """A sample of faults on one training step; see `Campaign`."""

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
        strata: str | Mapping[str, int] | None = None,
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
        strata = LAYER if strata is None else strata
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
        n = self.results.planned or self._n
        planned = f" of {n:,}" if n else ""
        return f"<Campaign of {models}, seed {self.seed}: {len(self.results):,}{planned} made>"

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
        campaign |= {"timeout": self._timeout, "audit": self._audit}
        return Settings(self._source, campaign, self._timeout, self._audit, self._evaluate)

    def _plan_in_words(self) -> dict[str, Any]:
        """What rows say of the plan that they are part of."""
        strategy, elements = self._plan["strategy"], self._how["elements"]
        return {
            "fi_notebook": installed("fi_notebook"),
            "strategy": strategy,
            **({"strata": _words(self._plan["strata"])} if strategy == "stratified" else {}),
            "faults": [str(spec) for spec in self._specs],
            "elements": _words(elements),
            "sites": _words(self._how["sites"]),
            "population": len(self.population),
            "draws": self.population.has_draws,
        }

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
        drawn = draws_of([job.place for job in jobs], tried_once(self._plan_in_words()))
        return DryRun(
            population=len(self.population),
            n=len(jobs),
            seconds=seconds,
            why=self.bench.trials.why,
            draws=self.population.has_draws,
            worth=least_worth(drawn),
            elements=len({each.unit for each in drawn} - {None}),
        )


def _words(value: Any) -> Any:
    """A value as a row may hold it: what JSON has not as text."""
    return value if value is None or isinstance(value, (str, int)) else named(value)


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
