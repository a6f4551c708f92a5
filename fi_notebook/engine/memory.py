"""What fault models may look at beside the values: inputs, and what there was before.

    stale         what the site was given before
    skip_update   what an in-place call wrote over
    duplicate     what a second in-place call would have left

The value before is what the same site was given in the last step: as it was computed,
whatever a fault put in its place. So a site that is stale in every step is one step late,
and does not freeze. Where a fault names one call, and the last step was not seen, it is
what the operator's previous call gave.

Limits: one tensor is kept for each site that a fault names, and one for each of all those
that a fault chooses by the operator alone.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from fi_notebook import faults
from fi_notebook.core.fault import Fault
from fi_notebook.engine.collectives import is_collective
from fi_notebook.engine.generators import Generators, saved_generator
from fi_notebook.engine.intercept import Call
from fi_notebook.engine.outputs import Output, written
from fi_notebook.engine.storages import local_part, tensors_in
from fi_notebook.errors import FaultError

__all__ = ["OF_THE_CALL", "Memory", "with_copy"]

OF_THE_CALL = frozenset({"call", "inputs"})
"""Needs of fault models for which it is copied what the call is about to write."""


def with_copy(output: Output) -> Output:
    """An output with a copy of its tensor, as it is now: of what this rank keeps of it."""
    return replace(output, tensor=local_part(output.tensor).detach().clone())


class Memory:
    """What the sites that some faults choose were given last."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self._latest: dict[tuple[str, str, int, int | None], torch.Tensor] = {}
        self._sites: dict[tuple[str, str, int, int, int | None], torch.Tensor] = {}
        self._written: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._twice: list[torch.Tensor] = []

    def save_written(self, call: Call | None) -> None:
        """Copy what a call is about to write, or forget what was copied."""
        found = () if call is None else tensors_in(written(call.func, call.args, call.kwargs))
        self._written = [(part, part.detach().clone()) for part in map(local_part, found)]
        self._twice = []

    def context(self, fault: Fault, call: Call, output: Output) -> faults.Context:
        """What a fault's model may look at.

        Raises:
            FaultError: The model needs a call that writes, and this one does not.
        """
        needs, previous = faults.get(fault.model).needs, None
        if "call" in needs:
            previous = self._instead(fault, call, output)
        elif "previous" in needs:
            previous = self.before(fault.id, call, output)
        read = tensors_in((*call.args, *call.kwargs.values()))
        inputs = tuple(self._as_read(tensor) for tensor in map(local_part, read))
        return faults.Context(inputs=inputs, previous=previous)

    def _as_read(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor as the call read it: what it wrote, as it was before."""
        return next((before for each, before in self._written if each is tensor), tensor)

    def _instead(self, fault: Fault, call: Call, output: Output) -> torch.Tensor:
        """What an in-place call would have left had it not run, or run twice."""
        place = next((n for n, (t, _) in enumerate(self._written) if t is output.tensor), None)
        if place is None:
            raise FaultError(
                f"{fault.model!r} needs a call that writes an argument; {call.op} writes none"
            )
        if fault.model != "duplicate":
            return self._written[place][1]
        if is_collective(call.op):
            raise FaultError(
                f"one rank cannot make {call.op} twice: the others would wait; use duplicate_rank"
            )
        self._twice = self._twice or self._made_twice(call)
        return self._twice[place]

    def _made_twice(self, call: Call) -> list[torch.Tensor]:
        """What a call would leave of all that it writes, made again; nothing stays of it."""
        tensors = [tensor.detach() for tensor, _ in self._written]
        once = [tensor.clone() for tensor in tensors]
        drawn = [Generators.take().restore, *map(saved_generator, _generators(call))]
        try:
            call.func(*call.args, **call.kwargs)
            return [tensor.clone() for tensor in tensors]
        finally:
            for tensor, value in zip(tensors, once, strict=True):
                tensor.copy_(value)
            for put_back in drawn:
                put_back()

    def keep(self, fault: Fault, call: Call, output: Output) -> None:
        """Remember what a site was given.

        Args:
            fault: The fault that will ask.
            call: The call.
            output: The output, with a copy of its tensor from before it was struck.
        """
        wanted = fault.target.call
        if wanted is not None:
            self._latest[fault.id, call.op, output.output, output.index] = output.tensor
        if wanted in (None, call.number):
            site = (fault.id, call.op, call.number, output.output, output.index)
            self._sites[site] = output.tensor

    def before(self, fault: str, call: Call, output: Output) -> torch.Tensor | None:
        """What the site was given before, or None where nothing was seen."""
        site = (fault, call.op, call.number, output.output, output.index)
        if site in self._sites:
            return self._sites[site]
        return self._latest.get((fault, call.op, output.output, output.index))


def _generators(call: Call) -> list[torch.Generator]:
    """The generators that a call was given."""
    given = (*call.args, *call.kwargs.values())
    return [each for each in given if isinstance(each, torch.Generator)]
