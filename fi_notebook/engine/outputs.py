"""What a call gives: its outputs, and whether each is new, written or a view.

Outputs are the returns; where there are none (``_foreach_add_``, ``_fused_adam_``) they
are the written arguments in the order of the schema. The schema's alias annotations
say what is written and what is a view; `MUTATES_ANYWAY` lists the operators whose
schema is silent about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from fi_notebook.engine.collectives import COLLECTIVES, WAIT

__all__ = [
    "MUTATES_ANYWAY",
    "Output",
    "Schema",
    "outputs",
    "outputs_by",
    "replaced",
    "schema_of",
    "written",
    "written_by",
]

MUTATES_ANYWAY = {
    "native_batch_norm": ("running_mean", "running_var"),
    "cudnn_batch_norm": ("running_mean", "running_var"),
    "miopen_batch_norm": ("running_mean", "running_var"),
    "batch_norm_gather_stats": ("running_mean", "running_var"),
    "batch_norm_gather_stats_with_counts": ("running_mean", "running_var"),
    "_batch_norm_impl_index": ("running_mean", "running_var"),
    "_fused_moving_avg_obs_fq_helper": (
        "running_min",
        "running_max",
        "scale",
        "zero_point",
    ),
}
"""Operators that write arguments although their schema does not say so."""

FUNCTIONAL, IN_PLACE, VIEW = "functional", "in place", "view"


@dataclass(frozen=True, slots=True)
class Schema:
    """What a call's schema says of writing.

    Attributes:
        written: Names of the arguments that are written.
        kinds: For each return, ``functional``, ``in place`` or ``view``.
        arguments: Names of all arguments in order.
        collective: Whether its outputs are what a collective writes (see
            `engine.collectives`), whatever it returns.
    """

    written: tuple[str, ...]
    kinds: tuple[str, ...]
    arguments: tuple[str, ...]
    collective: bool = False


@dataclass(slots=True, eq=False)  # not frozen: one a call, and that takes thrice as long
class Output:
    """One tensor that a call gave.

    Attributes:
        tensor: The tensor.
        output: Which return (or written argument), from 0.
        index: Position in a list output, or None.
        kind: ``functional``, ``in place`` or ``view``.
    """

    tensor: torch.Tensor
    output: int
    index: int | None
    kind: str


@lru_cache(maxsize=4096)
def schema_of(func: Any) -> Schema:
    """What the schema of an operator overload says of writing."""
    schema = getattr(func, "_schema", None)
    if schema is None:  # a higher-order operator has none
        return Schema((), (), ())
    if schema.name == WAIT:  # gives its argument back, though its schema says nothing of it
        return Schema((), (IN_PLACE,), ("tensor",))
    moves = COLLECTIVES.get(schema.name)
    if moves is not None and (moves.gets or moves.point_to_point):
        arguments = tuple(a.name for a in schema.arguments)
        return Schema((moves.gets,) if moves.gets else (), (), arguments, collective=True)
    written = [a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write]
    written += MUTATES_ANYWAY.get(schema.name.rsplit("::", 1)[-1], ())
    kinds = tuple(_kind(r.alias_info) for r in schema.returns)
    return Schema(tuple(written), kinds, tuple(a.name for a in schema.arguments))


def _kind(alias: Any) -> str:
    if alias is None:
        return FUNCTIONAL
    return IN_PLACE if alias.is_write else VIEW


def written(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments that a call writes, in the order of its schema."""
    return written_by(schema_of(func), args, kwargs)


def written_by(schema: Schema, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The same where the schema is at hand."""
    if not schema.written:
        return []
    given = dict(zip(schema.arguments, args, strict=False)) | kwargs
    return [given[name] for name in schema.written if given.get(name) is not None]


def outputs(func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> list[Output]:
    """Every tensor that a call gave, in order."""
    return outputs_by(schema_of(func), args, kwargs, result)


def outputs_by(
    schema: Schema, args: Sequence[Any], kwargs: dict[str, Any], result: Any
) -> list[Output]:
    """The same where the schema is at hand."""
    if schema.collective:
        return [o for value in written_by(schema, args, kwargs) for o in _each(value, 0, IN_PLACE)]
    if isinstance(result, torch.Tensor):  # by far the most frequent
        kind = schema.kinds[0] if schema.kinds else FUNCTIONAL
        return [Output(result, 0, None, kind)]
    if result is None:
        given = written_by(schema, args, kwargs)
        return [o for n, value in enumerate(given) for o in _each(value, n, IN_PLACE)]
    if not isinstance(result, (tuple, list)):
        return []
    if isinstance(result, list) and len(schema.kinds) <= 1:  # one return, which is a list
        return list(_each(result, 0, schema.kinds[0] if schema.kinds else FUNCTIONAL))
    kinds = schema.kinds if len(schema.kinds) == len(result) else (FUNCTIONAL,) * len(result)
    pairs = zip(result, kinds, strict=True)
    return [o for n, (value, kind) in enumerate(pairs) for o in _each(value, n, kind)]


def _each(value: Any, number: int, kind: str) -> Iterator[Output]:
    if isinstance(value, torch.Tensor):
        yield Output(value, number, None, kind)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(_leaves(value)):
            if isinstance(item, torch.Tensor):
                yield Output(item, number, index, kind)


def _leaves(value: Sequence[Any]) -> Iterator[Any]:
    """The items of a list; those of a list of lists (``Tensor[][]``) one after another."""
    for item in value:
        if isinstance(item, (list, tuple)):
            yield from _leaves(item)
        else:
            yield item


def replaced(result: Any, output: Output, tensor: torch.Tensor) -> Any:
    """The result of a call with one output put in another's place."""
    if isinstance(result, torch.Tensor):
        return tensor
    items = list(result)
    if output.index is None:
        items[output.output] = tensor
    elif isinstance(items[output.output], (list, tuple)):
        items[output.output] = replaced(
            items[output.output], Output(tensor, output.index, None, ""), tensor
        )
    else:  # the result is itself the list
        items[output.index] = tensor
    return type(result)(items) if type(result) in (list, tuple) else type(result)(*items)
