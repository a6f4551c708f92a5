"""What each call did to the error of its inputs, and where NaN and Inf come from.

    relu*2:0       introduced   struck here, or no input differs and the output does
    addmm*3:0      passed on    relative L2 0.012 in, 0.011 out
    log*1:0        amplified    0.011 in, 0.4 out (more than 2 times)
    max_pool2d*1:0 masked       an input differs, the output is bit-equal

An error is measured by the share of new NaN and Inf first, and by the relative L2
distance over the finite elements second; the worst input counts. Where one of them
was not measured on all of its elements (a sample estimates, statistics give a lower
bound), the error counts as passed on, and its growth is not known; an output of which
nothing is known (memory that was never written) counts as equal. Inputs are known by
the site that made them; a parameter or a batch has none and counts as equal. What
nobody could read (a sparse tensor) differs where its inputs do (`analysis.unread`). A call
that reads only the shape of its inputs (`SHAPE_ONLY`) neither masks nor passes on.

Limits: a difference that enters through what no site made (a weight changed in an
earlier step, another random number) shows as *introduced* at the first call that
reads it.
"""

from __future__ import annotations

import numpy as np

from fi_notebook.core.run import EFFECTS
from fi_notebook.core.stats import nonfinite_count
from fi_notebook.core.trace import Trace
from fi_notebook.core.valueless import MADE_LIKE
from fi_notebook.errors import ArgumentError

__all__ = [
    "NONFINITE",
    "SHAPE_ONLY",
    "assign_effects",
    "growths",
    "nonfinite",
    "producers",
    "worst_input",
]

SHAPE_ONLY = MADE_LIKE | frozenset(
    [
        "is_same_size",
        "nll_loss_backward",
        "nll_loss2d_backward",
        "max_pool2d_with_indices_backward",
        "avg_pool2d_backward",
        "_adaptive_avg_pool2d_backward",
    ]
)
"""Operators whose result depends on the shape of what may differ, not on its values: a
backward call of pooling is led by its indices, one of the loss by its targets."""

NONFINITE = ("finite", "produced", "passed on", "absorbed")
"""What a call did with NaN and Inf: *produced* has finite inputs and a non-finite
output, *absorbed* a non-finite input and a finite output."""

_EQUAL, _INTRODUCED, _AMPLIFIED, _ATTENUATED, _MASKED, _PASSED, _STRUCTURAL = range(len(EFFECTS))


def assign_effects(
    faulty: Trace,
    columns: dict[str, np.ndarray],
    *,
    growth: float = 2.0,
    struck: np.ndarray | None = None,
    assumed: np.ndarray | None = None,
) -> np.ndarray:
    """Name what each call did to the error.

    Args:
        faulty: Trace of the faulty run, which knows what led to what.
        columns: The columns of a comparison (`core.run.COMPARISON_COLUMNS`).
        growth: How many times larger than the worst input's an error must be to be
            *amplified*, or smaller to be *attenuated*.
        struck: Whether a fault struck each site row of the faulty trace: what differs there
            is *introduced*, whatever its inputs; None where that is not known.
        assumed: Rows that count as differing though nobody read them: what they lead to is
            not *masked*; None where there are none.

    Returns:
        One index into `EFFECTS` per row.

    Raises:
        ArgumentError: ``growth`` is below 1.
    """
    if not growth >= 1:
        raise ArgumentError(f"growth is {growth!r}; expected a factor of at least 1, such as 2.0")
    made = columns["faulty"] >= 0
    rows = columns["faulty"][made]
    differs = ~columns["equal"][made]
    bad, distance = _error(columns, made)
    call = faulty.site_columns["call"][rows]
    seen = ~np.isnan(columns["relative_l2"][made])
    unknown = differs & ~(seen & columns["exact"][made])
    measures = {"differs": differs, "bad": bad, "distance": distance, "unknown": unknown}
    measures["read"] = differs if assumed is None else differs & ~assumed[made]
    into = {name: worst_input(faulty, rows, values)[call] for name, values in measures.items()}
    known = ~unknown & (into["unknown"] == 0)
    larger = _exceeds(bad, distance, into["bad"], into["distance"], growth)
    smaller = _exceeds(into["bad"], into["distance"], bad, distance, growth)
    reached = into["differs"] > 0
    begins = ~reached if struck is None else ~reached | struck[rows]
    maskable = (into["read"] > 0) & seen & ~_reads_shapes(faulty)[call]
    effect = np.full(len(made), _STRUCTURAL, dtype=np.uint8)
    effect[made] = np.select(
        [~differs & ~maskable, ~differs, begins, known & larger, known & smaller],
        [_EQUAL, _MASKED, _INTRODUCED, _AMPLIFIED, _ATTENUATED],
        _PASSED,
    )
    lone = ~made | (columns["golden"] < 0)
    effect[lone] = np.where(columns["equal"][lone], _EQUAL, _STRUCTURAL)  # bare memory
    return effect


def growths(faulty: Trace, columns: dict[str, np.ndarray]) -> np.ndarray:
    """How many times larger each error is than that of the worst input.

    Args:
        faulty: Trace of the faulty run.
        columns: The columns of a comparison.

    Returns:
        One factor per row; NaN where no input, or no output, differs by a distance that
        was measured on all elements.
    """
    factors = np.full(len(columns["faulty"]), np.nan)
    made = columns["faulty"] >= 0
    rows = columns["faulty"][made]
    call = faulty.site_columns["call"][rows]
    _, distance = _error(columns, made)
    unknown = ~(columns["equal"] | columns["exact"])[made]
    into = worst_input(faulty, rows, distance)[call]
    known = ~unknown & (worst_input(faulty, rows, unknown)[call] == 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        factors[made] = np.where(known & (into > 0) & (distance > 0), distance / into, np.nan)
    return factors


def _reads_shapes(trace: Trace) -> np.ndarray:
    """Whether each call reads the shapes of its inputs only."""
    of_op = np.asarray([op in SHAPE_ONLY for op in trace.tables.ops], dtype=bool)
    return of_op[trace.calls["op"]]


def _error(columns: dict[str, np.ndarray], made: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Share of new NaN and Inf, and relative L2 distance, 0 where there is none."""
    numel = np.maximum(columns["numel"][made], 1)
    bad = np.maximum(columns["new_nan"][made], 0) + np.maximum(columns["new_inf"][made], 0)
    return bad / numel, np.nan_to_num(columns["relative_l2"][made], nan=0.0, posinf=np.inf)


def worst_input(trace: Trace, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The largest value among the inputs of each call; 0 where it has none.

    Args:
        trace: The trace.
        rows: Rows of some of its sites; all others have 0.
        values: One value for each of them.

    Returns:
        One value for each call.
    """
    by_row = np.zeros(len(trace))
    by_row[rows] = values
    worst = np.zeros(trace.call_count)
    call = np.repeat(np.arange(trace.call_count), np.diff(trace.input_offsets))
    known = trace.input_sites >= 0
    np.maximum.at(worst, call[known], by_row[trace.input_sites[known]])
    return worst


def _exceeds(
    bad: np.ndarray, distance: np.ndarray, other_bad: np.ndarray, other: np.ndarray, growth: float
) -> np.ndarray:
    """Whether an error is more than ``growth`` times another; non-finite counts first."""
    finite = (bad == 0) & (other_bad == 0)
    return np.where(finite, distance > growth * other, bad > growth * other_bad)


def nonfinite(trace: Trace) -> np.ndarray:
    """Tell the calls that produce NaN or Inf from those that pass them on.

    Args:
        trace: Any trace; sites whose statistics were not taken count as finite, and absorb nothing.

    Returns:
        One index into `NONFINITE` per site row.
    """
    columns = trace.site_columns
    bad = nonfinite_count(columns) > 0
    into = worst_input(trace, np.arange(len(trace)), bad)[columns["call"]] > 0
    absorbed = into & (columns["nan"] >= 0)
    return np.select([bad & ~into, bad, absorbed], [1, 2, 3], 0).astype(np.uint8)


def producers(trace: Trace) -> np.ndarray:
    """Site rows of the calls that made NaN or Inf out of finite inputs, in order."""
    return np.flatnonzero(nonfinite(trace) == NONFINITE.index("produced"))
