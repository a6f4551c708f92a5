"""Finding sites by their columns: no object is made for a site that is not asked for.

    find_rows(trace, Target.parse("addmm*3"))   rows of the sites that a target chooses
    row_of(trace, Site.parse("addmm*3:0"))      row of one site
    make_sites(trace, rows)                     the sites of many rows at once
    missing(trace, Target.parse("relu*9"))      "asked for call 9 of relu, 3 were made"

`Trace` offers these as methods; a million sites need no dictionary of sites.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from fi_notebook.core.collector import collector_paused
from fi_notebook.core.match import (
    CodeFilter,
    check_modules,
    check_phases,
    module_hint,
    module_matches,
)
from fi_notebook.core.site import PHASES, Frame, Site, Target
from fi_notebook.core.stats import STATISTICS
from fi_notebook.core.words import agreed, counted, too_few
from fi_notebook.errors import SiteError, did_you_mean

if TYPE_CHECKING:
    from fi_notebook.core.trace import Trace

__all__ = [
    "asked_row",
    "call_keys",
    "described",
    "find_rows",
    "line_stacks",
    "make_sites",
    "missing",
    "row_of",
    "stack_chain",
]


def call_keys(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """The identity of every call as one number, sorted, and the call row of each."""
    calls = trace.calls
    keys = _call_key(calls["op"].astype(np.int64), calls["counted"], calls["number"])
    order = np.argsort(keys, kind="stable")
    return keys[order], order


def _call_key(op: Any, counted: Any, number: Any) -> Any:
    return ((2 * op + counted) << 32) + number


def row_of(trace: Trace, site: Site) -> int | None:
    """Row of a site, or None where the step made no such call or output."""
    call = _call_row(trace, site)
    if call is None:
        return None
    columns = trace.site_columns
    key = columns["call"].dtype.type(call)  # another type would copy the column
    first, end = (int(np.searchsorted(columns["call"], key, side=s)) for s in ("left", "right"))
    index = -1 if site.index is None else site.index
    mine = columns["output"][first:end] == site.output
    rows = np.flatnonzero(mine & (columns["index"][first:end] == index))
    return first + int(rows[0]) if len(rows) else None


def asked_row(trace: Trace, site: Site | str) -> int:
    """Row of a site; where it is text, the call must have the overload that it says.

    Raises:
        SiteError: The step made no such call or output; says how many it made.
    """
    target = Target.parse(site) if isinstance(site, str) else site.target
    row = row_of(trace, Site.parse(site) if isinstance(site, str) else site)
    if row is None or target.overload not in (None, _overload(trace, row)):
        raise SiteError(missing(trace, target))
    return row


def _overload(trace: Trace, row: int) -> str:
    """Overload of the call of a site."""
    return trace.tables.overloads[trace.calls["overload"][trace.site_columns["call"][row]]]


def _call_row(trace: Trace, site: Site) -> int | None:
    op = _op_row(trace, site.op)
    if op < 0 or site.call >= 1 << 32:
        return None
    keys, order = trace.call_index
    key = _call_key(op, site.counted, site.call)
    at = int(np.searchsorted(keys, key))
    return int(order[at]) if at < len(keys) and keys[at] == key else None


def find_rows(
    trace: Trace,
    target: Target | None = None,
    *,
    modules: Sequence[str] | None = None,
    phases: Iterable[str] | None = None,
    code: Sequence[CodeFilter] = (),
    parameter: str | None = None,
    either: bool = False,
) -> np.ndarray:
    """Rows of the sites that all the given filters choose, in execution order.

    Args:
        trace: Where to look.
        target: Which calls and outputs.
        modules: Module filters, any of which suffices; None is no filter.
        phases: Phases, any of which suffices; None is no filter.
        code: Source lines, any of which suffices; empty is no filter.
        parameter: Name of the parameter that the output belongs to.
        either: Whether an operator alone chooses its ``other/…`` calls as well.

    Raises:
        SiteError: There is no such module or phase.
    """
    calls = np.ones(trace.call_count, dtype=bool)
    if target is not None:
        calls &= _target_calls(trace, target, either=either)
    if modules is not None:
        calls &= _in_modules(trace, modules)
    if phases is not None:
        calls &= _in_phases(trace, tuple(phases))
    if code:
        calls &= _at_code(trace, code)
    chosen = calls[trace.site_columns["call"]]
    if target is not None:
        chosen &= _target_outputs(trace, target)
    if parameter is not None:
        chosen &= _of_parameter(trace, parameter)
    return np.flatnonzero(chosen)


def missing(trace: Trace, target: Target) -> str:
    """Why a target chooses nothing here, in one plain clause; ``""`` if it does."""
    if target.kind != "call":
        return (
            f"{str(target)!r} names a stored tensor, which a trace does not hold; expected an "
            "output of a call, such as 'addmm*1:0'"
        )
    mine = trace.calls["op"] == _op_row(trace, target.op)
    made = int((mine & (trace.calls["counted"] == target.counted)).sum())
    if not made and target.counted and mine.any():
        count = int(mine.sum())
        return (
            f"no call of {target.op!r} took a number of the step, {count} "
            f"{agreed(count, 'were')} made as 'other/{target.op}' (as a model in evaluation mode "
            "makes them, a forward without gradients, or what is before it); ask for "
            f"'other/{target.op}'"
        )
    if not made:
        return f"the step made no call of {target.op!r}{_hint(trace, target)}"
    if target.call is not None and target.call > made:
        return too_few(target.call, target.op, made)
    if len(find_rows(trace, target)):
        return ""
    overloads = {trace.tables.overloads[n] for n in trace.calls["overload"][mine].tolist()}
    asked = target.overload
    near = "" if asked is None or asked in overloads else did_you_mean(asked, sorted(overloads))
    called = f"{target.op} was called {counted(made, 'time')}"
    return f"{called}, but none of them fits {str(target)!r}{near}"


def _hint(trace: Trace, target: Target) -> str:
    """What may have been meant by an operator that was not called."""
    text = str(target)
    for module in trace.tables.modules:
        hint = module_hint(text, module.names)
        if hint:
            ops = sorted({s.op for s in trace.find(module=module.path, phase="forward")})
            made = f"; it made {', '.join(ops[:6])}" if ops else ""
            return f"{hint}{made}"
    if text in trace.tables.parameters:
        return f"; {text!r} is a parameter: write 'param:{text}' or 'grad:{text}'"
    return _class_hint(trace, text) or did_you_mean(target.op, trace.tables.ops)


def _class_hint(trace: Trace, text: str) -> str:
    """What the modules of a class make, where its name stands for an operator."""
    kinds = [info.kind for info in trace.tables.modules]
    rows = [row for row, kind in enumerate(kinds) if kind and kind.casefold() == text.casefold()]
    made = trace.calls["op"][np.isin(trace.calls["module"], rows)]
    ops = [trace.tables.ops[row] for row in dict.fromkeys(made.tolist())]
    return f"; modules of class {kinds[rows[0]]} make {', '.join(ops[:6])}" if ops else ""


def _op_row(trace: Trace, op: str) -> int:
    return trace.tables.ops.index(op) if op in trace.tables.ops else -1


def _target_calls(trace: Trace, target: Target, *, either: bool) -> np.ndarray:
    calls = trace.calls
    chosen = calls["op"] == _op_row(trace, target.op)
    if not (either and target.counted and target.call is None):
        chosen &= calls["counted"] == target.counted
    if target.kind != "call":
        chosen[:] = False
    if target.call is not None:
        chosen &= calls["number"] == target.call
    if target.overload is not None:
        fits = [name == target.overload for name in trace.tables.overloads]
        chosen &= np.asarray(fits, dtype=bool)[calls["overload"]]
    return np.asarray(chosen)


def _target_outputs(trace: Trace, target: Target) -> np.ndarray:
    columns = trace.site_columns
    chosen = np.ones(len(trace), dtype=bool)
    if target.output is not None:
        chosen &= columns["output"] == target.output
    if target.index is not None:
        chosen &= columns["index"] == target.index
    return chosen


def _in_modules(trace: Trace, patterns: Sequence[str]) -> np.ndarray:
    infos = trace.tables.modules
    check_modules(patterns, (name for info in infos for name in info.names), infos[0].kind)
    chosen = [any(module_matches(p, info.names) for p in patterns) for info in infos]
    return np.asarray(np.asarray(chosen, dtype=bool)[trace.calls["module"]])


def _in_phases(trace: Trace, phases: Sequence[str]) -> np.ndarray:
    check_phases(phases)
    return np.isin(trace.calls["phase"], [PHASES.index(phase) for phase in phases])


def _at_code(trace: Trace, lines: Sequence[CodeFilter]) -> np.ndarray:
    stacks = [any(line.matches(stack) for line in lines) for stack in trace.tables.stacks]
    chosen: list[bool] = np.asarray(stacks, dtype=bool)[trace.calls["stack"]].tolist()
    for call, cause in enumerate(trace.calls["cause"].tolist()):  # a cause is judged first
        if cause >= 0 and chosen[cause]:
            chosen[call] = True
    return np.asarray(chosen, dtype=bool)


def _of_parameter(trace: Trace, name: str) -> np.ndarray:
    names = trace.tables.parameters
    row = names.index(name) if name in names else -2
    return np.asarray(trace.site_columns["parameter"] == row)


def stack_chain(trace: Trace, call: int) -> tuple[int, ...]:
    """Stacks of a call row, that of its first cause first and its own last."""
    parts, stacks, causes = [], trace.calls["stack"], trace.calls["cause"]
    while call >= 0:
        parts.append(int(stacks[call]))
        call = int(causes[call])
    return tuple(reversed(parts))


def line_stacks(trace: Trace) -> np.ndarray:
    """For each call the stack that its first source line stands in.

    That is the stack of the forward call that caused it, else its own.
    """
    empty = [not stack for stack in trace.tables.stacks]
    lines: list[int] = trace.calls["stack"].tolist()
    for call, cause in enumerate(trace.calls["cause"].tolist()):
        if cause >= 0 and not empty[lines[cause]]:
            lines[call] = lines[cause]
    return np.asarray(lines, dtype=np.int32)


@collector_paused()
def make_sites(trace: Trace, rows: np.ndarray) -> list[Site]:
    """The sites of these rows, in the order of the rows."""
    tables, calls, columns = trace.tables, trace.calls, trace.site_columns
    call = columns["call"][rows]
    fields = (  # in the order of Site's own
        [tables.ops[n] for n in calls["op"][call].tolist()],
        calls["number"][call].tolist(),
        columns["output"][rows].tolist(),
        [None if n < 0 else n for n in columns["index"][rows].tolist()],
        calls["counted"][call].tolist(),
        [tables.overloads[n] for n in calls["overload"][call].tolist()],
        [PHASES[n] for n in calls["phase"][call].tolist()],
        [tables.modules[n].path for n in calls["module"][call].tolist()],
        calls["module_call"][call].tolist(),
        calls["ordinal"][call].tolist(),
        ["" if n < 0 else tables.parameters[n] for n in columns["parameter"][rows].tolist()],
        _codes(trace, call),
        [tables.dtypes[n] for n in columns["dtype"][rows].tolist()],
        [tables.shapes[n] for n in columns["shape"][rows].tolist()],
    )
    return list(map(Site, *fields))


def _codes(trace: Trace, calls: np.ndarray) -> list[tuple[Frame, ...]]:
    """Source lines of each call row; calls with the same stacks share one tuple."""
    stacks, codes = trace.tables.stacks, []
    joined: dict[tuple[int, ...], tuple[Frame, ...]] = {}
    own, causes = trace.calls["stack"][calls].tolist(), trace.calls["cause"][calls].tolist()
    for call, stack, cause in zip(calls.tolist(), own, causes, strict=True):
        if cause < 0:
            codes.append(stacks[stack])
            continue
        parts = stack_chain(trace, call)
        if parts not in joined:
            joined[parts] = tuple(chain.from_iterable(stacks[part] for part in parts))
        codes.append(joined[parts])
    return codes


def described(trace: Trace) -> dict[str, np.ndarray]:
    """One column per thing that is known of a site, for a table of all of them."""
    tables, calls, columns = trace.tables, trace.calls, trace.site_columns
    call = columns["call"]
    lines = [stack[0].label if stack else "" for stack in tables.stacks]
    ops = _named(tables.ops, calls["op"])[call]
    numbers = calls["number"][call]
    return {
        "site": _site_texts(trace, ops, numbers),
        "phase": _named(PHASES, calls["phase"])[call],
        "module": _named([info.path for info in tables.modules], calls["module"])[call],
        "op": ops,
        "overload": _named(tables.overloads, calls["overload"])[call],
        "call": numbers,
        "output": columns["output"],
        "parameter": _named([*tables.parameters, ""], columns["parameter"]),  # -1 is the last
        "code": _named(lines, line_stacks(trace))[call],
        "dtype": _named(tables.dtypes, columns["dtype"]),
        "shape": _named(tables.shapes, columns["shape"]),
    } | {name: columns[name] for name in STATISTICS}


def _site_texts(trace: Trace, ops: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    columns = trace.site_columns
    counted = trace.calls["counted"][columns["call"]]
    texts = np.empty(len(trace), dtype=object)
    texts[:] = [
        f"{'' if numbered else 'other/'}{op}*{number}:{output}{f'[{index}]' if index >= 0 else ''}"
        for op, number, output, index, numbered in zip(
            ops.tolist(),
            numbers.tolist(),
            columns["output"].tolist(),
            columns["index"].tolist(),
            counted.tolist(),
            strict=True,
        )
    ]
    return texts


def _named(names: Sequence[object], rows: np.ndarray) -> np.ndarray:
    table = np.empty(len(names), dtype=object)
    table[:] = list(names)  # element by element: shapes are tuples
    return np.asarray(table[rows])
