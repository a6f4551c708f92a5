"""The observer of a live watch: it reads the tensors that targets choose, and no others.

    reader = Reader(watch, [Target.parse("relu*2:0"), Target.parse("grad:fc.weight")])
    …                           # a step
    reader.take()               # [(<Site relu*2:0 …>, 9 statistics), …]

Outputs are read when their call was made, stored tensors where the site language strikes
them: parameters and buffers before the step's first forward, gradients and state before
their optimizer reads them. Statistics stay on the device until `take`.

The first step that is read places every call, so that each site can be described. From
then on only the operators that are watched are counted and read (`LeanMode`), and every
other call passes through; a filter of modules or phases needs the places in every step.

Limits: at most `MOST_SITES` sites are read; a site keeps the description of its first step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils._python_dispatch import _disable_current_modes

from fi_notebook.core.match import check_modules, check_phases, module_matches, name_matches
from fi_notebook.core.site import PHASES, Site, Target
from fi_notebook.core.stats import STATISTICS
from fi_notebook.core.unfit import Asked
from fi_notebook.core.words import too_few
from fi_notebook.engine.collectives import is_collective, is_final, qualified_operator
from fi_notebook.engine.considered import Considered
from fi_notebook.engine.filters import ModuleFilter
from fi_notebook.engine.inject import inherit, site_of
from fi_notebook.engine.intercept import Call, Interceptor, Observer, Watch
from fi_notebook.engine.operators import composed, near_operators
from fi_notebook.engine.outputs import Output, outputs
from fi_notebook.engine.stats import read_back, summary
from fi_notebook.engine.storages import is_readable, local_part
from fi_notebook.engine.stored_tensors import (
    BEFORE_FORWARD,
    check_stored,
    model_tensors,
    optimizer_tensors,
    stored_site,
)
from fi_notebook.errors import SiteError
from fi_notebook.faults.bits import dtype_name

__all__ = ["MOST_SITES", "Choice", "LeanMode", "Reader", "Reading"]

MOST_SITES = 256
"""How many sites a watch reads at most."""

NOT_READ = "statistics are not taken of sparse, nested, quantized and meta tensors"
"""Why a tensor that was met has no statistics."""

Reading = tuple[Site, np.ndarray]
"""A site, and its statistics in one step in the order of ``STATISTICS``."""

_Key = tuple[Any, ...]
_Named = tuple[str, str, torch.Tensor]


@dataclass(frozen=True)
class Choice:
    """What is to be read.

    Attributes:
        target: Which calls and outputs, or which stored tensors.
        modules: Names of modules or parameters; None is no filter.
        phases: Phases; empty is all of them.
    """

    target: Target
    modules: tuple[str, ...] | None = None
    phases: tuple[str, ...] = ()

    def check(self, watch: Watch) -> None:
        """Refuse what can choose nothing, whatever a step does.

        Raises:
            SiteError: An unknown module, phase, operator or stored tensor; names the nearest.
        """
        table = watch.table
        check_modules(self.modules or (), (*table.names, *table.parameters), table.infos[0].kind)
        check_phases(self.phases)
        if self.target.kind != "call":
            check_stored(self.target, table.model)
        elif hint := near_operators(qualified_operator(self.target.op)):
            raise SiteError(f"no operator {self.target.op!r}{hint}")

    @property
    def filters(self) -> bool:
        """Whether it must know where a call stands."""
        return self.modules is not None or bool(self.phases)


class _Aim:
    """One choice, resolved for one model.

    Attributes:
        choice: The choice.
        reached: Highest number that a call of its operator had.
        chose: Whether it ever chose anything.
    """

    def __init__(self, choice: Choice, watch: Watch) -> None:
        """Resolve the filters."""
        self.choice = choice
        self.op = qualified_operator(choice.target.op) if choice.target.kind == "call" else ""
        self.reached, self.chose = 0, False
        self._where = ModuleFilter(choice.modules, watch)
        self._considered = Considered(watch, self._where)
        self._every_name = watch.parameters.every_name
        self._phases = frozenset(PHASES.index(phase) for phase in choice.phases or PHASES)

    def at(self, call: Call, placed: bool) -> bool:
        """Whether it chooses a call, whose place is known or not; outputs are chosen by `takes`."""
        target = self.choice.target
        if target.counted != call.counted:
            return False
        self.reached = max(self.reached, call.number)
        if target.call not in (None, call.number):
            return False
        fits = target.overload in (None, call.overload)
        if self.choice.filters:
            fits = fits and call.phase in self._phases and self._where.chooses(call)
        if placed and not self.chose:
            self._considered.add(call, fits)
        return fits

    def takes(self, call: Call, output: Output) -> bool:
        """Whether it chooses an output of a chosen call."""
        target = self.choice.target
        if target.output not in (None, output.output) or target.index not in (None, output.index):
            return False
        return not self.choice.filters or self._where.chooses_output(call, output)

    def names(self, name: str, module: str) -> bool:
        """Whether it chooses a stored tensor of its kind."""
        modules = self.choice.modules
        names = self._every_name(name)
        within = modules is None or any(module_matches(m, (module, *names)) for m in modules)
        return within and name_matches(self.choice.target.op, names)

    def reason(self) -> str:
        """Why it never chose anything, in one plain clause."""
        target = self.choice.target
        if target.kind != "call":
            return f"there was no {str(target)!r} to read"
        if not self.reached:
            return f"no call of {target.op!r} was made{composed(self.op)}"
        if target.call is not None and self.reached < target.call:
            return too_few(target.call, target.op, self.reached)
        unfit = self._considered.reason(Asked.of(target, self.choice.phases, self.choice.modules))
        return unfit or f"no call of {target.op!r} fits {str(target)!r} and its filters"


class Reader:
    """Reads what the choices choose.

    Args:
        watch: What names the calls; it is asked to tell of forwards and updates.
        choices: What is to be read.
    """

    def __init__(self, watch: Watch, choices: Sequence[Choice]) -> None:
        """Resolve the choices; nothing is read before `reads` is set."""
        self.watch = watch
        self.reads = False
        self.lean = False
        self.notes: dict[str, str] = {}
        self._aims = [_Aim(choice, watch) for choice in choices]
        self._by_op: dict[str, list[_Aim]] = {}
        for aim in self._aims:
            if aim.op:
                self._by_op.setdefault(aim.op, []).append(aim)
        self._placed = any(aim.choice.filters for aim in self._aims)
        self._sites: dict[_Key, Site] = {}
        self._found: dict[_Key, torch.Tensor | None] = {}
        if any(aim.choice.target.kind != "call" for aim in self._aims):
            watch.begins.append(self._before_forward)
            watch.update_begins.append(self._before_update)

    @property
    def ops(self) -> frozenset[str]:
        """The operators that are watched; empty where stored tensors alone are."""
        return frozenset(self._by_op)

    @property
    def unread(self) -> dict[str, str]:
        """The choices that never chose anything, each with the reason."""
        return {str(a.choice.target): a.reason() for a in self._aims if not a.chose}

    def begin(self, reads: bool) -> None:
        """A step begins; whether it is read. What was read before is let go of."""
        self._found.clear()
        self.lean = bool(self._sites) and not self._placed
        self.reads = reads

    def take(self) -> list[Reading]:
        """What was read since it was last taken, read back from the devices."""
        found, self._found = self._found, {}
        rows = [row for row, taken in enumerate(found.values()) if taken is not None]
        values = np.full((len(found), len(STATISTICS)), np.nan)
        if rows:
            with _disable_current_modes():  # this is no call of the training
                taken = [values for values in found.values() if values is not None]
                values[rows] = read_back(taken)
        return [(self._sites[key], values[row]) for row, key in enumerate(found)]

    # calls

    def before(self, call: Call) -> None:
        """Nothing is to be seen before a call."""

    def after(self, call: Call, result: Any) -> Any:
        """Read the outputs that are chosen; gives the result back as it is."""
        if not self.reads:
            return result
        if not self.lean:
            inherit(call, result, self.watch)
        chosen = [aim for aim in self._by_op.get(call.op, ()) if aim.at(call, not self.lean)]
        if chosen:
            self._read_outputs(call, result, chosen)
        return result

    def _read_outputs(self, call: Call, result: Any, aims: Sequence[_Aim]) -> None:
        if is_collective(call.op) and not is_final(call.op, result):
            self.notes[call.op] = f"{call.op} is not final when it returns, and was not read"
            return
        for output in outputs(call.func, call.args, call.kwargs, result):
            takers = [aim for aim in aims if aim.takes(call, output)]
            for aim in takers:
                aim.chose = True
            if takers:
                key = (call.op, call.counted, call.number, output.output, output.index)
                self._read(key, output.tensor, partial(self._site, call, output))

    def _site(self, call: Call, output: Output) -> Site:
        if not self.lean:
            return site_of(call, output, self.watch)
        return Site(
            op=call.op,
            call=call.number,
            output=output.output,
            index=output.index,
            counted=call.counted,
            overload=call.overload,
            dtype=dtype_name(output.tensor.dtype),
            shape=tuple(output.tensor.shape),
        )

    def _read(self, key: _Key, tensor: torch.Tensor, describe: Callable[[], Site]) -> None:
        if key not in self._sites:
            if len(self._sites) >= MOST_SITES:
                self.notes["limit"] = f"only the first {MOST_SITES} sites are read"
                return
            self._sites[key] = describe()
        if key not in self._found:
            tensor = local_part(tensor)
            with torch.no_grad():
                self._found[key] = summary(tensor)
            if not is_readable(tensor):
                site = str(self._sites[key])
                self.notes[site] = f"{site} was not read: {NOT_READ}"

    # stored tensors

    def _before_forward(self, _module: nn.Module) -> None:
        if self.reads and self.watch.clock.micro_batch == 0:
            model = self.watch.table.model
            self._read_stored(BEFORE_FORWARD, lambda kind: model_tensors(model, kind))

    def _before_update(self, optimizer: Optimizer) -> None:
        if self.reads:
            watch = self.watch
            self._read_stored(("grad", "state"), lambda k: optimizer_tensors(watch, optimizer, k))

    def _read_stored(
        self, kinds: Sequence[str], tensors: Callable[[str], Iterable[_Named]]
    ) -> None:
        with _disable_current_modes():
            for aim in self._aims:
                kind = aim.choice.target.kind
                for name, module, tensor in tensors(kind) if kind in kinds else ():
                    if aim.names(name, module):
                        aim.chose = True
                        self._read_tensor(kind, name, module, local_part(tensor))

    def _read_tensor(self, kind: str, name: str, module: str, tensor: torch.Tensor) -> None:
        self._read((kind, name), tensor, lambda: stored_site(kind, name, module, tensor))


class LeanMode(Interceptor):
    """The dispatch mode of a reader: it names no more calls than the reader needs.

    Args:
        watch: What names them.
        observers: The reader alone.
    """

    def __init__(self, watch: Watch, observers: Sequence[Observer]) -> None:
        """Enter nothing yet."""
        super().__init__(watch, observers)
        (reader,) = observers
        assert isinstance(reader, Reader)
        self._reader = reader
        self._watched = reader.ops

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Pass on what nobody watches."""
        if self._reader.lean:
            facts = self._facts.get(id(func)) or self._learn(func)
            if facts.op not in self._watched:
                return func(*args, **(kwargs or {}))
        return super().__torch_dispatch__(func, types, args, kwargs)

    def name(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Call:
        """The operator, number and step of a call; its place only where that is needed."""
        if not self._reader.lean:
            return super().name(func, args, kwargs)
        watch, facts = self.watch, self._facts[id(func)]
        call = Call()
        call.func, call.args, call.kwargs = func, args, kwargs
        call.op, call.overload = facts.op, facts.overload
        call.step, call.micro_batch = watch.clock.step, watch.clock.micro_batch
        scope = watch.scope.top
        call.counted = watch.clock.begun if scope is None else scope.counted
        key = (call.op, call.counted)
        call.number = watch.numbers[key] = watch.numbers[key] + 1
        return call
