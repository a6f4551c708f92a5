"""Everything that a rule of an outcome may look at, and what it is made of.

A rule is a function ``(evidence) -> Outcome | None``; see ``outcome.py`` for those of
one step and ``outcome_course.py`` for those of several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isnan

from fi_notebook.analysis.course import Course, follow, pairs, relative
from fi_notebook.analysis.findings import hidden_damage
from fi_notebook.analysis.nonfinite import golden_words
from fi_notebook.analysis.tolerance import DEFAULT, Tolerance
from fi_notebook.analysis.words import several
from fi_notebook.core.fault import FaultPlan
from fi_notebook.core.injection import Injection, NotInjected
from fi_notebook.core.run import Comparison, Difference, StepRecord
from fi_notebook.core.words import counted, spoken

__all__ = ["Evidence", "differences", "distances", "step_distances"]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything that a rule may look at.

    Attributes:
        plan: The faults that were armed.
        injections: Every strike, in order.
        not_injected: Every fault that never struck, with the reason.
        comparison: The faulty run against the golden run: calls, loss and gradients of the
            step `compared`, what the update wrote after the step `updated`.
        golden: One record per step of the golden run.
        faulty: One record per step of the faulty run.
        error: The exception that the faulty run raised, as text, or ``""``.
        noise: Golden against golden; differences below it do not count.
        tolerance: What counts as a difference, and the NaN policy.
        compared_step: Step whose calls were compared; None is the one first struck.
        updated_step: Step after which parameters, buffers and optimizer state were compared;
            None is the last that was made.
    """

    plan: FaultPlan
    injections: Sequence[Injection]
    not_injected: Sequence[NotInjected]
    comparison: Comparison
    golden: Sequence[StepRecord]
    faulty: Sequence[StepRecord]
    error: str = ""
    noise: Comparison | None = None
    tolerance: Tolerance = DEFAULT
    compared_step: int | None = None
    updated_step: int | None = None

    @cached_property
    def first(self) -> Injection:
        """The first strike that changed a value, else the first."""
        return _first(self.injections)

    @cached_property
    def elsewhere(self) -> tuple[str, ...]:
        """The faults that are for other ranks."""
        return tuple(missed.fault for missed in self.not_injected if missed.elsewhere)

    @cached_property
    def reached(self) -> bool:
        """Whether what struck another rank shows on this one, which no fault struck."""
        if self.injections or not self.elsewhere:
            return False
        floor = 0.0 if self.noise is None or self.noise.equal else self.relative
        apart = len(self.comparison.diverged) or not all(
            difference.equal for difference in differences(self.comparison)
        )
        return bool(apart) or any(not far <= floor for _, far in step_distances(self))

    @property
    def strike(self) -> int:
        """The step in which the first value was changed."""
        if self.injections:
            return self.first.step
        return self.compared_step or 0

    @property
    def compared(self) -> int:
        """The step whose calls were compared."""
        return self.strike if self.compared_step is None else self.compared_step

    @property
    def updated(self) -> int:
        """The step after which parameters, buffers and optimizer state were compared."""
        if self.updated_step is not None:
            return self.updated_step
        return self.faulty[-1].step if self.faulty else self.compared

    @cached_property
    def struck(self) -> str:
        """What struck where, fault by fault, as the beginning of a sentence."""
        if not self.injections:
            names = " and ".join(self.elsewhere)
            return f"{names} struck another rank, and what came of it reached this one"
        by_fault: dict[str, list[Injection]] = {self.first.fault: []}
        for injection in self.injections:
            by_fault.setdefault(injection.fault, []).append(injection)
        head, *others = by_fault.items()
        told = [f"{head[0]} struck {_where(head[1])}"]
        return several([*told, *(f"{fault} {_where(mine)}" for fault, mine in others)])

    @cached_property
    def relative(self) -> float:
        """The relative tolerance, raised to the noise floor where that is higher."""
        floor = max(d for _, d in distances(self.noise) if d < inf)
        return max(self.tolerance.relative, self.tolerance.noise * floor)

    @cached_property
    def within_noise(self) -> float:
        """The loss tolerance, raised to the noise floor where that is higher."""
        floor = self.noise.loss.relative_l2 if self.noise else 0.0
        return max(self.tolerance.loss, self.tolerance.noise * floor)

    @cached_property
    def course(self) -> Course:
        """How the loss ran from the strike on."""
        given = self.tolerance
        return follow(self.golden, self.faulty, self.strike, sudden=given.sudden, final=given.final)

    @cached_property
    def hidden(self) -> str:
        """What loss and weights do not show, as further clauses of a sentence.

        Damage, and NaN or Inf that the golden run holds itself.
        """
        both = pairs(self.golden, self.faulty)
        golden = golden_words(both, has_loss=self.comparison.has_loss)
        texts = (*hidden_damage(self.comparison), golden)
        return "".join(f"; {text}" for text in texts if text)

    @property
    def moved(self) -> bool:
        """Whether the parameters moved away by more than the tolerance."""
        return self.course.distance > self.relative


def _where(injections: Sequence[Injection]) -> str:
    """Where and when one fault struck first, and how often it struck again."""
    first, more = _first(injections), len(injections) - 1
    again = f" (and {counted(more, 'more time')})" if more else ""
    return f"{first.site} in step {first.step}{again}"


def _first(injections: Sequence[Injection]) -> Injection:
    """The first strike that changed a value, else the first."""
    return next((i for i in injections if i.changed), injections[0])


def differences(comparison: Comparison | None) -> list[Difference]:
    """The differences of everything that a step leaves behind."""
    if comparison is None:
        return []
    c = comparison
    return [c.loss, *c.gradients, *c.parameters, *c.buffers, *c.optimizer_state]


def distances(comparison: Comparison | None) -> list[tuple[str, float]]:
    """Relative distance of everything that a step leaves behind, by name.

    What was not measured, because one run has no such tensor or another shape, is infinitely far.
    """
    found = [d for d in differences(comparison) if not d.equal]
    far = [(d.name, inf if d.note or isnan(d.relative_l2) else d.relative_l2) for d in found]
    return [*far, ("nothing", 0.0)]


def step_distances(evidence: Evidence) -> list[tuple[str, float]]:
    """Relative distance of what the records say of each step, by name."""
    both = pairs(evidence.golden, evidence.faulty)
    found = [
        (f"{spoken(name)} of step {f.step}", relative(getattr(g, name), getattr(f, name)))
        for g, f in both
        for name in ("loss", "gradient_norm", "parameter_norm")
    ]
    measured = [f for f in evidence.faulty if not isnan(f.parameter_distance)]
    return found + [(f"parameters of step {f.step}", f.parameter_distance) for f in measured]
