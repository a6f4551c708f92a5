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

import inspect
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

from fi_notebook.campaign.draws import CampaignError, check_above_zero, check_whole
from fi_notebook.campaign.execute import Elsewhere, Here, Maker, Tasks
from fi_notebook.campaign.journal import Journal
from fi_notebook.campaign.plan import Stop, check_stop, chunk_of
from fi_notebook.campaign.planned import Planned
from fi_notebook.campaign.population import Sites
from fi_notebook.campaign.progress import Clock, Progress
from fi_notebook.campaign.results import Results
from fi_notebook.campaign.resume import Company, check_resumed
from fi_notebook.campaign.worker import loaded
from fi_notebook.core.fault import Elements
from fi_notebook.core.site import Site
from fi_notebook.core.words import counted
from fi_notebook.errors import did_you_mean
from fi_notebook.session import Session

__all__ = ["ARGUMENTS", "Campaign"]

logger = logging.getLogger("fi_notebook")


class Campaign(Planned):
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

    @classmethod
    def of_site(
        cls, session: Session, site: Site | str, *, elements: Elements | int = 8, **how: Any
    ) -> Campaign:
        """Sweep one site: every bit of a few elements, in this process.

        Args:
            session: The session; its plan and runs stay as they are.
            site: The site.
            elements: How many elements are drawn, or which there are.
            **how: What else a `Campaign` takes, such as ``faults`` or ``seed``.

        Returns:
            The campaign; nothing has run yet.

        Raises:
            TypeError: A campaign takes no such argument; names the nearest.
            CampaignError: Something can never be; says what would be.
        """
        _check_known("of_site", how, {"sites", "strategy"})
        return cls.of_sites(session, [site], elements=elements, strategy="exhaustive", **how)

    @classmethod
    def of_sites(cls, session: Session, sites: Sites, **how: Any) -> Campaign:
        """A campaign on a session that there is already, in this process.

        Args:
            session: The session; its plan and runs stay as they are.
            sites: Targets such as ``relu``, filters of `Trace.find`, or a test of each site.
            **how: What else a `Campaign` takes, such as ``faults`` or ``seed``.

        Returns:
            The campaign; nothing has run yet.

        Raises:
            TypeError: A campaign takes no such argument; names the nearest.
            CampaignError: Something can never be; says what would be.
        """
        _check_known("of_sites", how, {"sites"})
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
            **how: What else a `Campaign` takes, such as ``faults`` or ``seed``.

        Returns:
            The campaign; nothing has run yet.

        Raises:
            TypeError: A campaign takes no such argument; names the nearest.
            CampaignError: Something can never be; says what would be.
        """
        _check_known("of_subtree", how, {"sites"})
        return cls.of_sites(session, {"module": module}, n=n, **how)

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
            chunk: How many are made in one task; None is as many as take about a second.
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
        settings = self.bench.settings = replace(
            self._settings,
            campaign={**self._settings.campaign, **self._plan_in_words()},
            planned=len(self.jobs),
        )
        kept = Journal(journal, settings.campaign["key"])
        check_resumed(journal, kept.rows, self.jobs, self.bench.environment)
        company = Company(self.bench.environment)
        done = [kept.rows[job.id] for job in self.jobs if job.id in kept.rows]
        jobs = [job for job in self.jobs if job.id not in kept.rows]
        clock = Clock(len(self.jobs), done)
        who: Maker = Here(self.bench) if executor is None else Elsewhere(settings, executor)
        size = chunk or chunk_of(len(jobs), who.workers)
        tasks = Tasks(jobs, size, soon=chunk is None)
        asked = Stop(
            len(self.jobs), kept.rows, stop, lambda: self._cancelled or bool(cancel and cancel())
        )
        self._rows, self.running, self.progress = asked.results, True, clock.add(())
        try:
            self._listeners.tell()
            for rows in who.rows(tasks, asked):
                company.look(rows)
                self.progress = clock.add(kept.append(rows))
                self._listeners.tell()
                if on_progress is not None:
                    on_progress(self.progress)
                asked.look()
        finally:
            made = asked.results()
            self._rows, self.running = lambda: made, False
            self._listeners.tell()
        if asked.fell_short:
            said = (counted(len(made), "injection"), made.width(), stop)
            logger.warning("after %s the widest interval is %.3g wide, not %s: raise n", *said)
        return self.results

    def open(self, number: int) -> Session:
        """One injection in a session: its fault alone armed and replayed, ready to be explored.

        That of a sweep is the session itself, traced anew: its runs are gone, and what was armed
        is there again by one `Session.undo`.

        Args:
            number: Its number, from 1.

        Returns:
            A new session, or that of the sweep.

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


ARGUMENTS = tuple(inspect.signature(Campaign).parameters)
"""What a campaign takes, and so what a file of one may hold."""


def _check_known(function: str, how: Mapping[str, Any], given: set[str]) -> None:
    """Refuse arguments that no campaign takes, and those that the function itself gives it."""
    given = {"make_session", *given}
    taken = [name for name in ARGUMENTS if name not in given]
    for name in how:
        if name not in taken:
            said = ", which it gives itself" if name in given else did_you_mean(name, taken)
            raise TypeError(f"Campaign.{function} takes no {name!r}{said}")
