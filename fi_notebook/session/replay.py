"""A replay: golden and faulty from the same snapshot, and what came of it.

    run = Replay(setup, golden, plan, events).run(steps=1, evaluate=None)

Calls are compared in the first step in which a fault is due; losses, gradients and
parameters in every step. Before the first claim, golden is run against golden.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from fi_notebook.analysis.align import align
from fi_notebook.analysis.compare import build
from fi_notebook.analysis.findings import findings
from fi_notebook.analysis.outcome import judge
from fi_notebook.analysis.tolerance import DEFAULT, Tolerance
from fi_notebook.core.fault import FaultPlan
from fi_notebook.core.run import Comparison, Difference, NotInjected, Run, StepRecord
from fi_notebook.core.trace import Trace
from fi_notebook.engine.measure import difference, differences, wide
from fi_notebook.engine.replay import Setup, StepResult, TrainingState, run_step
from fi_notebook.engine.snapshot import Generators
from fi_notebook.engine.stats import euclidean_norm
from fi_notebook.engine.store import ValueStore
from fi_notebook.errors import SessionError
from fi_notebook.session.golden import GoldenRun, check_ran, settings
from fi_notebook.session.stage import Stage

__all__ = ["Evaluate", "Replay"]

Evaluate = Callable[[torch.nn.Module], Mapping[str, float] | float]

REPEATABLE = 1e-3
"""Relative L2 up to which golden against golden is noise; beyond, the step does not repeat."""


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
        budget: Bytes for the golden outputs that are kept.
        tolerance: What counts as a difference.
        rank: Rank of this process.
    """

    stage: Stage
    golden: GoldenRun
    plan: FaultPlan
    budget: int
    tolerance: Tolerance = DEFAULT
    rank: int = 0

    def run(self, steps: int, evaluate: Evaluate | None) -> Run:
        """Replay; leaves the state as the faulty run left it, for the caller to restore."""
        focus = self._focus(steps)
        noise = self._noise()
        golden = self._golden_course(steps, focus, evaluate)
        faulty = self._course("faulty", steps, focus, evaluate, golden)
        comparison = self._compare(golden, faulty, steps)
        injections = tuple(i for result in faulty.results for i in result.injections)
        fired = {injection.fault for injection in injections}
        not_injected = tuple(n for n in self._missed(faulty.results) if n.fault not in fired)
        outcome = judge(
            self.plan,
            injections,
            not_injected,
            comparison,
            golden.records,
            faulty.records,
            faulty.error,
            noise,
            tolerance=self.tolerance,
        )
        return Run(
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
        )

    def _missed(self, results: list[StepResult]) -> Iterator[NotInjected]:
        """Why each fault did not fire: what the last step says in which it was due."""
        for fault in self.plan:
            due = [n for n in range(len(results)) if n in fault.steps]
            said = results[due[-1] if due else -1].not_injected
            yield from (missed for missed in said if missed.fault == fault.id)

    def _focus(self, steps: int) -> int:
        """The first replayed step in which a fault is due; step 0 where there is none."""
        enabled = [fault for fault in self.plan if fault.enabled]
        due = (n for n in range(steps) if any(n in fault.steps for fault in enabled))
        return next(due, 0)

    def _noise(self) -> Comparison:
        """Golden against golden, once.

        Raises:
            SessionError: The step does not repeat; names the first call that differs.
        """
        if self.golden.noise is None:
            again = self._step("golden", 0, 1, golden=self.golden.result)
            if again.error is not None:
                raise _unrepeatable(f"it raised {again.error!r} the second time", again.error)
            noise = self._comparison(self.golden.result, self.golden.trace, again)
            _check_repeats(noise)
            self.golden.noise = noise
        return self.golden.noise

    def _golden_course(self, steps: int, focus: int, evaluate: Evaluate | None) -> _Course:
        if steps == 1 and evaluate is None:
            result = self.golden.result
            return _Course([replace(result.record(0), parameter_distance=0.0)], [result], result)
        course = self._course("golden", steps, focus, evaluate, None)
        if course.error:
            raise SessionError(
                f"the golden run raised {course.error} in step {len(course.records)}; "
                f"nothing can be compared with it (replay at most {len(course.records)} steps)"
            ) from course.results[-1].error
        return course

    def _course(
        self, run: str, steps: int, focus: int, evaluate: Evaluate | None, golden: _Course | None
    ) -> _Course:
        """Run the steps from the snapshot."""
        self.golden.snapshot.restore()
        course = _Course([], [], None)
        for number in range(steps):
            reference = None if golden is None else golden.focus
            result = self._step(
                run,
                number,
                steps,
                golden=reference if number == focus else None,
                keep=golden is None and number == focus,
                earlier=course.results,
            )
            course.results.append(result)
            if number == focus:
                course.focus = result
            if result.error is not None:
                course.error = _text_of(result.error)
                break
            record = self._record(result, number, evaluate, golden)
            course.records.append(record)
            self.stage.events.tell("step", run=run, record=record)
        return course

    def _step(
        self,
        run: str,
        number: int,
        steps: int,
        *,
        golden: StepResult | None = None,
        keep: bool = False,
        earlier: list[StepResult] | None = None,
    ) -> StepResult:
        if earlier is None:
            self.golden.snapshot.restore()
        result = run_step(
            self.stage.setup,
            number,
            plan=self.plan.faults if run == "faulty" else (),
            store=ValueStore(self.budget) if keep else None,
            golden=None if golden is None else golden.kept,
            statistics=keep or golden is not None,
            rank=self.rank,
            progress=self.stage.progress(run, number, steps, self.golden.trace.call_count),
            optimizer_begins=self.stage.adopting(self.golden.snapshot),
            fired_before=_fired_before(earlier or []),
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
        distance = _distance(reference, result)
        record = replace(result.record(number), parameter_distance=distance)
        if evaluate is not None:
            record = replace(record, metrics=_evaluated(evaluate, self.stage.setup))
        return record

    def _compare(self, golden: _Course, faulty: _Course, steps: int) -> Comparison:
        reference, struck = golden.focus, faulty.focus or faulty.results[-1]
        if reference is None:  # the golden course itself raised
            raise SessionError(f"the golden run raised: {golden.error}")
        if reference is self.golden.result:
            trace = self.golden.trace
        else:
            trace = reference.recorder.trace(settings(self.stage.setup))
        comparison = self._comparison(reference, trace, struck)
        last = (golden.results[-1], faulty.results[-1])
        if steps > 1 and last[0].state is not None and last[1].state is not None:
            comparison = replace(comparison, **_update(*last))
        return replace(comparison, notes=(*comparison.notes, *findings(comparison)))

    @_disable_current_modes()  # a person's mode around the session sees the step alone
    def _comparison(self, golden: StepResult, trace: Trace, faulty: StepResult) -> Comparison:
        """One step against one step."""
        other = faulty.recorder.trace(settings(self.stage.setup))
        alignment = align(trace, other)
        rows = zip(alignment.faulty_rows, alignment.golden_rows, strict=True)
        golden_rows = {int(f): int(g) for f, g in rows if f >= 0 and g >= 0}
        return build(
            trace,
            other,
            alignment,
            faulty.recorder.measure_columns(golden_rows),
            loss=_loss(golden, faulty),
            gradients=differences(golden.gradients, faulty.gradients),
            gradient_norm=_scalar(
                "gradient norm",
                euclidean_norm(list(golden.gradients.values())),
                euclidean_norm(list(faulty.gradients.values())),
            ),
            **_update(golden, faulty),
        )


def _update(golden: StepResult, faulty: StepResult) -> dict[str, Any]:
    """Differences of what training keeps, where both runs came to the end."""
    a, b = golden.state, faulty.state
    if a is None or b is None:
        return {}
    return {
        "parameters": differences(a.parameters, b.parameters),
        "buffers": differences(a.buffers, b.buffers),
        "optimizer_state": differences(a.optimizer_state, b.optimizer_state),
    }


def _loss(golden: StepResult, faulty: StepResult) -> Difference:
    if golden.loss is None or faulty.loss is None:
        same = golden.loss is None and faulty.loss is None
        return Difference("loss", equal=same, note="no loss was found")
    return difference("loss", golden.loss, faulty.loss)


def _scalar(name: str, golden: float, faulty: float) -> Difference:
    return difference(
        name,
        torch.tensor(golden, dtype=torch.float64),
        torch.tensor(faulty, dtype=torch.float64),
    )


@_disable_current_modes()
def _distance(golden: TrainingState | None, faulty: StepResult) -> float:
    """``‖faulty - golden‖₂ / ‖golden‖₂`` over all parameters."""
    if golden is None or faulty.state is None:
        return math.nan
    if golden is faulty.state:
        return 0.0
    pairs = [
        (value, faulty.state.parameters[name])
        for name, value in golden.parameters.items()
        if name in faulty.state.parameters
    ]
    apart = euclidean_norm([wide(b) - wide(a) for a, b in pairs if a.shape == b.shape])
    return apart / (euclidean_norm([a for a, _ in pairs]) or 1.0)


def _evaluated(evaluate: Evaluate, setup: Setup) -> dict[str, float]:
    """What ``evaluate(model)`` says, with generators and training modes kept as they were."""
    generators = Generators.take()
    modes = [(module, module.training) for module in setup.model.modules()]
    try:
        with setup.interrupts.let_through():
            answer = evaluate(setup.model)
    finally:
        generators.restore()
        for module, training in modes:
            module.training = training
    metrics = answer if isinstance(answer, Mapping) else {"metric": answer}
    plain = {str(n): v.detach() if isinstance(v, torch.Tensor) else v for n, v in metrics.items()}
    return {name: float(value) for name, value in plain.items()}


def _fired_before(earlier: list[StepResult]) -> dict[str, int]:
    """How many times each fault fired in earlier steps of the run."""
    counts: dict[str, int] = {}
    for result in earlier:
        for injection in result.injections:
            counts[injection.fault] = counts.get(injection.fault, 0) + 1
    return counts


def _check_repeats(noise: Comparison) -> None:
    rows = noise.diverged
    if not len(rows):
        return
    first = int(rows[0])
    far = not noise.columns["relative_l2"][first] <= REPEATABLE
    if noise.structural or far:
        site = noise.site(first)
        where = f" at {site.code[0].label}" if site.code else ""
        raise _unrepeatable(f"two golden runs differ first at {site} ({site.phase}){where}", None)


def _unrepeatable(what: str, cause: Exception | None) -> SessionError:
    error = SessionError(
        f"the step is not repeatable: {what}. Something that it uses is not put back: if a "
        "data iterator advanced, make the step take its number (def step(i): …) and index "
        "the data by it; give schedulers, scalers and generators as state=[…]"
    )
    error.__cause__ = cause
    return error


def _messages(golden: _Course, faulty: _Course, noise: Comparison) -> tuple[str, ...]:
    """What a person should know of the run beside its outcome."""
    said = []
    if not noise.equal:
        share = f"{len(noise.diverged)} of {len(noise)} sites"
        said.append(f"golden against golden is not bit-equal at {share}, first at {noise.first}")
    if golden.focus is not None and faulty.focus is not None:
        pairs = zip(golden.focus.recorder.draws, faulty.focus.recorder.draws, strict=False)
        apart = next((mine for mine, theirs in pairs if mine != theirs), None)
        if apart is not None:
            said.append(f"RNG diverged at call {apart[0]}: later random numbers differ")
    return tuple(said)


def _text_of(error: Exception) -> str:
    return "".join(traceback.format_exception_only(error)).strip()
