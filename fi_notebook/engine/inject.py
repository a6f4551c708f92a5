"""The observer that strikes: it puts a fault into the outputs of the calls it chooses.

How depends on what the output is:

    functional   a new tensor: written where it lies (autograd saves what it reads)
    in place     the written argument: written where it lies
    view         a copy is returned, so that only readers of this output see the fault;
                 with ``scope="storage"`` the base is written, and the fault persists

Limits: a view that is struck by value no longer shares memory with its base, so a
later write through either does not reach the other; such a firing says ``unsafe_view``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from fi_notebook import faults
from fi_notebook.core.fault import Fault
from fi_notebook.core.run import Injection, NotInjected
from fi_notebook.core.site import PHASES, Site
from fi_notebook.core.stats import TensorStats
from fi_notebook.engine.aim import Aim
from fi_notebook.engine.intercept import OPTIMIZER, OTHER, Call, Watch
from fi_notebook.engine.outputs import (
    FUNCTIONAL,
    VIEW,
    Output,
    outputs,
    replaced,
    written,
)
from fi_notebook.engine.stats import dtype_name, tensor_stats
from fi_notebook.engine.storages import StorageMap, storage_of, tensors_in
from fi_notebook.engine.stored import StoredStriker
from fi_notebook.errors import FaultError

__all__ = ["Striker", "site_of"]

logger = logging.getLogger("fi_notebook")


class Striker:
    """Strikes the calls that the faults of a plan choose.

    Args:
        plan: The faults, in order.
        watch: What names the calls.
        rank: Rank of this process.
        keep_tensors: Whether an injection keeps the whole tensor before and after.
        fired: Called with each injection.
    """

    def __init__(
        self,
        plan: Sequence[Fault],
        watch: Watch,
        *,
        rank: int = 0,
        keep_tensors: bool = False,
        fired: Callable[[Injection], None] | None = None,
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
                self._by_op.setdefault(aim.fault.target.op, []).append(aim)
        self._struck_views: StorageMap[int] = StorageMap()
        self._previous: dict[tuple[str, int, int | None], torch.Tensor] = {}
        self._saved: list[tuple[torch.Tensor, torch.Tensor]] = []

    def due(self, step: int) -> bool:
        """Whether any fault strikes in a step."""
        return any(aim.due(step) for aim in self.aims)

    def count(self, fired: Mapping[str, int]) -> None:
        """Take into account how many times each fault fired before."""
        for aim in self.aims:
            aim.fired = fired.get(aim.fault.id, 0)

    def not_injected(self) -> tuple[NotInjected, ...]:
        """Every enabled fault that never fired, with the reason."""
        return tuple(
            NotInjected(aim.fault.id, aim.reason())
            for aim in self.aims
            if aim.fault.enabled and not aim.fired
        )

    def before(self, call: Call) -> None:
        """Keep what a fault of this call will need: what is written, as it was."""
        self._saved = []
        for aim in self._by_op.get(call.op, ()):
            if "call" in faults.get(aim.fault.model).needs and aim.at(call):
                self._saved = [
                    (tensor, tensor.detach().clone())
                    for tensor in tensors_in(written(call.func, call.args, call.kwargs))
                ]

    def after(self, call: Call, result: Any) -> Any:
        """Strike the outputs that are chosen; gives the result as others shall see it."""
        self._note_unsafe(call)
        chosen = [aim for aim in self._by_op.get(call.op, ()) if aim.at(call)]
        for aim in chosen:
            made = outputs(call.func, call.args, call.kwargs, result)
            for output in made:
                if aim.takes(output) and self._comes_up(aim, call, output):
                    result = self._strike(aim, call, output, result)
        self._remember(call, result)
        return result

    def _comes_up(self, aim: Aim, call: Call, output: Output) -> bool:
        if not aim.armed:
            return False
        if aim.fault.probability >= 1:
            return True
        draw = torch.rand((), generator=self._generator(aim.fault, call, output, "trigger"))
        return float(draw) < aim.fault.probability

    def _generator(
        self, fault: Fault, call: Call, output: Output, *more: str, device: Any = "cpu"
    ) -> torch.Generator:
        place = (call.op, call.number, output.output, output.index)
        identity = (fault.id, self.rank, max(call.step, 0), *place, *more)
        return faults.generator(fault.seed, *identity, device=device)

    def _strike(self, aim: Aim, call: Call, output: Output, result: Any) -> Any:
        """Strike one output; where its shape or dtype does not allow it, say so."""
        kind = _kind(call, output)
        site = site_of(call, output, self.watch)
        step = max(call.step, 0)
        hit = self.strike(
            aim, site, step, output.tensor, kind, lambda: self._corruption(aim.fault, call, output)
        )
        if hit is None or hit[1] is output.tensor:
            return result
        self._struck_views.set(output.tensor, len(self.injections) - 1)
        self._struck_views.set(hit[1], len(self.injections) - 1)
        return replaced(result, output, hit[1])

    def strike(
        self,
        aim: Aim,
        site: Site,
        step: int,
        tensor: torch.Tensor,
        kind: str,
        corrupt: Callable[[], faults.Corruption],
    ) -> tuple[faults.Corruption, torch.Tensor] | None:
        """Strike one tensor and record it.

        Returns:
            The corruption and the tensor that readers shall see, or None where the
            tensor does not allow the fault.
        """
        try:
            with torch.no_grad():
                corruption = corrupt()
        except FaultError as error:
            aim.refusal = f"at {site}: {error}"
            logger.warning("%s did not strike %s: %s", aim.fault.id, site, error)
            return None
        before = self._look(tensor)
        struck = _written(tensor, corruption, kind, aim.fault.scope)
        aim.fired += 1
        self._record(aim.fault, site, step, kind, corruption, before, self._look(struck))
        return corruption, struck

    def _corruption(self, fault: Fault, call: Call, output: Output) -> faults.Corruption:
        tensor = output.tensor
        context = faults.Context(
            inputs=tuple(tensors_in((*call.args, *call.kwargs.values()))),
            previous=self._previous_value(fault, call, output),
        )
        generator = self._generator(fault, call, output, device=tensor.device)
        return faults.corrupt(
            tensor, fault.model, fault.parameters, fault.elements, generator, context
        )

    def _previous_value(self, fault: Fault, call: Call, output: Output) -> torch.Tensor | None:
        needs = faults.get(fault.model).needs
        if "call" in needs:
            return self._instead(fault, call, output)
        if "previous" in needs:
            return self._previous.get((call.op, output.output, output.index))
        return None

    def _instead(self, fault: Fault, call: Call, output: Output) -> torch.Tensor | None:
        """What an in-place call would have left had it not run, or run twice."""
        before = next((b for t, b in self._saved if t is output.tensor), None)
        if before is None:
            raise FaultError(
                f"{fault.model!r} needs a call that writes an argument; {call.op} writes none"
            )
        if fault.model != "duplicate":
            return before
        once = output.tensor.detach().clone()
        call.func(*call.args, **call.kwargs)
        twice = output.tensor.detach().clone()
        output.tensor.detach().copy_(once)
        return twice

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
            rank=self.rank,
            _tensors=(before[1], after[1]) if self._keep else None,
        )
        self.injections.append(injection)
        logger.info("injecting fault to %s", site)
        if self._fired is not None:
            self._fired(injection)

    def _remember(self, call: Call, result: Any) -> None:
        for aim in self._by_op.get(call.op, ()):
            if "previous" in faults.get(aim.fault.model).needs and aim.in_filters(call):
                for output in outputs(call.func, call.args, call.kwargs, result):
                    key = (call.op, output.output, output.index)
                    self._previous[key] = output.tensor.detach().clone()

    def _note_unsafe(self, call: Call) -> None:
        """A write near a view that was struck by value: its readers miss it."""
        if not self.injections or call.phase in (OPTIMIZER, OTHER) or call.parameter:
            return
        for tensor in tensors_in(written(call.func, call.args, call.kwargs)):
            number = self._struck_views.get(tensor)
            if number is not None and not self.injections[number].note:
                note = (
                    f"unsafe_view: {call.op}*{call.number} writes memory that the struck view "
                    "shared; the write does not reach both (use scope='storage')"
                )
                self.injections[number] = replace(self.injections[number], note=note)
                logger.warning("%s at %s", note, self.injections[number].site)


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
        parameter=call.parameter,
        code=tuple(frame for stack in reversed(stacks) for frame in watch.sources.frames(stack)),
        dtype=dtype_name(output.tensor.dtype),
        shape=tuple(output.tensor.shape),
    )


def _kind(call: Call, output: Output) -> str:
    """The kind of an output; a new tensor that shares its input's memory is a view."""
    if output.kind != FUNCTIONAL:
        return output.kind
    storage = storage_of(output.tensor)
    if storage is None:
        raise FaultError(f"a tensor of layout {output.tensor.layout} cannot be struck")
    inputs = (storage_of(t) for t in tensors_in((*call.args, *call.kwargs.values())))
    shared = any(s is not None and s._cdata == storage._cdata for s in inputs)
    return VIEW if shared else FUNCTIONAL


def _written(
    tensor: torch.Tensor, corruption: faults.Corruption, kind: str, scope: str
) -> torch.Tensor:
    """The tensor that readers shall see: the same one, or a copy of a view."""
    by_value = kind == VIEW and scope == "value"
    target = faults.materialised(tensor) if by_value else tensor
    with _unsafe_preserve_version_counter(target):
        corruption.write_into(target)
    return target
