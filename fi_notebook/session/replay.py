"""A replay: golden and faulty from the same snapshot, and what came of it.

    run = Replay(stage, golden, plan, keeping).run(steps=1, evaluate=None)

Calls are compared in the first step in which a fault is due; losses, gradients and
parameters in every step. Before the first claim, golden is run against golden.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from fi_notebook.analysis.detectors import detect
from fi_notebook.analysis.evidence import Evidence
from fi_notebook.analysis.findings import findings
from fi_notebook.analysis.outcome import judge
from fi_notebook.analysis.tolerance import DEFAULT, Tolerance
from fi_notebook.analysis.words import several
from fi_notebook.core.fault import FaultPlan
from fi_notebook.core.injection import NotInjected
from fi_notebook.core.run import Comparison, Run, StepRecord
from fi_notebook.core.words import among, counted
from fi_notebook.engine.replay import StepResult, run_step
from fi_notebook.engine.store import ValueStore
from fi_notebook.engine.world import process_rank
from fi_notebook.errors import SessionError
from fi_notebook.session.comparing import compare_steps, distance, update_of
from fi_notebook.session.evaluation import Evaluate, evaluated
from fi_notebook.session.golden import GoldenRun, check_ran, settings
from fi_notebook.session.keeping import Keeping
from fi_notebook.session.repeating import REPEATABLE, check_repeats, unrepeatable
from fi_notebook.session.stage import Stage
from fi_notebook.session.together import heard

__all__ = ["Replay"]


_NAMED = 5  # of the calls that do not repeat


@dataclass
class _Course:
    """One run over several steps."""

    records: list[StepRecord]
    results: list[StepResult]
    focus: StepResult | None
    error: str = ""


@dataclass(frozen=True)
class Replay:
    """What is replayed.

    Attributes:
        stage: What is run.
        golden: The golden run and its snapshot.
        plan: The faults that are armed.
        keeping: What is kept of the golden outputs.
        tolerance: What counts as a difference.
        detectors: Parameters of each detector to try, by name; None tries all.
        rank: Rank of this process.
        courses: Golden courses that others with this ``evaluate`` may take too, by how many
            steps they have and which is compared; None keeps none.
    """

    stage: Stage
    golden: GoldenRun
    plan: FaultPlan
    keeping: Keeping
    tolerance: Tolerance = DEFAULT
    detectors: Mapping[str, Mapping[str, Any]] | None = None
    rank: int = field(default_factory=process_rank)
    courses: dict[tuple[int, int], _Course] | None = None

    def run(self, steps: int, evaluate: Evaluate | None) -> Run:
        """Replay; leaves the state as the faulty run left it, for the caller to restore."""
        return self.carry_out(steps, evaluate)[0]

    def carry_out(
        self, steps: int, evaluate: Evaluate | None
    ) -> tuple[Run, tuple[StepResult, StepResult]]:
        """The same, with what was seen of the last step of both runs."""
        focus = _focus(self.plan, steps)
        noise = self.noise()
        self._complete()
        golden = self._golden_course(steps, focus, evaluate)
        faulty = self._course("faulty", steps, focus, evaluate, golden)
        comparison = self._compare(golden, faulty, focus, noise)
        injections = [i for result in faulty.results for i in result.injections]
        fired = {injection.fault for injection in injections}
        not_injected = tuple(n for n in _missed(self.plan, faulty.results) if n.fault not in fired)
        detections = detect(
            comparison, golden.records, faulty.records, step=focus, detectors=self.detectors
        )
        evidence = Evidence(
            plan=self.plan,
            injections=injections,
            not_injected=not_injected,
            comparison=comparison,
            golden=golden.records,
            faulty=faulty.records,
            error=faulty.error,
            noise=noise,
            tolerance=self.tolerance,
            compared_step=focus,
            updated_step=max(len(faulty.records) - 1, 0),
        )
        outcome = judge(evidence, [found.name for found in detections if found.caught])
        run = Run(
            plan=self.plan,
            injections=injections,
            not_injected=not_injected,
            comparison=comparison,
            outcome=outcome,
            golden=tuple(golden.records),
            faulty=tuple(faulty.records),
            noise=noise,
            error=faulty.error,
            messages=_messages(golden, faulty, noise),
            detections=detections,
            memory={} if golden.focus is None else golden.focus.memory,
        )
        return run, (golden.results[-1], faulty.results[-1])

    def noise(self) -> Comparison:
        """Golden against golden, once.

        Raises:
            SessionError: The step does not repeat; names the first call that differs, or the
                rank whose step it is.
        """
        if self.golden.noise is None:
            again = self._step("golden", 0, 1, golden=self.golden.result)
            if again.error is not None:
                why = f"it raised {again.error!r} the second time"
                raise unrepeatable(self.stage, self.golden, why, again.error)
            noise = compare_steps(self.stage.setup, self.golden.result, self.golden.trace, again)
            check_repeats(self.stage, self.golden, noise)
            self.golden.noise = noise
        return self.golden.noise

    def _complete(self) -> None:
        """Keep whole what always is or may be struck, where the budget left a sample of it."""
        kept = self.golden.result.kept
        wanted = self.keeping.keys(self.golden.trace, self.plan)
        missing = {key for key in wanted if key in kept and not kept[key].exact}
        if not any(heard(self.golden, "incomplete" if missing else "")):
            return
        store = ValueStore(0, always=missing, only=True)
        self._step("golden", 0, 1, store=store)
        self.golden.result.kept = {**kept, **store.kept}
        memory = self.golden.result.memory
        self.golden.result.memory = {**memory, "always": memory["always"] + store.beyond}

    def _golden_course(self, steps: int, focus: int, evaluate: Evaluate | None) -> _Course:
        if steps == 1 and evaluate is None:
            result = self.golden.result
            return _Course([replace(result.record(0), parameter_distance=0.0)], [result], result)
        key = (steps, focus)
        if self.courses is not None and key in self.courses:
            return self.courses[key]
        course = self._course("golden", steps, focus, evaluate, None)
        if course.error:
            raise SessionError(
                f"the golden run raised {course.error} in step {len(course.records)}; "
                f"nothing can be compared with it (replay at most "
                f"{counted(len(course.records), 'step')})"
            ) from course.results[-1].error
        exact = "exact" if _is_exact(course) else ""
        if self.courses is not None and all(heard(self.golden, exact)):
            self.courses[key] = course
        return course

    def _course(
        self, run: str, steps: int, focus: int, evaluate: Evaluate | None, golden: _Course | None
    ) -> _Course:
        """Run the steps from the snapshot."""
        self.golden.snapshot.restore()
        course = _Course([], [], None)
        for number in range(steps):
            result = self._course_step(run, number, steps, focus, golden, course.results)
            course.results.append(result)
            if number == focus:
                course.focus = result
            if result.error is not None:
                course.error = _text_of(result.error)
                break
            record = self._record(result, number, evaluate, golden)
            course.records.append(record)
            if golden is not None:
                self._check_untouched(course, golden, number)
            if number not in (focus, steps - 1):
                result.shrink(parameters=golden is None)
            self.stage.events.tell("step", run=run, steps=steps, record=record)
        return course

    def _check_untouched(self, course: _Course, golden: _Course, number: int) -> None:
        """Where no fault has struck yet, a step is what it was in the golden run.

        With collectives, what struck another rank may have reached this one.

        Raises:
            SessionError: It is not: something that the steps change is not put back.
        """
        struck = any(result.injections for result in course.results)
        if struck or self.golden.collective:
            return
        mine, theirs = course.records[number], golden.records[number]
        apart = abs(mine.loss - theirs.loss) > REPEATABLE * abs(theirs.loss)
        if apart or mine.parameter_distance > REPEATABLE:
            raise unrepeatable(
                self.stage,
                self.golden,
                f"no fault had struck, but step {number} ended with loss {mine.loss:.6g}, "
                f"and with {theirs.loss:.6g} in the golden run",
            )

    def _course_step(
        self,
        run: str,
        number: int,
        steps: int,
        focus: int,
        golden: _Course | None,
        earlier: list[StepResult],
    ) -> StepResult:
        """One step of a course; outputs are kept, or compared, in the step of the focus."""
        if number != focus:
            return self._step(run, number, steps, earlier=earlier)
        if golden is not None:
            return self._step(run, number, steps, golden=golden.focus, earlier=earlier)
        always = self.keeping.keys(self.golden.trace, self.plan)
        with self.keeping.store(always, number) as store:
            result = self._step(run, number, steps, store=store, earlier=earlier)
        result.memory = self.keeping.report(store, result)
        return result

    def _step(
        self,
        run: str,
        number: int,
        steps: int,
        *,
        golden: StepResult | None = None,
        store: ValueStore | None = None,
        earlier: list[StepResult] | None = None,
    ) -> StepResult:
        if earlier is None:
            self.golden.snapshot.restore()
        result = run_step(
            self.stage.setup,
            number,
            plan=self.plan.faults if run == "faulty" else (),
            store=store,
            golden=None if golden is None else golden.kept,
            statistics=store is not None or golden is not None,
            rank=self.rank,
            progress=self.stage.progress(run, number, steps, self.golden.trace.call_count),
            optimizer_begins=self.stage.adopting(self.golden.snapshot),
            fired_before=_fired_before(earlier or []),
            remembered=earlier[-1].remembered if earlier else None,
            inference=self.golden.result.forwards == 0,
        )
        if result.error is None:
            check_ran(self.stage.setup, result)
        return result

    def _record(
        self,
        result: StepResult,
        number: int,
        evaluate: Evaluate | None,
        golden: _Course | None,
    ) -> StepRecord:
        reference = result.state if golden is None else golden.results[number].state
        apart = distance(reference, result)
        record = replace(result.record(number), parameter_distance=apart)
        if evaluate is not None:
            record = replace(record, metrics=evaluated(evaluate, self.stage.setup))
        return record

    def _compare(
        self, golden: _Course, faulty: _Course, focus: int, noise: Comparison
    ) -> Comparison:
        """Calls, loss and gradients of the focus; what the update wrote, after the last step."""
        reference, struck = golden.focus, faulty.focus or faulty.results[-1]
        if reference is None:  # the golden course itself raised
            raise SessionError(f"the golden run raised: {golden.error}")
        setup = self.stage.setup
        if reference is self.golden.result:
            trace = self.golden.trace
        else:
            info = {"step": focus, "loss": reference.shown_loss, "memory": reference.memory}
            trace = reference.recorder.trace(settings(setup, reference) | info)
        margin = self.tolerance.noise
        comparison = compare_steps(setup, reference, trace, struck, noise, margin)
        last = (golden.results[-1], faulty.results[-1])
        if last[1] is not struck and len(golden.results) == len(faulty.results):
            comparison = replace(comparison, **update_of(*last))
        return replace(comparison, notes=(*comparison.notes, *findings(comparison)))


def _is_exact(course: _Course) -> bool:
    """Whether every output of the focus is kept whole, whatever a plan strikes."""
    return course.focus is not None and bool(course.focus.memory.get("exact"))


def _focus(plan: FaultPlan, steps: int) -> int:
    """The first replayed step in which a fault is due; step 0 where there is none."""
    begins = (first for fault in plan if fault.enabled for first, *_ in fault.steps.ranges)
    return min((first for first in begins if first < steps), default=0)


def _missed(plan: FaultPlan, results: list[StepResult]) -> Iterator[NotInjected]:
    """Why each fault did not fire: what the last step says in which it was due."""
    for fault in plan:
        due = [n for n in range(len(results)) if n in fault.steps]
        said = results[due[-1] if due else -1].not_injected
        yield from (missed for missed in said if missed.fault == fault.id)


def _fired_before(earlier: list[StepResult]) -> dict[str, int]:
    """How many times each fault fired in earlier steps of the run."""
    counts: dict[str, int] = {}
    for result in earlier:
        for injection in result.injections:
            counts[injection.fault] = counts.get(injection.fault, 0) + 1
    return counts


def _messages(golden: _Course, faulty: _Course, noise: Comparison) -> tuple[str, ...]:
    """What a person should know of the run beside its outcome."""
    said = []
    if golden.focus is not None and golden.focus.summed > 1:
        said.append(
            f"the loss is the sum of what backward was called of, {golden.focus.summed} times; "
            "where another number is the loss, return it from the step"
        )
    if not noise.equal:
        rows = noise.diverged
        share = among(len(rows), len(noise), "site")
        names = several([str(noise.site(int(row))) for row in rows[:_NAMED]], _NAMED)
        more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
        said.append(f"golden against golden is not bit-equal at {share}: {names}{more}")
    if golden.focus is not None and faulty.focus is not None:
        pairs = zip_longest(golden.focus.recorder.draws, faulty.focus.recorder.draws)
        apart = next((theirs or mine for mine, theirs in pairs if mine != theirs), None)
        if apart is not None:
            said.append(f"RNG diverged at call {apart[0]}: later random numbers differ")
    return tuple(said)


def _text_of(error: Exception) -> str:
    return "".join(traceback.format_exception_only(error)).strip()
