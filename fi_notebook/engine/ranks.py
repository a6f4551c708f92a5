"""Striking what a rank gives to a collective, and buffers that arrive later.

    scope="contribution"      this rank's input before the call, by any value model
    drop_rank(rank=2)         the same of one rank of the group, by a model of ranks
    wrong_reduction(op="max") every rank gets another reduction than was asked for

A contribution is written where it lies if the collective overwrites it anyway, else the
call gets a corrupted copy. What cannot be waited on (``recv_``, a coalescing group) is
struck just before the first later call that takes it, a collective included, in its step
or in the one after.

Limits: a buffer that is read without a call (``tensor.numpy()``, ``tolist()``) is read
before it is struck. A fault whose buffer no call takes by the end of the step after its own
is given up, and reported as not injected; in a session, by the end of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from fi_notebook import faults
from fi_notebook.core.valueless import MADE_LIKE
from fi_notebook.core.words import counted
from fi_notebook.engine.aim import Aim
from fi_notebook.engine.collectives import (
    COLLECTIVES,
    WAIT,
    Group,
    contributed,
    gets_nothing,
    is_asynchronous,
    is_collective,
    is_final,
    least_of,
    may_wait,
    named_arguments,
    neutral,
    reduced,
    reduction,
    stays,
    with_contribution,
)
from fi_notebook.engine.intercept import BACKWARD, Call
from fi_notebook.engine.memory import with_copy
from fi_notebook.engine.outputs import VIEW, Output, outputs, schema_of
from fi_notebook.engine.storages import overlap, tensors_in
from fi_notebook.engine.world import speaker
from fi_notebook.errors import FaultError, short
from fi_notebook.faults.tensors import take

if TYPE_CHECKING:
    from fi_notebook.engine.inject import Striker

__all__ = ["RankStriker", "moved"]

logger = logging.getLogger("fi_notebook")

CONTRIBUTION = "contribution"
_WAITING = "{} is struck when a call first takes its buffer, and none did"


@dataclass(frozen=True, eq=False)
class _Late:
    """An output that is struck when a call first takes it.

    Attributes:
        aim: The fault.
        call: The call that gives it.
        output: The output.
    """

    aim: Aim
    call: Call
    output: Output

    @property
    def name(self) -> str:
        """The call, as a target names it."""
        return f"{self.call.op}*{self.call.number}"


class RankStriker:
    """Strikes collectives for a `Striker`, which records what was done.

    Args:
        striker: What strikes one tensor and records it.
    """

    def __init__(self, striker: Striker) -> None:
        """Start with nothing pending."""
        self._striker = striker
        self._late: list[_Late] = []
        self._asked: list[Any] = []
        self._told = False
        self._given: list[torch.Tensor] = []

    def before(self, call: Call, aims: Sequence[Aim]) -> None:
        """Strike this rank's contribution, where a fault is at it."""
        given = named_arguments(call.func, call.args, call.kwargs)
        self._given = []
        tensors = contributed(call.op, given)
        struck = tensors
        for aim in aims:
            if gives(aim, call):
                struck = self._contribute(aim, call, given, struck)
        if any(aim.fault.model == "wrong_reduction" and aim.at(call) for aim in aims):
            self._given = [tensor.detach().clone() for tensor in struck]
        if any(one is not other for one, other in zip(tensors, struck, strict=True)):
            call.args, call.kwargs = with_contribution(
                call.func, call.args, call.kwargs, COLLECTIVES[call.op].gives, struck
            )

    def _contribute(
        self, aim: Aim, call: Call, given: dict[str, Any], tensors: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        """The contribution with one fault in it."""
        single = isinstance(given.get(COLLECTIVES[call.op].gives), torch.Tensor)
        places = [
            Output(tensor, 0, None if single else index, CONTRIBUTION)
            for index, tensor in enumerate(tensors)
        ]
        chosen = aim.at(call) and self._is_ours(aim, call, given, tensors)
        fresh = [with_copy(place) for place in places] if aim.learns(call) else []
        result = [
            self._struck(aim, call, given, place)
            if chosen and aim.takes(call, place) and self._striker.comes_up(aim, call, place)
            else place.tensor
            for place in places
        ]
        for place in fresh:
            self._striker.memory.keep(aim.fault, call, place)
        return result

    def _is_ours(
        self, aim: Aim, call: Call, given: dict[str, Any], tensors: list[torch.Tensor]
    ) -> bool:
        """Whether this rank is the one that goes wrong; else the reason is kept."""
        site, wanted = f"{call.op}*{call.number}", aim.fault.parameters.get("rank")
        if aim.of_ranks and wanted is not None:
            group = Group.of(given)
            if wanted >= group.size:
                size = counted(group.size, "rank")
                aim.refusal = f"{site} has {size}, there is no rank {wanted} in it"
            elif wanted != group.rank:
                aim.refusal = f"it is for rank {wanted} of the group, this is rank {group.rank}"
                left_out = not aim.fault.is_for(group.member(wanted))
                aim.refusal += f"; its ranks {aim.fault.ranks} leave that one out" * left_out
                aim.elsewhere = not left_out
            if wanted != group.rank:
                return False
        if not tensors:
            aim.refusal = f"this rank gives nothing to {site}"
            aim.elsewhere = aim.fault.ranks is None and not aim.of_ranks
        return bool(tensors)

    def _struck(self, aim: Aim, call: Call, given: dict[str, Any], place: Output) -> torch.Tensor:
        hit = self._striker.strike_output(
            aim,
            call,
            place,
            lambda: self._corruption(aim, call, given, place),
            copied=stays(call.op, given),
        )
        return place.tensor if hit is None else hit

    def _corruption(
        self, aim: Aim, call: Call, given: dict[str, Any], place: Output
    ) -> faults.Corruption:
        fault, tensor = aim.fault, place.tensor
        generator = self._striker.generator(fault, call, place, device=tensor.device)
        if not aim.of_ranks:
            return self._striker.corruption(fault, call, place)
        if fault.model == "corrupt_rank":
            parameters = faults.get(fault.model).with_defaults(fault.parameters)
            inner = parameters["model"], parameters["parameters"]
            return faults.corrupt(tensor, *inner, fault.elements, generator)
        return moved(tensor, self._instead(aim, call, given, place), fault.elements, generator)

    def _instead(self, aim: Aim, call: Call, given: dict[str, Any], place: Output) -> torch.Tensor:
        """What a rank that goes wrong gives instead."""
        name, tensor = reduction(given), place.tensor.detach()
        if aim.fault.model == "drop_rank":
            return neutral(name, tensor)
        if aim.fault.model == "duplicate_rank":
            return _twice(name, tensor, call.op)
        before = self._striker.memory.before(aim.fault.id, call, place)
        if before is None:
            raise FaultError(
                f"stale_buffer: this rank gave nothing to {call.op} before; strike step 1 or later"
            )
        if before.shape != tensor.shape or before.dtype != tensor.dtype:
            raise FaultError(
                f"stale_buffer: the contribution before has shape {tuple(before.shape)} and "
                f"{before.dtype}, this one {tuple(tensor.shape)} and {tensor.dtype}"
            )
        return before

    def wait(self, call: Call, result: Any, aims: Sequence[Aim]) -> bool:
        """Wait for a collective, where that is allowed; gives whether its outputs are final."""
        given = named_arguments(call.func, call.args, call.kwargs)
        overlapped = call.phase != BACKWARD and is_asynchronous(call.func, given)
        if overlapped and not self._told and may_wait(call.op):
            self._told = True
            logger.warning(
                "%s%s*%d was made asynchronously and is waited for here, as a fault needs what it "
                "gives: ranks that meet only because it is asynchronous wait for ever",
                speaker(self._striker.rank),
                call.op,
                call.number,
            )
        try:
            return is_final(call.op, result)
        except Exception as error:
            for aim in aims:
                aim.refusal = f"waiting for {call.op}*{call.number} failed: {short(error)}"
            raise

    def keep_order(self, call: Call, result: Any) -> None:
        """Wait in a backward for each collective, where ranks ask each other in this step.

        What a communication hook does then (``work.get_future().then(…)``) is done here and in
        its turn: else it may be in a thread of the backend, where its collectives are not seen.
        """
        if call.phase != BACKWARD or not is_collective(call.op):
            return
        if any(aim.asks(max(call.step, 0)) for aim in self._striker.aims):
            is_final(call.op, result)

    def gets_nothing(self, aim: Aim, call: Call) -> bool:
        """Whether only another rank gets what a call gives; then the reason is kept."""
        nothing = gets_nothing(call.op, named_arguments(call.func, call.args, call.kwargs))
        if nothing:
            aim.refusal = f"this rank gets nothing of {call.op}*{call.number}, its root does"
            aim.elsewhere = aim.fault.ranks is None
        return nothing

    def reduce_otherwise(self, aim: Aim, call: Call, result: Any, *, chosen: bool) -> None:
        """Put another reduction in the place of the one that was asked for, on every rank.

        Each call of the operator asks whether all ranks of its group mean it: they may number
        their calls differently, and what some of them alone make ends never.
        """
        given = named_arguments(call.func, call.args, call.kwargs)
        why = _unanswerable(aim, call, given, result)
        number = None if why else self._agreed(call, given, chosen=chosen)
        if number is not None:
            self._reduce_otherwise(aim, call, given, result, number)
        elif chosen:
            aim.refusal = why or (
                f"{call.op}*{call.number} is not the call that the fault is at on every rank of "
                "its group: ranks that make other calls count otherwise; choose the call by "
                "module, phase or line instead of its number"
            )

    def _agreed(self, call: Call, given: dict[str, Any], *, chosen: bool) -> int | None:
        """The number that all ranks draw by, where all of them mean this call."""
        work, least = least_of(given, call.op, (int(chosen), call.number))
        if not chosen:  # the others learn it; there is nothing to wait for
            self._asked = [one for one in self._asked if not one.is_completed()] + [work]
            return None
        work.wait()
        return int(least[1]) if least[0] else None

    def _reduce_otherwise(
        self, aim: Aim, call: Call, given: dict[str, Any], result: Any, number: int
    ) -> None:
        """The same of a call that all ranks mean, drawing as of one number."""
        given[COLLECTIVES[call.op].gives] = self._given
        others = reduced(given, call.op, aim.fault.parameters["op"])
        if self.gets_nothing(aim, call):
            return
        drawn = copy(call)
        drawn.number = number
        made = outputs(call.func, call.args, call.kwargs, result)
        for output, other in zip(made, others, strict=True):
            if aim.takes(call, output) and self._striker.comes_up(aim, drawn, output):
                replace = partial(self._replaced, aim, drawn, output, other)
                self._striker.strike_output(aim, call, output, replace)

    def _replaced(
        self, aim: Aim, call: Call, output: Output, other: torch.Tensor
    ) -> faults.Corruption:
        generator = self._striker.generator(aim.fault, call, output, device=other.device)
        other = other.reshape(output.tensor.shape).to(output.tensor.dtype)
        return moved(output.tensor, other, aim.fault.elements, generator)

    def later(self, aim: Aim, call: Call, output: Output) -> None:
        """Strike an output when a call first takes it."""
        late = _Late(aim, call, output)
        self._late.append(late)
        aim.waiting += 1
        aim.refusal = _WAITING.format(late.name)

    @property
    def waits(self) -> bool:
        """Whether anything is to be struck that no call has taken yet."""
        return bool(self._late)

    def settle(self, call: Call) -> None:
        """Strike what a call is about to take and what could not be struck before."""
        if not self._late or _only_looks(call):
            return
        taken = tensors_in((*call.args, *call.kwargs.values()))
        due = [o for o in self._late if any(overlap(o.output.tensor, each) for each in taken)]
        for one in self._forget(due):
            one.aim.refusal = ""
            corrupt = partial(self._striker.corruption, one.aim.fault, one.call, one.output)
            self._striker.strike_output(one.aim, one.call, one.output, corrupt)

    def begin_step(self, step: int) -> None:
        """Give up what no call took in its own step, nor in the one after."""
        for one in self._forget([one for one in self._late if one.call.step < step - 1]):
            one.aim.refusal = f"{_WAITING.format(one.name)} by the end of step {step - 1}"
            who = speaker(self._striker.rank)
            logger.warning("%s%s did not strike: %s", who, one.aim.fault.id, one.aim.refusal)

    def _forget(self, late: Sequence[_Late]) -> Sequence[_Late]:
        """Wait for some no longer."""
        self._late = [one for one in self._late if one not in late]
        for one in late:
            one.aim.waiting -= 1
        return late


def gives(aim: Aim, call: Call) -> bool:
    """Whether a fault is at what this rank gives to a call, not at what it gets."""
    if aim.fault.model == "wrong_reduction":
        return False
    what = COLLECTIVES[call.op]
    return (
        aim.of_ranks or aim.fault.scope == CONTRIBUTION or (what.point_to_point and not what.gets)
    )


def _unanswerable(aim: Aim, call: Call, given: dict[str, Any], result: Any) -> str:
    """Why ranks cannot be asked for another reduction; ``""`` where they can."""
    if not reduction(given):
        return f"{call.op} does not reduce"
    if not may_wait(call.op):
        return f"{call.op}*{call.number} is in a coalescing group"
    if _joins(aim.watch.table.model):
        return (
            "the model is in a Join, where ranks run out of inputs one by one: their steps "
            "part, and they cannot ask each other"
        )
    unfit, model = _unreadable(call, result), aim.fault.model
    at = f"at {call.op}*{call.number}"
    return unfit and f"{at}: {model} cannot strike this tensor: {unfit}"


def _joins(model: nn.Module) -> bool:
    """Whether a `torch.distributed.algorithms.Join` was begun over a part of a model."""
    configs = (getattr(module, "_join_config", None) for module in model.modules())
    return any(config is not None and config.enable for config in configs)


def moved(
    tensor: torch.Tensor, other: torch.Tensor, elements: Any, generator: torch.Generator
) -> faults.Corruption:
    """The chosen elements of a tensor become those of another one."""
    indices = faults.elements.choose(elements, tensor, generator)
    return faults.Corruption(indices, take(tensor, indices), take(other, indices))


def _unreadable(call: Call, result: Any) -> str:
    """Why what a call gave cannot be struck; ``""`` where it can."""
    made = outputs(call.func, call.args, call.kwargs, result)
    return next(filter(None, (faults.unreadable(output.tensor) for output in made)), "")


def _twice(name: str, tensor: torch.Tensor, op: str) -> torch.Tensor:
    """A contribution that counts twice in a reduction."""
    if name in ("sum", "avg"):
        return tensor + tensor
    if name == "product":
        return tensor * tensor
    if name == "bxor":
        return torch.zeros_like(tensor)
    if not name:
        raise FaultError(f"duplicate_rank: {op} does not reduce; nothing counts twice in it")
    return tensor  # a maximum, a minimum, and, or: the same twice


def _only_looks(call: Call) -> bool:
    """Whether a call makes views, reads shapes or waits: it reads no value."""
    kinds = schema_of(call.func).kinds
    views = bool(kinds) and all(kind == VIEW for kind in kinds)
    return views or call.op == WAIT or call.op in MADE_LIKE
