"""Records as plain data and columns: what the page of the explorer is drawn from.

    data, columns = trace_payload(trace)    one row per site, in execution order
    plan_payload(plan, trace)               one entry per fault, with the rows it would strike
    run_payload(run)                        injections, outcome, training; errors per site row

The same payloads serve the widget, where they travel as messages, and the offline file.

Limits: bulk columns are float32 and serve for colours and sorting; exact figures of one
site come by `site_payload`. Source texts beyond `LONGEST_SOURCE` are left out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from fi_notebook.analysis.clipping import clips_gradients
from fi_notebook.analysis.effects import nonfinite
from fi_notebook.core.chosen import chosen_rows
from fi_notebook.core.fault import Fault, FaultPlan
from fi_notebook.core.injection import ElementChange, Injection
from fi_notebook.core.lookup import line_stacks
from fi_notebook.core.run import EFFECTS, Comparison, Difference, Run, StepRecord
from fi_notebook.core.site import PHASES, Site
from fi_notebook.core.trace import FLAGS, Trace
from fi_notebook.errors import FiError
from fi_notebook.report.names import bounded

__all__ = [
    "ALERTS",
    "LONGEST_SOURCE",
    "Columns",
    "element_payload",
    "fault_content",
    "fault_payload",
    "plan_payload",
    "run_payload",
    "site_payload",
    "steps_payload",
    "trace_payload",
]

Columns = dict[str, np.ndarray]

ALERTS = ("", "critical", "high", "medium")
"""How bad each class of `analysis.effects.NONFINITE` is, in its order."""

LONGEST_SOURCE = 400_000
"""Characters of source text that the page is given in all."""

_MOST_ROWS = 2_000  # rows of one fault that are marked in the tree
_MOST_DIFFERENCES = 200  # named tensors of a comparison that are listed
_CALLED_MAGIC = re.compile(r"\Aget_ipython\(\)\.\w+\(.*\)  # (%%\w.*)")  # as `magics` writes it
_FLOATS = ("min", "max", "mean", "std", "norm")
_COUNTS = ("nan", "posinf", "neginf", "zeros")


def trace_payload(trace: Trace) -> tuple[dict[str, Any], Columns]:
    """A trace as string tables and one row of columns per site."""
    tables = trace.tables
    frames, stacks = _frames(tables.stacks)
    data = {
        "sites": len(trace),
        "calls": trace.call_count,
        "ops": list(map(bounded, tables.ops)),
        "overloads": list(map(bounded, tables.overloads)),
        "modules": [
            [bounded(m.path), bounded(m.kind), list(map(bounded, m.aliases))]
            for m in tables.modules
        ],
        "parameters": list(map(bounded, tables.parameters)),
        "frames": frames,
        "stacks": stacks,
        "dtypes": list(tables.dtypes),
        "shapes": [list(shape) for shape in tables.shapes],
        "phases": list(PHASES),
        "flags": list(FLAGS),
        "sources": _sources(tables.sources),
        "info": dict(trace.info),
    }
    return data, _site_columns(trace)


def _site_columns(trace: Trace) -> Columns:
    calls, sites = trace.calls, trace.site_columns
    call = sites["call"]
    columns = {
        "call": call,
        "op": calls["op"][call],
        "overload": calls["overload"][call],
        "number": calls["number"][call],
        "counted": calls["counted"][call].astype(np.uint8),
        "phase": calls["phase"][call],
        "module": calls["module"][call],
        "module_call": calls["module_call"][call],
        "stack": line_stacks(trace)[call],
        "own_stack": calls["stack"][call],
        "flags": calls["flags"][call],
        "output": sites["output"],
        "index": sites["index"],
        "dtype": sites["dtype"],
        "shape": sites["shape"],
        "parameter": sites["parameter"],
    }
    with np.errstate(over="ignore"):
        columns |= {name: sites[name].astype(np.float32) for name in _FLOATS}
    limit = np.iinfo(np.int32).max
    columns |= {name: np.minimum(sites[name], limit).astype(np.int32) for name in _COUNTS}
    columns["alert"] = nonfinite(trace)
    return {name: _page_type(column) for name, column in columns.items()}


def _page_type(column: np.ndarray) -> np.ndarray:
    """The column in one of the types that the page reads: uint8, int32 or float32."""
    return column if column.dtype in (np.uint8, np.float32) else column.astype(np.int32)


def _frames(
    stacks: Sequence[Sequence[tuple[str, int, str]]],
) -> tuple[list[list[Any]], list[list[int]]]:
    """Every distinct source line once, and each stack as numbers of them."""
    numbers: dict[tuple[str, int, str], int] = {}
    rows = [[numbers.setdefault((*frame,), len(numbers)) for frame in stack] for stack in stacks]
    return [list(frame) for frame in numbers], rows


def _sources(sources: Mapping[str, str]) -> dict[str, str]:
    """Source texts, shortest first, as far as `LONGEST_SOURCE` goes."""
    kept, left = {}, LONGEST_SOURCE
    for name, text in sorted(sources.items(), key=lambda item: len(item[1])):
        left -= len(text)
        if left >= 0:
            kept[name] = _CALLED_MAGIC.sub(r"\1", text)
    return kept


def site_payload(trace: Trace, row: int) -> dict[str, Any]:
    """Exact figures of one site."""
    site, stats = trace.site(row), trace.stats(row)
    return {
        "row": row,
        "site": str(site),
        "stats": {name: getattr(stats, name) for name in (*_FLOATS, *_COUNTS)},
        "numel": int(np.prod(site.shape, dtype=np.int64)),
    }


def fault_payload(fault: Fault) -> dict[str, Any]:
    """A fault as plain data."""
    return {
        "id": fault.id,
        "text": str(fault),
        "target": str(fault.target),
        "model": fault.model,
        "parameters": _exactly(dict(fault.parameters)),
        "elements": fault.elements if isinstance(fault.elements, str) else dict(fault.elements),
        "steps": str(fault.steps),
        "seed": _exactly(fault.seed),
        "scope": fault.scope,
        "probability": fault.probability,
        "times": _exactly(fault.times),
        "micro_batches": None if fault.micro_batches is None else str(fault.micro_batches),
        "ranks": None if fault.ranks is None else str(fault.ranks),
        "enabled": fault.enabled,
        "filters": _filters(fault),
        "content": fault_content(fault),
    }


def fault_content(fault: Fault) -> str:
    """What tells a fault from one that says anything else, its name included."""
    return hashlib.sha256(repr(asdict(replace(fault, dtype=""))).encode()).hexdigest()[:16]


def _filters(fault: Fault) -> dict[str, list[str]]:
    """The filters that a fault has, by name."""
    given = {"phases": fault.phases or None, "modules": fault.modules, "code": fault.code or None}
    return {
        name: list(map(bounded, chosen)) for name, chosen in given.items() if chosen is not None
    }


def _exactly(value: Any) -> Any:
    """A value whose whole numbers a page reads as they are: as text from 2**53 on."""
    if isinstance(value, dict):
        return {name: _exactly(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_exactly(each) for each in value]
    return str(value) if isinstance(value, int) and abs(value) >= 1 << 53 else value


def plan_payload(plan: FaultPlan, trace: Trace | None = None) -> list[dict[str, Any]]:
    """Every fault of a plan, with the site rows that it would strike."""
    return [fault_payload(fault) | {"rows": _rows(fault, trace)} for fault in plan]


def _rows(fault: Fault, trace: Trace | None) -> list[int]:
    if trace is None:
        return []
    try:
        rows: list[int] = chosen_rows(fault, trace)[:_MOST_ROWS].tolist()
    except FiError:  # a plan that no session has checked: it marks nothing here
        return []
    return rows


def run_payload(run: Run) -> tuple[dict[str, Any], Columns]:
    """A run as plain data, and what became of each golden site as columns."""
    comparison = run.comparison
    data = {
        "outcome": _outcome(run),
        "injections": [_injection(each, comparison.golden) for each in run.injections],
        "not_injected": [{"fault": n.fault, "reason": n.reason} for n in run.not_injected],
        "status": {fault.id: run.status(fault.id) for fault in run.plan},
        "plan": [
            {"id": fault.id, "content": fault_content(fault), "enabled": fault.enabled}
            for fault in run.plan
        ],
        "steps": steps_payload(run.golden, run.faulty),
        "comparison": _comparison(comparison),
        "noise": None if run.noise is None else run.noise.equal,
        "error": run.error,
        "messages": list(run.messages),
        "effects": list(EFFECTS),
    }
    return data, _comparison_columns(comparison)


def _outcome(run: Run) -> dict[str, Any]:
    outcome = run.outcome
    return {
        "name": outcome.name,
        "reason": outcome.reason,
        "step": outcome.step,
        "detected_by": list(outcome.detected_by),
    }


def _injection(injection: Injection, golden: Trace) -> dict[str, Any]:
    before, after = asdict(injection.before), asdict(injection.after)
    return {
        "fault": injection.fault,
        "site": str(injection.site),
        "module": injection.site.module,
        "phase": injection.site.phase,
        "row": _row(golden, injection.site),
        "step": injection.step,
        "dtype": injection.before.dtype,
        "shape": list(injection.before.shape),
        "before": before,
        "after": after,
        "changed": injection.changed,
        "elements": [element_payload(each) for each in injection.elements],
        "kind": injection.kind,
        "note": injection.note,
        "rank": injection.rank,
    }


def _row(trace: Trace, site: Site) -> int:
    try:
        return trace.row(site)
    except FiError:
        return -1


def element_payload(change: ElementChange) -> dict[str, Any]:
    """A changed element; bits travel as hexadecimal text, as a page's numbers hold 53 only."""
    hexed = [None if b is None else f"{b:x}" for b in (change.before_bits, change.after_bits)]
    return {
        "index": list(change.index),
        "before": change.before,
        "after": change.after,
        "bits": hexed,
    }


def steps_payload(golden: Sequence[StepRecord], faulty: Sequence[StepRecord]) -> dict[str, Any]:
    """The training records of both runs."""
    return {
        "golden": [asdict(each) for each in golden],
        "faulty": [asdict(each) for each in faulty],
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    first = comparison.first
    return {
        "step": comparison.golden.info.get("step", 0),
        "compared": len(comparison),
        "diverged": len(comparison.diverged),
        "equal": comparison.equal,
        "first": None if first is None else str(first),
        "loss": asdict(comparison.loss),
        "gradient_norm": asdict(comparison.gradient_norm),
        "clipped": clips_gradients(comparison.golden),
        "gradients": _worst(comparison.gradients),
        "parameters": _worst(comparison.parameters),
        "buffers": _worst(comparison.buffers),
        "optimizer_state": _worst(comparison.optimizer_state),
        "structural": comparison.structural,
        "notes": list(comparison.notes),
    }


def _worst(differences: Sequence[Difference]) -> dict[str, Any]:
    """How many named tensors differ, and the worst of them."""
    differing = [each for each in differences if not each.equal]
    differing.sort(key=lambda d: (d.new_nan + d.new_inf, d.relative_l2), reverse=True)
    listed = [asdict(each) for each in differing[:_MOST_DIFFERENCES]]
    return {"total": len(differences), "differing": len(differing), "listed": listed}


def _comparison_columns(comparison: Comparison) -> Columns:
    """Error and effect of each golden site row; -1 and 255 where nothing was compared.

    ``golden`` is the other way round: the golden site row of each compared row.
    """
    size, columns = len(comparison.golden), comparison.columns
    known = columns["golden"] >= 0
    rows = columns["golden"][known]
    spread: Columns = {
        "error": np.full(size, -1, np.float32),
        "effect": np.full(size, 255, np.uint8),
        "changed": np.full(size, -1, np.int32),
        "bad": np.zeros(size, np.int32),
        "golden": columns["golden"].astype(np.int32),
    }
    with np.errstate(over="ignore"):
        spread["error"][rows] = columns["relative_l2"][known]
    spread["effect"][rows] = columns["effect"][known]
    spread["changed"][rows] = np.minimum(columns["changed"][known], np.iinfo(np.int32).max)
    bad = np.maximum(columns["new_nan"], 0) + np.maximum(columns["new_inf"], 0)  # -1: not known
    spread["bad"][rows] = bad[known]
    return spread
