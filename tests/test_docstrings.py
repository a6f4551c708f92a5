"""The docstrings of all public names tell what goes in, what comes out, and what is raised."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import fi_notebook as fi
from fi_notebook.core.tree import Node
from fi_notebook.session.figures import Figures

BESIDE = {"Node": Node, "Figures": Figures}
"""What public names give, and people call."""

GIVES_NOTHING = ("None", None, inspect.Signature.empty)


def _public() -> Iterator[tuple[str, Any]]:
    """Every public function, method and property, with its name."""
    roots = {name: getattr(fi, name) for name in fi.__all__} | BESIDE
    for name, value in roots.items():
        if isinstance(value, ModuleType):
            yield from _members(name, {key: getattr(value, key) for key in value.__all__})
        else:
            yield from _members("", {name: value})


def _members(prefix: str, found: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in found.items():
        name = f"{prefix}.{key}".lstrip(".")
        if inspect.isclass(value):
            yield name, value
            own = {k: inspect.getattr_static(value, k) for k in dir(value) if k[0] != "_"}
            yield from _members(name, own)
        elif isinstance(value, (classmethod, staticmethod)):
            yield name, value.__func__
        elif isinstance(value, property):
            yield name, value.fget
        elif inspect.isfunction(value):
            yield name, value


PUBLIC = [pytest.param(value, id=name) for name, value in _public()]


def _sections(value: Any) -> dict[str, str]:
    """The docstring by its sections; what comes before them is under ``""``."""
    parts = re.split(r"^(\w+):$", inspect.getdoc(value) or "", flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def _parameters(value: Any) -> list[str]:
    if inspect.isclass(value) and issubclass(value, Exception):
        return []  # a message, as of every exception
    names = list(inspect.signature(value).parameters)
    return [name for name in names if name not in ("self", "cls")]


def _raises(function: Any) -> bool:
    """Whether the function itself raises something of its own."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(tree))


def test_all_public_names_are_looked_at() -> None:
    """Session, its inherited methods, fault models and detectors among them."""
    names = {param.id for param in PUBLIC}
    assert {"Session.arm", "Trace.find", "faults.apply", "detectors.register"} <= names
    assert {"FaultPlan.load", "Injector.report", "Campaign.run", "compare"} <= names


@pytest.mark.parametrize("value", PUBLIC)
def test_a_public_name_says_what_it_is(value: Any) -> None:
    """In one sentence first."""
    summary = _sections(value)[""].split("\n")[0]
    assert summary.endswith((".", "?", "::")), summary


@pytest.mark.parametrize("value", PUBLIC)
def test_every_parameter_is_explained(value: Any) -> None:
    """In Args, a line for each; records explain theirs as Attributes."""
    if inspect.isclass(value) and value.__init__ is object.__init__:
        return
    said = _sections(value)
    told = said.get("Args", "") + said.get("Attributes", "")
    missing = [
        name
        for name in _parameters(value)
        if name[0] != "_" and not re.search(rf"^    \*{{0,2}}{name}: ", told, re.MULTILINE)
    ]
    assert not missing


@pytest.mark.parametrize("value", PUBLIC)
def test_what_comes_out_is_explained(value: Any) -> None:
    """Wherever something goes in: without parameters the first sentence names the result."""
    if inspect.isclass(value) or not _parameters(value):
        return
    gives = inspect.signature(value).return_annotation
    assert gives in GIVES_NOTHING or {"Returns", "Yields"} & _sections(value).keys()


@pytest.mark.parametrize("value", PUBLIC)
def test_what_is_raised_is_explained(value: Any) -> None:
    """Every public function that raises by itself says so."""
    if not inspect.isclass(value):
        assert not _raises(value) or "Raises" in _sections(value)
