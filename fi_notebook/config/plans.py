"""From ``injector.json`` to a plan and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from fi_notebook.config.forms import (
    DIRECTIONS,
    VERSION,
    AnchorForm,
    FaultForm,
    FirstForm,
    Form,
    PlanForm,
    shown,
)
from fi_notebook.core.fault import Anchor, Fault, FaultPlan, free_ids
from fi_notebook.core.files import json_float, written_whole
from fi_notebook.core.site import Target
from fi_notebook.core.steps import Steps
from fi_notebook.errors import PlanError, did_you_mean

__all__ = ["is_plan", "load", "save", "to_dict"]

_SHOWN_ERRORS = 8
_LARGEST = 1 << 26  # bytes of a file that may be a plan
_EXPECTED = {
    "tuple_type": "a list",
    "model_type": "a mapping",
    "dict_type": "a mapping",
    "invalid_key": "keys that are text",
}
"""What was expected, where pydantic says it in words of Python."""
_SIGNS = {"faults", "targets", "error_type"}
"""Keys that a plan has and hardly any other file."""
_FIRST = ("extra_forbidden",)  # an unknown key explains what is missing
_FormT = TypeVar("_FormT", bound=Form)


def load(source: str | Path | Mapping[str, Any] | FaultPlan) -> FaultPlan:
    """Read a plan from a path or a mapping, in either form.

    Args:
        source: Path of a JSON file, or what such a file holds; a plan is given back.

    Raises:
        PlanError: Names the place, what stood there and what was expected.
    """
    if isinstance(source, FaultPlan):
        return source
    if isinstance(source, (str, Path)):
        return _plan(_read(Path(source)), str(source))
    return _plan(source, "the plan")


def save(plan: FaultPlan, path: str | Path) -> None:
    """Write a plan to a file in version 2, whole or not at all.

    Raises:
        PlanError: A parameter holds something that JSON cannot hold.
    """
    text = json.dumps(to_dict(plan), indent=2) + "\n"
    with written_whole(path) as file:
        file.write(text.encode())


def is_plan(path: str | Path) -> bool:
    """Whether a file looks like a plan: a JSON object with a plan's keys and no others.

    A plan that cannot be loaded here, such as one with a fault model of your own that is not
    registered, is one too.

    Args:
        path: The file.
    """
    path = Path(path)
    try:
        source = _read(path) if path.stat().st_size <= _LARGEST else None
    except (PlanError, OSError):
        return False
    known = {*PlanForm.model_fields, *FirstForm.model_fields}
    return isinstance(source, dict) and set(source) <= known and bool(set(source) & _SIGNS)


def to_dict(plan: FaultPlan) -> dict[str, Any]:
    """The plan in version 2; what has its default is left out.

    Raises:
        PlanError: A parameter holds something that JSON cannot hold.
    """
    written = {"version": VERSION, "faults": [_fault_dict(fault) for fault in plan]}
    return written | _changed(plan, FaultPlan(), but=("faults",))


def _is_other_than_a_file(path: Path) -> bool:
    try:
        return path.exists() and not path.is_file()
    except OSError:  # reading it says why
        return False


def _read(path: Path) -> Any:
    """What a JSON file holds; a key that stands twice is refused."""
    if _is_other_than_a_file(path):
        raise PlanError(f"{path}: not a file; expected a JSON file such as injector.json")
    try:
        return json.loads(path.read_bytes(), object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise PlanError(f"{path}: no JSON at {place}: {error.msg}") from None
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror}") from None
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{path}: no JSON that can be read: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise PlanError(f"the key {shown(twice)} stands twice in one mapping; keep one of them")
    return mapping


def _plan(source: Any, name: str) -> FaultPlan:
    if not isinstance(source, Mapping) or not source:
        raise PlanError(
            f"{name}: {shown(source)} is no plan; expected a mapping such as "
            '{"version": 2, "faults": [{"target": "relu*1:0", "model": "zero"}]}'
        )
    try:
        if _is_first_form(source):
            return _from_first(_validated(FirstForm, source))
        return _from_second(_validated(PlanForm, source))
    except PlanError as error:
        raise PlanError("\n".join(f"{name}: {line}" for line in str(error).split("\n"))) from None


def _is_first_form(source: Mapping[str, Any]) -> bool:
    if "version" in source:
        version = source["version"]
        if isinstance(version, int) and not isinstance(version, bool) and version > VERSION:
            raise PlanError(
                f"version: {shown(version)} is newer than this fi_notebook, which reads up to "
                f"version {VERSION}; update fi_notebook"
            )
        return False
    if "faults" in source:
        raise PlanError(f'version: missing; a plan with a list of faults has "version": {VERSION}')
    return True


def _validated(form: type[_FormT], source: Mapping[str, Any]) -> _FormT:
    try:
        return form.model_validate(dict(source))
    except ValidationError as error:
        problems = sorted(error.errors(include_url=False), key=lambda p: p["type"] not in _FIRST)
        lines = [f"{_place(p['loc'])}: {_problem(form, p)}" for p in problems[:_SHOWN_ERRORS]]
        if len(problems) > _SHOWN_ERRORS:
            lines.append(f"and {len(problems) - _SHOWN_ERRORS} more")
        raise PlanError("\n".join(lines)) from None
    except RecursionError:
        raise PlanError("it is nested too deeply to be a plan") from None


def _place(location: tuple[int | str, ...]) -> str:
    """``faults[2].elements`` for ``("faults", 2, "elements")``."""
    place = ""
    for part in location:
        if isinstance(part, int):
            place += f"[{part}]"
        else:
            key = part if part.isidentifier() and len(part) < 40 else shown(part)
            place += f".{key}" if place else key
    return place


def _problem(form: type[Form], problem: Mapping[str, Any]) -> str:
    location, given = problem["loc"], problem["input"]
    if problem["type"] == "extra_forbidden":
        return _unknown_key(form, location)
    if problem["type"] == "missing":
        return f"missing in {shown(given)}"
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    plain = str(problem["msg"]).removeprefix("Input should be ")
    expected = _EXPECTED.get(problem["type"], plain)
    return f"got {shown(given)}; expected {expected}"


def _unknown_key(form: type[Form], location: tuple[int | str, ...]) -> str:
    inner: Mapping[object, type[Form]] = {"faults": FaultForm, "anchor": AnchorForm}
    above = next((part for part in reversed(location[:-1]) if isinstance(part, str)), None)
    known = inner.get(above, form).model_fields
    key = str(location[-1])
    if form is FirstForm and key in FaultForm.model_fields | PlanForm.model_fields:
        return f'unknown key; it belongs to a plan with "version": {VERSION} and a list of faults'
    return f"unknown key{did_you_mean(key[:99], known) or '; known are ' + ', '.join(known)}"


def _from_first(form: FirstForm) -> FaultPlan:
    targets = _widest([Target.parse(text) for text in form.targets])
    if targets and form.error_type is None:
        raise PlanError("error_type: missing; expected a fault model such as 'light'")
    faults = tuple(
        Fault(
            id=f"f{number}",
            target=target,
            model=form.error_type or "",
            steps=form.steps,
            modules=form.modules,
            code=form.code,
            phases=DIRECTIONS[form.direction],
        )
        for number, target in enumerate(targets, start=1)
    )
    logged = form.modules if targets or form.modules is not None else ("",)
    return FaultPlan(
        faults,
        modules=logged,
        code=form.code,
        phases=DIRECTIONS[form.direction],
        log_steps=form.steps,
    )


def _widest(targets: list[Target]) -> list[Target]:
    """The targets without those that another one covers: each call is struck once."""
    unique = list(dict.fromkeys(targets))
    return [t for t in unique if not any(o is not t and _covers(o, t) for o in unique)]


def _covers(wide: Target, narrow: Target) -> bool:
    if (wide.kind, wide.op, wide.counted) != (narrow.kind, narrow.op, narrow.counted):
        return False
    parts = ("overload", "call", "output", "index")
    return all(getattr(wide, part) in (None, getattr(narrow, part)) for part in parts)


def _from_second(form: PlanForm) -> FaultPlan:
    given = [fault.id for fault in form.faults if fault.id is not None]
    for position, fault in enumerate(form.faults):
        if given.count(fault.id or "") > 1:
            raise PlanError(
                f"faults[{position}].id: {shown(fault.id)} stands twice; ids are unique"
            )
    free = free_ids(given)
    return FaultPlan(
        faults=tuple(_fault(fault, fault.id or next(free)) for fault in form.faults),
        modules=form.modules,
        code=form.code,
        phases=form.phases,
        log_steps=form.log_steps,
        ignore=form.ignore,
        verbosity=form.verbosity,
    )


def _fault(form: FaultForm, name: str) -> Fault:
    parts = {key: getattr(form, key) for key in FaultForm.model_fields if key != "direction"}
    parts["id"] = name
    if form.direction is not None:
        parts["phases"] = DIRECTIONS[form.direction]
    if form.anchor is not None:
        parts["anchor"] = Anchor(**form.anchor.model_dump())
    return Fault(**parts)


def _fault_dict(fault: Fault) -> dict[str, Any]:
    named = {"id": fault.id, "target": str(fault.target), "model": fault.model}
    plain = Fault(fault.id, fault.target, fault.model)
    return named | _changed(fault, plain, but=(*named, "dtype"))


def _changed(record: Any, default: Any, but: tuple[str, ...]) -> dict[str, Any]:
    """The attributes that differ from their defaults, as JSON holds them."""
    names = [field.name for field in fields(record) if field.name not in but]
    return {
        name: _json(getattr(record, name), name)
        for name in names
        if getattr(record, name) != getattr(default, name)
    }


def _json(value: Any, where: str) -> Any:
    """A value as JSON holds it; NaN and the infinities as text."""
    if isinstance(value, Steps):
        return str(value) if value.ranges else []
    if isinstance(value, Anchor):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, float):
        return json_float(value)
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _json(part, where) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(part, where) for part in value]
    if hasattr(value, "item"):  # a number of numpy or torch
        return _json(value.item(), where)
    raise PlanError(f"{where}: {shown(value)} cannot be written as JSON")
