"""What detectors say of a run: alarms, the bounds they were held against, false alarms.

    Detection("loss_spike", alarms=(Alarm(step=3, site="", value=9.1, threshold=4.6),), …)
    detection.false_alarms   what it says of the golden run, where nothing is wrong
    detection.caught         what it says of the faulty run, and not there too of the golden one
    detection.first          the earliest of these, or None

The detectors themselves are in ``analysis/detectors.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["QUANTITIES", "Alarm", "Bound", "Detection"]

QUANTITIES = ("loss", "gradient_norm", "parameter_norm", "parameter_distance")
"""What of a step a bound may be about: fields of a `StepRecord`, or a metric's name."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm of a detector.

    Attributes:
        step: In which step.
        site: At which output of which call, or "" where it is about the whole step.
        value: What was seen.
        threshold: What it was held against; NaN where there is no number.
    """

    step: int
    site: str
    value: float
    threshold: float = float("nan")


@dataclass(frozen=True, slots=True)
class Bound:
    """What a quantity of a step was held against, whether or not there was an alarm.

    Attributes:
        step: In which step.
        quantity: One of `QUANTITIES`, or the name of a metric.
        value: The bound; figures draw it.
    """

    step: int
    quantity: str
    value: float


@dataclass(frozen=True, slots=True)
class Detection:
    """What one detector made of a replay.

    Attributes:
        name: Name of the detector.
        alarms: Alarms on the faulty run, the earliest first.
        false_alarms: Alarms on the golden run.
        bounds: What the faulty run's quantities were held against, step by step.
        error: What the detector raised, or ""; it then says nothing.
    """

    name: str
    alarms: tuple[Alarm, ...] = ()
    false_alarms: tuple[Alarm, ...] = ()
    bounds: tuple[Bound, ...] = ()
    error: str = ""

    @property
    def caught(self) -> tuple[Alarm, ...]:
        """Alarms on the faulty run where there is none on the golden run."""
        false = {(alarm.step, alarm.site) for alarm in self.false_alarms}
        return tuple(alarm for alarm in self.alarms if (alarm.step, alarm.site) not in false)

    @property
    def first(self) -> Alarm | None:
        """The earliest alarm that was caught, or None."""
        return next(iter(self.caught), None)
