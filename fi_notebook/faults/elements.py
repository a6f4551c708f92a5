"""Which elements of a tensor a fault strikes.

A selection is a word or a one-key mapping, the same in Python and JSON::

    "all"  {"index": [0, 3]}  {"count": 5}  {"row": 2}  {"tile": [4, 4]}  {"where": "> 0.5"}

Indices are flat, in row-major order of the logical shape, sorted, never twice. What is
drawn comes from the fault's own generator. Selections by place and by draw cost as much
as they choose; those by value (``top``, ``nonzero``, ``where``) read the tensor once, in
pieces, and copy none of it that is contiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import torch

from fi_notebook.core.fault import Elements
from fi_notebook.errors import FaultError, did_you_mean

__all__ = [
    "Selection",
    "add_selection",
    "check_elements",
    "check_fit",
    "choose",
    "selections",
]

LOWEST: Final = -(1 << 62)
"""The least that a negative index can be, whatever the tensor."""

Shape = tuple[int, ...]
Indices = torch.Tensor | None


@dataclass(frozen=True, slots=True)
class Selection:
    """One way to choose elements.

    Attributes:
        name: The word, or the key of the mapping.
        summary: One sentence.
        examples: How it is written.
        parse: Checks the form of the argument and gives it in its plain form.
        fit: Refuses what a dtype name and shape do not allow.
        choose: ``(argument, tensor, generator) -> indices``; None means all of them.
        word: Whether the word alone chooses, without an argument.
    """

    name: str
    summary: str
    examples: tuple[Elements, ...]
    parse: Callable[[Any], Any]
    fit: Callable[[Any, str, Shape], None]
    choose: Callable[[Any, torch.Tensor, torch.Generator], Indices]
    word: bool = False


MAY_CHOOSE_NONE: Final = ("all", "fraction", "nonzero", "where")
"""Selections that an empty tensor allows: they choose nothing, and the fault is inactive."""

_selections: dict[str, Selection] = {}


def add_selection(selection: Selection) -> None:
    """Add a way to choose elements.

    Raises:
        FaultError: There is one of this name.
    """
    if selection.name in _selections:
        raise FaultError(f"element selection {selection.name!r} exists already")
    _selections[selection.name] = selection


def selections() -> list[Selection]:
    """Every way to choose elements."""
    return list(_selections.values())


def check_elements(elements: Elements) -> None:
    """Check the form of a selection; no tensor is needed.

    Args:
        elements: A word, or a mapping with one key.

    Raises:
        FaultError: It is no selection; says what would be one.
    """
    _read(elements)


def check_fit(elements: Elements, dtype: str, shape: Shape) -> None:
    """Check that a tensor of this dtype and shape has the chosen elements.

    Raises:
        FaultError: It has not; says what would be valid.
    """
    selection, argument = _read(elements)
    if not prod(shape):
        if selection.name in MAY_CHOOSE_NONE:
            return
        raise FaultError(f"elements {elements!r}: the tensor of shape {shape} is empty")
    selection.fit(argument, dtype, shape)


def choose(elements: Elements, tensor: torch.Tensor, generator: torch.Generator) -> Indices:
    """Choose elements of a tensor.

    Args:
        elements: The selection.
        tensor: Where they are chosen; it is read only by selections by value.
        generator: The fault's own generator.

    Returns:
        Flat int64 indices on the tensor's device, sorted, each once; None for all.

    Raises:
        FaultError: The tensor does not have these elements.
    """
    selection, argument = _read(elements)
    check_fit(elements, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
    indices = selection.choose(argument, tensor, generator)
    return None if indices is None else indices.to(tensor.device)


def _read(elements: Elements) -> tuple[Selection, Any]:
    """The selection and its checked argument."""
    if isinstance(elements, str):
        name, argument = elements, None
    elif isinstance(elements, Mapping) and len(elements) == 1:
        name, argument = next(iter(elements.items()))
    else:
        raise FaultError(
            f"elements {elements!r} is not a selection; expected a word such as 'all' or a "
            "mapping with one key such as {'index': [0, 3]} or {'count': 5}"
        )
    selection = _selections.get(name)
    if selection is None:
        hint = did_you_mean(str(name), _selections) or f"; expected one of {_names()}"
        raise FaultError(f"no element selection {name!r}{hint}")
    if selection.word != isinstance(elements, str):
        raise FaultError(f"elements {elements!r}: write {selection.examples[0]!r}")
    return selection, selection.parse(argument)


def _names() -> str:
    return ", ".join(map(repr, _selections))


def whole(name: str, value: Any, low: int, what: str) -> int:
    """A whole number of at least ``low``, as the argument of a selection; `LOWEST` goes unsaid.

    Raises:
        FaultError: It is not one.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < low:
        least = "" if low == LOWEST else f" of at least {low}"
        raise FaultError(
            f"elements {{{name!r}: {value!r}}}: expected {what}, a whole number{least}"
        )
    return int(value)


def options(name: str, value: Any, keys: tuple[str, str]) -> tuple[Any, Any]:
    """The argument of a selection that may have an option: plain, or a mapping of both.

    Args:
        name: The selection.
        value: Its argument: ``16``, or ``{"length": 16, "start": 0}``.
        keys: The required and the optional key.

    Returns:
        Both values; the optional one is None where it is left out.

    Raises:
        FaultError: The mapping has other keys.
    """
    if not isinstance(value, Mapping):
        return value, None
    required, optional = keys
    for key in value:
        if key not in keys:
            raise FaultError(f"elements {{{name!r}: …}}: no {key!r}{did_you_mean(str(key), keys)}")
    if required not in value:
        raise FaultError(f"elements {{{name!r}: {dict(value)}}}: {required!r} is missing")
    return value[required], value.get(optional)


def nothing_to_fit(_argument: Any, _dtype: str, _shape: Shape) -> None:
    """A selection that fits every tensor."""


NO_ARGUMENT: Final = lambda _argument: None  # noqa: E731

add_selection(
    Selection(
        "all",
        "Every element.",
        ("all",),
        NO_ARGUMENT,
        nothing_to_fit,
        lambda _argument, _tensor, _generator: None,
        word=True,
    )
)
