"""The observer that strikes: it puts a fault into the outputs of the calls it chooses.

How depends on what the output is:

    functional   a new tensor: written where it lies (autograd saves what it reads)
    in place     the written argument: written where it lies
    view         a copy is returned, so that only readers of this output see the fault;
                 with ``scope="storage"`` the base is written, and the fault persists
    collective   after its wait; what a rank gives is struck before (`engine.ranks`)

Limits: a view that is struck by value no longer shares memory with its base, so a
later write through either does not reach the other; such a strike says ``unsafe_view``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from fi_notebook import faults
from fi_notebook.core.fault import Fault
from fi_notebook.core.injection import NO_ELEMENT, Injection, NotInjected
from fi_notebook.core.site import PHASES, Site
from fi_notebook.core.stats import TensorStats
from fi_notebook.engine.aim import Aim
from fi_notebook.engine.collectives import is_collective, settled
from fi_notebook.engine.intercept import OPTIMIZER, OTHER, Call, Watch, hands_down
from fi_notebook.engine.memory import OF_THE_CALL, Memory, with_copy
from fi_notebook.engine.outputs import (
    FUNCTIONAL,
    VIEW,
    Output,
    outputs,
    replaced,
    written,
)
from fi_notebook.engine.ranks import RankStriker, gives
from fi_notebook.engine.stats import tensor_stats
from fi_notebook.engine.storages import (
    StorageMap,
    address_of,
    local_part,
    shape_of,
    tensors_in,
    with_local_part,
)
from fi_notebook.engine.stored import StoredStriker
from fi_notebook.engine.world import speaker
from fi_notebook.errors import FaultError, short
from fi_notebook.faults.bits import dtype_name

__all__ = ["Striker", "inherit", "site_of"]

logger = logging.getLogger("fi_notebook")


class Striker:
    """Strikes the calls that the faults of a plan choose.

    Args:
        plan: The faults, in order.
        watch: What names the calls.
        rank: Rank of this process.
        keep_tensors: Whether an injection keeps the whole tensor before and after.
        fired: Called with each injection.
        memory: What earlier steps of the run held, for `stale`.
    """

    def __init__(
        self,
        plan: Sequence[Fault],
        watch: Watch,
        *,
        rank: int = 0,
        keep_tensors: bool = False,
        fired: Callable[[Injection], None] | None = None,
        memory: Memory | None = None,
    ) -> None:
        """Aim every fault."""
        self.watch = watch
        self.rank = rank
        self.injections: list[Injection] = []
        self.aims = [Aim(fault, watch, rank) for fault in plan]
        self._keep = keep_tensors
        self._fired = fired
        self._by_op: dict[str, list[Aim]] = {}
        self.stored = StoredStriker(self.aims, watch, self)
        for aim in self.aims:
            if aim.fault.target.kind == "call":
                self._by_op.setdefault(aim.op, []).append(aim)
        self._struck_views: StorageMap[int] = StorageMap()
        self.memory = Memory() if memory is None else memory
        self.ranks = RankStriker(self)

    def due(self, step: int) -> bool:
        """Whether any fault strikes in a step."""
        return any(aim.due(step) for aim in self.aims)

    def looks(self, step: int) -> bool:
        """Whether the calls of a step must be seen.

        A fault is due, learns what was before, or waits for a call that takes what it strikes.
        """
        return self.ranks.waits or any(aim.looks(step) for aim in self.aims)

    def begin_step(self, step: int, rank: int) -> None:
        """A step begins, on a rank that may be known only now."""
        self.rank = rank
        for aim in self.aims:
            aim.rank, aim.last_step = rank, max(aim.last_step, step)
        self.ranks.begin_step(step)

    def count(self, fired: Mapping[str, int]) -> None:
        """Take into account how many times each fault fired before."""
        for aim in self.aims:
            aim.fired = fired.get(aim.fault.id, 0)

    def not_injected(self) -> tuple[NotInjected, ...]:
        """Every enabled fault that never struck, with the reason."""
        for aim in self.aims:
            aim.last_step = max(aim.last_step, self.watch.clock.step)
        return tuple(aim.missed() for aim in self.aims if aim.fault.enabled and not aim.fired)

    def before(self, call: Call) -> None:
        """Strike what this rank gives, and keep what a fault of this call will need."""
        self.ranks.settle(call)
        self.stored.before(call)
        aims = self._by_op.get(call.op)
        if aims is None:
            return
        self.memory.save_written(
            call if any(OF_THE_CALL & set(a.needs) and a.at(call) for a in aims) else None
        )
        if is_collective(call.op):
            self.ranks.before(call, aims)

    def after(self, call: Call, result: Any) -> Any:
        """Strike the outputs that are chosen; gives the result as others shall see it."""
        self._note_unsafe(call)
        inherit(call, result, self.watch)
        self.ranks.keep_order(call, result)
        aims = self._by_op.get(call.op)
        if aims is None:
            return result
        moves = is_collective(call.op)
        aims = [aim for aim in aims if not (moves and gives(aim, call))]
        chosen = [aim for aim in aims if aim.at(call)]
        learning = [aim for aim in aims if aim.learns(call)]
        final = not moves or (bool(chosen or learning) and self.ranks.wait(call, result, chosen))
        given = _given(learning, call, result) if final else []
        for aim in aims:
            at = any(aim is one for one in chosen)
            if moves and aim.asks(max(call.step, 0)):
                self.ranks.reduce_otherwise(aim, call, result, chosen=at)
            elif at:
                result = self._strike_chosen(aim, call, result, final=final)
        for aim, output in given:
            self.memory.keep(aim.fault, call, output)
        if final and moves:
            made = outputs(call.func, call.args, call.kwargs, result)
            result = settled(call.op, result, [output.tensor for output in made])
        return result

    def _strike_chosen(self, aim: Aim, call: Call, result: Any, *, final: bool) -> Any:
        """Strike the outputs of a call that one fault chooses, or put it off."""
        if is_collective(call.op) and self.ranks.gets_nothing(aim, call):
            return result
        for output in outputs(call.func, call.args, call.kwargs, result):
            if aim.takes(call, output) and self.comes_up(aim, call, output):
                if final:
                    result = self._strike(aim, call, output, result)
                else:
                    self.ranks.later(aim, call, output)
        return result

    def comes_up(self, aim: Aim, call: Call, output: Output) -> bool:
        """Whether a fault strikes an output that it chooses: its limit and probability."""
        fault = aim.fault
        return aim.armed and faults.comes_up(
            fault.probability, fault.seed, *self._identity(fault, call, output)
        )

    def generator(
        self, fault: Fault, call: Call, output: Output, *, device: Any = "cpu"
    ) -> torch.Generator:
        """The generator of a fault's draws at one output."""
        return faults.generator(fault.seed, *self._identity(fault, call, output), device=device)

    def _identity(self, fault: Fault, call: Call, output: Output) -> tuple[object, ...]:
        site = Site(call.op, call.number, output.output, output.index)
        return faults.firing(fault, site, max(call.step, 0), rank=self.rank)

    def _strike(self, aim: Aim, call: Call, output: Output, result: Any) -> Any:
        """Strike one output, and give the result as others shall see it."""
        part = replace(output, tensor=local_part(output.tensor))
        struck = self.strike_output(aim, call, part, lambda: self.corruption(aim.fault, call, part))
        if struck is None or struck is part.tensor:
            return result
        self._struck_views.set(output.tensor, len(self.injections) - 1)
        self._struck_views.set(struck, len(self.injections) - 1)
        return replaced(result, output, with_local_part(output.tensor, struck))

    def strike_output(
        self,
        aim: Aim,
        call: Call,
        output: Output,
        corrupt: Callable[[], faults.Corruption],
        *,
        copied: bool = False,
    ) -> torch.Tensor | None:
        """Strike one output, or what a rank gives; see `strike`."""
        kind, site = _kind(call, output), site_of(call, output, self.watch)
        copied = copied or (kind == VIEW and aim.fault.scope == "value")
        hit = self.strike(aim, site, max(call.step, 0), output.tensor, kind, corrupt, copied=copied)
        return None if hit is None else hit[1]

    def strike(
        self,
        aim: Aim,
        site: Site,
        step: int,
        tensor: torch.Tensor,
        kind: str,
        corrupt: Callable[[], faults.Corruption],
        *,
        copied: bool = False,
    ) -> tuple[faults.Corruption, torch.Tensor] | None:
        """Strike one tensor, or a copy of it, and record it; where it cannot be, say so.

        Returns:
            The corruption and the tensor that readers shall see, or None where the
            tensor does not allow the fault.
        """
        try:
            _refuse_unreadable(tensor, aim.fault.model)
            if not copied:
                _refuse_shared(tensor, aim.fault.model)
            with torch.no_grad():
                corruption = corrupt()
        except FaultError as error:
            aim.refusal = f"at {site}: {error}"
            logger.warning(
                "%s%s did not strike %s: %s", speaker(self.rank), aim.fault.id, site, error
            )
            return None
        except Exception as error:  # of a model of a person's own
            aim.refusal = f"at {site}: {aim.fault.model} raised {short(error)}"
            raise
        before = self._look(tensor)
        struck = _written(faults.materialised(tensor) if copied else tensor, corruption)
        aim.fired += 1
        self._record(aim.fault, site, step, kind, corruption, before, self._look(struck))
        return corruption, struck

    def corruption(self, fault: Fault, call: Call, output: Output) -> faults.Corruption:
        """What a fault does to an output.

        Raises:
            FaultError: The fault cannot strike this tensor.
        """
        generator = self.generator(fault, call, output, device=output.tensor.device)
        return faults.corrupt(
            output.tensor,
            fault.model,
            fault.parameters,
            fault.elements,
            generator,
            self.memory.context(fault, call, output),
        )

    def _look(self, tensor: torch.Tensor) -> tuple[TensorStats, torch.Tensor | None]:
        """Statistics of a tensor now, and a copy where tensors are kept."""
        return tensor_stats(tensor), tensor.detach().clone() if self._keep else None

    def _record(
        self,
        fault: Fault,
        site: Site,
        step: int,
        kind: str,
        corruption: faults.Corruption,
        before: tuple[TensorStats, torch.Tensor | None],
        after: tuple[TensorStats, torch.Tensor | None],
    ) -> None:
        injection = Injection(
            fault=fault.id,
            site=site,
            step=step,
            before=before[0],
            after=after[0],
            changed=corruption.changed,
            elements=corruption.changes(site.shape),
            kind=kind,
            note="" if len(corruption.after) else NO_ELEMENT,
            rank=self.rank,
            _tensors=(before[1], after[1]) if self._keep else None,
        )
        self.injections.append(injection)
        logger.info("%sinjecting fault to %s", speaker(self.rank), site)
        if self._fired is not None:
            self._fired(injection)

    def _note_unsafe(self, call: Call) -> None:
        """A write near a view that was struck by value: its readers miss it."""
        if not self.injections or call.phase in (OPTIMIZER, OTHER) or call.parameter:
            return
        for tensor in tensors_in(written(call.func, call.args, call.kwargs)):
            number = self._struck_views.get(tensor)
            if number is not None and not self.injections[number].note:
                note = _unsafe_view(call)
                self.injections[number] = replace(self.injections[number], note=note)
                site = self.injections[number].site
                logger.warning("%s%s at %s", speaker(self.rank), note, site)


def _unsafe_view(call: Call) -> str:
    return (
        f"unsafe_view: {call.op}*{call.number} writes memory that the struck view shared; the "
        "write does not reach both (use scope='storage')"
    )


def _given(aims: Sequence[Aim], call: Call, result: Any) -> list[tuple[Aim, Output]]:
    """Copies of what a call gave, for each fault that will ask what was before."""
    return [
        (aim, with_copy(output))
        for aim in aims
        for output in outputs(call.func, call.args, call.kwargs, result)
    ]


def inherit(call: Call, result: Any, watch: Watch) -> None:
    """What an optimizer makes of a parameter belongs to it."""
    if call.parameter and hands_down(call, watch):
        scope = watch.parameters
        for output in outputs(call.func, call.args, call.kwargs, result):
            scope.inherit(output.tensor, scope.of_output(call.parameter, call.args, output))


def site_of(call: Call, output: Output, watch: Watch) -> Site:
    """The site of an output while it runs, described."""
    stacks = (call.stack,) if call.cause is None else (call.stack, *call.cause.stacks)
    return Site(
        op=call.op,
        call=call.number,
        output=output.output,
        index=output.index,
        counted=call.counted,
        overload=call.overload,
        phase=PHASES[call.phase],
        module=watch.table.infos[call.module].path,
        module_call=call.module_call,
        ordinal=call.ordinal,
        parameter=watch.parameters.of_output(call.parameter, call.args, output)
        if call.phase in (OPTIMIZER, OTHER)
        else call.parameter,
        code=tuple(frame for stack in reversed(stacks) for frame in watch.sources.frames(stack)),
        dtype=dtype_name(output.tensor.dtype),
        shape=shape_of(output.tensor),
    )


def _refuse_unreadable(tensor: torch.Tensor, name: str) -> None:
    if reason := faults.unreadable(tensor):
        raise FaultError(f"{name} cannot strike this tensor: {reason}")


def _refuse_shared(tensor: torch.Tensor, name: str) -> None:
    if faults.overlaps(tensor):
        raise FaultError(
            f"{name} cannot strike the memory of this tensor: its elements share it (strides "
            f"{tensor.stride()}, as after expand()), so that one write would change several; "
            "strike a view with scope='value', or the tensor that it is of"
        )


def _kind(call: Call, output: Output) -> str:
    """The kind of an output; a new tensor that shares its input's memory is a view."""
    if output.kind != FUNCTIONAL:
        return output.kind
    address = address_of(output.tensor)
    inputs = tensors_in((*call.args, *call.kwargs.values()))
    shared = address is not None and any(address_of(each) == address for each in inputs)
    return VIEW if shared else FUNCTIONAL


def _written(target: torch.Tensor, corruption: faults.Corruption) -> torch.Tensor:
    """The tensor with the fault in it; autograd is not told."""
    corruption.write_into(target)
    return target
