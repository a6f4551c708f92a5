"""Fault models: what can go wrong with a tensor, exactly.

    names()                                        the fault models
    apply(tensor, "bitflip", {"count": 1}, bit=30) a copy of the tensor with a fault in it
    corrupt(tensor, name, parameters, elements, generator, context)   what the engine uses

Value models are pure functions of values; call models declare what they need. Every
draw comes from a fault's own generator, never from the global one.
"""

from fi_notebook.faults import (
    bitflips,
    bits,
    collectives,
    elements,
    missing,
    precision,
    presets,
    select_by_draw,
    select_by_place,
    select_by_value,
    select_matrix,
    values,
    wrong_data,
)
from fi_notebook.faults.bits import describe_bit
from fi_notebook.faults.corrupt import Corruption, apply, check_tensor, corrupt, draws
from fi_notebook.faults.elements import check_elements, selections
from fi_notebook.faults.flip import flip_one
from fi_notebook.faults.parameters import REQUIRED, Parameter
from fi_notebook.faults.registry import (
    Context,
    FaultModel,
    check,
    get,
    models,
    names,
    register,
    unregister,
)
from fi_notebook.faults.seeds import comes_up, firing, generator
from fi_notebook.faults.tensors import has_memory, materialised, overlaps, refusal, unreadable

__all__ = [
    "REQUIRED",
    "Context",
    "Corruption",
    "FaultModel",
    "Parameter",
    "apply",
    "bitflips",
    "bits",
    "check",
    "check_elements",
    "check_tensor",
    "collectives",
    "comes_up",
    "corrupt",
    "draws",
    "describe_bit",
    "elements",
    "firing",
    "flip_one",
    "generator",
    "get",
    "has_memory",
    "materialised",
    "missing",
    "models",
    "names",
    "overlaps",
    "precision",
    "presets",
    "refusal",
    "register",
    "select_by_draw",
    "select_by_place",
    "select_by_value",
    "select_matrix",
    "selections",
    "unreadable",
    "unregister",
    "values",
    "wrong_data",
]
