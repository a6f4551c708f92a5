"""The two forms of ``injector.json`` as pydantic models: types, limits, unknown keys.

A form is what stands in the file, checked; ``config/plans.py`` makes a plan of it. Each
field reads its text with the parser that everybody uses (`Target.parse`, `Steps.parse`,
`faults.check`), so that a plan in a file means what it means in Python.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from fi_notebook import faults
from fi_notebook.core.fault import EVERY_STEP, LIMIT, SCOPES
from fi_notebook.core.match import CodeFilter, check_phases
from fi_notebook.core.site import PHASES, Target
from fi_notebook.core.steps import Steps, ranks_of
from fi_notebook.errors import PlanError, did_you_mean

__all__ = [
    "DIRECTIONS",
    "VERBOSITIES",
    "VERSION",
    "AnchorForm",
    "FaultForm",
    "FirstForm",
    "Form",
    "PlanForm",
    "shown",
]

VERSION = 2

DIRECTIONS: Mapping[str, tuple[str, ...]] = {
    "forward": ("forward", "loss"),
    "backward": ("backward",),
    "both": ("forward", "loss", "backward"),
    "optimizer": ("optimizer",),
    "recompute": ("recompute",),
}
"""The phases of each direction; ``both`` is forward and backward and nothing else."""

VERBOSITIES = ("quiet", "normal", "verbose")


def shown(value: object) -> str:
    """What was given, short enough for a message however large or deep it is."""
    try:
        return reprlib.repr(value)
    except Exception:  # a value's own repr may raise anything  # noqa: BLE001
        return f"a value of type {type(value).__name__}"


def _word(words: Iterable[str], what: str) -> PlainValidator:
    choices = tuple(words)

    def check(value: object) -> str:
        if isinstance(value, str) and value in choices:
            return value
        raise PlanError(f"no {what} {shown(value)}{did_you_mean(str(value)[:99], choices)}")

    return PlainValidator(check)


def _list_of(check: Callable[[str], object], sample: str) -> PlainValidator:
    def read(value: object) -> tuple[str, ...]:
        if not isinstance(value, (list, tuple)) or not all(isinstance(t, str) for t in value):
            raise PlanError(f"{shown(value)} is no list of texts; expected one such as {sample}")
        for text in value:
            check(text)
        return tuple(value)

    return PlainValidator(read)


def _phase(text: str) -> None:
    check_phases((text,), PlanError)


def _operator(text: str) -> None:
    if str(Target.parse(text)) != Target.parse(text).op:
        raise PlanError(f"{shown(text)} is more than an operator; expected text such as 'detach'")


def _elements(value: Any) -> Any:
    faults.check_elements(value)
    return value


def _texts_schema(items: Mapping[str, Any] | None = None) -> WithJsonSchema:
    return WithJsonSchema({"type": "array", "items": dict(items or {"type": "string"})})


_STEPS_SCHEMA = WithJsonSchema(
    {
        "description": "a number from 0, a list of them, or text such as '2,5-7,10-', '0-100:10'",
        "anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "string"},
            {"type": "array", "items": {"type": "integer", "minimum": 0}},
        ],
    }
)
_ELEMENTS_SCHEMA = WithJsonSchema(
    {
        "description": "a word such as 'all', or a mapping of one key such as {'index': [0, 3]}",
        "anyOf": [],  # every selection, from the registry
    }
)

_Steps = Annotated[Steps, PlainValidator(Steps.parse), _STEPS_SCHEMA]
_MicroBatches = Annotated[
    Steps, PlainValidator(partial(Steps.parse, what="micro_batches")), _STEPS_SCHEMA
]
_Ranks = Annotated[Steps, PlainValidator(ranks_of), _STEPS_SCHEMA]
_Target = Annotated[Target, PlainValidator(Target.parse), WithJsonSchema({"type": "string"})]
_Targets = Annotated[tuple[str, ...], _list_of(Target.parse, '["addmm*1:0"]'), _texts_schema()]
_Modules = Annotated[tuple[str, ...], _list_of(str, '["layer.0"]'), _texts_schema()]
_Code = Annotated[tuple[str, ...], _list_of(CodeFilter.parse, '["run.py[83]"]'), _texts_schema()]
_Operators = Annotated[tuple[str, ...], _list_of(_operator, '["detach"]'), _texts_schema()]
_Phases = Annotated[
    tuple[str, ...], _list_of(_phase, '["forward"]'), _texts_schema({"enum": list(PHASES)})
]
_Direction = Annotated[
    str, _word(DIRECTIONS, "direction"), WithJsonSchema({"enum": list(DIRECTIONS)})
]
_Scope = Annotated[str, _word(SCOPES, "scope"), WithJsonSchema({"enum": list(SCOPES)})]
_Verbosity = Annotated[
    str, _word(VERBOSITIES, "verbosity"), WithJsonSchema({"enum": list(VERBOSITIES)})
]
_Elements = Annotated[Any, PlainValidator(_elements), _ELEMENTS_SCHEMA]


class Form(BaseModel):
    """A mapping in the file: no unknown keys, no silent conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, protected_namespaces=())


class AnchorForm(Form):
    """Where a clicked call stood in the golden run."""

    phase: str
    module: str
    module_call: int = Field(ge=0, lt=1 << 31)
    ordinal: int = Field(ge=0, lt=1 << 31)


class FaultForm(Form):
    """One fault: where, what, which elements, when, and the seed of its draws."""

    id: str | None = Field(default=None, min_length=1)
    target: _Target
    model: str
    parameters: dict[str, Any] = Field(default={}, validate_default=True)
    elements: _Elements = "all"
    steps: _Steps = EVERY_STEP
    seed: int = Field(default=0, ge=0, lt=LIMIT)
    modules: _Modules | None = None
    code: _Code = ()
    phases: _Phases = ()
    direction: _Direction | None = None
    scope: _Scope = "value"
    micro_batches: _MicroBatches | None = None
    probability: float = Field(default=1.0, ge=0, le=1)
    times: int | None = Field(default=None, ge=1, lt=LIMIT)
    ranks: _Ranks | None = None
    anchor: AnchorForm | None = None
    enabled: bool = True

    @field_validator("model")
    @classmethod
    def _known(cls, model: str) -> str:
        return faults.get(model).name

    @field_validator("parameters")
    @classmethod
    def _possible(cls, parameters: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        model = info.data.get("model")  # missing where it was refused itself
        return parameters if model is None else faults.check(model, parameters)

    @field_validator("direction")
    @classmethod
    def _alone(cls, direction: str | None, info: ValidationInfo) -> str | None:
        if direction is not None and info.data.get("phases"):
            raise PlanError("a fault has either phases or a direction; leave one of them out")
        return direction


class PlanForm(Form):
    """Version 2: a list of faults, and how a run with them is logged."""

    version: int = Field(ge=VERSION, le=VERSION)
    faults: tuple[FaultForm, ...] = Field(default=(), strict=False)
    modules: _Modules | None = None
    code: _Code = ()
    phases: _Phases = ()
    log_steps: _Steps | None = None
    ignore: _Operators | None = None
    verbosity: _Verbosity = "normal"


class FirstForm(Form):
    """The first form: one fault model for several targets."""

    targets: _Targets = ()
    modules: _Modules | None = None
    code: _Code = ()
    steps: _Steps = EVERY_STEP
    error_type: str | None = None
    direction: _Direction = "both"

    @field_validator("error_type")
    @classmethod
    def _known(cls, model: str | None) -> str | None:
        if model is not None:
            faults.check(model, {})
        return model
