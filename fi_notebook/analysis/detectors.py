"""Would it have been noticed? Detectors over a replay, with their false alarms.

    for detection in detect(comparison, golden_steps, faulty_steps):
        detection.name, detection.first, detection.false_alarms
    # ('nan_guard', Alarm(step=0, site='log*1:0', value=nan, …), ())

    @register("my_detector")
    def my_detector(observed, *, limit=3.0):
        \"\"\"Alarms where the loss is above a limit.\"\"\"
        return (alarm_at_step(r, r.loss, limit) for r in observed.steps if r.loss > limit)

    unregister("my_detector")       # or register it with replace=True, as a cell that is run again

A detector sees one run as a program in production would, and beside it the golden
trace, on which bounds may be calibrated. It is tried on the faulty run, where it should
alarm, and on the golden run, where every alarm is false. Beside alarms it may give a
`Bound` for each step that it judged; the figures draw them.

Limits: calls are looked at in the one step whose calls were recorded; bounds that are
calibrated on the golden trace cannot alarm on it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fi_notebook.core.detection import Alarm, Bound, Detection
from fi_notebook.core.run import Comparison, StepRecord
from fi_notebook.core.site import PHASES
from fi_notebook.core.stats import NONFINITE
from fi_notebook.core.trace import Trace
from fi_notebook.errors import FaultError, did_you_mean

__all__ = [
    "Alarm",
    "Bound",
    "Detection",
    "Observed",
    "alarm_at_step",
    "detect",
    "names",
    "register",
    "unregister",
]


@dataclass(frozen=True, eq=False)
class Observed:
    """One run as a detector sees it.

    Attributes:
        trace: The calls of one step.
        steps: One record per step.
        step: The step that the trace is of.
        golden: The golden trace, to calibrate bounds on.
        golden_rows: For each site row of the trace its row there, or -1.
        has_loss: Whether the steps have a loss; else that of their records is NaN.
    """

    trace: Trace
    steps: tuple[StepRecord, ...]
    step: int
    golden: Trace
    golden_rows: np.ndarray
    has_loss: bool = True


logger = logging.getLogger("fi_notebook")

Detector = Callable[..., Iterable[Alarm | Bound]]
_REGISTRY: dict[str, Detector] = {}

_Limits = tuple[np.ndarray, np.ndarray]
_VALUES = {"nan": float("nan"), "posinf": float("inf"), "neginf": -float("inf")}


def register(name: str, *, replace: bool = False) -> Callable[[Detector], Detector]:
    """Add a detector ``(observed, *, parameters…) -> alarms and bounds`` under a name.

    Every replay from then on tries it; what it raises is logged and stops no replay.

    Args:
        name: Its name in `Run.detections`; a name that is taken is refused.
        replace: Replace a detector of your own of the same name, as when a notebook cell
            is run again.

    Returns:
        The decorator; it gives the function back as it is.

    Raises:
        FaultError: The name is taken, or is no plain word.
    """

    def add(function: Detector) -> Detector:
        if not (isinstance(name, str) and name.isidentifier()):
            raise FaultError(f"detector name {name!r} is not a plain word such as 'my_detector'")
        if name in _REGISTRY and not (replace and _is_own(name)):
            hint = ", or register it with replace=True" if _is_own(name) else ""
            raise FaultError(f"detector {name!r} exists already; choose another name{hint}")
        _REGISTRY[name] = function
        return function

    return add


def unregister(name: str) -> None:
    """Take a detector of your own out again.

    Args:
        name: Its name.

    Raises:
        FaultError: There is none, or it is not your own; names the nearest ones.
    """
    _check_known(name)
    if not _is_own(name):
        raise FaultError(f"detector {name!r} belongs to fi_notebook and cannot be removed")
    del _REGISTRY[name]


def _is_own(name: str) -> bool:
    """Whether a registered detector is a person's own."""
    return getattr(_REGISTRY[name], "__module__", "") != __name__


def _check_known(name: str) -> None:
    if name not in _REGISTRY:
        raise FaultError(f"no detector {name!r}{did_you_mean(str(name), _REGISTRY)}")


def names() -> list[str]:
    """Every detector, in the order in which they were registered."""
    return list(_REGISTRY)


def detect(
    comparison: Comparison,
    golden_steps: Sequence[StepRecord],
    faulty_steps: Sequence[StepRecord],
    *,
    step: int | None = None,
    detectors: Mapping[str, Mapping[str, Any]] | None = None,
) -> tuple[Detection, ...]:
    """Try detectors on a replay.

    Args:
        comparison: The faulty run against the golden run.
        golden_steps: Records of the golden run.
        faulty_steps: Records of the faulty run.
        step: The step whose calls were compared; by default the first.
        detectors: Parameters of each detector by name; by default every detector, with
            its own defaults.

    Returns:
        What each detector said of the faulty run, and of the golden one.

    Raises:
        FaultError: There is no detector of a name; names the nearest ones.
    """
    chosen = {name: {} for name in _REGISTRY} if detectors is None else detectors
    for name in chosen:
        _check_known(name)
    first = golden_steps[0].step if step is None and golden_steps else step or 0
    columns = comparison.columns
    rows = np.full(len(comparison.faulty), -1, dtype=np.int64)
    made = columns["faulty"] >= 0
    rows[columns["faulty"][made]] = columns["golden"][made]
    golden, faulty = comparison.golden, comparison.faulty
    itself = np.arange(len(golden))
    has_loss = comparison.has_loss
    runs = (
        Observed(faulty, tuple(faulty_steps), first, golden, rows, has_loss),
        Observed(golden, tuple(golden_steps), first, golden, itself, has_loss),
    )
    return tuple(_detection(name, runs, chosen[name]) for name in chosen)


def _detection(
    name: str, runs: tuple[Observed, Observed], parameters: Mapping[str, Any]
) -> Detection:
    """What a detector says of the faulty run and of the golden one."""
    try:
        faulty, golden = (list(_REGISTRY[name](run, **parameters)) for run in runs)
    except Exception as error:  # a person's detector must not take the replay with it
        logger.exception("the detector %r failed", name)
        return Detection(name, error=f"{type(error).__name__}: {error}")
    bounds = tuple(bound for bound in faulty if isinstance(bound, Bound))
    return Detection(name, _alarms(faulty), _alarms(golden), bounds)


def _alarms(said: Iterable[Alarm | Bound]) -> tuple[Alarm, ...]:
    found = (alarm for alarm in said if isinstance(alarm, Alarm))
    return tuple(sorted(found, key=lambda alarm: alarm.step))


def alarm_at_step(record: StepRecord, value: float, threshold: float = float("nan")) -> Alarm:
    """An alarm about a whole step.

    Args:
        record: The step.
        value: What was seen.
        threshold: The bound that it went beyond; NaN where there is none.

    Returns:
        The alarm.
    """
    return Alarm(record.step, "", value, threshold)


def _alarm_at(observed: Observed, row: int, value: float, threshold: float) -> Alarm:
    return Alarm(observed.step, str(observed.trace.site(row)), value, threshold)


def _more(observed: Observed, name: str) -> np.ndarray:
    """Whether each site holds more NaN, +Inf or -Inf than its golden row; one without has none."""
    golden = np.append(np.maximum(observed.golden.site_columns[name], 0), 0)  # -1 is the last
    return np.asarray(observed.trace.site_columns[name] > golden[observed.golden_rows])


@register("nan_guard")
def nan_guard(observed: Observed) -> Iterable[Alarm]:
    """Alarms at the first call with NaN or Inf, and in every step with NaN or Inf.

    A call counts where it holds more of them than in the golden run, in which a mask may be
    -Inf; where none does, one with NaN counts as well.
    """
    columns = observed.trace.site_columns
    more = {name: _more(observed, name) for name in NONFINITE}
    rows = np.flatnonzero(np.any(list(more.values()), axis=0))
    if not len(rows):
        rows = np.flatnonzero(columns["nan"] > 0)
    if len(rows):
        row = int(rows[0])
        kind = next((name for name in NONFINITE if more[name][row]), "nan")
        yield _alarm_at(observed, row, _VALUES[kind], float("nan"))
    for record in observed.steps:
        values = [record.loss, record.gradient_norm, record.parameter_norm]
        seen = values if observed.has_loss else values[1:]
        if bad_values := [value for value in seen if not np.isfinite(value)]:
            yield alarm_at_step(record, bad_values[0])


@register("loss_spike")
def loss_spike(
    observed: Observed, *, factor: float = 2.0, window: int = 10
) -> Iterable[Alarm | Bound]:
    """Alarms where the loss is more than a factor above the median of the steps before.

    Args:
        observed: The run.
        factor: How many times the median; from a negative one the same room is left above,
            ``median + (factor - 1) |median|``.
        window: Over how many steps before.
    """
    for n, record in enumerate(observed.steps):
        before = [r.loss for r in observed.steps[max(0, n - window) : n] if np.isfinite(r.loss)]
        if not before:
            continue
        median = float(np.median(before))
        limit = median + (factor - 1) * abs(median)
        yield Bound(record.step, "loss", limit)
        if record.loss > limit:
            yield alarm_at_step(record, record.loss, limit)


@register("gradient_norm")
def gradient_norm(observed: Observed, *, limit: float = 100.0) -> Iterable[Alarm | Bound]:
    """Alarms where the norm of all gradients is above a limit."""
    for record in observed.steps:
        yield Bound(record.step, "gradient_norm", limit)
        if record.gradient_norm > limit:
            yield alarm_at_step(record, record.gradient_norm, limit)


@register("activation_range")
def activation_range(observed: Observed, *, margin: float = 0.1) -> Iterable[Alarm]:
    """Alarms where a forward output leaves the range of the golden run (Ranger).

    Args:
        observed: The run.
        margin: Share of the golden range that is allowed on either side.
    """

    def limits(low: np.ndarray, high: np.ndarray) -> _Limits:
        room = margin * (high - low)
        return low - room, high + room

    yield from _out_of_range(observed, "forward", limits)


@register("optimizer_bound")
def optimizer_bound(observed: Observed, *, factor: float = 10.0) -> Iterable[Alarm]:
    """Alarms where a value of the optimizer (a moment) is far larger than the golden run's.

    Args:
        observed: The run.
        factor: How many times the largest golden magnitude of the same call.
    """

    def limits(low: np.ndarray, high: np.ndarray) -> _Limits:
        limit = factor * np.maximum(np.abs(low), np.abs(high))
        return -limit, limit

    yield from _out_of_range(observed, "optimizer", limits)


def _out_of_range(
    observed: Observed, phase: str, limits: Callable[[np.ndarray, np.ndarray], _Limits]
) -> Iterable[Alarm]:
    """Alarms of the outputs of a phase that leave the limits from the golden range.

    An infinity leaves them wherever there are more of its sign than in the golden run.
    """
    trace, golden = observed.trace, observed.golden
    phases = trace.calls["phase"][trace.site_columns["call"]]
    rows = np.flatnonzero((observed.golden_rows >= 0) & (phases == PHASES.index(phase)))
    reference = observed.golden_rows[rows]
    floor, ceiling = limits(*(golden.site_columns[name][reference] for name in ("min", "max")))
    least, most = (trace.site_columns[name][rows] for name in ("min", "max"))
    least = np.where(_more(observed, "neginf")[rows], -np.inf, least)
    most = np.where(_more(observed, "posinf")[rows], np.inf, most)
    below = (least < floor) | np.isneginf(least)
    above = (most > ceiling) | np.isposinf(most)
    for n in np.flatnonzero(below | above).tolist():
        value, threshold = (most[n], ceiling[n]) if above[n] else (least[n], floor[n])
        yield _alarm_at(observed, int(rows[n]), float(value), float(threshold))
