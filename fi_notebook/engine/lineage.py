"""Which forward call caused a backward call: by autograd's sequence numbers.

A forward call makes its autograd nodes just before it is dispatched, so the number
that it is the first to show is that of its node, plus one. Three things are not so
plain: an in-place call on a view makes further nodes (``CopySlices``,
``AsStridedBackward0``) just after it; an in-place call that first clones itself shows
its number through the clone; and a custom ``autograd.Function`` numbers its node
before the first call inside it. The node's name settles which call is meant.

Limits: numbers are counted by each thread for itself, so where several threads run
forwards, a number may name two calls; such a match is marked ambiguous.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import merge
from itertools import chain
from typing import Any, NamedTuple

import torch

__all__ = ["Lineage", "Origin", "is_accumulation"]

NO_NUMBER = 2**64 - 1
"""The sequence number of a node that has none (``AccumulateGrad``)."""

_NEAR = 64
"""How many nodes are looked at between the last one that made a call and an accumulation."""

_REENTRANT = "CheckpointFunctionBackward"
"""The node of a checkpoint whose calls all come after the first, which is said to have made it."""

_AFTER_THE_CALL = ("CopySlices", "AsStridedBackward")


class Origin(NamedTuple):
    """What a backward call takes from the call that made its node.

    Attributes:
        row: Row of that call in the trace.
        op: Its operator packet.
        module: Row of its module.
        module_call: Which call of that module.
        stacks: Numbers of its source stacks: its own, then those of what caused it.
        in_place: Whether it wrote an argument.
    """

    row: int
    op: str
    module: int
    module_call: int
    stacks: tuple[int, ...]
    in_place: bool

    @property
    def stack(self) -> int:
        """Number of its own source stack."""
        return self.stacks[0]


_Place = tuple[str, int, int]
"""The operator, the module's row and the number of the module call of a call."""


@dataclass
class _Thread:
    floor: int = 0  # nodes below it were made before anything was recorded
    shown: list[int] = field(default_factory=list)  # never falls: a counter
    origins: list[Origin] = field(default_factory=list)
    step_start: int = 0  # calls before it belong to the step before
    places: dict[_Place, list[int]] = field(default_factory=dict)  # where `origins` of a place are
    placed: int = 0  # how many origins `places` knows of; none are but where a checkpoint asks

    def near(self, at: int, places: Sequence[_Place], later_first: bool) -> Iterator[Origin]:
        """This step's calls of some places: from a position back, then onwards, or the reverse."""
        for n in range(max(self.placed, self.step_start), len(self.origins)):
            op, module, module_call = self.origins[n][1:4]
            self.places.setdefault((op, module, module_call), []).append(n)
        self.placed = len(self.origins)
        found = [self.places[place] for place in places if place in self.places]
        later = [map(each.__getitem__, range(bisect_left(each, at), len(each))) for each in found]
        earlier = [map(each.__getitem__, range(bisect_right(each, at))[::-1]) for each in found]
        ways = (merge(*earlier, reverse=True), merge(*later))
        return map(self.origins.__getitem__, chain(*(ways[::-1] if later_first else ways)))


class Lineage:
    """The calls of a step by the sequence numbers that they showed."""

    def __init__(self) -> None:
        """Start with no calls."""
        self._threads: dict[int, _Thread] = {}
        self._running: dict[int, tuple[Any, tuple[Origin | None, bool]]] = {}

    def start(self, thread: int) -> None:
        """Forget everything; nodes made until now are of no call."""
        self._threads = {thread: _Thread(floor=torch._C._autograd._get_sequence_nr())}
        self._running.clear()

    def stop(self) -> None:
        """Hold no autograd node any longer."""
        self._running.clear()

    def begin_step(self) -> None:
        """Forget the step before the last one; what came just before a step may matter."""
        for calls in self._threads.values():
            del calls.shown[: calls.step_start]
            del calls.origins[: calls.step_start]
            calls.step_start = len(calls.shown)
            calls.places, calls.placed = {}, 0

    def pass_over(self, thread: int) -> None:
        """The nodes that were made since the last call are of no call."""
        calls = self._threads.get(thread)
        if calls is not None and calls.shown:
            calls.shown.append(torch._C._autograd._get_sequence_nr())
            calls.origins.append(calls.origins[-1])
        elif calls is not None:
            calls.floor = torch._C._autograd._get_sequence_nr()

    def record(self, thread: int, origin: Origin) -> None:
        """Remember a call with the number that it shows; ask inside its dispatch."""
        calls = self._threads.get(thread)
        if calls is None:
            calls = self._threads[thread] = _Thread()
        calls.shown.append(torch._C._autograd._get_sequence_nr())
        calls.origins.append(origin)

    def made_node(self, thread: int) -> bool:
        """Whether the call about to be recorded is the first to show its number."""
        calls = self._threads.get(thread)
        last = calls.shown[-1] if calls and calls.shown else (calls.floor if calls else 0)
        return bool(torch._C._autograd._get_sequence_nr() > last)

    def cause(self, thread: int, node: Any) -> tuple[Origin | None, bool]:
        """The call that made the autograd node that runs in a thread.

        For ``AccumulateGrad``, which no call made, it is the call whose gradient is
        accumulated: that of the node which ran before it and leads to it.

        Returns:
            The call, or None where no call of this step made it (a graph kept from an
            earlier step), and whether several threads have one of that number.
        """
        if is_accumulation(node):
            last = self._running.get(thread)
            maker = None if last is None else _leading_to(node, last[0])
            return (None, False) if maker is None else self._made(maker)
        last = self._running.get(thread)
        if last is not None and last[0] is node:
            return last[1]
        found = self._made(node)
        self._running[thread] = (node, found)
        return found

    def made_before(
        self,
        node: Any,
        cause: Origin,
        places: Sequence[_Place],
        same: Callable[[Origin], bool],
    ) -> Origin | None:
        """The call of this step that a checkpoint makes again.

        Args:
            node: The node that runs, for whose tensors it is made again.
            cause: The call that made that node: the first of a reentrant checkpoint, else
                in general the last that is made again.
            places: Its operator with each module call that it may have been made in.
            same: Whether a call of these is the same but for when it is made.

        Returns:
            The nearest such call, or None.
        """
        for calls in self._threads.values():
            at = bisect_left(calls.origins, cause)
            if calls.origins[at : at + 1] == [cause]:
                near = calls.near(at, places, later_first=node.name() == _REENTRANT)
                return next(filter(same, near), None)
        return None

    def _made(self, node: Any) -> tuple[Origin | None, bool]:
        number = node._sequence_nr()
        if number == NO_NUMBER:
            return None, False
        name = node.name()
        found = [self._in_thread(calls, number, name) for calls in self._threads.values()]
        origins = [origin for origin in found if origin is not None]
        return (origins[0] if origins else None), len(origins) > 1

    @staticmethod
    def _in_thread(calls: _Thread, number: int, name: str) -> Origin | None:
        if number < calls.floor or not calls.shown or number + 1 < calls.shown[0]:
            return None
        first = bisect_left(calls.shown, number + 1)
        past = bisect_right(calls.shown, calls.shown[first]) if first < len(calls.shown) else first
        group = calls.origins[first:past]
        for origin in group:
            if _fits(origin.op, name):
                return origin
        if any(part in name for part in _AFTER_THE_CALL):
            upto = bisect_right(calls.shown, number + 1)
            writes = (o for o in reversed(calls.origins[:upto]) if o.in_place)
            return next(writes, None) or _first(group)
        return _first(group)


def is_accumulation(node: Any) -> bool:
    """Whether a node accumulates a gradient into a tensor."""
    return getattr(node, "variable", None) is not None


def _leading_to(wanted: Any, node: Any) -> Any:
    """The node below (or at) one that leads to another at once, or None."""
    waiting = [node]
    for _ in range(_NEAR):
        if not waiting:
            return None
        node = waiting.pop(0)
        children = [child for child, _ in node.next_functions if child is not None]
        if any(child is wanted for child in children):
            return node
        waiting += children
    return None


def _first(group: list[Origin]) -> Origin | None:
    return group[0] if group else None


@lru_cache(maxsize=4096)
def _fits(op: str, node_name: str) -> bool:
    """Whether a node's name is that of the operator: ``DivBackward0`` is ``div_``'s."""
    node = re.sub(r"(Backward\w*)?$", "", node_name.rsplit("::", 1)[-1])
    return _plain(node) == _plain(op.rsplit("::", 1)[-1])


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
