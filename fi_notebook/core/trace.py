"""One traced step as columns: every call and every output, a few dozen bytes each.

    trace.sites[0]            Site: addmm*1:0, forward, layer.0, run.py:83, float32
    len(trace)                how many sites there are (outputs of calls)
    trace.find("addmm", module="layer.*", phase="forward", code="run.py[83]")
    trace.tree(by="module")   modules, then operators; also "source" and "op"

Sites are made from the columns when they are asked for. Files are numpy archives
without pickle (see ``core/trace_file.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from fi_notebook.core import frames, lookup
from fi_notebook.core.match import CodeFilter
from fi_notebook.core.site import Frame, Site, Target
from fi_notebook.core.stats import STATISTICS, TensorStats
from fi_notebook.core.words import counted

if TYPE_CHECKING:
    import pandas as pd

    from fi_notebook.core.tree import Node

__all__ = [
    "CALL_COLUMNS",
    "FLAGS",
    "SITE_COLUMNS",
    "ModuleInfo",
    "Tables",
    "Trace",
]

CALL_COLUMNS = {
    "op": np.int32,  # into Tables.ops
    "overload": np.int32,  # into Tables.overloads
    "number": np.int32,  # call number within the step, from 1, per packet
    "counted": np.bool_,
    "phase": np.uint8,  # into PHASES
    "module": np.int32,  # into Tables.modules
    "module_call": np.int32,  # from 1; 0 where there is none
    "ordinal": np.int32,
    "stack": np.int32,  # into Tables.stacks: the lines of the call itself
    "cause": np.int32,  # row of the call that made the autograd node, -1
    "parameter": np.int32,  # into Tables.parameters, -1
    "flags": np.uint8,  # bits of FLAGS
    "first_site": np.int64,  # row of its first site
    "micro_batch": np.int16,  # which root forward of the step, from 0; -1 before it
}
"""Columns of the calls, in execution order."""

SITE_COLUMNS = {
    "call": np.int32,  # row of the call
    "output": np.int16,
    "index": np.int32,  # position in a list output, -1
    "dtype": np.int16,  # into Tables.dtypes
    "shape": np.int32,  # into Tables.shapes
    "parameter": np.int32,  # into Tables.parameters, -1
    "min": np.float64,
    "max": np.float64,
    "mean": np.float64,
    "std": np.float64,
    "norm": np.float64,
    "nan": np.int64,
    "posinf": np.int64,
    "neginf": np.int64,
    "zeros": np.int64,
    "hash": np.int64,  # of all bits, weighted by position; 0 where it was not taken
}
"""Columns of the sites; statistics are NaN and -1 where they were not taken."""

_CHUNK = 8192
"""How many sites are made at a time where all are walked through."""

FLAGS = ("in place", "view", "collective", "folded", "unsafe view", "ambiguous")
"""Bits of a call's flags. *folded* calls (``detach``, profiler, factories) are counted
and not shown by default; an *unsafe view* is written through later; *ambiguous* is a
backward call whose forward call may belong to another thread."""


@dataclass(frozen=True, slots=True)
class ModuleInfo:
    """One module of the model, or one of the names for calls outside it.

    Attributes:
        path: Dotted path; ``""`` is the root.
        kind: Class name; ``""`` for what is no module.
        aliases: Further paths of a shared module.
    """

    path: str
    kind: str = ""
    aliases: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that the module answers to."""
        return (self.path, *self.aliases)


@dataclass(frozen=True, slots=True)
class Tables:
    """What the columns refer to by number.

    Attributes:
        ops: Operator packets.
        overloads: Overload names.
        modules: Modules in the order of ``named_modules``, then the names outside.
        parameters: Parameter names.
        stacks: Source lines of a call, innermost first.
        dtypes: Dtype names.
        shapes: Shapes.
        sources: Text of each source file or cell by the name that frames use.
    """

    ops: tuple[str, ...]
    overloads: tuple[str, ...]
    modules: tuple[ModuleInfo, ...]
    parameters: tuple[str, ...]
    stacks: tuple[tuple[Frame, ...], ...]
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Trace:
    """One step, as it was run: calls, sites, statistics and what led to what.

    Attributes:
        tables: Names that the columns refer to.
        calls: `CALL_COLUMNS`, one row per call.
        site_columns: `SITE_COLUMNS`, one row per site.
        input_offsets: For call row i its inputs are ``input_sites[offsets[i]:offsets[i+1]]``.
        input_sites: Site rows that made the inputs of each call.
        info: How it was run: step number, versions, settings, loss.
    """

    tables: Tables
    calls: Mapping[str, np.ndarray]
    site_columns: Mapping[str, np.ndarray]
    input_offsets: np.ndarray
    input_sites: np.ndarray
    info: Mapping[str, Any] = field(default_factory=dict)
    _values: Callable[[Site], Any] | None = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        """How many sites there are."""
        return len(self.site_columns["call"])

    def __iter__(self) -> Iterator[Site]:
        """Every site in execution order."""
        return iter(self.sites)

    def __repr__(self) -> str:
        """How much was traced; the columns are too long to print."""
        model = self.info.get("model", "a model")
        size = f"{counted(self.call_count, 'call')}, {counted(len(self), 'site')}"
        return f"<Trace of {model}: {size}>"

    @cached_property
    def sites(self) -> SiteList:
        """Every site in execution order, made when asked for."""
        return SiteList(self)

    @property
    def call_count(self) -> int:
        """How many calls were made, those without a tensor output included."""
        return len(self.calls["op"])

    def site(self, row: int) -> Site:
        """The site of a row.

        Args:
            row: Its row, from 0, in execution order.

        Returns:
            The site.
        """
        return lookup.make_sites(self, np.asarray([row]))[0]

    def frames(self, call: int) -> tuple[Frame, ...]:
        """Source lines of a call row: a backward call has its forward call's first.

        The call's own lines (that of ``loss.backward()``) follow.

        Args:
            call: Row of the call.

        Returns:
            The lines, innermost first.
        """
        chain = lookup.stack_chain(self, call)
        return tuple(frame for stack in chain for frame in self.tables.stacks[stack])

    def stats(self, row: int) -> TensorStats:
        """Statistics of a site row.

        Args:
            row: Row of the site.

        Returns:
            Shape, dtype, extremes, mean, standard deviation, norm and counts of its golden
            output.
        """
        columns, tables = self.site_columns, self.tables
        return TensorStats(
            tables.dtypes[columns["dtype"][row]],
            tables.shapes[columns["shape"][row]],
            *(columns[name][row].item() for name in STATISTICS),
        )

    def row(self, site: Site | str) -> int:
        """Row of a site.

        Args:
            site: The site, or its text such as ``relu*2:0``.

        Returns:
            Its row, from 0, in execution order.

        Raises:
            SiteError: The step made no such call or output; says how many it made.
        """
        return lookup.asked_row(self, site)

    @cached_property
    def call_index(self) -> tuple[np.ndarray, np.ndarray]:
        """The identity of every call as a sorted number, and its row."""
        return lookup.call_keys(self)

    def missing(self, target: Target) -> str:
        """Why a target chooses nothing here, in one plain clause; ``""`` if it does.

        Args:
            target: What was asked for.

        Returns:
            The clause.
        """
        return lookup.missing(self, target)

    def find(
        self,
        op: str | Target | None = None,
        *,
        module: str | None = None,
        phase: str | Iterable[str] | None = None,
        code: str | None = None,
        parameter: str | None = None,
    ) -> list[Site]:
        """Every site that all the given filters choose, in execution order.

        Args:
            op: A target such as ``addmm``, ``add.Tensor`` or ``addmm*3``; exact: a backward call
                has a name of its own, such as ``native_layer_norm_backward``. An operator alone
                finds its ``other/…`` calls too; a `Target` finds what it chooses when armed.
            module: Module filter: the module and everything below; globs.
            phase: One phase or several.
            code: Source line such as ``run.py[83]``; any frame of the stack.
            parameter: Parameter whose gradient it stores, or that the optimizer updates by it.

        Returns:
            The sites; none where the filters choose nothing.

        Raises:
            SiteError: A filter cannot be read, or there is no such module or phase.
        """
        rows = lookup.find_rows(
            self,
            Target.parse(op) if isinstance(op, str) else op,
            modules=None if module is None else (module,),
            phases=(phase,) if isinstance(phase, str) else phase,
            code=() if code is None else (CodeFilter.parse(code),),
            parameter=parameter,
            either=isinstance(op, str),
        )
        return lookup.make_sites(self, rows)

    def tree(self, by: str = "module") -> Node:
        """The step as a tree.

        Args:
            by: ``module``, ``source`` or ``op``.

        Returns:
            The root; ``print`` shows it.

        Raises:
            ArgumentError: ``by`` is none of these.
        """
        from fi_notebook.core.tree import build_tree

        return build_tree(self, by)

    def value(self, site: Site | str) -> Any:
        """The golden tensor of a site.

        Args:
            site: The site, or its text such as ``relu*2:0``.

        Returns:
            The tensor, in its own shape and dtype; where it was not kept, the golden step is
            run again for it.

        Raises:
            LookupError: The trace came from a file, or its session is closed.
            SiteError: The step made no such call or output.
        """
        if self._values is None:
            raise LookupError("this trace holds no tensors; trace again in a Session")
        return self._values(self.sites[self.row(site)])

    def to_pandas(self) -> pd.DataFrame:
        """One row per site: where it is, what it is, and its statistics.

        Returns:
            The table; its columns are named ``site``, ``phase``, ``module``, ``op`` ….

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        return frames.pandas().DataFrame(lookup.described(self))

    def save(self, path: str | Path) -> None:
        """Write the trace to a file, whole or not at all.

        Args:
            path: The file; one that is there is replaced.

        Raises:
            OSError: It cannot be written there.
        """
        from fi_notebook.core import trace_file

        trace_file.save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read a trace from a file.

        Args:
            path: The file that `save` wrote.

        Returns:
            The trace; it holds statistics, and no tensors.

        Raises:
            TraceError: The file is no trace, is damaged, or is of a newer version.
        """
        from fi_notebook.core import trace_file

        return trace_file.load(path)


class SiteList(Sequence[Site]):
    """The sites of a trace, made from its columns when asked for."""

    def __init__(self, trace: Trace) -> None:
        """Keep the trace; nothing is made yet."""
        self._trace = trace

    def __len__(self) -> int:
        """How many sites there are."""
        return len(self._trace)

    @overload
    def __getitem__(self, key: int) -> Site: ...

    @overload
    def __getitem__(self, key: slice) -> list[Site]: ...

    def __getitem__(self, key: int | slice) -> Site | list[Site]:
        """One site by position, or a list of them by slice."""
        rows = range(len(self))[key]
        return self._trace.site(rows) if isinstance(rows, int) else self._made(rows)

    def __iter__(self) -> Iterator[Site]:
        """Every site in order, made some thousands at a time."""
        for first in range(0, len(self), _CHUNK):
            yield from self._made(range(first, min(first + _CHUNK, len(self))))

    def _made(self, rows: range) -> list[Site]:
        return lookup.make_sites(self._trace, np.arange(rows.start, rows.stop, rows.step))

    def __repr__(self) -> str:
        """How many, and the first few."""
        head = ", ".join(str(site) for site in self[:3])
        return f"<{counted(len(self), 'site')}: {head}{', …' if len(self) > 3 else ''}>"
