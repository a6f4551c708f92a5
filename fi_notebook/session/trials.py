"""Trying many faults on one golden run, each as fast as it can be shown for certain.

    trials = session.trials(steps=1)
    found = trials.run(fault, site, step)   # a slice of the tape, else a replay of the step
    trials.audit(fault, site, step)         # both, and "" where they agree

The session's own plan and runs stay as they are.

Limits: where a step cannot be a tape (``trials.why`` says why), every fault is replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from fi_notebook.analysis.tolerance import Tolerance
from fi_notebook.core.fault import Fault, FaultPlan
from fi_notebook.core.run import Outcome, Run
from fi_notebook.core.site import Site
from fi_notebook.core.trace import Trace
from fi_notebook.core.words import counted
from fi_notebook.engine import arming
from fi_notebook.engine.replay import StepResult
from fi_notebook.engine.slice import Astray
from fi_notebook.engine.tape import TapeError
from fi_notebook.errors import FaultError, SiteError
from fi_notebook.session.ends import result_metrics
from fi_notebook.session.evaluation import Evaluate
from fi_notebook.session.golden import GoldenRun
from fi_notebook.session.identity import identity
from fi_notebook.session.keeping import Keeping
from fi_notebook.session.replay import Replay
from fi_notebook.session.sliced import LeanRun, Slices, slices_of
from fi_notebook.session.stage import Stage

__all__ = ["Trials"]

_NOTHING = float("nan")


class Trials:
    """One golden run, and faults tried on it.

    Args:
        stage: What is run.
        golden: The golden run.
        keeping: What is kept of its outputs; its budget is that of the tape.
        tolerance: What counts as a difference.
        steps: How many steps are replayed.
        detectors: Parameters of each detector to try, by name; None tries all.
        full: Whether every fault is replayed in full.
        evaluate: Called with the model after each step of a replay, or None.
    """

    def __init__(
        self,
        stage: Stage,
        golden: GoldenRun,
        keeping: Keeping,
        tolerance: Tolerance,
        steps: int,
        *,
        detectors: Mapping[str, Mapping[str, Any]] | None = None,
        full: bool = False,
        evaluate: Evaluate | None = None,
    ) -> None:
        """Write the tape, where the step can be one and is asked to be."""
        self.steps = steps
        self.why = "each is to say what detectors and ``evaluate`` make of it" if full else ""
        self._stage, self._golden = stage, golden
        self._keeping, self.tolerance = keeping, tolerance
        self._detectors, self._full, self._evaluate = detectors, full, evaluate
        self._courses: dict[tuple[int, int], Any] = {}
        self.slices: Slices | None = None
        if not full:
            self._write_tape()

    def _write_tape(self) -> None:
        try:
            self.slices = slices_of(
                self._stage,
                self._golden,
                steps=self.steps,
                budget=self._keeping.budget,
                tolerance=self.tolerance,
            )
        except TapeError as error:
            self.why = str(error)

    def __repr__(self) -> str:
        """How many steps a trial has, and how it is made."""
        how = f"replayed in full ({self.why})" if self.slices is None else "on a tape"
        return f"<Trials of {self.trace!r}: {counted(self.steps, 'step')} each, {how}>"

    @property
    def trace(self) -> Trace:
        """The golden run."""
        return self._golden.trace

    @property
    def identity(self) -> dict[str, Any]:
        """What tells this golden run from another one; where all is tried in full, detectors too.

        After several steps that are on a tape, the last one too.
        """
        told = identity(self._stage.setup, self._golden)
        if self._full:
            told["detectors"] = "all" if self._detectors is None else str(dict(self._detectors))
        if self.slices is not None and self.steps > 1:
            last = self.slices.records[-1]
            for name in ("loss", "gradient_norm", "parameter_norm"):
                told[f"last_{name}"] = getattr(last, name)
        return told

    def make_ready(self) -> None:
        """Do what every replay needs once: run the golden step again, to know its noise.

        Raises:
            SessionError: The step is not repeatable.
        """
        if self._golden.noise is None:
            with self._stage.running("replaying", self._golden.snapshot, trial=True):
                self._replay(FaultPlan()).noise()

    def _replay(self, plan: FaultPlan) -> Replay:
        return Replay(
            self._stage,
            self._golden,
            plan,
            self._keeping,
            self.tolerance,
            self._detectors,
            courses=self._courses,
        )

    def cancel(self) -> None:
        """Stop a replay that is running, from any thread."""
        self._stage.events.cancel()

    def interrupt(self, raise_in_it: Callable[[], object]) -> bool:
        """Raise an exception in the thread of a trial, but not while it puts everything back.

        Args:
            raise_in_it: What raises it; called at once or not at all.

        Returns:
            Whether it was called.
        """
        return self._stage.interrupt(raise_in_it)

    def run(self, fault: Fault, site: Site, step: int) -> LeanRun:
        """Try one fault: as a slice, else as a replay.

        Args:
            fault: The fault.
            site: The site that it chooses.
            step: The step in which it strikes.

        Raises:
            SessionError: The step is not repeatable, or was stopped.
        """
        if self.slices is not None:
            try:
                return self.slices.run(fault, site, step)
            except Astray:
                pass
        return self.replay(fault)

    def audit(self, fault: Fault, site: Site, step: int) -> str:
        """Try one fault both ways; says where they disagree, or ``""``."""
        if self.slices is None:
            return ""
        try:
            mine = self.slices.run(fault, site, step)
        except Astray:
            return ""
        full = self.replay(fault)
        if mine.outcome.name != full.outcome.name:
            return f"{fault}: {mine.outcome.name} as a slice, {full.outcome.name} in full"
        losses = [[record.loss for record in run.records] for run in (mine, full)]
        if repr(losses[0]) != repr(losses[1]):
            return f"{fault}: losses {losses[0]} as a slice, {losses[1]} in full"
        return ""

    def replay(self, fault: Fault) -> LeanRun:
        """Try one fault by running the step with it."""
        plan = FaultPlan((fault,))
        try:
            arming.check_filters(fault, self._stage.setup.model)
            arming.check_fault(fault, self.trace)
            arming.check_fits(fault, self.trace)
        except (FaultError, SiteError) as error:
            return _refused(f"no fault struck, so nothing was tested ({fault.id}: {error})")
        with self._stage.running("replaying", self._golden.snapshot, trial=True):
            run, last = self._replay(plan).carry_out(self.steps, self._evaluate)
        return self._lean(run, *last)

    def _lean(self, run: Run, golden: StepResult, faulty: StepResult) -> LeanRun:
        metrics = _metrics(run, self.steps)
        if golden.returned and faulty.returned:
            metrics |= result_metrics(golden.returned[0], faulty.returned[0])
        first = next((i for i in run.injections if i.elements), None)
        values = (_NOTHING, _NOTHING)
        if first is not None:
            values = (_real(first.elements[0].before), _real(first.elements[0].after))
        injection = next(iter(run.injections), None)
        found = LeanRun(run.outcome, injection, *values, run.faulty, metrics, way="replay")
        return replace(found, run=run) if self._full else found


def _metrics(run: Run, steps: int) -> dict[str, Any]:
    last = run.faulty[-1] if run.faulty else None
    metrics: dict[str, Any] = {
        "changed": sum(injection.changed for injection in run.injections),
        "loss": _NOTHING if last is None else last.loss,
        "golden_loss": run.golden[-1].loss if run.golden else _NOTHING,
        "gradient_norm": _NOTHING if last is None else last.gradient_norm,
        "parameter_distance": _NOTHING if last is None else last.parameter_distance,
        "differing": len(run.comparison.diverged),
    }
    if steps > 1:
        metrics["losses"] = [record.loss for record in run.faulty]
    return metrics | _evaluated(run, steps)


def _evaluated(run: Run, steps: int) -> dict[str, float]:
    """What ``evaluate`` said after the last step of both runs; NaN where one ended before."""
    golden, faulty = ({} if len(c) < steps else c[-1].metrics for c in (run.golden, run.faulty))
    said = {f"evaluated_{name}": faulty.get(name, _NOTHING) for name in golden}
    return said | {f"golden_evaluated_{name}": value for name, value in golden.items()}


def _refused(reason: str) -> LeanRun:
    return LeanRun(Outcome("not_injected", reason), None, _NOTHING, _NOTHING, (), way="replay")


def _real(value: float | complex) -> float:
    return value.real if isinstance(value, complex) else float(value)
