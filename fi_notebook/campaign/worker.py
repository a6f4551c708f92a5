"""What a worker process does: one session, one golden run, many injections.

    rows = run_chunk(settings, jobs)      # in any process that can import make_session

The session, its golden run and its tape are made once per process and kept. They begin
from generators seeded by the campaign, so that every process has the same golden run;
an injection's own randomness comes from its seed alone.

Limits: a kernel that never returns cannot be stopped from within; then the worker ends
itself, which the campaign takes for a crash. In the person's own process it cannot.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any

import numpy as np

from fi_notebook.analysis.incidental import is_incidental_alone
from fi_notebook.analysis.mechanisms import deaths
from fi_notebook.campaign.draws import CampaignError
from fi_notebook.campaign.guard import Guard, Overtime, end_with_parent
from fi_notebook.campaign.journal import Row
from fi_notebook.campaign.places import Places
from fi_notebook.core.detection import Detection
from fi_notebook.core.fault import Fault
from fi_notebook.core.run import Run
from fi_notebook.core.site import Site
from fi_notebook.core.trace import Trace
from fi_notebook.engine.settled import Settled
from fi_notebook.engine.stored_tensors import every_name, stored_sites
from fi_notebook.session import Session, SessionCancelled
from fi_notebook.session.sliced import OTHER_CALLS, LeanRun
from fi_notebook.session.trials import Trials

__all__ = [
    "Bench",
    "Job",
    "Settings",
    "crashed",
    "importable",
    "loaded",
    "run_chunk",
    "source_of",
    "text_of",
]

logger = logging.getLogger("fi_notebook")


@dataclass(frozen=True)
class Settings:
    """What every worker of a campaign must know.

    Attributes:
        source: ``module:function``, or a function where no other process is asked.
        campaign: What its rows say of it: key, source, seed, steps, threads, plan.
        timeout: Seconds that one injection may take.
        audit: Of how many injections one is also replayed in full; 0 is none.
        evaluate: Called with the model after each step, or its name as ``module:function``.
        planned: How many injections there will be.
    """

    source: Any
    campaign: Mapping[str, Any]
    timeout: float = 60.0
    audit: int = 0
    evaluate: Any = None
    planned: int = 0


@dataclass(frozen=True)
class Job:
    """One injection to be made.

    Attributes:
        id: Its number.
        site: Where, as text.
        step: In which step.
        fault: What.
        place: What a row says of the place.
    """

    id: int
    site: str
    step: int
    fault: Fault
    place: Mapping[str, Any] = field(default_factory=dict)


_EXPECTED = {
    "make_session": "a function without arguments that gives a Session",
    "evaluate": "a function that takes the model and gives a number, or several by name",
}


def source_of(given: Any, argument: str = "make_session") -> Any:
    """The text that other processes can import, else the function itself.

    Args:
        given: A function, or its name as ``module:function``.
        argument: What it was given as.

    Raises:
        CampaignError: It is neither.
    """
    if isinstance(given, str):
        loaded(given, argument)
        return given
    if not callable(given):
        raise CampaignError(
            f"{argument} is {type(given).__name__}; expected {_EXPECTED[argument]}, "
            "or its name as 'module:function'"
        )
    text = text_of(given)
    try:
        importable = not text.startswith("__main__:") and loaded(text, argument) is given
    except CampaignError:
        importable = False
    return text if importable else given


def loaded(source: Any, argument: str = "make_session") -> Callable[..., Any]:
    """The function itself.

    Args:
        source: The function, or its name as ``module:function``.
        argument: What it was given as.

    Raises:
        CampaignError: There is no such module or function.
    """
    if not isinstance(source, str):
        function: Callable[..., Any] = source
        return function
    module, colon, name = source.partition(":")
    if not (module and colon and name):
        raise CampaignError(f"{argument} is {source!r}; expected text as 'module:function'")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise CampaignError(f"cannot import {argument} {source!r}: {error}") from error
    made: Callable[..., Any] = found
    return made


def text_of(source: Any) -> Any:
    """What a row says of a function: its name, which need not be one to import; None of none."""
    if source is None or isinstance(source, str):
        return source
    return f"{getattr(source, '__module__', '')}:{getattr(source, '__qualname__', source)}"


def importable(settings: Settings, executor: Any) -> Any:
    """The executor, where other processes can import what they are to call.

    Raises:
        CampaignError: They cannot.
    """
    for name, given in (("make_session", settings.source), ("evaluate", settings.evaluate)):
        if not isinstance(given, (str, NoneType)):
            raise CampaignError(
                f"other processes cannot import {name}; put the function into a module and "
                "give its name as 'module:function', or run the campaign in this process"
            )
    return executor


class Bench:
    """One session with its golden run, ready for injections.

    Args:
        settings: What is to be known of the campaign.
        session: A session that there is already; None makes one.
    """

    def __init__(self, settings: Settings, session: Session | None = None) -> None:
        """Make the session, its golden run and its tape."""
        campaign = settings.campaign
        self.settings = settings
        with Settled(seed=campaign["seed"] if session is None else None, threads=self._threads):
            self.session = _made(settings.source) if session is None else session
            self.trials = self._trials()
            if session is None and self.trials.why == OTHER_CALLS:
                self.session.trace()  # in the golden run somebody may have held a tensor
                self.trials = self._trials()
        self._sites: dict[str, Site] = {}
        trace = self.trials.trace
        model = self.session.model
        self.places = Places(trace, stored_sites(model), every_name(model))
        keys = ("torch", "python", "machine", "deterministic")
        self.environment = {key: trace.info.get(key) for key in keys} | {
            "threads": self._threads,
            "tolerance": str(self.trials.tolerance),
            "loss": trace.info.get("loss"),
            "golden": fingerprint(trace),
            **self.trials.identity,
        }
        self._audited: set[str] = set()

    def _trials(self) -> Trials:
        campaign, evaluate = self.settings.campaign, self.settings.evaluate
        return self.session.trials(
            campaign["steps"],
            full=bool(campaign.get("full")),
            evaluate=None if evaluate is None else loaded(evaluate, "evaluate"),
        )

    @property
    def _threads(self) -> int:
        threads: int = self.settings.campaign["threads"]
        return threads

    def rows(self, jobs: Sequence[Job], *, audit: bool = True) -> list[Row]:
        """Make some injections.

        Args:
            jobs: The injections.
            audit: Whether those whose turn it is are also replayed in full.
        """
        with Settled(threads=self._threads), Guard(self.settings.timeout, self.trials) as guard:
            self.trials.make_ready()  # not in the time of the first injection
            made = []
            for job in jobs:
                if audit:
                    self._audit(job, guard)
                made.append(self._row(job, guard))
            return made

    def _row(self, job: Job, guard: Guard) -> Row:
        began = time.perf_counter()
        try:
            with guard.watching():
                found = self.trials.run(job.fault, self._site(job.site), job.step)
        except (Overtime, SessionCancelled):
            if not guard.late:
                raise  # somebody else cancelled the session
            reason = f"it did not end within {self.settings.timeout:g} s, and was stopped"
            return crashed(self.settings, job, reason, self.environment)
        row = _row_of(self.settings, job, self.environment, found)
        return replace(row, seconds=time.perf_counter() - began)

    def _site(self, text: str) -> Site:
        if text not in self._sites:
            (self._sites[text],) = self.places.sites([self.places.row(text)])
        return self._sites[text]

    def _audit(self, job: Job, guard: Guard) -> None:
        """Replay the first injection of each phase, and now and then one, in full as well.

        One that does not end in time is no audit; its injection itself will tell.
        """
        phase, every = str(job.place.get("phase")), self.settings.audit
        if not every or (phase in self._audited and job.id % every):
            return
        self._audited.add(phase)
        wrong = ""
        try:
            with guard.watching():
                wrong = self.trials.audit(job.fault, self._site(job.site), job.step)
        except (Overtime, SessionCancelled):
            if not guard.late:
                raise
        if wrong:
            logger.warning("a slice disagrees with the replay of the step: %s", wrong)
            self.trials.slices = None
            self.trials.why = f"a slice disagreed with the replay of the step: {wrong}"


def fingerprint(trace: Trace) -> str:
    """What two golden runs have in common that are the same: loss, and outputs by operator.

    Calls that one run alone may make and mean nothing by it are left out.
    """
    kept = np.flatnonzero(~is_incidental_alone(trace, np.arange(len(trace))))
    rows = trace.calls["op"][trace.site_columns["call"][kept]]
    ops = Counter(trace.tables.ops[row] for row in rows.tolist())
    made = f"{trace.info.get('loss')!r}/{sorted(ops.items())}"
    return hashlib.sha256(made.encode()).hexdigest()[:16]


def _made(source: Any) -> Session:
    session = loaded(source)()
    if not isinstance(session, Session):
        raise CampaignError(
            f"make_session gave {type(session).__name__}; expected a fi_notebook.Session"
        )
    return session


def _row_of(settings: Settings, job: Job, environment: Mapping[str, Any], found: LeanRun) -> Row:
    values = {"before": found.before, "after": found.after}
    seen = {} if found.run is None else _seen(found.run)
    return Row(
        id=job.id,
        campaign=settings.campaign,
        site=job.site,
        fault=fault_of(job.fault),
        seed=job.fault.seed,
        step=job.step,
        environment=environment,
        outcome=found.outcome.name,
        reason=found.outcome.reason,
        metrics={**found.metrics, **values},
        place=job.place,
        outcome_step=found.outcome.step,
        way=found.way,
        early=found.early,
        planned=settings.planned,
        **seen,
    )


def _seen(run: Run) -> dict[str, Any]:
    """What only a full replay tells: the detectors' alarms, and where the error died of what."""
    died = Counter(death.mechanism for death in deaths(run.comparison))
    return {
        "detections": {found.name: _first(found) for found in run.detections},
        "mechanisms": dict(sorted(died.items())),
    }


def _first(found: Detection) -> dict[str, Any] | None:
    if found.error:
        return {"error": found.error}
    alarm = found.first
    return None if alarm is None else {"step": alarm.step, "site": alarm.site}


def crashed(
    settings: Settings, job: Job, reason: str, environment: Mapping[str, Any] | None = None
) -> Row:
    """The row of an injection that stopped its step or ended its worker."""
    return Row(
        id=job.id,
        campaign=settings.campaign,
        site=job.site,
        fault=fault_of(job.fault),
        seed=job.fault.seed,
        step=job.step,
        environment=environment or {},
        outcome="crash",
        reason=f"the faulty run stopped in step {job.step}: {reason}",
        place=job.place,
        outcome_step=job.step,
        way="replay",
        planned=settings.planned,
    )


def fault_of(fault: Fault) -> dict[str, Any]:
    """What a row says of its fault."""
    elements = fault.elements if isinstance(fault.elements, str) else dict(fault.elements)
    return {
        "model": fault.model,
        "parameters": dict(fault.parameters),
        "elements": elements,
        "scope": fault.scope,
    }


_benches: dict[str, Bench] = {}  # registry: the bench of this process, by campaign
_making = threading.RLock()


def run_chunk(settings: Settings, jobs: Sequence[Job]) -> list[Row]:
    """Make some injections in this process; its bench is made the first time.

    Args:
        settings: What is to be known of the campaign.
        jobs: The injections.
    """
    end_with_parent()
    with _making:  # one at a time: a session has one model
        key = settings.campaign["key"]
        if key not in _benches:
            _benches.clear()
            _benches[key] = Bench(settings)
        _benches[key].settings = settings  # another run may allow another time
        return _benches[key].rows(jobs)
