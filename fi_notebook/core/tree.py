"""One step as a tree: by module, by source line or by operator.

    step                          33 calls
      Net                         24 calls
        conv1  Conv2d              3 calls
          convolution              1 call
          convolution_backward     1 call
      loss function                5 calls

Calls are grouped by their columns, so a step of 100,000 calls is a tree in a fraction
of a second. Every call stands below exactly one child of each node (`Node.self_check`).

Limits: a call of a shared module stands under the module's first name; a backward call
stands at the source line of the forward call that caused it, and the line of
``loss.backward()`` is in `Site.code` only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fi_notebook.core.collector import collector_paused
from fi_notebook.core.lookup import line_stacks, make_sites
from fi_notebook.core.site import OUTSIDE, PHASES, Frame, Site
from fi_notebook.core.trace import FLAGS, ModuleInfo, Trace
from fi_notebook.core.words import counted
from fi_notebook.errors import ArgumentError, did_you_mean

__all__ = ["KINDS", "VIEWS", "Node", "build_tree"]

KINDS = ("step", "module", "outside", "file", "line", "op", "overload")
"""What a node stands for; *outside* is a name for calls that no module makes."""

_NO_LINE = Frame("(no source line)", 0, "")


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A part of the step, and the calls that belong to it.

    Attributes:
        name: What it is called among its siblings.
        kind: One of `KINDS`.
        path: What names it in full: a module path, ``file[line]`` or an operator.
        detail: Class of a module, text of a source line, of a step that its compiled model
            ran eagerly; else ``""``.
        call_rows: Rows of `Trace.calls` at or below it, in execution order.
        folded: Whether all its calls are of the folded sort (``detach``, factories …).
        children: The nodes below it.
    """

    name: str
    kind: str
    path: str
    call_rows: np.ndarray = field(repr=False)
    children: tuple[Node, ...] = field(default=(), repr=False)
    detail: str = ""
    folded: bool = False
    _trace: Trace | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        """Its name, its calls, and how many nodes stand right below it."""
        what = " ".join(part for part in (self.kind, self.name, self.detail) if part)
        return f"<Node {what}: {counted(self.calls, 'call')}, {len(self.children)} below>"

    def __str__(self) -> str:
        """The node and what is below it, one line each, three levels deep."""
        shown = [(f"{'  ' * level}{node.label}", node.calls) for level, node in self.outline(3)]
        room = max(len(name) for name, _ in shown)
        width = len(f"{self.calls:,}")
        return "\n".join(f"{name:{room}}  {counted(n, 'call', width)}" for name, n in shown)

    @property
    def label(self) -> str:
        """Name and detail in one line: ``conv1  Conv2d``."""
        return f"{self.name}  {self.detail}".rstrip()

    def outline(self, depth: int) -> Iterator[tuple[int, Node]]:
        """The node and what is below it to some depth, each with its level, parents first.

        Args:
            depth: How many levels below it.

        Returns:
            Pairs of level and node, parents first.
        """
        waiting = [(0, self)]
        while waiting:
            level, node = waiting.pop()
            yield level, node
            if level < depth:
                waiting += [(level + 1, child) for child in reversed(node.children)]

    @property
    def calls(self) -> int:
        """How many calls stand at or below it."""
        return len(self.call_rows)

    @property
    def site_rows(self) -> np.ndarray:
        """Rows of the sites at or below it, in execution order."""
        if self._trace is None:
            return np.empty(0, dtype=np.int64)
        chosen = np.zeros(self._trace.call_count, dtype=bool)
        chosen[self.call_rows] = True
        return np.flatnonzero(chosen[self._trace.site_columns["call"]])

    @property
    def sites(self) -> list[Site]:
        """The sites at or below it, made when asked for."""
        return [] if self._trace is None else make_sites(self._trace, self.site_rows)

    def walk(self) -> Iterator[Node]:
        """The node itself and everything below, parents first."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def self_check(self) -> None:
        """Check that every call stands below exactly one child of each node.

        Raises:
            ValueError: Names the node whose calls do not add up.
        """
        for node in self.walk():
            below = [child.call_rows for child in node.children]
            if below and not np.array_equal(np.sort(np.concatenate(below)), node.call_rows):
                raise ValueError(f"the calls below {node.kind} {node.path!r} do not add up")


@collector_paused()
def build_tree(trace: Trace, by: str = "module", *, folded: bool = True) -> Node:
    """Build the tree of a step.

    Args:
        trace: The step.
        by: ``module``, ``source`` or ``op``.
        folded: Whether folded calls stand in the tree; where they do, they are marked.

    Returns:
        The root.

    Raises:
        ArgumentError: ``by`` is none of these.
    """
    if by not in VIEWS:
        raise ArgumentError(f"no tree by {by!r}{did_you_mean(by, VIEWS)}")
    rows = np.arange(trace.call_count)
    if not folded:
        rows = rows[~_folded(trace)]
    eager = "ran eagerly" if trace.info.get("ran_eagerly") else ""
    return _branch(trace, _Label("step", "step", "", eager), VIEWS[by](trace, rows), rows)


class _Label(NamedTuple):
    name: str
    kind: str
    path: str
    detail: str = ""


class _Group(NamedTuple):
    keys: tuple[int, ...]
    rows: np.ndarray
    folded: bool


_Namer = Callable[[int], _Label]
"""Names a group of calls by the row of one of them."""


def _by_module(trace: Trace, rows: np.ndarray) -> tuple[Node, ...]:
    """The modules in their own order; below each its modules, then its operators."""
    owners = _owners(trace)
    operators: dict[int, list[_Group]] = {}
    for group in _groups(trace, rows, owners, trace.calls["op"]):
        operators.setdefault(group.keys[0], []).append(group)
    infos = trace.tables.modules
    below = _submodules(infos)
    nodes: dict[int, Node] = {}
    for module in sorted(range(len(infos)), key=lambda m: -_depth(infos[m])):
        leaves = _nest(trace, operators.get(module, []), (_op_namer(trace),))
        modules = tuple(nodes[child] for child in below.get(module, ()))
        nodes[module] = _branch(trace, _module_label(infos[module]), modules + leaves)
    top = (nodes[module] for module in below.get(None, ()))
    return tuple(node for node in top if node.calls or node.kind == "module")


def _by_source(trace: Trace, rows: np.ndarray) -> tuple[Node, ...]:
    """Files, then lines with their functions, then operators, as they were first called."""
    stacks = line_stacks(trace)
    heads = [stack[0] if stack else _NO_LINE for stack in trace.tables.stacks]
    files = {file: row for row, file in enumerate(dict.fromkeys(h.file for h in heads))}
    lines = {head: row for row, head in enumerate(dict.fromkeys(heads))}
    file_of = np.asarray([files[head.file] for head in heads], dtype=np.int64)[stacks]
    line_of = np.asarray([lines[head] for head in heads], dtype=np.int64)[stacks]
    texts = {file: text.splitlines() for file, text in trace.tables.sources.items()}

    def file_label(row: int) -> _Label:
        file = heads[stacks[row]].file
        return _Label(file.replace("\\", "/").rsplit("/", 1)[-1], "file", file)

    def line_label(row: int) -> _Label:
        file, line, function = heads[stacks[row]]
        text = texts.get(file, [])[line - 1 : line] if line > 0 else []
        return _Label(f"{line} in {function}", "line", f"{file}[{line}]", "".join(text).strip())

    groups = _groups(trace, rows, file_of, line_of, trace.calls["op"])
    return _nest(trace, groups, (file_label, line_label, _op_namer(trace)))


def _by_op(trace: Trace, rows: np.ndarray) -> tuple[Node, ...]:
    """Operators, then each overload in each phase."""
    calls, tables = trace.calls, trace.tables
    variant = calls["overload"].astype(np.int64) * len(PHASES) + calls["phase"]

    def overload_label(row: int) -> _Label:
        name = tables.overloads[calls["overload"][row]]
        path = f"{tables.ops[calls['op'][row]]}.{name}"
        return _Label(f"{name}, {PHASES[calls['phase'][row]]}", "overload", path)

    groups = _groups(trace, rows, calls["op"], variant)
    return _nest(trace, groups, (_op_namer(trace), overload_label))


VIEWS: Mapping[str, Callable[[Trace, np.ndarray], tuple[Node, ...]]] = {
    "module": _by_module,
    "source": _by_source,
    "op": _by_op,
}
"""The views of a step, by the name that `build_tree` takes."""


def _groups(trace: Trace, rows: np.ndarray, *keys: np.ndarray) -> list[_Group]:
    """The rows that agree in all keys together, in the order of their first calls."""
    if not len(rows):
        return []
    joined = np.zeros(len(rows), dtype=np.int64)
    for key in keys:
        joined = joined * (int(key.max()) + 1) + key[rows]
    order = np.argsort(joined, kind="stable")
    ordered, rows = joined[order], rows[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    folded = np.logical_and.reduceat(_folded(trace)[rows], starts)
    names = zip(*(key[rows[starts]].tolist() for key in keys), strict=True)
    ends = [*starts[1:].tolist(), len(rows)]
    parts = [rows[first:end] for first, end in zip(starts.tolist(), ends, strict=True)]
    found = list(map(_Group, names, parts, folded.tolist()))
    return [found[group] for group in np.argsort(rows[starts]).tolist()]


def _folded(trace: Trace) -> np.ndarray:
    return (trace.calls["flags"] & (1 << FLAGS.index("folded"))) != 0


def _nest(
    trace: Trace, groups: Sequence[_Group], namers: Sequence[_Namer], level: int = 0
) -> tuple[Node, ...]:
    """Nodes for the groups, one level for each of their last keys and its namer."""
    namer, *deeper = namers
    if not deeper:
        return tuple(_leaf(trace, namer(int(group.rows[0])), group) for group in groups)
    below: dict[int, list[_Group]] = {}
    for group in groups:
        below.setdefault(group.keys[level], []).append(group)
    return tuple(
        _branch(trace, namer(int(parts[0].rows[0])), _nest(trace, parts, deeper, level + 1))
        for parts in below.values()
    )


def _leaf(trace: Trace, label: _Label, group: _Group) -> Node:
    name, kind, path, detail = label
    return Node(name, kind, path, group.rows, (), detail, group.folded, trace)


def _branch(
    trace: Trace, label: _Label, children: tuple[Node, ...], rows: np.ndarray | None = None
) -> Node:
    name, kind, path, detail = label
    if rows is None:
        parts = [child.call_rows for child in children if child.calls]
        rows = np.sort(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)
    folded = bool(len(rows)) and all(child.folded for child in children if child.calls)
    return Node(name, kind, path, rows, children, detail, folded, trace)


def _op_namer(trace: Trace) -> _Namer:
    ops = trace.calls["op"]

    def label(row: int) -> _Label:
        name = trace.tables.ops[ops[row]]
        return _Label(name, "op", name)

    return label


def _module_label(info: ModuleInfo) -> _Label:
    if not _is_module(info):
        return _Label(info.path, "outside", info.path)
    name = info.path.rsplit(".", 1)[-1] or info.kind
    return _Label(name, "module", info.path, info.kind)


def _is_module(info: ModuleInfo) -> bool:
    return bool(info.kind)


def _depth(info: ModuleInfo) -> int:
    return info.path.count(".") + 1 if info.path else 0


def _submodules(infos: Sequence[ModuleInfo]) -> dict[int | None, list[int]]:
    """Rows of the modules directly below each module; None is the step itself."""
    rows = {info.path: row for row, info in enumerate(infos) if _is_module(info)}
    below: dict[int | None, list[int]] = {}
    for row, info in enumerate(infos):
        parent = _owner(info.path, rows) if _is_module(info) and info.path else None
        below.setdefault(parent, []).append(row)
    return below


def _owner(path: str, rows: Mapping[str, int]) -> int | None:
    """Row of the nearest module above a dotted path, if there is one."""
    while path:
        path = path.rpartition(".")[0]
        if path in rows:
            return rows[path]
    return None


def _owners(trace: Trace) -> np.ndarray:
    """Module row of each call; an optimizer call goes to the module of its parameter."""
    infos, calls = trace.tables.modules, trace.calls
    rows = {name: row for row, info in enumerate(infos) if _is_module(info) for name in info.names}
    owners = [_owner(name, rows) for name in trace.tables.parameters]
    owner = np.asarray([-1 if row is None else row for row in (*owners, None)])[calls["parameter"]]
    outside = np.asarray([info.path == OUTSIDE for info in infos], dtype=bool)[calls["module"]]
    placed = (calls["phase"] == PHASES.index("optimizer")) & outside & (owner >= 0)
    return np.where(placed, owner, calls["module"])
