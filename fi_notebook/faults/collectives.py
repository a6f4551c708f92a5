"""Fault models of collectives: what one rank contributes, or how it is reduced.

    drop_rank(rank=2)        all-reduce over ranks that hold 0, 1, 2, 3: 4 instead of 6
    duplicate_rank(rank=2)   8
    corrupt_rank(rank=2)     2: its contribution is negated
    stale_buffer(rank=2)     its contribution of the step before
    wrong_reduction(op=...)  another reduction than was asked for

They are declared here and carried out by the engine, around the collective: all ranks
read the same plan, and the named one strikes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fi_notebook.errors import FaultError
from fi_notebook.faults.parameters import Parameter
from fi_notebook.faults.registry import FaultModel, add, check, get

__all__ = ["REDUCTIONS"]

REDUCTIONS = ("sum", "avg", "max", "min", "product")
"""Reductions that ``wrong_reduction`` can do instead."""

RANK = Parameter("rank", "int", low=0, summary="The rank that goes wrong, counted in the group.")
SOURCE = "faults of ranks in large training runs: a contribution lost, repeated, stale or corrupted"


def _corruptible(given: Mapping[str, Any]) -> str:
    """Why the model of ``corrupt_rank`` cannot corrupt a contribution."""
    name = given.get("model", "negate")
    try:
        if get(name).kind != "value":
            return f"model={name!r} is a call model; expected a value model such as 'bitflip'"
        check(name, given.get("parameters", {}))
    except FaultError as error:
        return f"model={name!r}: {error}"
    return ""


_DECLARED = (
    FaultModel(
        "drop_rank",
        "collectives",
        "call",
        ("collective",),
        (RANK,),
        "Leaves out the contribution of one rank, as if it held the reduction's neutral element.",
        example={"rank": 2},
    ),
    FaultModel(
        "duplicate_rank",
        "collectives",
        "call",
        ("collective",),
        (RANK,),
        "Counts the contribution of one rank twice.",
        example={"rank": 2},
    ),
    FaultModel(
        "corrupt_rank",
        "collectives",
        "call",
        ("collective",),
        (
            RANK,
            Parameter("model", "str", "negate", summary="Value model of the corruption."),
            Parameter("parameters", "mapping", {}, summary="Parameters of that model."),
        ),
        "Corrupts the contribution of one rank by a value model.",
        example={"rank": 2, "model": "negate"},
        relate=_corruptible,
    ),
    FaultModel(
        "stale_buffer",
        "collectives",
        "call",
        ("collective",),
        (RANK,),
        "Sends again what one rank computed for this site in the step before.",
        example={"rank": 2},
    ),
    FaultModel(
        "wrong_reduction",
        "collectives",
        "call",
        ("collective",),
        (Parameter("op", "choice", choices=REDUCTIONS, summary="The reduction done instead."),),
        "Reduces by another operation than was asked for.",
        example={"op": "max"},
    ),
)


for _model in _DECLARED:
    add(replace(_model, source=SOURCE, integers="As the collective treats them."))
