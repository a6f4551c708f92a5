"""Parameters of fault models: what they are, and whether a given value can be one.

Types, the same in Python, JSON and the widget's form::

    int, float, bool, str, choice
    value    a number, or "nan", "inf", "-inf" (JSON has no such numbers)
    ints     a whole number, or a list of several distinct ones
    mask     a bit mask: a whole number, or text such as "0x8000"
    mapping  parameters of another fault model

Checking gives back plain Python values and never changes a number.
"""

from __future__ import annotations

import inspect
import math
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Final, TypeVar

from fi_notebook.core.fault import LIMIT
from fi_notebook.errors import FaultError, did_you_mean, short

__all__ = ["REQUIRED", "TYPES", "Parameter", "as_number", "check_value", "from_signature"]

TYPES: Final = ("int", "float", "bool", "str", "choice", "value", "ints", "mask", "mapping")
"""Types of parameters."""


class _Required:
    """The type of `REQUIRED`."""

    def __repr__(self) -> str:
        return "REQUIRED"


Number = TypeVar("Number", int, float)

REQUIRED: Final = _Required()
"""Default of a parameter that must be given."""

_NONFINITE: Final = {
    "nan": math.nan,
    "inf": math.inf,
    "+inf": math.inf,
    "-inf": -math.inf,
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a fault model.

    Attributes:
        name: Its name.
        type: One of `TYPES`.
        default: Value where it is left out; `REQUIRED` where it must be given; None
            where it may be left out and has no value then.
        low: Smallest value.
        high: Largest value.
        choices: What a ``choice`` may be.
        unit: Unit, or ``""``.
        summary: One sentence.
    """

    name: str
    type: str
    default: Any = REQUIRED
    low: float | None = None
    high: float | None = None
    choices: tuple[Any, ...] = ()
    unit: str = ""
    summary: str = ""

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is REQUIRED


def as_number(value: Any) -> int | float:
    """A parameter of type ``value`` as a Python number: ``"-inf"`` is minus infinity."""
    return _NONFINITE[value] if isinstance(value, str) else value


def check_value(model: str, parameter: Parameter, value: Any) -> Any:
    """Check one parameter and give it back as a plain Python value.

    Args:
        model: Name of the fault model, for the message.
        parameter: What is expected.
        value: What was given.

    Raises:
        FaultError: It is of the wrong type or can never be.
    """
    if value is None and parameter.default is None:
        return None
    checked = _CHECKS[parameter.type](parameter, value)
    if checked is None:
        hint = ""
        if parameter.type == "choice" and isinstance(value, str):
            hint = did_you_mean(value, [c for c in parameter.choices if isinstance(c, str)])
        if parameter.high is None and isinstance(value, int) and abs(value) >= LIMIT:
            hint = ", below 2**63" if parameter.type == "int" else " that float64 can hold"
        expected = "" if hint.startswith("; expected") else f"; expected {_expected(parameter)}"
        raise FaultError(f"{model}: {parameter.name}={short(value)} cannot be{expected}{hint}")
    return checked


def _expected(parameter: Parameter) -> str:
    """What would be valid, in words."""
    kinds = {
        "int": "a whole number",
        "float": "a finite number",
        "bool": "True or False",
        "str": "text",
        "choice": "one of " + ", ".join(map(repr, parameter.choices)),
        "value": "a number, 'nan', 'inf' or '-inf'",
        "ints": "a whole number, or a list of distinct ones",
        "mask": "a whole number, or text such as '0x8000'",
        "mapping": "a mapping of parameters by name",
    }
    low, high = parameter.low, parameter.high
    if low is not None and high is not None:
        return f"{kinds[parameter.type]} from {low} to {high}"
    if low is not None:
        return f"{kinds[parameter.type]} of at least {low}"
    return kinds[parameter.type]


def _bounded(parameter: Parameter, number: Number) -> Number | None:
    below = parameter.low is not None and not number >= parameter.low
    above = parameter.high is not None and not number <= parameter.high
    return None if below or above else number


def _int(parameter: Parameter, value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        return None
    number = int(value)
    too_large = parameter.high is None and abs(number) >= LIMIT
    return None if too_large else _bounded(parameter, number)


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    number = int(value) if isinstance(value, Integral) else float(value)
    return None if isinstance(number, int) and abs(number) > sys.float_info.max else number


def _float(parameter: Parameter, value: Any) -> int | float | None:
    number = _number(value)
    if number is None or not (isinstance(number, int) or math.isfinite(number)):
        return None
    return _bounded(parameter, number)


def _value(parameter: Parameter, value: Any) -> int | float | str | None:
    if isinstance(value, str):
        return value if value in _NONFINITE else None
    number = _number(value)
    return None if number is None else _bounded(parameter, number)


def _bool(_parameter: Parameter, value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _str(_parameter: Parameter, value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _choice(parameter: Parameter, value: Any) -> Any:
    same = [c for c in parameter.choices if type(c) is type(value) and c == value]
    return same[0] if same else None


def _ints(parameter: Parameter, value: Any) -> int | list[int] | None:
    if not isinstance(value, (list, tuple)):
        return _int(parameter, value)
    numbers = [_int(parameter, item) for item in value]
    if not numbers or None in numbers or len(set(numbers)) < len(numbers):
        return None
    return typing.cast("list[int]", numbers)


def _mask(parameter: Parameter, value: Any) -> int | str | None:
    if not isinstance(value, str):
        return _int(parameter, value)
    try:
        number = int(value, 0)
    except ValueError:
        return None
    return None if _bounded(parameter, number) is None else value


def _mapping(_parameter: Parameter, value: Any) -> dict[str, Any] | None:
    return dict(value) if isinstance(value, Mapping) else None


_CHECKS: Final[Mapping[str, Callable[[Parameter, Any], Any]]] = {
    "int": _int,
    "float": _float,
    "bool": _bool,
    "str": _str,
    "choice": _choice,
    "value": _value,
    "ints": _ints,
    "mask": _mask,
    "mapping": _mapping,
}


def from_signature(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """The parameters of a person's own fault model: its keyword-only arguments.

    Types come from the annotations ``int``, ``float``, ``bool``, ``str``, or from the
    defaults; anything else takes a number.
    """
    found = []
    for argument in inspect.signature(function).parameters.values():
        if argument.kind is argument.KEYWORD_ONLY:
            given = argument.default is not argument.empty
            found.append(
                Parameter(
                    argument.name,
                    _type_of(argument),
                    argument.default if given else REQUIRED,
                    summary=f"argument {argument.name} of {function.__name__}",
                )
            )
    return tuple(found)


def _type_of(argument: inspect.Parameter) -> str:
    annotation = argument.annotation
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    if name in ("int", "float", "bool", "str"):
        return str(name)
    default = type(argument.default).__name__
    return default if default in ("int", "float", "bool", "str") else "value"
