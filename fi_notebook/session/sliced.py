"""Many faults of one session, each as a slice of one tape.

    replays = slices_of(stage, golden, …)   # the tape and its check: once
    found = replays.replay(fault)
    found.outcome, found.metrics, found.early

The outcome is that of `Session.replay`: the same rules judge the same evidence, which
here comes from what the slice carried out, and from the golden run for all the rest.

Limits: a step that cannot be a tape raises `TapeError`, and a fault that leads the run
astray raises `Astray`; both are for `Session.replay` then.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch

from fi_notebook.analysis.course import relative
from fi_notebook.analysis.evidence import Evidence
from fi_notebook.analysis.outcome import judge
from fi_notebook.analysis.tolerance import Tolerance
from fi_notebook.core.fault import Fault, FaultPlan
from fi_notebook.core.injection import Injection
from fi_notebook.core.masking import MECHANISMS
from fi_notebook.core.run import (
    COMPARISON_COLUMNS,
    EFFECTS,
    NO_LOSS,
    Comparison,
    Difference,
    Outcome,
    Run,
    StepRecord,
)
from fi_notebook.core.site import Site
from fi_notebook.core.trace import Trace
from fi_notebook.core.words import counted
from fi_notebook.engine.losses import number_of
from fi_notebook.engine.slice import Astray, Sliced, run_slice, slices
from fi_notebook.engine.tape import LookKey, Tape, TapeError
from fi_notebook.engine.tape_check import verify
from fi_notebook.engine.tape_recorder import record_tape
from fi_notebook.faults.corrupt import differing
from fi_notebook.session.ends import Ends, EndTensors, result_metrics, worst
from fi_notebook.session.golden import GoldenRun
from fi_notebook.session.stage import Stage

__all__ = ["OTHER_CALLS", "LeanRun", "Slices", "slices_of"]

OTHER_CALLS = "the step made other calls the second time"
"""Why there is no tape where it is never that of the golden run."""

_TRIES = 3
"""How often a tape is written: torch makes other calls where somebody holds a tensor."""

_KINDS = ("gradients", "parameters", "buffers", "optimizer_state", "result", "loss")


@dataclass(frozen=True, eq=False)
class LeanRun:
    """What came of one fault.

    Attributes:
        outcome: What it did in the end.
        injection: The strike, or None where nothing was injected.
        before: The first struck value before.
        after: The same after.
        records: One record per step of the faulty run.
        metrics: Numbers for a journal.
        calls: How many calls were carried out.
        early: Whether the slice ended before the last call of the step.
        way: ``slice`` or ``replay``: how it was carried out.
        run: The whole run, where every fault is replayed in full; else None.
    """

    outcome: Outcome
    injection: Injection | None
    before: float
    after: float
    records: tuple[StepRecord, ...]
    metrics: Mapping[str, Any] = field(default_factory=dict)
    calls: int = 0
    early: bool = False
    way: str = "slice"
    run: Run | None = None


class Slices:
    """The tape of a session, and what is known of its golden run.

    Args:
        tape: The tape.
        trace: The golden trace of the session.
        tolerance: What counts as a difference.
    """

    def __init__(self, tape: Tape, trace: Trace, tolerance: Tolerance) -> None:
        """Measure the golden ends."""
        self.tape = tape
        self.steps = len(tape.traces)
        self._traces = [trace, *tape.traces[1:]]
        self._tolerance = tolerance
        self._golden = {
            (step, kind): EndTensors(
                {
                    key.name: slot.golden
                    for key, slot in tape.looks.items()
                    if (key.step, key.kind) == (step, kind)
                }
            )
            for step in range(self.steps)
            for kind in _KINDS
        }
        self._texts: dict[tuple[int, int], str] = {}
        self._columns = [_columns(len(found)) for found in self._traces]

    @cached_property
    def records(self) -> tuple[StepRecord, ...]:
        """One record per step of the golden run."""
        return tuple(self._record(step, {}) for step in range(self.steps))

    def replay(self, fault: Fault) -> LeanRun:
        """Strike one fault.

        Raises:
            Astray: Only the step itself can show what it does.
        """
        step = next((n for n in range(self.steps) if n in fault.steps), None)
        if step is None:
            raise Astray("the fault is for no step that was recorded")
        sites = self._traces[step].find(fault.target)
        if not sites:
            raise Astray("the golden run made no such call")
        return self.run(fault, sites[0], step)

    def run(self, fault: Fault, site: Site, step: int) -> LeanRun:
        """Strike one fault at the site and in the step that it chooses; see `replay`."""
        if not slices(fault):
            raise Astray("the fault is not of the kind that a slice can carry out")
        found = run_slice(self.tape, fault, site, step)
        ends, records = self._ends(found), self.records
        outcome = self._unseen(found, step)
        if outcome is None:
            records = tuple(self._record(n, ends) for n in range(self.steps))
            outcome = self._judged(found, ends, records, fault, step)
        before, after = _values(found) if found.injection.changed else (math.nan, math.nan)
        return LeanRun(
            outcome=outcome,
            injection=found.injection,
            before=before,
            after=after,
            records=records,
            metrics=self._metrics(found, records, ends, step),
            calls=found.calls,
            early=found.last < self.tape.last_call,
        )

    def _unseen(self, found: Sliced, step: int) -> Outcome | None:
        """The outcome where nothing that is looked at differs; else it must be judged.

        It is what `judge` says where calls differ, but neither the last one nor what is left.
        """
        rows = found.rows.get(step, [])
        quiet = bool(rows) and rows[-1] < len(self._traces[step]) - 1
        if found.looks or not quiet or not self._golden[self.steps - 1, "parameters"].names:
            return None
        injection = found.injection
        site, last = (self._site_text(step, row) for row in (rows[0], rows[-1]))
        differs = "none differs" if last == site else f"the last that differs is {last}"
        reason = (
            f"{injection.fault} struck {site} in step {step}; of the "
            f"{counted(found.calls, 'call')} that read it, directly or not, {differs}, and every "
            "later call and the whole update are bit-equal to the golden run"
        )
        return Outcome("masked_exact", reason, step)

    def _site_text(self, step: int, row: int) -> str:
        if (step, row) not in self._texts:
            self._texts[step, row] = str(self._traces[step].site(row))
        return self._texts[step, row]

    def _judged(
        self,
        found: Sliced,
        ends: Mapping[tuple[int, str], Ends],
        records: tuple[StepRecord, ...],
        fault: Fault,
        step: int,
    ) -> Outcome:
        evidence = Evidence(
            plan=FaultPlan((fault,)),
            injections=(found.injection,),
            not_injected=(),
            comparison=self._compared(found, ends, step),
            golden=self.records,
            faulty=records,
            tolerance=self._tolerance,
            compared_step=step,
            updated_step=self.steps - 1,
        )
        return judge(evidence)

    def _ends(self, found: Sliced) -> dict[tuple[int, str], Ends]:
        """Everything that is left behind and differs, measured."""
        faulty: dict[tuple[int, str], dict[str, torch.Tensor]] = {}
        for key, tensor in found.looks.items():
            faulty.setdefault((key.step, key.kind), {})[key.name] = tensor
        return {place: self._golden[place].against(given) for place, given in faulty.items()}

    def _end(self, ends: Mapping[tuple[int, str], Ends], step: int, kind: str) -> Ends:
        return ends.get((step, kind)) or self._golden[step, kind].equal

    def _record(self, step: int, ends: Mapping[tuple[int, str], Ends]) -> StepRecord:
        parameters = self._end(ends, step, "parameters")
        return StepRecord(
            step=step,
            loss=self._loss(step, ends),
            gradient_norm=self._end(ends, step, "gradients").norm,
            parameter_norm=parameters.norm,
            parameter_distance=parameters.distance,
        )

    def _loss(self, step: int, ends: Mapping[tuple[int, str], Ends]) -> float:
        """The loss; of several that backward was called of, the sum."""
        found = self._end(ends, step, "loss").differences
        faulty = {loss.name: loss.faulty for loss in found if not loss.equal}
        values = [
            faulty.get(name, number_of(self.tape.looks[key].golden))
            for name, key in self._losses[step].items()
        ]
        return sum(values) if values else math.nan

    @cached_property
    def _losses(self) -> list[dict[str, LookKey]]:
        """Under which key the tape has each loss of each step."""
        return [
            {name: LookKey(step, "loss", name) for name in self._golden[step, "loss"].names}
            for step in range(self.steps)
        ]

    def _compared(
        self, found: Sliced, ends: Mapping[tuple[int, str], Ends], step: int
    ) -> Comparison:
        trace, columns, last = self._traces[step], dict(self._columns[step]), self.steps - 1
        equal = columns["equal"].copy()
        equal[found.rows.get(step, [])] = False
        columns["equal"] = equal
        masked = found.masked.get(step, [])
        if masked:
            effect, mechanism = columns["effect"].copy(), columns["mechanism"].copy()
            effect[masked] = EFFECTS.index("masked")
            mechanism[masked] = MECHANISMS.index("unknown")
            columns |= {"effect": effect, "mechanism": mechanism}
        if found.infinite:
            infinite = columns["new_inf"].copy()
            infinite[found.infinite.get(step, [])] = 1
            columns["new_inf"] = infinite
        gradients = self._end(ends, step, "gradients")
        norms = self._golden[step, "gradients"].equal.norm, gradients.norm
        return Comparison(
            golden=trace,
            faulty=trace,
            columns=columns,
            loss=self._loss_difference(step, ends),
            gradients=gradients.differences,
            parameters=self._end(ends, last, "parameters").differences,
            buffers=self._end(ends, last, "buffers").differences,
            optimizer_state=self._end(ends, last, "optimizer_state").differences,
            gradient_norm=Difference(
                "gradient norm", norms[0] == norms[1], 0, 1, golden=norms[0], faulty=norms[1]
            ),
        )

    @cached_property
    def _result(self) -> torch.Tensor | None:
        return self.result_of(self.steps - 1)

    def result_of(self, step: int) -> torch.Tensor | None:
        """What a step without a loss returned first, in the golden run."""
        slot = self.tape.looks.get(LookKey(step, "result", "result 0"))
        return None if slot is None else slot.golden

    def _loss_difference(self, step: int, ends: Mapping[tuple[int, str], Ends]) -> Difference:
        """The difference of the loss; where there is none, of what the step returned."""
        losses = self._end(ends, step, "loss").differences
        if losses:
            golden, faulty = self._loss(step, {}), self._loss(step, ends)
            one = len(losses) == 1
            apart = losses[0].relative_l2 if one else relative(golden, faulty)
            equal = all(loss.equal for loss in losses)
            return Difference("loss", equal, 0, 1, apart, golden=golden, faulty=faulty)
        if not self._golden[step, "result"].equal.differences:
            return Difference("loss", equal=True, note=NO_LOSS)
        return worst(self._golden[step, "result"], self._end(ends, step, "result"))

    def _metrics(
        self,
        found: Sliced,
        records: tuple[StepRecord, ...],
        ends: Mapping[tuple[int, str], Ends],
        step: int,
    ) -> dict[str, Any]:
        last, digests = records[-1], [f"{k}{e.digest}" for k, e in ends.items()]
        metrics: dict[str, Any] = {
            "changed": found.injection.changed,
            "loss": last.loss,
            "golden_loss": self.records[-1].loss,
            "gradient_norm": last.gradient_norm,
            "parameter_distance": last.parameter_distance,
            "differing": len(found.rows.get(step, [])),
            "calls": found.calls,
            "digest": hashlib.sha256("/".join(digests).encode()).hexdigest()[:24] if ends else "",
        }
        if self.steps > 1:
            metrics["losses"] = [record.loss for record in records]
        golden = self._result
        if golden is not None:
            faulty = found.looks.get(LookKey(self.steps - 1, "result", "result 0"))
            metrics |= result_metrics(golden, golden if faulty is None else faulty)
        return metrics


def slices_of(
    stage: Stage, golden: GoldenRun, *, steps: int, budget: int, tolerance: Tolerance
) -> Slices:
    """Record the tape of a session from where its golden run began, and check it.

    Args:
        stage: What is run.
        golden: The golden run.
        steps: How many steps.
        budget: Bytes for the tape.
        tolerance: What counts as a difference.

    Raises:
        TapeError: The steps cannot be a tape, or slices do not show what is judged; says why.
    """
    if "calls" in tolerance.nonfinite:
        raise TapeError("the tolerance looks for NaN and Inf in calls, a slice in what they leave")
    if golden.collective:
        raise TapeError(f"{golden.collective} moves data between ranks")
    tape = _recorded(stage, golden, steps, budget)
    wrong = verify(tape)
    if wrong:
        raise TapeError(f"{wrong} does not give the same bits when it is made again")
    made = Slices(tape, golden.trace, tolerance)
    first, second = golden.result.shown_loss, made.records[0].loss
    if first is not None and not math.isnan(second) and first != second:
        raise TapeError("the step gave another loss the second time")
    return made


def _columns(count: int) -> dict[str, np.ndarray]:
    """The columns of a comparison in which nothing differs and nothing was measured."""
    columns: dict[str, np.ndarray] = {
        name: np.zeros(count, dtype=kind) for name, kind in COMPARISON_COLUMNS.items()
    }
    rows = np.arange(count)
    ones = {"equal": np.ones(count, dtype=bool), "numel": np.ones(count, dtype=np.int64)}
    return columns | {"golden": rows, "faulty": rows} | ones


def _values(found: Sliced) -> tuple[float, float]:
    """The first changed element before and after, real part."""
    row = int(differing(found.before, found.after).double().argmax())
    return float(found.before[row].item().real), float(found.after[row].item().real)


def _recorded(stage: Stage, golden: GoldenRun, steps: int, budget: int) -> Tape:
    """A tape whose first step makes the calls of the golden run."""
    told = partial(stage.progress, "golden", steps=steps, calls=golden.trace.call_count)
    for _ in range(_TRIES):
        with stage.running("tracing", golden.snapshot, trial=True):
            golden.snapshot.restore()
            adopt = stage.adopting(golden.snapshot)
            tape = record_tape(
                stage.setup, steps=steps, budget=budget, optimizer_begins=adopt, progress=told
            )
        if _same_stream(golden.trace, tape.traces[0]):
            return tape
    raise TapeError(OTHER_CALLS)


def _same_stream(golden: Trace, again: Trace) -> bool:
    """Whether the second run, which the tape was written from, made the same calls."""
    return golden.tables.ops == again.tables.ops and all(
        np.array_equal(golden.calls[name], again.calls[name])
        for name in ("op", "number", "phase", "module")
    )
