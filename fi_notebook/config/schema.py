"""The JSON schema of ``injector.json``, with every fault model and its parameters."""

from __future__ import annotations

import inspect
import re
from typing import Any

from pydantic import BaseModel, TypeAdapter

from fi_notebook import faults
from fi_notebook.config.forms import AnchorForm, FaultForm, FirstForm, PlanForm
from fi_notebook.core.fault import EVERY_STEP, Anchor, Fault, FaultPlan
from fi_notebook.faults.parameters import Parameter

__all__ = ["RECORDS", "meanings", "schema"]

RECORDS: dict[type[BaseModel], type] = {PlanForm: FaultPlan, FaultForm: Fault, AnchorForm: Anchor}
"""The record that each form of the second version is read into."""

_NONFINITE = {"enum": ["nan", "inf", "+inf", "-inf"]}
_TYPES: dict[str, dict[str, Any]] = {
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "str": {"type": "string"},
    "choice": {},
    "value": {"anyOf": [{"type": "number"}, _NONFINITE]},
    "ints": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]},
    "mask": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    "mapping": {"type": "object"},
}


def schema() -> dict[str, Any]:
    """The JSON schema of both forms of ``injector.json``."""
    found = TypeAdapter(PlanForm | FirstForm).json_schema()
    for form, record in RECORDS.items():
        properties = found["$defs"][form.__name__]["properties"]
        for key, meaning in meanings(record).items():
            if key in properties:
                properties[key]["description"] = meaning
    fault = found["$defs"]["FaultForm"]
    for form in (FaultForm, FirstForm):
        found["$defs"][form.__name__]["properties"]["steps"]["default"] = str(EVERY_STEP)
    fault["properties"]["model"]["enum"] = faults.names()
    fault["properties"]["elements"]["anyOf"] = _elements_schema()
    fault["allOf"] = [_model_schema(faults.get(name)) for name in faults.names()]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "injector.json",
        **found,
    }


def meanings(record: type) -> dict[str, str]:
    """What each attribute of a record means, from the record's own docstring."""
    _, _, listed = inspect.cleandoc(record.__doc__ or "").partition("Attributes:\n")
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", listed, flags=re.MULTILINE)
    return {name: " ".join(text.split()).replace("``", "`") for name, text in entries}


def _elements_schema() -> list[dict[str, Any]]:
    """The words that choose elements, and the mappings of one key."""
    found = faults.selections()
    mapping = {
        "type": "object",
        "properties": {one.name: {"description": one.summary} for one in found if not one.word},
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    }
    return [{"enum": [one.name for one in found if one.word]}, mapping]


def _model_schema(model: faults.FaultModel) -> dict[str, Any]:
    """If a fault has this model, its parameters are these."""
    parameters = {
        "type": "object",
        "description": model.summary,
        "properties": {p.name: _parameter_schema(p) for p in model.parameters},
        "required": [p.name for p in model.parameters if p.required],
        "additionalProperties": False,
    }
    then: dict[str, Any] = {"properties": {"parameters": parameters}}
    if parameters["required"]:
        then["required"] = ["parameters"]
    return {"if": {"properties": {"model": {"const": model.name}}}, "then": then}


def _parameter_schema(parameter: Parameter) -> dict[str, Any]:
    found = dict(_TYPES[parameter.type])
    limits = {"minimum": parameter.low, "maximum": parameter.high}
    found |= {key: limit for key, limit in limits.items() if limit is not None and "type" in found}
    if parameter.choices:
        found["enum"] = list(parameter.choices)
    if not parameter.required and parameter.default is not None:
        found["default"] = parameter.default
    unit = f" ({parameter.unit})" if parameter.unit else ""
    return found | {"description": f"{parameter.summary}{unit}"}
