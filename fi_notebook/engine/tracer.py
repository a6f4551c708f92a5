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
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from fi_notebook.core.site import Site
from fi_notebook.core.trace import CALL_COLUMNS, FLAGS, SITE_COLUMNS, Tables, Trace
from fi_notebook.engine.collectives import is_collective, is_final
from fi_notebook.engine.intercept import BACKWARD, FOLDED, OPTIMIZER, OTHER, Call, Watch
from fi_notebook.engine.makers import Makers
from fi_notebook.engine.masking import Masking
from fi_notebook.engine.measure import Measure, compare_kept
from fi_notebook.engine.outputs import (
    IN_PLACE,
    VIEW,
    WORKSPACES,
    Output,
    outputs,
    written,
)
from fi_notebook.engine.stats import Statistics, dtype_name
from fi_notebook.engine.storages import StorageMap, storage_of, tensors_in
from fi_notebook.engine.store import Kept, SiteKey, ValueStore
from fi_notebook.engine.unwritten import Unwritten

__all__ = ["Recorder", "site_key"]

_FLAG = {name: 1 << bit for bit, name in enumerate(FLAGS)}
_CALL_FIELDS = tuple(CALL_COLUMNS)
_SAME = ("detach", "alias")
_DESCRIBED = ("call", "output", "index", "dtype", "shape", "parameter")


class _Numbering(dict[Any, int]):
    """Numbers things in the order in which they are first asked for."""

    def __missing__(self, key: Any) -> int:
        self[key] = len(self)
        return self[key]


class Recorder:
    """Writes down one step.

    Args:
        watch: What names the calls.
        store: Where the outputs' values are kept, or None.
        golden: What was kept of the golden run, to measure against, or None.
        statistics: Whether the outputs are summarised.
        progress: Called now and then with the number of calls made.
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
        self.store = store
        self.golden = golden
        self.progress = progress
        self.loss: torch.Tensor | None = None
        self.draws: list[tuple[str, str]] = []
        self.measures: dict[int, tuple[int, Measure]] = {}
        self._calls: list[tuple[Any, ...]] = []
        self._sites: list[tuple[Any, ...]] = []
        self._statistics = Statistics() if statistics else None
        self._offsets, self._inputs = [0], list[int]()
        self._ops, self._overloads = _Numbering(), _Numbering()
        self._parameters, self._dtypes, self._shapes = _Numbering(), _Numbering(), _Numbering()
        self._makers = Makers()
        self._views: StorageMap[list[int]] = StorageMap()
        self._unsafe: set[int] = set()
        self._pending: list[int] = []
        self.masking = Masking()
        self._unwritten = Unwritten()
        self._unplaced: list[tuple[int, StorageWeakRef]] = []
        self._placed: dict[int, str] = {}

    @property
    def call_count(self) -> int:
        """How many calls were written down."""
        return len(self._calls)

    def before(self, call: Call) -> None:
        """Note what made the inputs, before an in-place call makes them anew."""
        if self.progress is not None:
            self.progress(call)
        read = [(t, self._makers.of(t)) for t in tensors_in((*call.args, *call.kwargs.values()))]
        self._pending = list(dict.fromkeys(row for _, rows in read for row in rows))
        self.masking.before(read)
        if call.phase == BACKWARD and self.watch.sources.asking_for_gradients:
            self._take_loss(call)

    def _take_loss(self, call: Call) -> None:
        root = next(tensors_in(call.args), None)
        if root is not None and root.numel() == 1:
            self.loss = root.detach().clone()

    def after(self, call: Call, result: Any) -> Any:
        """Write down the call and its outputs; gives the result back as it is."""
        self._inputs += self._pending
        self._offsets.append(len(self._inputs))
        made = outputs(call.func, call.args, call.kwargs, result)
        first = len(self._sites)
        final = not is_collective(call.op) or is_final(call.op, result)
        for output in made:
            self._site(call, output, final=final)
        if all(row in self.measures for row in range(first, len(self._sites))):
            self.masking.after(call, made, range(first, len(self._sites)))
        self._note_writes(call, made, first)
        self._note_draw(call)
        self._calls.append(
            (
                self._ops[call.op],
                self._overloads[call.overload],
                call.number,
                call.counted,
                call.phase,
                call.module,
                call.module_call,
                call.ordinal,
                call.stack,
                -1 if call.cause is None else call.cause.row,
                self._parameters[call.parameter] if call.parameter else -1,
                _flags(call, made),
                first,
                call.micro_batch,
            )
        )
        return result

    def _site(self, call: Call, output: Output, *, final: bool) -> None:
        row, tensor = len(self._sites), output.tensor
        parameter = self._parameter(call, output)
        self._sites.append(
            (
                len(self._calls),
                output.output,
                -1 if output.index is None else output.index,
                self._dtypes[dtype_name(tensor.dtype)],
                self._shapes[tuple(tensor.shape)],
                self._parameters[parameter] if parameter else -1,
            )
        )
        by_chance = self._unwritten.holds(call.op, output)
        without_values = by_chance or not final or output.output in WORKSPACES.get(call.op, ())
        if self._statistics is not None:
            self._summarise(call, tensor, without_values=without_values)
        if tensor.layout != torch.strided or tensor.is_quantized:
            return
        if without_values:
            return
        key = site_key(call, output)
        if self.store is not None:
            self.store.add(key, row, tensor)
        if self.golden is not None:
            kept = self.golden.get(key)
            if kept is not None:
                found = compare_kept(kept, tensor)
                self.measures[row] = (kept.row, found)
                if not found.equal:
                    self.masking.unequal[row] = kept

    def _summarise(self, call: Call, tensor: torch.Tensor, *, without_values: bool) -> None:
        assert self._statistics is not None  # asked for by the caller
        if without_values or call.op not in FOLDED or call.op == "lift_fresh":
            self._statistics.add(None if without_values else tensor)
            return
        made = self._pending[0] if len(self._pending) == 1 and call.op in _SAME else -1
        if made >= 0 and self._sites[made][3:5] == self._sites[-1][3:5]:  # dtype and shape
            self._statistics.repeat(made)
        else:
            self._statistics.add(None)

    def _parameter(self, call: Call, output: Output) -> str:
        scope = self.watch.parameters
        if call.phase == OPTIMIZER and not call.parameter:
            self._place_later(output)
        if call.phase not in (OPTIMIZER, OTHER) or not call.parameter:
            return call.parameter
        if output.index is None:
            scope.inherit(output.tensor, call.parameter)
            return call.parameter
        own = scope.of(output.tensor) or scope.of_list_item(call.args, output.index)
        if not own and scope.grown(self.watch.clock.optimizers):
            scope.refresh(self.watch.clock.optimizers)  # state was made since
            own = scope.of(output.tensor)
        scope.inherit(output.tensor, own)
        return own or call.parameter

    def _place_later(self, output: Output) -> None:
        """A tensor that an optimizer makes of nothing: whose it is shows when it is kept."""
        storage = storage_of(output.tensor)
        if storage is not None:
            self._unplaced.append((len(self._sites), StorageWeakRef(storage)))

    def finish(self) -> None:
        """Note whose the tensors are that an optimizer made of nothing, while they live."""
        scope = self.watch.parameters
        if self._unplaced:
            scope.refresh(self.watch.clock.optimizers)
        found = ((row, scope.at(reference)) for row, reference in self._unplaced)
        self._placed = {row: name for row, name in found if name}
        self._unplaced.clear()

    def _place_now(self, calls: dict[str, np.ndarray], sites: dict[str, np.ndarray]) -> None:
        scope, table = self.watch.parameters, self.watch.table
        for row, name in self._placed.items():
            call = sites["call"][row]
            sites["parameter"][row] = calls["parameter"][call] = self._parameters[name]
            calls["module"][call] = table.owner(scope.parameters[name])

    def _note_writes(self, call: Call, made: list[Output], first: int) -> None:
        """Remember who made each storage, and which views are written later."""
        row = len(self._calls)
        for number, output in enumerate(made):
            self._makers.note(output, first + number)
            if output.kind == VIEW:
                views = self._views.get(output.tensor)
                if views is None:
                    self._views.set(output.tensor, [row])
                else:
                    views.append(row)
        if call.phase in (OPTIMIZER, OTHER) or call.parameter:
            return  # an update or an accumulation: views of before are done with
        for tensor in tensors_in(written(call.func, call.args, call.kwargs)):
            self._unsafe.update(self._views.get(tensor) or ())

    def _note_draw(self, call: Call) -> None:
        if torch.Tag.nondeterministic_seeded in getattr(call.func, "tags", ()):
            state = hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest()[:16]
            self.draws.append((f"{call.op}*{call.number}", state))

    def trace(self, info: Mapping[str, Any], values: Callable[[Site], Any] | None = None) -> Trace:
        """What was recorded, as columns."""
        calls = _columns(self._calls, _CALL_FIELDS, CALL_COLUMNS)
        calls["flags"][sorted(self._unsafe)] |= _FLAG["unsafe view"]
        sites = _columns(self._sites, _DESCRIBED, SITE_COLUMNS)
        self._place_now(calls, sites)
        statistics = self._statistics or _without(len(self._sites))
        sites |= {k: v.astype(SITE_COLUMNS[k]) for k, v in statistics.columns().items()}
        sources = self.watch.sources
        stacks = tuple(sources.frames(number) for number in range(len(sources)))
        tables = Tables(
            ops=tuple(self._ops),
            overloads=tuple(self._overloads),
            modules=tuple(self.watch.table.infos),
            parameters=tuple(self._parameters),
            stacks=stacks,
            dtypes=tuple(self._dtypes),
            shapes=tuple(self._shapes),
            sources=sources.sources(),
        )
        return Trace(
            tables=tables,
            calls=calls,
            site_columns=sites,
            input_offsets=np.asarray(self._offsets, dtype=np.int64),
            input_sites=np.asarray(self._inputs, dtype=np.int64),
            info=info,
            _values=values,
        )

    def measure_columns(self, golden_rows: Mapping[int, int]) -> dict[str, np.ndarray]:
        """The measures as columns, one row per site of this run.

        Args:
            golden_rows: For a site row of this run, the golden row it is aligned with;
                NaN stands where what was measured was another one, or nothing.
        """
        unknown = (math.nan,) * len(Measure._fields)
        rows: list[tuple[Any, ...]] = [unknown] * len(self._sites)
        for row, (golden, found) in self.measures.items():
            if golden_rows.get(row) == golden:
                rows[row] = found
        columns = zip(*rows, strict=True) if rows else [()] * len(Measure._fields)
        return {
            name: np.asarray(column, dtype=np.float64)
            for name, column in zip(Measure._fields, columns, strict=True)
        }

    def forget(self) -> None:
        """Let go of what was written down; its trace is not asked for."""
        self._calls, self._sites = [], []
        self._offsets, self._inputs = [0], []
        self.measures.clear()
        self.masking, self._makers = Masking(), Makers()
        self._statistics = None

    def evidence_column(self) -> np.ndarray:
        """What was seen of masking calls, one entry per site."""
        return self.masking.column(len(self._sites))


def _flags(call: Call, made: list[Output]) -> int:
    flags = _FLAG["in place"] if any(o.kind == IN_PLACE for o in made) else 0
    flags |= _FLAG["view"] if any(o.kind == VIEW for o in made) else 0
    flags |= _FLAG["collective"] if "c10d" in call.op else 0
    flags |= _FLAG["folded"] if call.op in FOLDED else 0
    return flags | (_FLAG["ambiguous"] if call.ambiguous else 0)


def site_key(call: Call, output: Output) -> SiteKey:
    """Identity of an output while it runs."""
    index = -1 if output.index is None else output.index
    return (call.op, call.counted, call.number, output.output, index)


def _columns(
    rows: list[tuple[Any, ...]], names: tuple[str, ...], dtypes: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return {n: np.asarray(c, dtype=dtypes[n]) for n, c in zip(names, columns, strict=True)}


def _without(count: int) -> Statistics:
    statistics = Statistics()
    for _ in range(count):
        statistics.add(None)
    return statistics
