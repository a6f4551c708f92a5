"""The outcomes of several steps: spikes, degrading, drift, a worse metric.

    spike_recover: f1 struck mm*4:0 in step 2; by step 3 the loss rose beside the
    golden one by 152 % within 2 steps, and it came back to within 5 % (0.3 %)

Limits: "above" and "away" are shares of the golden loss, or of its mean over the steps
where it is smaller than that, which the sentence says (see ``course.py``); with a
handful of steps a slow degrading cannot be told from a drift.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fi_notebook.analysis.course import pairs
from fi_notebook.analysis.evidence import Evidence
from fi_notebook.analysis.tolerance import Tolerance
from fi_notebook.analysis.words import four_digits, percent, several
from fi_notebook.core.run import Outcome
from fi_notebook.core.words import counted

__all__ = ["COURSE_RULES"]


def _spike(e: Evidence) -> Outcome | None:
    course = e.course
    if not course.rise > e.tolerance.spike:
        return None
    within = counted(max(e.tolerance.sudden, 1), "step")
    rose = (
        f"{e.struck}; by step {course.rise_step} the loss rose beside the golden one by "
        f"{course.rise_words} within {within}"
    )
    if course.final > e.within_noise:
        name, ends = "spike_degrade", f"and in the end it exceeds it by {course.final_words}"
    elif course.final < -e.within_noise:
        name, ends = "spike_recover", f"and in the end it is below it by {course.final_words}"
    else:
        name = "spike_recover"
        ends = f"and it came back to within {percent(e.within_noise)} ({percent(course.final)})"
    return Outcome(name, f"{rose}, {ends}{e.hidden}", course.rise_step)


def _slow_degrade(e: Evidence) -> Outcome | None:
    course, limit = e.course, e.within_noise
    if not course.final > limit:
        return None
    above = course.excess > limit
    step = int(course.steps[int(np.argmax(above))])
    lasts = bool(above[int(np.argmax(above)) :].all())
    since = f"from step {step} on" if lasts else f"first in step {step}"
    return Outcome(
        "slow_degrade",
        f"{e.struck}; without a spike the loss in the end exceeds the golden one by "
        f"{course.final_words} (more than {percent(limit)} {since}){e.hidden}",
        step,
    )


def _silent_drift(e: Evidence) -> Outcome | None:
    course = e.course
    if course.largest > e.within_noise or not e.moved:
        return None
    last = int(course.steps[-1])
    return Outcome(
        "silent_drift",
        f"{e.struck}; the loss stays within {percent(e.within_noise)} of the golden one "
        f"(at most {course.largest_words} away), but after step {last} the parameters are "
        f"{four_digits(course.distance)} away (relative L2){_metric_words(e)}{e.hidden}",
        last,
    )


def _metric_degraded(e: Evidence) -> Outcome | None:
    worse = _worse_metrics(e)
    if not worse:
        return None
    fine = "looks fine" if e.course.largest <= e.within_noise else "has no lasting rise"
    return Outcome(
        "metric_degraded",
        f"{e.struck}; the loss {fine} (at most {e.course.largest_words} away), but evaluate gives "
        f"{several(worse)}{e.hidden}",
        e.faulty[-1].step,
    )


def _metric_words(e: Evidence) -> str:
    worse = _worse_metrics(e)
    return f", and evaluate gives {several(worse)}" if worse else ""


def _worse_metrics(e: Evidence) -> list[str]:
    """The metrics of the last step that are worse than golden by more than the tolerance."""
    golden, faulty = pairs(e.golden, e.faulty)[-1]
    return [
        f"{name} {four_digits(value)} instead of {four_digits(golden.metrics[name])}"
        for name, value in faulty.metrics.items()
        if name in golden.metrics and _is_worse(name, golden.metrics[name], value, e.tolerance)
    ]


def _is_worse(name: str, golden: float, faulty: float, tolerance: Tolerance) -> bool:
    if not np.isfinite(faulty):
        return bool(np.isfinite(golden))
    falls = any(word in name.lower() for word in tolerance.lower_is_better)
    loss = faulty - golden if falls else golden - faulty
    return bool(loss > tolerance.metric * abs(golden))


COURSE_RULES: tuple[Callable[[Evidence], Outcome | None], ...] = (
    _spike,
    _slow_degrade,
    _silent_drift,
    _metric_degraded,
)
"""The rules of several steps, in the order of `OUTCOMES`."""
