"""What the page's fault form is made of, and the Python lines that say the same.

models_payload()      every fault model with its parameters, from the registry
refused_models(trace, row)   {"drop_rank": "is for collectives; relu is none"}
selections_payload()  every way to choose elements
arm_line(fault)       session.arm("relu*2:0", "bitflip", elements={"index": [0, 3]}, bit=31)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fi_notebook import faults
from fi_notebook.core.fault import Fault
from fi_notebook.core.site import Site
from fi_notebook.core.trace import Trace
from fi_notebook.engine import arming
from fi_notebook.errors import FiError

__all__ = ["arm_line", "models_payload", "refused_models", "selections_payload"]


def models_payload() -> list[dict[str, Any]]:
    """Every fault model as plain data, by group."""
    return [
        {
            "name": model.name,
            "group": model.group,
            "kind": model.kind,
            "summary": model.summary,
            "source": model.source,
            "parameters": [_parameter(each) for each in model.parameters],
            "needs": _needs(model),
        }
        for model in faults.models()
    ]


def _needs(model: faults.FaultModel) -> str:
    """What a model asks for that requires no parameter, but one of several; else nothing."""
    required = any(each.required for each in model.parameters)
    return "" if required or model.relate is None else model.relate({})


def refused_models(golden: Trace, row: int) -> dict[str, str]:
    """Every fault model that cannot strike a site whatever its parameters, with the reason."""
    site = golden.site(row)
    flags = int(golden.calls["flags"][golden.site_columns["call"][row]])
    reasons = {
        model.name: arming.unmet(model.name, site.op, flags) or _unfit(model, site)
        for model in faults.models()
    }
    return {name: reason for name, reason in reasons.items() if reason}


def _unfit(model: faults.FaultModel, site: Site) -> str:
    """Why a tensor like a site's refuses a model, with its example and at its mildest alike."""
    lows = {each.name: each.low or 0 for each in model.parameters}
    mildest = {name: lows[name] for name in model.example if name in lows}
    reasons = [_refusal(model.name, given, site) for given in (model.example, mildest)]
    return reasons[0] if all(reasons) else ""


def _refusal(name: str, parameters: Mapping[str, Any], site: Site) -> str:
    try:
        faults.check_tensor(name, parameters, "all", site.dtype, site.shape)
    except FiError as error:
        return str(error).removeprefix(f"{name}: ")
    return ""


def _parameter(parameter: faults.Parameter) -> dict[str, Any]:
    required = parameter.default is faults.REQUIRED
    return {
        "name": parameter.name,
        "type": parameter.type,
        "required": required,
        "default": None if required else parameter.default,
        "choices": list(parameter.choices),
        "unit": parameter.unit,
        "summary": parameter.summary,
    }


def selections_payload() -> list[dict[str, Any]]:
    """Every way to choose elements, with an example of its argument."""
    return [
        {"name": each.name, "summary": each.summary, "example": _example(each.name, each.examples)}
        for each in faults.selections()
    ]


def _example(name: str, examples: tuple[Any, ...]) -> str | None:
    """The argument of the first example as a person would type it; None for a bare word."""
    for example in examples:
        if not isinstance(example, str):
            argument = example[name]
            return argument if isinstance(argument, str) else json.dumps(argument)
    return None


def arm_line(fault: Fault, session: str = "session") -> str:
    """The call of ``session.arm`` that makes this fault.

    Args:
        fault: The fault.
        session: What a person calls the session.

    Returns:
        The line, in Python.
    """
    given: dict[str, Any] = {}
    if fault.elements != "all":
        given["elements"] = fault.elements
    given |= {"steps": str(fault.steps), "seed": fault.seed}
    optional: dict[str, Any] = {"scope": "value", "probability": 1.0, "times": None}
    optional |= {"modules": None, "code": (), "phases": ()}
    given |= {k: getattr(fault, k) for k, v in optional.items() if getattr(fault, k) != v}
    sets = {"micro_batches": fault.micro_batches, "ranks": fault.ranks}
    given |= {name: str(chosen) for name, chosen in sets.items() if chosen is not None}
    given |= fault.parameters
    arguments = [repr(str(fault.target)), repr(fault.model)]
    arguments += [f"{name}={value!r}" for name, value in given.items()]
    return f"{session}.arm({', '.join(arguments)})"
