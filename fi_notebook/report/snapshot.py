"""The exploration at a glance without a widget: static HTML, and plain text.

    snapshot_html(trace, plan, run)    under `LARGEST` bytes; shown where no widget can be
    snapshot_text(trace, plan, run)    the same for a terminal

A saved notebook carries it, so it still tells its story on a page without a kernel.
Every name and value is escaped; there is no script in it.

Limits: the tree shows modules and operators, not single calls, and 300 lines at most;
how many are left out stands below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import numpy as np

from fi_notebook.analysis.words import told_apart
from fi_notebook.core.fault import Fault, FaultPlan
from fi_notebook.core.injection import Injection
from fi_notebook.core.run import Difference, Run
from fi_notebook.core.trace import Trace
from fi_notebook.core.tree import Node
from fi_notebook.core.words import counted, spoken
from fi_notebook.report.html import html_table
from fi_notebook.report.names import bounded
from fi_notebook.report.numbers import pair
from fi_notebook.report.payload import fault_content

__all__ = ["LARGEST", "STYLE", "snapshot_html", "snapshot_text"]

LARGEST = 200_000
"""Bytes of a snapshot, at most."""

_MOST_NODES = 300
_MOST_CHANGES = 16
_INSET = 16  # pixels; inline, as JupyterLab drops the style sheet of what it does not trust
_EARLIER = "This is the result of an earlier plan; replay to run the present one."

STYLE = """<style>
.fi-snapshot{font:13px/1.5 system-ui,sans-serif;max-width:960px}
.fi-snapshot table{border-collapse:collapse;margin:4px 0 10px;font-variant-numeric:tabular-nums}
.fi-snapshot td,.fi-snapshot th{padding:1px 12px 1px 0;text-align:left;border:0;background:none}
.fi-snapshot th{font-weight:600;opacity:.75}
.fi-snapshot summary{cursor:pointer}
.fi-snapshot code{font-family:ui-monospace,monospace;font-size:12px}
.fi-snapshot .fi-quiet{opacity:.7}
.jp-OutputArea-child:has(+ * .fi-snapshot)>.jupyter-widgets:not(:has(*)){display:none}
</style>"""
"""The look of a snapshot; what carries it has the class ``fi-snapshot``.

The last rule hides the error that stands in place of a live view which no kernel has."""


def snapshot_html(trace: Trace | None, plan: FaultPlan, run: Run | None) -> str:
    """The exploration as static HTML."""
    parts = [STYLE, '<div class="fi-snapshot">', *_run_html(run, plan), *_plan_html(plan, run)]
    if trace is not None:
        title = f"{counted(trace.call_count, 'call')}, {counted(len(trace), 'site')}"
        parts += [f"<p><b>{title}</b></p>", *_tree_html(trace)]
    parts.append("</div>")
    text = "\n".join(parts)
    if len(text.encode()) <= LARGEST:
        return text
    return f'{STYLE}<div class="fi-snapshot">{"".join(_run_html(run, plan))}</div>'


def _run_html(run: Run | None, plan: FaultPlan) -> Iterator[str]:
    if run is None:
        return
    if _moved(run, plan):
        yield f"<p>{_EARLIER}</p>"
    yield f"<p><b>{escape(spoken(run.outcome.name))}</b>: {escape(run.outcome.reason)}</p>"
    comparison = run.comparison
    rows = [
        (d.name, *told_apart(d.golden, d.faulty), _equal_words(d))
        for d in (comparison.loss, comparison.gradient_norm)
    ]
    yield html_table(("", "golden", "faulty", ""), rows)
    for injection in run.injections[:4]:
        yield from _injection_html(injection)
    for missed in run.not_injected:
        yield f"<p>{escape(missed.fault)} not injected: {escape(missed.reason)}</p>"


def _equal_words(difference: Difference) -> str:
    return difference.note or ("bit for bit" if difference.equal else "differs")


def _injection_html(injection: Injection) -> Iterator[str]:
    where = f"{injection.site} in step {injection.step}"
    yield f"<p><code>{escape(where)}</code>: {counted(injection.changed, 'element')} changed</p>"
    rows = [
        (str(list(change.index)), *pair(change.before, change.after), *_bits(change))
        for change in injection.elements[:_MOST_CHANGES]
    ]
    yield html_table(("element", "before", "after", "bits before", "bits after"), rows)


def _bits(change: object) -> tuple[str, str]:
    found = [getattr(change, name) for name in ("before_bits", "after_bits")]
    before, after = ("" if bits is None else f"0x{bits:x}" for bits in found)
    return before, after


def _plan_html(plan: FaultPlan, run: Run | None) -> Iterator[str]:
    if not len(plan):
        return
    rows = [(str(fault), _status(fault, run) if fault.enabled else "off") for fault in plan]
    yield html_table(("plan", ""), rows)


def _status(fault: Fault, run: Run | None) -> str:
    """What became of this very fault; one that says anything else has not run yet."""
    ran = run is not None and fault_content(fault) in map(fault_content, run.plan)
    return run.status(fault.id) if run is not None and ran else "armed"


def _moved(run: Run, plan: FaultPlan) -> bool:
    """Whether other faults are armed now than those that ran."""
    now, then = ([fault_content(f) for f in each if f.enabled] for each in (plan, run.plan))
    return now != then


def _tree_html(trace: Trace) -> Iterator[str]:
    left, tree = _MOST_NODES, trace.tree("module")
    sites = np.diff(trace.calls["first_site"], append=len(trace))

    def lines(node: Node, depth: int) -> Iterator[str]:
        nonlocal left
        left -= 1
        if left < 0:
            return
        detail = "" if node.detail == node.name else bounded(node.detail)
        count = counted(int(sites[node.call_rows].sum()), "site")
        quiet = escape(f"{detail} · {count}" if detail else count)
        head = f"{escape(bounded(node.name))} <span class='fi-quiet'>{quiet}</span>"
        inset = f" style='margin-left:{_INSET if depth else 0}px'"
        if not node.children:
            yield f"<div{inset}>{head}</div>"
            return
        yield f"<details{inset}{' open' if depth < 2 else ''}><summary>{head}</summary>"
        for child in node.children:
            yield from lines(child, depth + 1)
        yield "</details>"

    yield from lines(tree, 0)
    beyond = _size(tree) - _MOST_NODES
    if beyond > 0:
        yield f"<p class='fi-quiet'>… and {counted(beyond, 'more line')} of the tree</p>"


def _size(node: Node) -> int:
    """How many nodes a tree has."""
    return 1 + sum(map(_size, node.children))


def snapshot_text(trace: Trace | None, plan: FaultPlan, run: Run | None) -> str:
    """The exploration in a few lines of text."""
    lines = ["fi_notebook explorer"]
    if trace is not None:
        lines.append(f"{counted(trace.call_count, 'call')}, {counted(len(trace), 'site')}")
    lines += [str(fault) for fault in plan]
    if run is not None:
        lines += [_EARLIER] if _moved(run, plan) else []
        lines.append(str(run.outcome))
        lines += [f"{missed.fault} not injected: {missed.reason}" for missed in run.not_injected]
    return "\n".join(lines)
