"""What is known of collectives and of point-to-point calls, which no schema says.

    c10d::allreduce_*1:0[0]        the tensor that is reduced, after its wait
    c10d::allgather_*1:0[3]        what rank 3 gave
    c10d::recv_*1:0[0]             struck when it is first read: it is never waited on

An operator of ``c10d`` writes its outputs in place, later: their values are final after
the wait on the `Work` that it returns. Functional collectives return a new tensor that
is final after ``wait_tensor``.

Limits: a wait is made where a collective is struck or looked at, also where the script
would have gone on; so a script whose ranks meet in one order only because a collective
is asynchronous may stop there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch

from fi_notebook.engine.world import world_size

__all__ = [
    "COLLECTIVES",
    "WAIT",
    "Collective",
    "Group",
    "contributed",
    "flat",
    "gets_nothing",
    "is_asynchronous",
    "is_collective",
    "is_final",
    "is_of_all",
    "least_of",
    "may_wait",
    "named_arguments",
    "neutral",
    "qualified_operator",
    "reduced",
    "reduction",
    "settled",
    "stays",
    "with_contribution",
]


class Collective(NamedTuple):
    """Which arguments of a call are what this rank gives, and what it gets.

    Attributes:
        gets: Argument that is written, or ``""`` where the result is a new tensor or
            nothing is got.
        gives: Argument that is this rank's contribution, or ``""``.
        root_only: ``gets`` or ``gives`` where only the root gets or gives, else ``""``.
        point_to_point: Whether it must never be waited on.
    """

    gets: str
    gives: str
    root_only: str = ""
    point_to_point: bool = False

    @property
    def in_place(self) -> bool:
        """Whether the contribution is overwritten by the result."""
        return self.gets == self.gives


COLLECTIVES: Mapping[str, Collective] = {
    "c10d::allreduce_": Collective("tensors", "tensors"),
    "c10d::allreduce_coalesced_": Collective("tensors", "tensors"),
    "c10d::allgather_": Collective("output_tensors", "input_tensors"),
    "c10d::allgather_coalesced_": Collective("output_lists", "input_list"),
    "c10d::_allgather_base_": Collective("output_tensor", "input_tensor"),
    "c10d::allgather_into_tensor_coalesced_": Collective("outputs", "inputs"),
    "c10d::reduce_scatter_": Collective("output_tensors", "input_tensors"),
    "c10d::_reduce_scatter_base_": Collective("output_tensor", "input_tensor"),
    "c10d::reduce_scatter_tensor_coalesced_": Collective("outputs", "inputs"),
    "c10d::broadcast_": Collective("tensors", "tensors", root_only="gives"),
    "c10d::reduce_": Collective("tensors", "tensors", root_only="gets"),
    "c10d::scatter_": Collective("output_tensors", "input_tensors", root_only="gives"),
    "c10d::gather_": Collective("output_tensors", "input_tensors", root_only="gets"),
    "c10d::alltoall_": Collective("output_tensors", "input_tensors"),
    "c10d::alltoall_base_": Collective("output", "input"),
    "c10d::send": Collective("", "tensors", point_to_point=True),
    "c10d::recv_": Collective("tensors", "", point_to_point=True),
    "c10d::recv_any_source_": Collective("tensors", "", point_to_point=True),
    "_c10d_functional::all_reduce": Collective("", "input"),
    "_c10d_functional::all_reduce_": Collective("input", "input"),
    "_c10d_functional::all_reduce_coalesced": Collective("", "inputs"),
    "_c10d_functional::all_reduce_coalesced_": Collective("inputs", "inputs"),
    "_c10d_functional::all_gather_into_tensor": Collective("", "input"),
    "_c10d_functional::all_gather_into_tensor_out": Collective("out", "input"),
    "_c10d_functional::all_gather_into_tensor_coalesced": Collective("", "inputs"),
    "_c10d_functional::reduce_scatter_tensor": Collective("", "input"),
    "_c10d_functional::reduce_scatter_tensor_out": Collective("out", "input"),
    "_c10d_functional::reduce_scatter_tensor_coalesced": Collective("", "inputs"),
    "_c10d_functional::all_to_all_single": Collective("", "input"),
    "_c10d_functional::broadcast": Collective("", "input", root_only="gives"),
    "_c10d_functional::broadcast_": Collective("input", "input", root_only="gives"),
    "_c10d_functional::isend": Collective("", "tensor", point_to_point=True),
    "_c10d_functional::irecv": Collective("tensor", "", point_to_point=True),
    "_c10d_functional::batch_p2p_ops": Collective("tensors", "", point_to_point=True),
    "_c10d_functional_autograd::all_gather_into_tensor": Collective("", "input"),
    "_c10d_functional_autograd::reduce_scatter_tensor": Collective("", "input"),
    "_c10d_functional_autograd::all_to_all_single": Collective("", "input"),
}
"""Every operator that moves tensors between ranks, by packet."""

_WRITES_AT_EACH_WAIT = ("c10d::_reduce_scatter_base_", "c10d::reduce_scatter_tensor_coalesced_")
"""Operators whose work, on gloo, copies the result into the output whenever it is waited on."""

WAIT = "_c10d_functional::wait_tensor"


class Group(NamedTuple):
    """The process group of a call.

    Attributes:
        handle: The group itself.
        rank: Rank of this process in it.
        size: How many ranks it has.
    """

    handle: Any
    rank: int
    size: int

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Group:
        """The group that a call names among its arguments."""
        if "process_group" in given:
            handle = torch.distributed.ProcessGroup.unbox(given["process_group"])
        else:
            from torch.distributed import distributed_c10d

            name = given["group_name"]
            resolve: Any = distributed_c10d.__dict__["_resolve_process_group"]
            handle = resolve(name) if isinstance(name, str) else name
        return cls(handle, handle.rank(), handle.size())

    def member(self, rank: int) -> int:
        """Rank among all processes of a rank of the group."""
        return torch.distributed.get_process_group_ranks(self.handle)[rank]


def is_collective(op: str) -> bool:
    """Whether an operator moves tensors between ranks."""
    return op in COLLECTIVES


def is_of_all(func: Any, op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a collective is of all ranks that train, so that none of them is without it."""
    if COLLECTIVES[op].point_to_point:
        return False
    return Group.of(named_arguments(func, args, kwargs)).size == world_size()


@lru_cache(maxsize=1024)
def qualified_operator(op: str) -> str:
    """An operator with the namespace ``c10d::`` that was left out, where only that fits."""
    if "::" in op or hasattr(torch.ops.aten, op):
        return op
    return next((name for name in COLLECTIVES if name == f"c10d::{op}"), op)


def named_arguments(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names of its schema."""
    return dict(zip(_names(func), args, strict=False)) | dict(kwargs)


@lru_cache(maxsize=1024)
def _names(func: Any) -> tuple[str, ...]:
    return tuple(argument.name for argument in func._schema.arguments)


def flat(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of an argument in order, lists of lists included."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from flat(item)


def contributed(op: str, given: Mapping[str, Any]) -> list[torch.Tensor]:
    """What this rank gives to a call, as the argument has it; empty where it gives nothing."""
    what = COLLECTIVES[op]
    if not what.gives or (what.root_only == "gives" and not _is_root(given)):
        return []
    return list(flat(given[what.gives]))


def with_contribution(
    func: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    gives: str,
    tensors: list[torch.Tensor],
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call with other tensors as this rank's contribution."""
    given, rest = list(args), dict(kwargs)
    waiting = iter(tensors)
    if gives in rest:
        rest[gives] = _refilled(rest[gives], waiting)
    else:
        position = _names(func).index(gives)
        given[position] = _refilled(given[position], waiting)
    return given, rest


def _refilled(value: Any, tensors: Iterator[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return next(tensors)
    return [_refilled(item, tensors) for item in value]


def stays(op: str, given: Mapping[str, Any]) -> bool:
    """Whether a contribution must still be what it was after the call."""
    return not COLLECTIVES[op].in_place or gets_nothing(op, given)


def gets_nothing(op: str, given: Mapping[str, Any]) -> bool:
    """Whether this rank is not the root of a call that only the root gets something of."""
    return COLLECTIVES[op].root_only == "gets" and not _is_root(given)


def _is_root(given: Mapping[str, Any]) -> bool:
    root = given.get("root_rank", given.get("src", 0))
    return Group.of(given).rank == root


def is_final(op: str, result: Any) -> bool:
    """Whether the outputs of a call may be read now: waits, where that is allowed."""
    if not may_wait(op):
        return False
    _wait(result)
    return True


def may_wait(op: str) -> bool:
    """Whether a call may be waited on: none point-to-point, nor inside a coalescing group."""
    return not (COLLECTIVES[op].point_to_point or _is_coalescing())


def is_asynchronous(func: Any, given: Mapping[str, Any]) -> bool:
    """Whether a script asked for a call to be made while it goes on."""
    return "async_op" in _names(func) and bool(given.get("async_op", True))


def _wait(result: Any) -> None:
    """Wait until what a collective returned is final."""
    if isinstance(result, torch.Tensor):
        torch.ops._c10d_functional.wait_tensor(result)
    elif isinstance(result, torch.ScriptObject):
        torch.distributed.Work.unbox(result).wait()
    elif isinstance(result, (list, tuple)):
        works = [item for item in result if isinstance(item, torch.ScriptObject)]
        for item in works or flat(result):
            _wait(item)


def settled(op: str, result: Any, made: list[torch.Tensor]) -> Any:
    """The result of a call that was waited on, so that a further wait undoes no strike."""
    if op not in _WRITES_AT_EACH_WAIT or any(tensor.device.type != "cpu" for tensor in made):
        return result
    future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
    future.set_result(made)
    c10d: Any = torch._C._distributed_c10d
    done = c10d._create_work_from_future(future).boxed()
    return (result[0], done) if isinstance(result, tuple) else done


def _is_coalescing() -> bool:
    from torch.distributed import distributed_c10d

    return bool(distributed_c10d._world.pg_coalesce_state)


def reduction(given: Mapping[str, Any]) -> str:
    """Name of the reduction of a call, such as ``sum``; ``""`` where it does not reduce."""
    operation = given.get("reduce_op")
    if operation is None:
        return ""
    kinds = torch.distributed.ReduceOp.RedOpType
    name = operation if isinstance(operation, str) else kinds(operation.op()).name
    return {"PREMUL_SUM": "sum"}.get(name, name.lower())


def neutral(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """What a rank gives that leaves a reduction as it is without it; zeros where none is made."""
    dtype = tensor.dtype
    info: Any = torch.finfo(dtype) if dtype.is_floating_point else None
    if name in ("max", "min") and info is None and dtype != torch.bool:
        info = torch.iinfo(dtype)
    fill: Any = {"product": 1, "band": -1, "min": 1}.get(name, 0)  # of truths the least is and
    if name in ("max", "min") and info is not None:
        infinite = dtype.is_floating_point and torch.finfo(dtype).bits >= 16
        high = float("inf") if infinite else info.max
        low = -high if dtype.is_floating_point else info.min
        fill = low if name == "max" else high
    return torch.full_like(tensor, fill)


def least_of(given: Mapping[str, Any], op: str, numbers: Sequence[int]) -> tuple[Any, torch.Tensor]:
    """Ask for the least of each number over the ranks of a call's group; a further collective.

    Returns:
        The work to wait for, and the tensor that then holds the numbers.
    """
    place = next(flat(given[COLLECTIVES[op].gives])).device
    least = torch.tensor(numbers, device=place)
    options = torch.distributed.AllreduceOptions()
    smallest: Any = torch.distributed.ReduceOp.MIN
    options.reduceOp = smallest
    return Group.of(given).handle.allreduce([least], options), least


def reduced(given: Mapping[str, Any], op: str, name: str) -> list[torch.Tensor]:
    """What a reducing call would give this rank by another reduction; a further collective.

    Args:
        given: The arguments of the call, its contribution as it was before.
        op: Its operator packet.
        name: The other reduction: ``sum``, ``avg``, ``max``, ``min`` or ``product``.
    """
    group, what = Group.of(given), COLLECTIVES[op]
    found = []
    for tensor in flat(given[what.gives]):
        options = torch.distributed.AllreduceOptions()
        plain = "sum" if name == "avg" else name
        options.reduceOp = getattr(torch.distributed.ReduceOp, plain.upper())
        copy = tensor.detach().clone(memory_format=torch.contiguous_format)
        group.handle.allreduce([copy], options).wait()
        found.append(_averaged(copy, group.size) if name == "avg" else copy)
    return _own_parts(op, found, group)


def _averaged(total: torch.Tensor, size: int) -> torch.Tensor:
    inexact = total.dtype.is_floating_point or total.dtype.is_complex
    return total / size if inexact else total.div(size, rounding_mode="floor")


def _own_parts(op: str, found: list[torch.Tensor], group: Group) -> list[torch.Tensor]:
    """What of the whole results belongs to this rank: all, or its part of a scatter."""
    if "reduce_scatter" not in op:
        return found
    if op == "c10d::reduce_scatter_":  # a list for each output, one tensor for each rank
        return found[group.rank :: group.size]
    return [whole.tensor_split(group.size)[group.rank] for whole in found]
