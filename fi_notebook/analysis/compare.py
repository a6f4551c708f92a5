"""The faulty run against the golden run, site by site.

    compare(a, b)      two traces, also from files and other machines, judged on what a
                       trace holds: statistics, and a hash of the bits of every output
    build(...)         the same, with the measures that were taken on the tensors
                       themselves wherever there are any

Two traces tell for certain *whether* an output differs (by its hash, weighted by
position: row swaps, sign flips in pairs and NaN payloads show), and such equal rows say
``exact``. *How far* it differs they tell from below only: ``relative_l2`` and
``max_abs`` are then lower bounds, the other measures are -1 or NaN. With a tolerance
that bound decides, so that float32 can be compared with bfloat16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fi_notebook.analysis.align import Alignment, align, describe
from fi_notebook.analysis.effects import assign_effects, growths
from fi_notebook.analysis.incidental import count_as_equal
from fi_notebook.analysis.mechanisms import assign_mechanisms
from fi_notebook.analysis.statistics import judge_statistics, unknown
from fi_notebook.analysis.unread import count_as_differing
from fi_notebook.analysis.words import four_digits, several
from fi_notebook.core.run import (
    COMPARISON_COLUMNS,
    DISTANCES,
    NO_LOSS,
    NOT_MEASURED,
    Comparison,
    Difference,
)
from fi_notebook.core.trace import Trace
from fi_notebook.errors import ArgumentError, did_you_mean

__all__ = ["build", "compare"]

_MEASURES = tuple(n for n in COMPARISON_COLUMNS if n not in NOT_MEASURED)
_BOUNDED = ("relative_l2", "max_abs", "new_nan", "new_inf")
"""Measures that statistics bound from below."""
_COUNTED = {"new_nan": ("nan",), "new_inf": ("posinf", "neginf")}
"""Statistics that bound a measure from above: what is new is among what is there."""
_BY_HASH = (
    "no tensors were at hand: outputs are equal where statistics and the hash of all bits are; "
    "distances are lower bounds from the statistics"
)
# of a trace's info, what a run gave:
_NO_SETTINGS = ("loss", "memory", "step", "forwards", "ran_eagerly")


def compare(
    golden: Trace | str | Path,
    faulty: Trace | str | Path,
    *,
    tolerance: float = 0.0,
    growth: float = 2.0,
) -> Comparison:
    """Compare two traces without their tensors: where do they first differ?

    Args:
        golden: The trace to compare with, or the file that it was saved to.
        faulty: The trace to be judged, or its file; of another process or machine too.
        tolerance: Relative difference up to which outputs count as equal, whatever
            their dtype (0.01 or so for float32 against bfloat16); 0 asks for equal bits.
        growth: Factor from which an error counts as amplified or attenuated.

    Returns:
        A comparison whose `first` is the first output that differs by more than the
        tolerance; its notes say so, how it was judged, and which settings differ.

    Raises:
        TypeError: One is neither a trace nor a path.
        ArgumentError: The tolerance is negative or NaN.
        TraceError: A file is no trace.
    """
    if not tolerance >= 0:
        raise ArgumentError(f"tolerance is {tolerance!r}; expected a number from 0, such as 0.01")
    a, b = (_trace(given) for given in (golden, faulty))
    found = build(
        a,
        b,
        align(a, b),
        {},
        loss=_loss_difference(a.info.get("loss"), b.info.get("loss"), tolerance),
        growth=growth,
        tolerance=tolerance,
    )
    notes = (_first_words(found, tolerance), _BY_HASH, _settings_words(a, b))
    return replace(found, notes=tuple(note for note in notes if note))


def _trace(given: Any) -> Trace:
    if isinstance(given, (str, Path)):
        return Trace.load(given)
    if isinstance(given, Trace):
        return given
    raise TypeError(
        f"cannot compare a {type(given).__name__}; expected a trace, such as session.golden or "
        "run.comparison.faulty, or the file that one was saved to"
    )


def _first_words(comparison: Comparison, tolerance: float) -> str:
    """Where the traces first differ, as a sentence."""
    beyond = f" by more than the relative tolerance {four_digits(tolerance)}" if tolerance else ""
    rows = comparison.diverged
    both = (comparison.columns["golden"] >= 0) & (comparison.columns["faulty"] >= 0)
    matched = rows[both[rows]]
    where = _where_words(comparison, int(matched[0])) if len(matched) else ""
    if len(rows) and not both[rows[0]]:
        said = f"; of what both have, the first that differs{beyond} is {where}" if where else ""
        return f"the traces first differ in their calls: {comparison.structural}{said}"
    if not where:
        return f"no site that both traces have differs{beyond}"
    return f"the traces first differ{beyond} at {where}"


def _where_words(comparison: Comparison, row: int) -> str:
    """A site that both traces have and that differs, and how far at least."""
    far = float(comparison.columns["relative_l2"][row])
    where = describe(comparison.golden, int(comparison.columns["golden"][row]))
    bad = any(comparison.columns[name][row] > 0 for name in ("new_nan", "new_inf"))
    bound = f"; relative L2 at least {four_digits(far)}" if far > 0 and not bad else ""
    return f"{where}{bound}"


def _settings_words(golden: Trace, faulty: Trace) -> str:
    """The settings of the runs that are not the same."""
    names = dict.fromkeys((*golden.info, *faulty.info))
    differ = [
        f"{name} {golden.info.get(name)!r} and {faulty.info.get(name)!r}"
        for name in names
        if name not in _NO_SETTINGS and golden.info.get(name) != faulty.info.get(name)
    ]
    return f"the runs have other settings: {several(differ, 6)}" if differ else ""


def build(
    golden: Trace,
    faulty: Trace,
    alignment: Alignment,
    measures: Mapping[str, np.ndarray],
    *,
    loss: Difference,
    gradients: Sequence[Difference] = (),
    parameters: Sequence[Difference] = (),
    buffers: Sequence[Difference] = (),
    optimizer_state: Sequence[Difference] = (),
    gradient_norm: Difference | None = None,
    notes: Sequence[str] = (),
    growth: float = 2.0,
    tolerance: float = 0.0,
    evidence: np.ndarray | None = None,
    struck: np.ndarray | None = None,
) -> Comparison:
    """Put a comparison together.

    Args:
        golden: Trace of the golden run.
        faulty: Trace of the faulty run.
        alignment: Which site is which, from `align`.
        measures: Measures taken on the tensors, by column name (any of ``equal``,
            ``exact``, ``changed``, ``numel``, ``relative_l2``, …), one entry per site
            row of the faulty trace; NaN where nothing was measured, and there the
            statistics of the two traces are judged instead.
        loss: Difference of the loss.
        gradients: Differences of the gradients.
        parameters: Differences of the parameters after the step.
        buffers: Differences of the buffers after the step.
        optimizer_state: Differences of the optimizer's tensors.
        gradient_norm: Difference of the norm of all gradients.
        notes: Findings that a person must not miss.
        growth: Factor from which an error counts as amplified or attenuated.
        tolerance: Relative difference up to which statistics count as equal.
        evidence: What was seen of calls that mask (`core.masking.Evidence`), one entry
            per site row of the faulty trace.
        struck: Whether a fault changed each site row of the faulty trace; None where that
            is not known, and then incidental calls that differ are not told apart.

    Raises:
        ArgumentError: A measure has an unknown name or another length than the trace.
    """
    _check(measures, len(faulty))
    known = [np.asarray(measures[name]) for name in ("equal", "changed") if name in measures]
    measured = ~np.isnan(known[0].astype(np.float64)) if known else None
    columns = judge_statistics(golden, faulty, alignment, tolerance, measured)
    _take_measures(columns, measures, faulty)
    assumed = count_as_differing(faulty, columns, struck)
    effects = partial(
        assign_effects, faulty, columns, growth=growth, struck=struck, assumed=assumed
    )
    columns["effect"] = effects()
    if struck is not None and count_as_equal(faulty, columns, struck):
        columns["effect"] = effects()
    columns["growth"] = growths(faulty, columns)
    columns["mechanism"] = assign_mechanisms(faulty, columns, evidence)
    return Comparison(
        golden=golden,
        faulty=faulty,
        columns={name: columns[name].astype(kind) for name, kind in COMPARISON_COLUMNS.items()},
        loss=loss,
        gradients=tuple(gradients),
        parameters=tuple(parameters),
        buffers=tuple(buffers),
        optimizer_state=tuple(optimizer_state),
        gradient_norm=gradient_norm or Difference("gradient norm", equal=True),
        structural=alignment.structural,
        notes=tuple(notes),
        unread=np.flatnonzero(assumed & ~columns["equal"]),
    )


def _check(measures: Mapping[str, np.ndarray], sites: int) -> None:
    for name, values in measures.items():
        if name not in _MEASURES:
            raise ArgumentError(f"no measure {name!r}{did_you_mean(name, _MEASURES)}")
        if len(values) != sites:
            raise ArgumentError(
                f"the measure {name!r} has {len(values)} entries; "
                f"expected one per site of the faulty trace, {sites}"
            )


def _take_measures(
    columns: dict[str, np.ndarray], measures: Mapping[str, np.ndarray], faulty: Trace
) -> None:
    """Put what was measured on the tensors in place of what statistics say."""
    matched = np.flatnonzero((columns["golden"] >= 0) & (columns["faulty"] >= 0))
    rows = columns["faulty"][matched]
    given = {name: np.asarray(values, dtype=np.float64)[rows] for name, values in measures.items()}
    if "equal" not in given and "changed" in given:
        changed = given["changed"]
        given["equal"] = np.where(np.isnan(changed), np.nan, changed == 0)
    if "equal" not in given:
        return
    measured = ~np.isnan(given["equal"])
    given.setdefault("exact", np.ones(len(rows)))
    differ = matched[measured & (given["equal"] == 0)]
    for name in set(DISTANCES) - set(_BOUNDED):  # that statistics are the same is no 0 here
        columns[name][differ] = unknown(name)
    for name in _MEASURES:
        values = given.get(name, np.full(len(rows), np.nan))
        taken = measured & ~np.isnan(values)
        if name in _BOUNDED:  # a sample may miss what the statistics of the whole tell
            within = np.fmax(values, columns[name][matched])
            within = np.fmin(within, _at_most(faulty, rows, name))
            values = np.where(given["exact"] == 0, within, values)
        columns[name][matched[taken]] = values[taken]
    equal = matched[measured & (given["equal"] == 1)]
    for name in DISTANCES:
        columns[name][equal] = 0


def _at_most(faulty: Trace, rows: np.ndarray, name: str) -> np.ndarray:
    """The largest that a measure can be by the statistics of the whole."""
    there = [faulty.site_columns[statistic][rows] for statistic in _COUNTED.get(name, ())]
    if not there:
        return np.full(len(rows), np.inf)
    return np.where(np.min(there, axis=0) < 0, np.inf, np.sum(there, axis=0))


def _loss_difference(golden: Any, faulty: Any, tolerance: float) -> Difference:
    """The difference of two losses, equal where both are NaN, or within the tolerance."""
    known = [isinstance(loss, (int, float)) for loss in (golden, faulty)]
    if not all(known):
        return Difference("loss", equal=not any(known), note=NO_LOSS)
    finite = np.isfinite(golden) and np.isfinite(faulty)
    apart = abs(faulty - golden) if finite else 0.0
    equal = golden == faulty or (np.isnan(golden) and np.isnan(faulty))
    equal = equal or (finite and apart <= tolerance * abs(golden))
    return Difference(
        "loss",
        equal=bool(equal),
        changed=int(golden != faulty and not (np.isnan(golden) and np.isnan(faulty))),
        numel=1,
        relative_l2=apart / abs(golden) if golden and apart else apart and float("inf"),
        max_abs=apart,
        new_nan=int(np.isnan(faulty) and not np.isnan(golden)),
        new_inf=int(np.isinf(faulty) and not np.isinf(golden)),
        golden=float(golden),
        faulty=float(faulty),
    )
