"""The faulty run against the golden run, site by site.

    compare(a, b)      two traces, also from files and other machines, judged on the
                       statistics that a trace holds: every row says ``exact`` False
    build(...)         the same, with the measures that were taken on the tensors
                       themselves wherever there are any

Limits of statistics: rows whose minimum, maximum, mean, deviation, norm and counts
agree are called equal though their bits may differ (a row swap shows in none of
these); ``relative_l2`` and ``max_abs`` are then lower bounds, the other measures are
-1 or NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fi_notebook.analysis.align import Alignment, align
from fi_notebook.analysis.effects import assign_effects
from fi_notebook.core.run import COMPARISON_COLUMNS, Comparison, Difference
from fi_notebook.core.stats import STATISTICS
from fi_notebook.core.trace import Trace
from fi_notebook.errors import did_you_mean

__all__ = ["build", "compare"]

_MEASURES = tuple(n for n in COMPARISON_COLUMNS if n not in ("golden", "faulty", "effect"))
_BY_STATISTICS = "no tensors were at hand: judged on statistics, equal statistics count as equal"


def compare(golden: Trace, faulty: Trace, *, growth: float = 2.0) -> Comparison:
    """Compare two traces without their tensors.

    Args:
        golden: The trace to compare with.
        faulty: The trace to be judged.
        growth: Factor from which an error counts as amplified or attenuated.

    Returns:
        A comparison whose rows are all judged on statistics; its notes say so.
    """
    values = [_scalar(trace.info.get("loss")) for trace in (golden, faulty)]
    return build(
        golden,
        faulty,
        align(golden, faulty),
        {},
        loss=_scalar_difference("loss", *values),
        notes=(_BY_STATISTICS,),
        growth=growth,
    )


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

    Raises:
        ValueError: A measure has an unknown name or another length than the trace.
    """
    _check(measures, len(faulty))
    columns = _judge_statistics(golden, faulty, alignment)
    _take_measures(columns, measures)
    columns["effect"] = assign_effects(faulty, columns, growth=growth)
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
    )


def _check(measures: Mapping[str, np.ndarray], sites: int) -> None:
    for name, values in measures.items():
        if name not in _MEASURES:
            raise ValueError(f"no measure {name!r}{did_you_mean(name, _MEASURES)}")
        if len(values) != sites:
            raise ValueError(
                f"the measure {name!r} has {len(values)} entries; "
                f"expected one per site of the faulty trace, {sites}"
            )


def _judge_statistics(golden: Trace, faulty: Trace, alignment: Alignment) -> dict[str, np.ndarray]:
    """Every column, from the statistics of the two traces alone."""
    count, both = len(alignment), alignment.matched
    columns: dict[str, np.ndarray] = {
        name: np.full(count, _unknown(name), dtype=kind)
        for name, kind in COMPARISON_COLUMNS.items()
    }
    columns["golden"], columns["faulty"] = alignment.golden_rows, alignment.faulty_rows
    before = _statistics(golden, alignment.golden_rows[both])
    after = _statistics(faulty, alignment.faulty_rows[both])
    numel = [_numel(t, r) for t, r in ((golden, columns["golden"]), (faulty, columns["faulty"]))]
    columns["numel"] = np.maximum(*numel)
    same = np.all([_same(before[name], after[name]) for name in STATISTICS], axis=0)
    columns["equal"][both] = same & (numel[0] == numel[1])[both]
    taken = (before["nan"] >= 0) & (after["nan"] >= 0)
    relative = _relative(before["norm"], after["norm"])
    columns["relative_l2"][both] = np.where(same & taken, 0.0, relative)
    columns["max_abs"][both] = np.fmax(
        abs(after["min"] - before["min"]), abs(after["max"] - before["max"])
    )
    columns["new_nan"][both] = _more(before["nan"], after["nan"])
    infinities = [stats["posinf"] + stats["neginf"] for stats in (before, after)]
    columns["new_inf"][both] = _more(*infinities)
    return columns


def _unknown(name: str) -> float:
    """What stands in a column where nothing is known."""
    kind = COMPARISON_COLUMNS[name]
    return np.nan if kind is np.float64 else -1 if kind is np.int64 else 0


def _statistics(trace: Trace, rows: np.ndarray) -> dict[str, np.ndarray]:
    return {name: trace.site_columns[name][rows] for name in STATISTICS}


def _same(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    return (before == after) | (np.isnan(before) & np.isnan(after))


def _relative(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """A lower bound of ‖after - before‖ / ‖before‖, known from the two norms."""
    distance = abs(after - before)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(distance == 0, 0.0, distance / before)


def _more(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    return np.where((before < 0) | (after < 0), 0, np.maximum(after - before, 0))


def _numel(trace: Trace, rows: np.ndarray) -> np.ndarray:
    """Elements of each site; -1 where the trace has no such site."""
    sizes = [math.prod(shape) for shape in trace.tables.shapes]
    of_site = np.asarray([*sizes, -1], dtype=np.int64)[trace.site_columns["shape"]]
    return np.append(of_site, -1)[rows]


def _take_measures(columns: dict[str, np.ndarray], measures: Mapping[str, np.ndarray]) -> None:
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
    for name in _MEASURES:
        values = given.get(name, np.full(len(rows), np.nan))
        taken = measured & ~np.isnan(values)
        columns[name][matched[taken]] = values[taken]
    equal = matched[measured & (given["equal"] == 1)]
    for name in ("changed", "relative_l2", "max_abs", "max_rel", "max_ulp", "sign_flips"):
        columns[name][equal] = 0


def _scalar(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else float("nan")


def _scalar_difference(name: str, golden: float, faulty: float) -> Difference:
    """The difference of two numbers; equal where both are NaN."""
    equal = golden == faulty or (np.isnan(golden) and np.isnan(faulty))
    finite = np.isfinite(golden) and np.isfinite(faulty)
    apart = abs(faulty - golden) if finite else 0.0
    return Difference(
        name,
        equal=bool(equal),
        changed=int(not equal),
        numel=1,
        relative_l2=apart / abs(golden) if golden and apart else apart and float("inf"),
        max_abs=apart,
        new_nan=int(np.isnan(faulty) and not np.isnan(golden)),
        new_inf=int(np.isinf(faulty) and not np.isinf(golden)),
        golden=golden,
        faulty=faulty,
    )
