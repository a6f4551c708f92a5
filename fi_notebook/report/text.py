"""The text twin of every figure, the tree, and the summary of a run.

    5 of 18 sites differ
    1 introduced, 1 amplified, 3 passed on
          site                    phase     module         relative L2  changed  effect
       8  relu*2:0                forward   act                   0.01      1/6  introduced
       9  nll_loss_forward*1:0    loss      loss function          0.2      1/1  amplified

Each function has the name of its figure and takes the same record; each returns text
that fits a terminal of 100 columns and prints nothing.

Limits: long tables keep their first and their worst rows and say how many they leave
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite, nan
from textwrap import fill

import numpy as np

from fi_notebook.analysis.clipping import clips_gradients
from fi_notebook.analysis.course import pairs, relative
from fi_notebook.analysis.mechanisms import deaths_words, growth_words
from fi_notebook.analysis.words import excess, told_apart
from fi_notebook.core.detection import Detection
from fi_notebook.core.run import (
    EFFECTS,
    NO_LOSS,
    Comparison,
    Difference,
    Outcome,
    Run,
    StepRecord,
)
from fi_notebook.core.tree import Node
from fi_notebook.core.words import agreed, among, counted, spoken
from fi_notebook.report.heat import HeatTable, by_module, by_rank
from fi_notebook.report.names import cleaned, shortened
from fi_notebook.report.numbers import effect_text, number, size
from fi_notebook.report.table import indented, table
from fi_notebook.report.text_injections import (
    difference_heatmap,
    injections,
    scatter,
    tensor_diff,
    values,
)

__all__ = [
    "detections",
    "difference_heatmap",
    "gradients",
    "injections",
    "memory",
    "outcome",
    "propagation",
    "ranks",
    "scatter",
    "summary",
    "tensor_diff",
    "training",
    "tree",
    "tree_heat",
    "values",
]

_WIDTH = 94  # of prose; 100 with the indentation of a summary


def tree(node: Node, depth: int = 3) -> str:
    """The tree of a step, with the number of calls at or below each node.

    Args:
        node: The root, from `Trace.tree`.
        depth: How many levels below the root to show.
    """
    width = len(f"{node.calls:,}")
    lines = [
        (_tree_line(below, level, last=level == depth), counted(below.calls, "call", width))
        for level, below in node.outline(depth)
    ]
    return table(("", ""), lines)


def _tree_line(node: Node, level: int, *, last: bool) -> str:
    name = f"{'  ' * level}{shortened(node.name, 44)}"
    detail = f"  {shortened(node.detail, 24)}" if node.detail else ""
    hidden = f"  (+{len(node.children)} below)" if node.children and last else ""
    return f"{name}{detail}{hidden}"


def propagation(comparison: Comparison, limit: int = 20) -> str:
    """How the error ran through the calls: the first and the worst that differ.

    Args:
        comparison: The faulty run against the golden run.
        limit: How many rows to show.
    """
    rows = np.flatnonzero(comparison.columns["effect"] != EFFECTS.index("equal"))
    differing = len(comparison.diverged)
    head = f"{among(differing, len(comparison), 'site')} {agreed(differing, 'differ')}"
    if not len(rows):
        return f"{head}; every site is bit-equal"
    kept = _first_and_worst(comparison, rows, limit)
    header = ("", "site", "phase", "module", "relative L2", "changed", "effect")
    body = table(header, [_call_row(comparison, int(row)) for row in kept], right={0, 4, 5})
    effects = comparison.columns["effect"][rows]
    counts = [f"{int((effects == n).sum()):,} {name}" for n, name in enumerate(EFFECTS) if n]
    lines = [head, ", ".join(c for c in counts if not c.startswith("0 ")), indented(body)]
    if len(kept) < len(rows):
        left = np.setdiff1d(rows, kept)
        known = not np.isnan(comparison.columns["relative_l2"][left]).any()
        none = "none" if known else "none of those that are measured"
        lines.append(f"  … {len(left):,} more, {none} with a larger error")
    if comparison.first_bad:
        lines.append(f"first new NaN or Inf: {shortened(comparison.first_bad, 60)}")
    ends = (deaths_words(comparison, limit=4), growth_words(comparison))
    lines += [_prose([words]) for words in ends if words]
    if comparison.structural:
        lines.append(f"the runs make different calls: {cleaned(comparison.structural)}")
    return "\n".join(lines)


def _first_and_worst(comparison: Comparison, rows: np.ndarray, limit: int) -> np.ndarray:
    if len(rows) <= limit:
        return rows
    first, rest = rows[: limit // 2], rows[limit // 2 :]
    columns = comparison.columns
    bad = np.maximum(columns["new_nan"][rest], 0) + np.maximum(columns["new_inf"][rest], 0)
    error = np.nan_to_num(columns["relative_l2"][rest], nan=0.0, posinf=np.inf)
    worst = rest[np.lexsort((-error, -bad))[: limit - len(first)]]
    return np.sort(np.concatenate([first, worst]))


def _call_row(comparison: Comparison, row: int) -> list[str]:
    site, columns = comparison.site(row), comparison.columns
    bad = [(int(columns[name][row]), name[4:]) for name in ("new_nan", "new_inf")]
    marks = [
        f"{count:,} new {name.replace('nan', 'NaN').replace('inf', 'Inf')}"
        for count, name in bad
        if count > 0
    ]
    changed = int(columns["changed"][row])
    return [
        f"{row + 1:,}",
        shortened(site, 24),
        site.phase,
        shortened(site.module, 18),
        "-" if marks else number(float(columns["relative_l2"][row])),
        "?" if changed < 0 else f"{changed:,}/{int(columns['numel'][row]):,}",
        ", ".join([effect_text(comparison, row), *marks]),
    ]


def gradients(comparison: Comparison, limit: int = 20) -> str:
    """Loss, gradients and everything that the update wrote, by name.

    Args:
        comparison: The faulty run against the golden run.
        limit: How many names to show of each kind.
    """
    kinds = (
        ("gradients", comparison.gradients),
        ("parameters", comparison.parameters),
        ("buffers", comparison.buffers),
        ("optimizer state", comparison.optimizer_state),
    )
    blocks = [_differences(kind, found, limit) for kind, found in kinds if found]
    return "\n".join([_scalar(comparison.loss), _scalar(comparison.gradient_norm), *blocks])


def _scalar(difference: Difference) -> str:
    if difference.note == NO_LOSS:
        return difference.note
    if difference.equal:
        return f"{difference.name}: {difference.note or 'bit-equal'}"
    far = relative(difference.golden, difference.faulty)
    values = " → ".join(told_apart(difference.golden, difference.faulty))
    return f"{difference.name}: {values}{f' (apart by {excess(far)})' if isfinite(far) else ''}"


def _differences(kind: str, found: Sequence[Difference], limit: int) -> str:
    moved = [d for d in found if not d.equal]
    head = f"{kind}: {len(moved):,} of {len(found):,} {agreed(len(moved), 'differ')}"
    worst = sorted(moved, key=lambda d: (-(d.new_nan + d.new_inf), -d.relative_l2))[:limit]
    rows = [
        [
            shortened(d.name, 44),
            *("-" if d.new_nan or d.new_inf else number(x) for x in (d.relative_l2, d.max_abs)),
            f"{d.changed:,}/{d.numel:,}",
            f"{d.new_nan:,}",
            f"{d.new_inf:,}",
        ]
        for d in worst
    ]
    header = ("", "relative L2", "max |Δ|", "changed", "NaN", "Inf")
    body = indented(table(header, rows, right={1, 2, 3, 4, 5})) if rows else ""
    left = f"  … {len(moved) - len(worst):,} more" if len(moved) > len(worst) else ""
    return "\n".join(part for part in (head, body, left) if part)


def tree_heat(comparison: Comparison) -> str:
    """The largest error at or below each module, phase by phase."""
    return _heat(by_module(comparison), "module")


def ranks(comparisons: Mapping[int, Comparison]) -> str:
    """The largest error of each rank, phase by phase."""
    return _heat(by_rank(comparisons), "rank")


def _heat(heat: HeatTable, name: str) -> str:
    texts = heat.texts()
    rows = [[shortened(row, 44), *texts[n]] for n, row in enumerate(heat.rows)]
    return table((name, *heat.columns), rows, right=set(range(1, len(heat.columns) + 1)))


def training(run: Run, limit: int = 24) -> str:
    """Loss, gradient norm, parameters and metrics of each step, golden and faulty.

    Args:
        run: A replay of one or more steps.
        limit: How many steps to show.
    """
    both = pairs(run.golden, run.faulty)
    if not both:
        return "no step was completed"
    metrics = list(dict.fromkeys(name for record in run.golden for name in record.metrics))
    header = ["step", *_pair_names("loss"), *_pair_names("gradient norm"), "relative L2"]
    header += [name for metric in metrics for name in _pair_names(cleaned(metric))]
    struck = {injection.step for injection in run.injections}
    rows = [_step_row(golden, faulty, metrics, struck) for golden, faulty in both]
    cut = limit // 2
    gap = [["…", *[""] * (len(header) - 1)]]
    shown = rows if len(rows) <= limit else [*rows[:cut], *gap, *rows[-cut:]]
    body = table(header, shown, right=set(range(len(header))))
    legend = "* a fault struck; relative L2: all parameters, from those of the golden run"
    if clips_gradients(run.comparison.golden):
        legend += "\nthe gradient norm is that after clipping"
    missing = len(run.golden) - len(both)
    fewer = f"\nthe faulty run made {counted(missing, 'step')} fewer than the golden run"
    return f"{body}\n{legend}{fewer if missing else ''}"


def _pair_names(name: str) -> tuple[str, str]:
    return f"{name} golden", "faulty"


def _step_row(
    golden: StepRecord, faulty: StepRecord, metrics: Sequence[str], struck: set[int]
) -> list[str]:
    cells = [
        *told_apart(golden.loss, faulty.loss),
        *told_apart(golden.gradient_norm, faulty.gradient_norm),
        number(faulty.parameter_distance),
    ]
    for name in metrics:
        cells += told_apart(*(record.metrics.get(name, nan) for record in (golden, faulty)))
    mark = "* " if faulty.step in struck else ""
    return [f"{mark}{faulty.step}", *cells]


def detections(run: Run) -> str:
    """What each detector would have said, at which call or step, and its false alarms."""
    rows = [[cleaned(spoken(d.name)), *_alarm_cells(d)] for d in run.detections]
    header = ("detector", "first alarm", "value", "bound", "alarms", "false alarms")
    return table(header, rows, right={2, 3, 4, 5}) if rows else ""


def _alarm_cells(found: Detection) -> list[str]:
    counts = [f"{len(found.alarms):,}", f"{len(found.false_alarms):,}"]
    if found.error:
        return [f"failed: {shortened(found.error, 40)}", "", "", *counts]
    first = found.first
    if first is None:
        return ["as in golden" if found.alarms else "none", "", "", *counts]
    where = f"step {first.step}{f' at {shortened(first.site, 32)}' if first.site else ''}"
    bound = "" if np.isnan(first.threshold) else number(first.threshold)
    return [where, number(first.value), bound, *counts]


def memory(run: Run) -> str:
    """What was kept of the golden outputs, and what it took."""
    kept = run.memory
    if not kept:
        return ""
    forms = [
        f"{kept[name]:,} {words}"
        for name, words in (
            ("whole", "whole"),
            ("sampled", "as a hash of all bits and a sample"),
            ("hashed", "as a hash of all bits"),
        )
        if kept[name]
    ]
    extra = [
        f"{size(kept[name])} {words}"
        for name, words in (
            ("always", "beyond it for outputs that are always kept or struck"),
            ("spilled", "in the spill file"),
            ("state", "of copies of training state"),
        )
        if kept[name]
    ]
    asked = " (auto)" if kept["asked"] == "auto" else ""
    lines = [
        f"golden outputs: {', '.join(forms) or 'none'}",
        f"{size(kept['used'])} of a budget of {size(kept['budget'])}{asked}",
        *extra,
    ]
    return "\n".join(lines)


def outcome(judged: Outcome) -> str:
    """The outcome in words, and which detectors would have alarmed."""
    found = ", ".join(map(spoken, judged.detected_by))
    return _prose([judged, f"detected by: {found}"] if found else [judged])


def summary(run: Run) -> str:
    """All of a run: plan, injections, propagation, what the update got, outcome."""
    plan = [f"{fault} [{run.status(fault.id)}]" for fault in run.plan]
    missed = [f"{missed.fault}: {missed.reason}" for missed in run.not_injected]
    sections = {
        "outcome": outcome(run.outcome),
        "plan": _prose(plan) or "no fault",
        "not injected": _prose(missed),
        "injections": injections(run),
        "propagation": propagation(run.comparison),
        "update": gradients(run.comparison),
        "training": training(run),
        "detectors": detections(run),
        "kept": memory(run),
        "notes": _prose([*run.comparison.notes, *run.messages]),
        "error": _prose(run.error.splitlines()),
    }
    return "\n\n".join(f"{name}\n{indented(text)}" for name, text in sections.items() if text)


def _prose(lines: Iterable[object]) -> str:
    """Several sentences, each in as many lines as it needs."""
    return "\n".join(
        fill(cleaned(line), _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
        for line in lines
    )
