"""One observed step against another: calls, loss, gradients and what the update wrote.

    compared = compare_steps(setup, golden, trace, faulty, noise)

Where golden itself does not repeat bit for bit, the noise floor is subtracted first: an
output, gradient or weight that is no further away than `Tolerance.noise` times golden
from golden counts as equal, and the notes say of how many that is true.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from fi_notebook.analysis.align import align
from fi_notebook.analysis.compare import build
from fi_notebook.core.lookup import row_of
from fi_notebook.core.run import NO_LOSS, Comparison, Difference
from fi_notebook.core.trace import Trace
from fi_notebook.core.words import agreed, counted
from fi_notebook.engine.measure import difference, differences, squared_distance
from fi_notebook.engine.replay import Setup, StepResult
from fi_notebook.engine.training_state import TrainingState
from fi_notebook.session.ends import result_difference
from fi_notebook.session.golden import settings

__all__ = ["compare_steps", "distance", "update_of"]


@_disable_current_modes()  # a person's mode around the session sees the step alone
def compare_steps(
    setup: Setup,
    golden: StepResult,
    trace: Trace,
    faulty: StepResult,
    noise: Comparison | None = None,
    margin: float = 1.0,
) -> Comparison:
    """Compare one step with one step.

    Args:
        setup: What was run.
        golden: What was seen of the golden step.
        trace: Its trace.
        faulty: What was seen of the faulty step.
        noise: Golden against golden; None where this is to find the noise.
        margin: How many times the noise still counts as noise.
    """
    facts = {"step": trace.info.get("step", 0), "loss": faulty.shown_loss}
    other = faulty.recorder.trace(settings(setup, faulty) | facts, golden=trace)
    alignment = align(trace, other)
    rows = zip(alignment.faulty_rows, alignment.golden_rows, strict=True)
    golden_rows = {int(f): int(g) for f, g in rows if f >= 0 and g >= 0}
    measures = faulty.recorder.measure_columns(golden_rows)
    quiet = 0
    if noise is not None and not noise.equal:
        quiet = _quieten(measures, _floor(noise, trace, golden_rows, len(other)) * margin)
    compared = build(
        trace,
        other,
        alignment,
        measures,
        loss=_loss(golden, faulty),
        gradients=differences(golden.gradients, faulty.gradients),
        gradient_norm=_gradient_norm(golden, faulty),
        evidence=faulty.recorder.evidence_column(),
        struck=_struck(faulty, other),
        **update_of(golden, faulty),
    )
    said = (_unread_words(compared), _inexact_words(compared, measures))
    compared = replace(compared, notes=(*compared.notes, *filter(None, said)))
    if noise is None or noise.equal:
        return compared
    return _without_noise(compared, noise, margin, quiet)


def _unread_words(compared: Comparison) -> str:
    """How many outputs are taken to differ."""
    count = len(compared.unread)
    if not count:
        return ""
    return (
        f"{counted(count, 'site')} {agreed(count, 'hold')} what is not read (a sparse, nested or "
        f"quantized tensor) and {agreed(count, 'count')} as differing because an input does"
    )


def _inexact_words(compared: Comparison, measures: Mapping[str, np.ndarray]) -> str:
    """How many outputs differ of which the golden one was not kept whole."""
    columns = compared.columns
    both = (columns["golden"] >= 0) & (columns["faulty"] >= 0)
    rows = columns["faulty"][both & ~columns["equal"] & ~columns["exact"]]
    count = int((~np.isnan(measures["equal"][rows])).sum())
    if not count:
        return ""
    return (
        f"{counted(count, 'site')} that {agreed(count, 'differ')} did not fit in the session's "
        "memory: how far is an estimate from a sample or a lower bound from statistics, and growth "
        "is not known; give memory= more bytes, or spill= a file"
    )


def _struck(faulty: StepResult, trace: Trace) -> np.ndarray:
    """Whether a fault changed each site of the faulty step."""
    rows = [row_of(trace, injection.site) for injection in faulty.injections if injection.changed]
    struck = np.zeros(len(trace), bool)
    struck[[row for row in rows if row is not None]] = True
    return struck


def _floor(
    noise: Comparison, trace: Trace, golden_rows: Mapping[int, int], sites: int
) -> np.ndarray:
    """Relative L2 of golden from golden, for each site row of the faulty trace."""
    levels = np.zeros(len(trace))
    if noise.golden is trace:
        rows = noise.columns["golden"]
        levels[rows[rows >= 0]] = noise.columns["relative_l2"][rows >= 0]
    else:  # another step of the same run
        found = align(noise.golden, trace)
        of_noise = np.zeros(len(noise.golden))
        rows = noise.columns["golden"]
        of_noise[rows[rows >= 0]] = noise.columns["relative_l2"][rows >= 0]
        both = found.matched
        levels[found.faulty_rows[both]] = of_noise[found.golden_rows[both]]
    floor = np.zeros(sites)
    floor[list(golden_rows)] = levels[list(golden_rows.values())]
    return np.nan_to_num(floor, nan=0.0)


def _quieten(measures: dict[str, np.ndarray], floor: np.ndarray) -> int:
    """Count as equal what differs by no more than the floor; gives how many that are."""
    differs = measures["equal"] == 0
    finite = (np.nan_to_num(measures["new_nan"]) == 0) & (np.nan_to_num(measures["new_inf"]) == 0)
    quiet = differs & finite & (floor > 0) & (measures["relative_l2"] <= floor)
    measures["equal"][quiet] = 1
    measures["exact"][quiet] = 0
    return int(quiet.sum())


def _without_noise(
    compared: Comparison, noise: Comparison, margin: float, quiet: int
) -> Comparison:
    """The same for what a step leaves behind, by name."""
    kinds = ("gradients", "parameters", "buffers", "optimizer_state")
    changed: dict[str, Any] = {
        kind: tuple(_within(d, getattr(noise, kind), margin) for d in getattr(compared, kind))
        for kind in kinds
    }
    for name in ("loss", "gradient_norm"):
        changed[name] = _within(getattr(compared, name), (getattr(noise, name),), margin)
    said = (
        f"{counted(quiet, 'site')} {agreed(quiet, 'differ')} by no more than golden from golden "
        f"and {agreed(quiet, 'count')} as equal"
    )
    return replace(compared, **changed, notes=(*compared.notes, said) if quiet else compared.notes)


def _within(found: Difference, noise: tuple[Difference, ...], margin: float) -> Difference:
    """A difference, equal where it is no larger than the noise of its namesake."""
    floor = next((n.relative_l2 for n in noise if n.name == found.name and not n.equal), 0.0)
    loud = found.new_nan or found.new_inf or found.relative_l2 > margin * floor
    if found.equal or loud or found.note:
        return found
    return replace(found, equal=True, changed=0, note="within the noise floor")


def update_of(golden: StepResult, faulty: StepResult) -> dict[str, Any]:
    """Differences of what training keeps, where both runs came to the end of a step."""
    a, b = golden.state, faulty.state
    if a is None or b is None:
        return {}
    return {
        "parameters": differences(a.parameters, b.parameters),
        "buffers": differences(a.buffers, b.buffers),
        "optimizer_state": differences(a.optimizer_state, b.optimizer_state),
    }


def _loss(golden: StepResult, faulty: StepResult) -> Difference:
    """The difference of the loss; where there is none, of what the step returned."""
    if golden.loss is not None and faulty.loss is not None:
        return difference("loss", golden.loss, faulty.loss)
    if golden.loss is not None or faulty.loss is not None or faulty.error is not None:
        return Difference("loss", equal=False, note=NO_LOSS)
    found = result_difference(golden.returned, faulty.returned)
    return found or Difference("loss", equal=True, note=NO_LOSS)


def _gradient_norm(golden: StepResult, faulty: StepResult) -> Difference:
    norms = np.asarray([[golden.gradient_norm], [faulty.gradient_norm]])
    return difference("gradient norm", *torch.from_numpy(norms))


@_disable_current_modes()
def distance(golden: TrainingState | None, faulty: StepResult) -> float:
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
    apart = math.sqrt(sum(squared_distance(a, b) for a, b in pairs if a.shape == b.shape))
    return apart / (golden.parameter_norm or 1.0)
