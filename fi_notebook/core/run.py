"""The record of a replay: what struck, what it changed, and how it ended.

A `Run` holds plain records: `Injection` for each strike, `NotInjected` for each
fault that did not strike, a `Comparison` of the faulty against the golden run,
and the `Outcome`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fi_notebook.core.detection import Detection
from fi_notebook.core.fault import FaultPlan
from fi_notebook.core.frames import pandas
from fi_notebook.core.injection import Injection, NotInjected
from fi_notebook.core.lookup import described, make_sites
from fi_notebook.core.masking import MECHANISMS
from fi_notebook.core.site import Site
from fi_notebook.core.words import agreed, among, counted

if TYPE_CHECKING:
    import pandas as pd

    from fi_notebook.core.trace import Trace

__all__ = [
    "DISTANCES",
    "EFFECTS",
    "NO_LOSS",
    "OUTCOMES",
    "RESULT",
    "Comparison",
    "Difference",
    "Outcome",
    "Run",
    "StepRecord",
]

EFFECTS = ("equal", "introduced", "amplified", "attenuated", "masked", "passed on", "structural")
"""What a call did to the error of its inputs; ``structural`` has no counterpart."""

OUTCOMES = (
    "crash",
    "not_injected",
    "inactive",
    "nan_immediate",
    "nan_delayed",
    "masked_exact",
    "masked_tolerance",
    "changed",
    "spike_degrade",
    "spike_recover",
    "slow_degrade",
    "silent_drift",
    "metric_degraded",
)
"""Every outcome, in the order in which the first that holds is taken."""

HARMLESS = ("not_injected", "inactive", "masked_exact", "masked_tolerance")
"""Outcomes that do no harm, or of which nothing is known."""


RESULT = "result"
"""Name of the difference that stands for the loss where a step has none."""

NO_LOSS = "no loss was found"
"""Note of a loss that there is not."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How far one named tensor of the faulty run is from the golden one.

    Attributes:
        name: ``loss``, or the name of a gradient, parameter, buffer or state.
        equal: Whether every bit is the same.
        changed: How many elements have other bits.
        numel: How many elements there are.
        relative_l2: ``‖faulty - golden‖₂ / ‖golden‖₂`` over finite elements.
        max_abs: Largest absolute difference over finite elements.
        new_nan: NaNs that the golden tensor does not have.
        new_inf: Infinities that the golden tensor does not have.
        golden: The value itself, where it is a scalar, else NaN.
        faulty: The value itself, where it is a scalar, else NaN.
        note: What to know of it, or ``""``.
    """

    name: str
    equal: bool
    changed: int = 0
    numel: int = 0
    relative_l2: float = 0.0
    max_abs: float = 0.0
    new_nan: int = 0
    new_inf: int = 0
    golden: float = float("nan")
    faulty: float = float("nan")
    note: str = ""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What one step did to training.

    Attributes:
        step: Step number, from 0.
        loss: Loss of the step; NaN where the step made none that could be found.
        gradient_norm: Euclidean norm of all gradients before the optimizer stepped.
        parameter_norm: Euclidean norm of all parameters after the step.
        metrics: What ``evaluate(model)`` returned, by name.
        parameter_distance: ``‖faulty - golden‖₂ / ‖golden‖₂`` over all parameters after
            the step; 0 in a golden run, NaN where it was not measured.
    """

    step: int
    loss: float
    gradient_norm: float
    parameter_norm: float
    metrics: dict[str, float] = field(default_factory=dict)
    parameter_distance: float = float("nan")


COMPARISON_COLUMNS = {
    "golden": np.int64,  # row in the golden trace's sites, -1 where only the faulty run has it
    "faulty": np.int64,  # row in the faulty trace's sites, -1 where only the golden run has it
    "equal": np.bool_,
    "exact": np.bool_,  # False: measured on a sample, or not at all; equal is of all bits
    "changed": np.int64,
    "numel": np.int64,
    "relative_l2": np.float64,
    "max_abs": np.float64,
    "max_rel": np.float64,
    "max_ulp": np.float64,
    "cosine": np.float64,
    "sign_flips": np.int64,
    "new_nan": np.int64,
    "new_inf": np.int64,
    "effect": np.uint8,  # index into EFFECTS
    "mechanism": np.uint8,  # index into core.masking.MECHANISMS; 0 where nothing was masked
    "growth": np.float64,  # relative_l2 over that of the worst input; NaN where none differs
}
"""Columns of a comparison, one row per site, in execution order of the faulty run."""

DISTANCES = ("changed", "relative_l2", "max_abs", "max_rel", "max_ulp", "sign_flips")
"""Columns that are 0 where nothing differs."""

NOT_MEASURED = ("golden", "faulty", "effect", "mechanism", "growth")
"""Columns that are judged, not measured."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """The faulty run against the golden run, site by site, and what came of it.

    Attributes:
        golden: Trace of the golden run.
        faulty: Trace of the faulty run.
        columns: `COMPARISON_COLUMNS`, one row per site that either run made.
        loss: Difference of the loss.
        gradients: One difference per parameter that has a gradient.
        parameters: One difference per parameter, after the step.
        buffers: One difference per buffer, after the step.
        optimizer_state: One difference per tensor of optimizer state.
        gradient_norm: Difference of the norm of all gradients.
        structural: First call that only one of the runs made, in plain words, or "".
        notes: Findings that a person must not miss (a frozen weight, a zeroed gradient).
        unread: Rows of what is not read, which count as differing because an input does.
    """

    golden: Trace
    faulty: Trace
    columns: dict[str, np.ndarray]
    loss: Difference
    gradients: tuple[Difference, ...] = ()
    parameters: tuple[Difference, ...] = ()
    buffers: tuple[Difference, ...] = ()
    optimizer_state: tuple[Difference, ...] = ()
    gradient_norm: Difference = field(default_factory=lambda: Difference("gradient norm", True))
    structural: str = ""
    notes: tuple[str, ...] = ()
    unread: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __repr__(self) -> str:
        """How many sites differ, and the first; the columns are too long to print."""
        differ = among(len(self.diverged), len(self), "site")
        first = "" if self.first is None else f", first {self.first}"
        return f"<Comparison: {differ} {agreed(len(self.diverged), 'differ')}{first}; to_pandas()>"

    def __len__(self) -> int:
        """How many sites were compared."""
        return len(self.columns["golden"])

    def site(self, row: int) -> Site:
        """The site of a row."""
        golden, faulty = (int(self.columns[run][row]) for run in ("golden", "faulty"))
        return self.golden.site(golden) if golden >= 0 else self.faulty.site(faulty)

    def sites(self, rows: np.ndarray) -> list[Site]:
        """The sites of several rows, made together."""
        golden, faulty = (self.columns[run][rows] for run in ("golden", "faulty"))
        mine = golden >= 0
        made = {
            True: iter(make_sites(self.golden, golden[mine])),
            False: iter(make_sites(self.faulty, faulty[~mine])),
        }
        return [next(made[known]) for known in mine.tolist()]

    @property
    def has_loss(self) -> bool:
        """Whether the step has a loss; else `loss` stands for its result, or for nothing."""
        return self.loss.name != RESULT and self.loss.note != NO_LOSS

    @property
    def diverged(self) -> np.ndarray:
        """Rows whose bits differ, in execution order."""
        return np.flatnonzero(~self.columns["equal"])

    @property
    def first(self) -> Site | None:
        """The first site that differs, or None."""
        rows = self.diverged
        return self.site(int(rows[0])) if len(rows) else None

    @property
    def bad(self) -> np.ndarray:
        """Rows of the sites that have NaN or Inf which the golden run has not."""
        return np.flatnonzero((self.columns["new_nan"] > 0) | (self.columns["new_inf"] > 0))

    @property
    def first_bad(self) -> Site | None:
        """The first site with a new NaN or Inf, or None."""
        rows = self.bad
        return self.site(int(rows[0])) if len(rows) else None

    @property
    def equal(self) -> bool:
        """Whether nothing differs at all: calls, loss, gradients and update."""
        after = (*self.gradients, *self.parameters, *self.buffers, *self.optimizer_state)
        return not len(self.diverged) and self.loss.equal and all(d.equal for d in after)

    def effect(self, row: int) -> str:
        """What the call of this row did to the error: one of `EFFECTS`."""
        return EFFECTS[int(self.columns["effect"][row])]

    def mechanism(self, row: int) -> str:
        """Why the error vanished in the call of this row, or "": one of `MECHANISMS`."""
        return MECHANISMS[int(self.columns["mechanism"][row])]

    def to_pandas(self) -> pd.DataFrame:
        """One row per site: where it is, measures of what is finite in both, new NaN and Inf.

        A site of both runs has its name in the golden one. That of a site which the faulty run
        makes alone says so, where the golden run has another of the name.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        frame = pandas().DataFrame  # before the work: it may not be installed
        golden, faulty = self.columns["golden"], self.columns["faulty"]
        first, second = described(self.golden), described(self.faulty)
        names = ("site", "phase", "module", "op", "call", "output")
        effects = np.asarray(EFFECTS, dtype=object)[self.columns["effect"]]
        mechanisms = np.asarray(MECHANISMS, dtype=object)[self.columns["mechanism"]]
        measures = {k: v for k, v in self.columns.items() if k not in NOT_MEASURED}
        where = {name: _either(first[name], golden, second[name], faulty) for name in names}
        alone = (golden < 0) & np.isin(where["site"].astype(str), first["site"].astype(str))
        where["site"][alone] += " (faulty run)"
        judged = {"effect": effects, "mechanism": mechanisms, "growth": self.columns["growth"]}
        return frame({**where, **judged, **measures})


def _either(
    golden: np.ndarray, golden_rows: np.ndarray, faulty: np.ndarray, faulty_rows: np.ndarray
) -> np.ndarray:
    """The golden run's value of each row, or the faulty run's where only that has it."""
    values = np.empty(len(golden_rows), dtype=golden.dtype)
    mine = golden_rows >= 0
    values[mine] = golden[golden_rows[mine]]
    values[~mine] = faulty[faulty_rows[~mine]]
    return values


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the fault did in the end.

    Attributes:
        name: One of `OUTCOMES`.
        reason: One plain sentence.
        step: The step at which it showed (NaN, divergence), or None.
        detected_by: Names of the detectors that would have alarmed.
    """

    name: str
    reason: str
    step: int | None = None
    detected_by: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Its name, then one plain sentence."""
        return f"{self.name}: {self.reason}"

    def __repr__(self) -> str:
        """The sentence, marked as an outcome."""
        return f"<Outcome {self}>"


@dataclass(frozen=True, eq=False)
class Run:
    """A golden and a faulty run of the same steps from the same snapshot.

    Attributes:
        plan: The faults that were armed.
        injections: Every strike, in order.
        not_injected: Every enabled fault that never struck, with the reason.
        comparison: The faulty run against the golden one: calls, loss and gradients of the
            first step in which a fault was due, and what training keeps after the last.
        outcome: What the plan as a whole did.
        golden: One record per step of the golden run.
        faulty: One record per step of the faulty run; shorter where it crashed.
        noise: How golden differs from golden: the noise floor (normally equal).
        error: The exception that the faulty run raised, as text, or "".
        messages: What was said while it ran (``RNG diverged at call …``).
        detections: What each detector made of it, with its false alarms.
        memory: What was kept of the golden outputs: budget and use in bytes, how many
            whole, sampled and by hash alone, and the bytes of training state beside them.
    """

    plan: FaultPlan
    injections: list[Injection]
    not_injected: tuple[NotInjected, ...]
    comparison: Comparison
    outcome: Outcome
    golden: tuple[StepRecord, ...]
    faulty: tuple[StepRecord, ...]
    noise: Comparison | None = None
    error: str = ""
    messages: tuple[str, ...] = ()
    detections: tuple[Detection, ...] = ()
    memory: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """How often faults struck, and the outcome; the records are too long to print."""
        steps = among(len(self.faulty), len(self.golden), "step")
        return f"<Run of {steps}, {counted(len(self.injections), 'injection')}; {self.outcome}>"

    def __iter__(self) -> Iterator[Injection]:
        """The injections in order."""
        return iter(self.injections)

    def status(self, fault_id: str) -> str:
        """What became of one fault.

        Args:
            fault_id: Id of a fault of the plan.

        Returns:
            ``struck``, ``inactive`` or ``not injected``.
        """
        mine = [i for i in self.injections if i.fault == fault_id]
        if not mine:
            return "not injected"
        return "struck" if any(i.changed for i in mine) else "inactive"
