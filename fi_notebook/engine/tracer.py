"""The observer that writes a step down: calls, sites, statistics and data flow.

    recorder = Recorder(watch, store=ValueStore(budget))
    …                                  # the step runs under the interceptor
    trace = recorder.trace(info)

With ``golden=`` it also measures each output against what the golden run kept, and
looks at the values of each call that an error entered and did not leave.

Limits: data flow is by views and storages; see `engine.makers`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch

from fi_notebook.core.columns import Columns
from fi_notebook.core.site import Site
from fi_notebook.core.trace import CALL_COLUMNS, FLAGS, SITE_COLUMNS, Tables, Trace
from fi_notebook.core.valueless import WORKSPACES
from fi_notebook.engine.collectives import is_collective, is_final, is_of_all
from fi_notebook.engine.intercept import FOLDED, OPTIMIZER, OTHER, Call, Watch, hands_down
from fi_notebook.engine.looks import Looks
from fi_notebook.engine.losses import Roots
from fi_notebook.engine.masking import Masking
from fi_notebook.engine.outputs import (
    FUNCTIONAL,
    IN_PLACE,
    VIEW,
    Output,
    Schema,
    outputs_by,
    schema_of,
    written_by,
)
from fi_notebook.engine.stats import without_statistics
from fi_notebook.engine.storages import StorageMap, array_over, shape_of, tensors_in
from fi_notebook.engine.store import Kept, SiteKey, ValueStore, site_key
from fi_notebook.engine.unplaced import Unplaced
from fi_notebook.engine.unwritten import OVERWRITES, Unwritten
from fi_notebook.faults.bits import dtype_name

__all__ = ["Recorder"]

_FLAG = {name: 1 << bit for bit, name in enumerate(FLAGS)}
_IN_PLACE, _VIEW = _FLAG["in place"], _FLAG["view"]
_CALL_FIELDS = tuple(CALL_COLUMNS)
_FLAGS = _CALL_FIELDS.index("flags")
_DESCRIBED = ("call", "output", "index", "dtype", "shape", "parameter")


class _Numbering(dict[Any, int]):
    """Numbers things in the order in which they are first asked for."""

    def __missing__(self, key: Any) -> int:
        self[key] = len(self)
        return self[key]


class _Fixed(NamedTuple):
    """What is the same for every call of an operator overload; holds it, so its id stays."""

    func: Any
    op: int
    overload: int
    schema: Schema
    flags: int
    moves: bool
    draws: bool
    folded: bool
    overwrites: bool
    workspaces: tuple[int, ...]

    @classmethod
    def of(cls, call: Call, op: int, overload: int) -> _Fixed:
        """What is the same for every call like this one."""
        flags = _FLAG["collective"] if "c10d" in call.op else 0
        return cls(
            func=call.func,
            op=op,
            overload=overload,
            schema=schema_of(call.func),
            flags=flags | (_FLAG["folded"] if call.op in FOLDED else 0),
            moves=is_collective(call.op),
            draws=torch.Tag.nondeterministic_seeded in getattr(call.func, "tags", ()),
            folded=call.op in FOLDED and call.op != "lift_fresh",
            overwrites=call.op in OVERWRITES,
            workspaces=WORKSPACES.get(call.op, ()),
        )


class Recorder:
    """Writes down one step.

    Args:
        watch: What names the calls.
        store: Where the outputs' values are kept, or None.
        golden: What was kept of the golden run, to measure against, or None.
        statistics: Whether the outputs are summarised.
        progress: Called before each call, with it; None tells nobody.

    Attributes:
        met_all: Whether it made a collective of all ranks.
    """

    def __init__(
        self,
        watch: Watch,
        *,
        store: ValueStore | None = None,
        golden: Mapping[SiteKey, Kept] | None = None,
        statistics: bool = True,
        progress: Callable[[Call], None] | None = None,
    ) -> None:
        """Start with nothing recorded."""
        self.watch = watch
        self.progress = progress
        self.met_all = False
        self.roots: Roots[torch.Tensor] = Roots()
        self.draws: list[tuple[str, str]] = []
        self._looks = Looks(watch.table.model, statistics=statistics, store=store, golden=golden)
        self._calls: list[tuple[Any, ...]] = []
        self._sites: list[tuple[Any, ...]] = []
        self._offsets, self._inputs = [0], list[int]()
        self._ops, self._overloads = _Numbering(), _Numbering()
        self._parameters, self._dtypes, self._shapes = _Numbering(), _Numbering(), _Numbering()
        self._fixed: dict[int, _Fixed] = {}
        self._views: StorageMap[list[int]] = StorageMap()
        self._unsafe: set[int] = set()
        self._read: list[torch.Tensor] = []
        self._pending: dict[int, None] = {}
        self._masking = None if golden is None else Masking(self._looks.unequal)
        self._unwritten = Unwritten()
        self._unplaced = Unplaced()

    @property
    def call_count(self) -> int:
        """How many calls were written down."""
        return len(self._calls)

    def before(self, call: Call) -> None:
        """Note what made the inputs, before an in-place call makes them anew."""
        if self.progress is not None:
            self.progress(call)
        self._read = tensors_in((*call.args, *call.kwargs.values()))
        rows = [self._looks.makers.of(tensor) for tensor in self._read]
        self._pending = dict.fromkeys(chain.from_iterable(rows))
        if self._masking is not None:
            self._masking.before(list(zip(self._read, rows, strict=True)))
        root = Roots.of(call, self.watch)
        if root is not None:
            self.roots.add(root.detach().clone(), in_closure=self.watch.clock.in_closure)

    def after(self, call: Call, result: Any) -> Any:
        """Write down the call and its outputs; gives the result back as it is."""
        self._inputs += self._pending
        self._offsets.append(len(self._inputs))
        fixed = self._fixed.get(id(call.func)) or self._learn(call)
        made = outputs_by(fixed.schema, call.args, call.kwargs, result)
        first = len(self._sites)
        final = not fixed.moves or is_final(call.op, result)
        self.met_all |= fixed.moves and is_of_all(call.func, call.op, call.args, call.kwargs)
        seen = [self._site(call, fixed, output, final=final) for output in made]
        if fixed.overwrites:
            _unsee(self, made)
        if self._masking is not None:
            self._mask(call, made, range(first, len(self._sites)))
        self._note_writes(call, fixed, made, first, seen)
        if fixed.draws:
            self.draws.append(_draw(call))
        self._calls.append(
            (
                fixed.op,
                fixed.overload,
                call.number,
                call.counted,
                call.phase,
                call.module,
                call.module_call,
                call.ordinal,
                call.stack,
                -1 if call.cause is None else call.cause.row,
                self._parameters[call.parameter] if call.parameter else -1,
                fixed.flags | _flags(call, made),
                first,
                call.micro_batch,
            )
        )
        self._read = []  # what is held is not given away: autograd would copy it
        return result

    def _learn(self, call: Call) -> _Fixed:
        """What is the same for every call of an operator; kept by id, as hashing is slow."""
        numbers = self._ops[call.op], self._overloads[call.overload]
        fixed = self._fixed[id(call.func)] = _Fixed.of(call, *numbers)
        return fixed

    def _mask(self, call: Call, made: list[Output], rows: range) -> None:
        assert self._masking is not None  # asked by the caller
        if all(row in self._looks.measures for row in rows):
            self._masking.after(call, made, rows)

    def _site(self, call: Call, fixed: _Fixed, output: Output, *, final: bool) -> bool:
        """Write an output down; says whether its values are known from now on."""
        tensor = output.tensor
        parameter = self._parameter(call, output)
        self._sites.append(
            (
                len(self._calls),
                output.output,
                -1 if output.index is None else output.index,
                self._dtypes[tensor.dtype],
                self._shapes[shape_of(tensor)],
                self._parameters[parameter] if parameter else -1,
            )
        )
        by_chance = self._unwritten.holds(call.op, output)
        if self._looks.idle:
            return False
        return self._looks.look(
            site_key(call.op, call.counted, call.number, output.output, output.index),
            output,
            self._read,
            bare=by_chance or not final or output.output in fixed.workspaces,
            folded=fixed.folded,
        )

    def _parameter(self, call: Call, output: Output) -> str:
        if call.phase not in (OPTIMIZER, OTHER):
            return call.parameter
        if not call.parameter:
            if call.phase == OPTIMIZER:
                self._unplaced.add(len(self._sites), output)
            return ""
        scope, inherits = self.watch.parameters, hands_down(call, self.watch)
        if output.index is None:
            if inherits:
                scope.inherit(output.tensor, call.parameter)
            return call.parameter
        own = scope.of(output.tensor) or scope.of_list_item(call.args, output.index)
        if not own and scope.grown(self.watch.clock.optimizers):
            scope.refresh(self.watch.clock.optimizers)  # state was made since
            own = scope.of(output.tensor)
        if inherits:
            scope.inherit(output.tensor, own)
        return own or call.parameter

    def finish(self) -> None:
        """Note whose the tensors are that an optimizer made of nothing, while they live."""
        self._unplaced.settle(self.watch)

    def _note_writes(
        self, call: Call, fixed: _Fixed, made: list[Output], first: int, seen: list[bool]
    ) -> None:
        """Remember who made each storage, and which views are written later."""
        row, makers = len(self._calls), self._looks.makers
        for number, output in enumerate(made):
            makers.note(output, first + number)
            if seen[number]:
                makers.see(output, first + number, self._read)
            if output.kind == VIEW:
                views = self._views.get(output.tensor)
                if views is None:
                    self._views.set(output.tensor, [row])
                else:
                    views.append(row)
        if not fixed.schema.written:
            return
        done = call.phase in (OPTIMIZER, OTHER) or bool(call.parameter)
        for tensor in tensors_in(written_by(fixed.schema, call.args, call.kwargs)):
            makers.wrote(tensor)
            if not done:  # after an update or an accumulation views of before are done with
                self._unsafe.update(self._views.get(tensor) or ())

    def trace(
        self,
        info: Mapping[str, Any],
        values: Callable[[Site], Any] | None = None,
        golden: Trace | None = None,
    ) -> Trace:
        """What was recorded, as columns.

        Args:
            info: How it was run.
            values: What gives the tensor of a site; where it does, hashes can wait too.
            golden: Trace of the golden run that outputs were measured against.
        """
        calls = _columns(self._calls, _CALL_FIELDS, CALL_COLUMNS)
        calls["flags"][sorted(self._unsafe)] |= _FLAG["unsafe view"]
        sites = _columns(self._sites, _DESCRIBED, SITE_COLUMNS)
        for row, name in self._unplaced.found.items():
            call = sites["call"][row]
            sites["parameter"][row] = calls["parameter"][call] = self._parameters[name]
            calls["module"][call] = self.watch.table.owner(self.watch.parameters.parameters[name])
        sites |= self._looked(golden)
        hashes = partial(self._looks.hashes, golden)
        columns = Columns(sites, {"hash": hashes})
        if values is None and golden is None:
            columns["hash"]  # taken now: nobody keeps for it what was kept
        sources = self.watch.sources
        stacks = tuple(sources.frames(number) for number in range(len(sources)))
        tables = Tables(
            ops=tuple(self._ops),
            overloads=tuple(self._overloads),
            modules=tuple(self.watch.table.infos),
            parameters=tuple(self._parameters),
            stacks=stacks,
            dtypes=tuple(map(dtype_name, self._dtypes)),
            shapes=tuple(self._shapes),
            sources=sources.sources(),
        )
        return Trace(
            tables=tables,
            calls=calls,
            site_columns=columns,
            input_offsets=np.asarray(self._offsets, dtype=np.int64),
            input_sites=np.asarray(self._inputs, dtype=np.int64),
            info=info,
            _values=values,
        )

    def _looked(self, golden: Trace | None) -> dict[str, np.ndarray]:
        """Statistics of the sites, where outputs were looked at."""
        if self._looks.idle:
            found = without_statistics(len(self._sites))
        else:
            found = self._looks.columns(golden)
        return {name: column.astype(SITE_COLUMNS[name]) for name, column in found.items()}

    def measure_columns(self, golden_rows: Mapping[int, int]) -> dict[str, np.ndarray]:
        """The measures as columns, one row per site of this run.

        Args:
            golden_rows: For a site row of this run, the golden row it is aligned with;
                NaN stands where what was measured was another one, or nothing.
        """
        return self._looks.measure_columns(len(self._sites), golden_rows)

    def forget(self) -> None:
        """Let go of what was written down; its trace is not asked for."""
        self._calls, self._sites = [], []
        self._offsets, self._inputs = [0], []
        self._looks = Looks(self.watch.table.model, statistics=False, store=None, golden=None)
        self._masking = None

    def evidence_column(self) -> np.ndarray:
        """What was seen of masking calls, one entry per site."""
        count = len(self._sites)
        return np.zeros(count, np.uint16) if self._masking is None else self._masking.column(count)


def _unsee(recorder: Recorder, made: list[Output]) -> None:
    """Take back what views showed that a call is the first to look at, and wrote."""
    looks, offsets = recorder._looks, recorder._offsets
    for output in made:
        for row in looks.makers.of(output.tensor):
            call = recorder._sites[row][0]
            since = recorder._inputs[offsets[call + 1] : offsets[-2]]
            if recorder._calls[call][_FLAGS] & _VIEW and row not in since:
                looks.unsee(row)


def _flags(call: Call, made: list[Output]) -> int:
    """The flags of a call that are not its operator's."""
    flags = _FLAG["ambiguous"] if call.ambiguous else 0
    for output in made:
        if output.kind != FUNCTIONAL:
            flags |= _IN_PLACE if output.kind == IN_PLACE else _VIEW
    return flags


def _draw(call: Call) -> tuple[str, str]:
    """A call that may have drawn, and a digest of the generator after it."""
    state = hashlib.sha256(array_over(torch.get_rng_state()).tobytes()).hexdigest()[:16]
    return f"{call.op}*{call.number}", state


def _columns(
    rows: list[tuple[Any, ...]], names: tuple[str, ...], dtypes: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return {n: np.asarray(c, dtype=dtypes[n]) for n, c in zip(names, columns, strict=True)}
