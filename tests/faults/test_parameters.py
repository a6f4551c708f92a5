"""Parameters of fault models: types and ranges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fi_notebook import faults
from fi_notebook.errors import FaultError
from fi_notebook.faults.parameters import (
    REQUIRED,
    TYPES,
    Parameter,
    as_number,
    check_value,
    from_signature,
)

VALID: dict[str, list[Any]] = {
    "int": [0, -3, 10],
    "float": [0, 1.5, -2],
    "bool": [True, False],
    "str": ["", "text"],
    "choice": ["a", False],
    "value": [1, 2.5, "nan", "inf", "-inf", "+inf", math.inf],
    "ints": [3, [1, 2]],
    "mask": [255, "0xff", "0b11"],
    "mapping": [{}, {"bit": 3}],
}
INVALID: dict[str, list[Any]] = {
    "int": [True, 1.0, "1", None, [1]],
    "float": [False, "1", math.nan, math.inf, None],
    "bool": [0, 1, "true"],
    "str": [1, None, b"x"],
    "choice": ["c", 0, 0.0, None],
    "value": ["NaN ", "three", True, None, [1]],
    "ints": [[], [1, 1], [1.0], "1", True],
    "mask": ["ff", 1.5, True],
    "mapping": [[], "x", 3],
}


def parameter(kind: str, **details: Any) -> Parameter:
    """A parameter of this type."""
    return Parameter("p", kind, choices=("a", "b", False) if kind == "choice" else (), **details)


@pytest.mark.parametrize("kind", TYPES)
def test_valid_values_come_back_as_they_are(kind: str) -> None:
    """A check never changes a number."""
    for value in VALID[kind]:
        checked = check_value("m", parameter(kind), value)
        assert (checked, type(checked)) == (value, type(value))


@pytest.mark.parametrize("kind", TYPES)
def test_values_of_another_type_are_refused(kind: str) -> None:
    """With the model, the parameter, what was given and what is expected."""
    for value in INVALID[kind]:
        with pytest.raises(FaultError, match=r"^m: p=.* cannot be; expected "):
            check_value("m", parameter(kind), value)


@pytest.mark.parametrize(("value", "expected"), [(np.int64(3), 3), (np.int8(-1), -1)])
def test_numpy_integers_become_plain_ones(value: Any, expected: int) -> None:
    """So that a plan can be written as JSON."""
    checked = check_value("m", parameter("int"), value)
    assert (checked, type(checked)) == (expected, int)


@pytest.mark.parametrize("value", [np.float32(0.5), np.float64(0.5)])
def test_numpy_floats_become_plain_ones(value: Any) -> None:
    """Likewise."""
    assert type(check_value("m", parameter("float"), value)) is float


@pytest.mark.parametrize("value", [-1, 11])
def test_a_range_is_kept(value: int) -> None:
    """Both ends belong to it."""
    bounded = parameter("int", low=0, high=10)
    assert [check_value("m", bounded, end) for end in (0, 10)] == [0, 10]
    with pytest.raises(FaultError, match="a whole number from 0 to 10"):
        check_value("m", bounded, value)


def test_none_is_allowed_where_it_is_the_default() -> None:
    """A parameter may be left out by writing null in JSON."""
    assert check_value("m", parameter("int", default=None), None) is None


@pytest.mark.parametrize(
    ("text", "number"), [("inf", math.inf), ("+inf", math.inf), ("-inf", -math.inf), (3, 3)]
)
def test_text_stands_for_numbers_that_json_does_not_have(text: Any, number: float) -> None:
    """Infinities as text; NaN in the next line."""
    assert as_number(text) == number
    assert math.isnan(as_number("nan"))


def test_parameters_are_read_from_a_signature() -> None:
    """From annotations, else from defaults, else a number; without default it is required."""

    def model(
        values: Any, ctx: Any, *, a: int, b: Any = "x", c: Any = 1.5, d: bool = True, e: Any = None
    ) -> Any:
        return values

    read = [(p.name, p.type, p.default) for p in from_signature(model)]
    assert read == [
        ("a", "int", REQUIRED),
        ("b", "str", "x"),
        ("c", "float", 1.5),
        ("d", "bool", True),
        ("e", "value", None),
    ]
    assert from_signature(model)[0].required
    assert repr(REQUIRED) == "REQUIRED"


@pytest.mark.parametrize("name", faults.names())
def test_every_parameter_has_a_known_type_and_a_valid_default(name: str) -> None:
    """The registry itself keeps the rules, for the form and the schema."""
    for known in faults.get(name).parameters:
        assert known.type in TYPES
        assert (known.type == "choice") == bool(known.choices)
        if not known.required:
            assert check_value(name, known, known.default) == known.default
