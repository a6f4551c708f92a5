from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from fi_notebook import config, faults
from fi_notebook.core.fault import FaultPlan
from fi_notebook.errors import PlanError

FAULT = {"target": "relu*1:0", "model": "bitflip", "parameters": {"bit": 31}}


def test_every_fault_model_stands_in_it_with_its_parameters() -> None:
    """The names and parameters come from the registry."""
    fault = config.schema()["$defs"]["FaultForm"]
    assert fault["properties"]["model"]["enum"] == faults.names()
    models = {rule["if"]["properties"]["model"]["const"]: rule["then"] for rule in fault["allOf"]}
    for name in faults.names():
        described = models[name]["properties"]["parameters"]["properties"]
        assert list(described) == [parameter.name for parameter in faults.get(name).parameters]
    assert models["scale"]["required"] == ["parameters"]  # factor= has no default


def test_it_is_plain_json() -> None:
    """It can be written, and names the standard that it follows."""
    assert json.loads(json.dumps(config.schema(), allow_nan=False))["$schema"].endswith("schema")


@pytest.mark.parametrize(
    ("plan", "valid"),
    [
        ({"version": 2, "faults": [FAULT]}, True),
        ({"version": 2, "faults": [FAULT | {"steps": "0-3", "elements": {"index": [0]}}]}, True),
        ({"targets": ["mm"], "modules": [], "steps": [4], "error_type": "zero"}, True),
        ({"version": 2, "faults": [FAULT | {"stepz": 1}]}, False),
        ({"version": 2, "faults": [FAULT | {"model": "bitflp"}]}, False),
        ({"version": 2, "faults": [FAULT | {"parameters": {"bits": 1}}]}, False),
        ({"version": 2, "faults": [{"target": "mm", "model": "scale"}]}, False),
        ({"version": 2, "faults": [FAULT | {"elements": "nonzero"}]}, True),
        ({"version": 2, "faults": [FAULT | {"elements": {"rows": 1}}]}, False),
        ({"version": 2, "faults": [FAULT | {"elements": "row"}]}, False),
        ({"version": 2, "faults": [FAULT | {"elements": {"all": 1}}]}, False),
        ({"version": 2, "faults": [FAULT | {"elements": {"row": 1, "column": 2}}]}, False),
        ({"version": 2, "faults": [FAULT | {"steps": [0, "4-5"]}]}, False),
        ({"version": 3}, False),
        ({"target": ["mm"]}, False),
    ],
)
def test_an_editor_judges_as_the_loader_does(plan: dict[str, Any], valid: bool) -> None:
    """What the schema allows is what the loader reads."""
    judge = jsonschema.Draft202012Validator(config.schema())
    jsonschema.Draft202012Validator.check_schema(config.schema())
    assert judge.is_valid(plan) is valid
    assert _is_read(plan) is valid


def _is_read(plan: dict[str, Any]) -> bool:
    try:
        FaultPlan.load(plan)
    except PlanError:
        return False
    return True


@pytest.mark.parametrize(
    "elements", [each for one in faults.selections() for each in one.examples], ids=str
)
def test_every_selection_of_the_registry_stands_in_it(elements: Any) -> None:
    """As a word, or as a mapping of one key with its summary."""
    found = config.schema()["$defs"]["FaultForm"]["properties"]["elements"]
    assert jsonschema.Draft202012Validator(found).is_valid(elements)
