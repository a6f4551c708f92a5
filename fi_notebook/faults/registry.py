"""The fault models by name, and how a person adds one.

    @register("my_fault")
    def my_fault(values, ctx, *, gain: float = 2.0):
        \"\"\"Every chosen value times a gain.\"\"\"
        return values * gain

A *value model* is a pure function ``(values, ctx) -> values``; a *call model* declares
what else it needs. Packages offer models through the entry-point group
``fi_notebook.faults``; they are loaded when a name is first asked for. A name is given
once: a second model of the same name is refused.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, TypeVar

import torch

from fi_notebook.errors import FaultError, did_you_mean, short
from fi_notebook.faults.bits import Format
from fi_notebook.faults.parameters import REQUIRED, Parameter, check_value, from_signature

__all__ = [
    "GROUPS",
    "NEEDS",
    "OWN",
    "Context",
    "FaultModel",
    "check",
    "get",
    "models",
    "names",
    "register",
    "unregister",
]

ENTRY_POINTS: Final = "fi_notebook.faults"
OWN: Final = "own"
GROUPS: Final = (
    "presets",
    "bits",
    "values",
    "precision",
    "wrong data",
    "missing work",
    "collectives",
    OWN,
)
"""Groups of fault models, in the order in which they are shown."""

NEEDS: Final = ("inputs", "previous", "call", "collective")
"""What a call model may need."""

_log = logging.getLogger("fi_notebook")
_registry: dict[str, FaultModel] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """What a fault model may look at beside the chosen values.

    Attributes:
        inputs: The call's tensor inputs.
        previous: The tensor whose values ``stale``, ``skip_update`` and ``duplicate``
            put in place of the right ones; the engine says which one it is.
        tensor: The whole tensor that is struck; it must not be written.
        indices: Flat row-major indices of the chosen elements, or None for all.
        generator: The fault's own generator; the only source of randomness.
    """

    inputs: tuple[torch.Tensor, ...] = ()
    previous: torch.Tensor | None = None
    tensor: torch.Tensor = field(default_factory=lambda: torch.empty(0, device="cpu"))
    indices: torch.Tensor | None = None
    generator: torch.Generator = field(default_factory=torch.Generator)


Refusal = Callable[[Mapping[str, Any], Format, tuple[int, ...]], str]
"""``(parameters, format, shape) -> reason``, or ``""`` where the model works."""


@dataclass(frozen=True)
class FaultModel:
    """What goes wrong with a tensor.

    Attributes:
        name: Name in plans and in ``session.arm``.
        group: One of `GROUPS`.
        kind: ``value`` (values in, values out) or ``call`` (needs more than that).
        needs: Which of `NEEDS` a call model needs.
        parameters: Its parameters.
        summary: One sentence.
        integers: What it does to integers and bools, in one sentence.
        source: Where it comes from in the literature, or ``""``.
        example: Parameters of the example in the documentation.
        function: ``(values, ctx, **parameters) -> values``; None where the engine
            carries the model out.
        refuse: Why it cannot work on a dtype and shape.
        relate: Why its parameters do not go together.
    """

    name: str
    group: str
    kind: str
    needs: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    summary: str
    integers: str = ""
    source: str = ""
    example: Mapping[str, Any] = field(default_factory=dict)
    function: Callable[..., torch.Tensor] | None = None
    refuse: Refusal | None = None
    relate: Callable[[Mapping[str, Any]], str] | None = None

    def with_defaults(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters as given, and the defaults of the others.

        Args:
            parameters: Those that were given.

        Returns:
            All of them by name.
        """
        known = {p.name: p.default for p in self.parameters if p.default is not REQUIRED}
        return known | dict(parameters)


Function = TypeVar("Function", bound=Callable[..., Any])


def register(
    name: str,
    *,
    group: str = OWN,
    parameters: Sequence[Parameter] | None = None,
    summary: str = "",
    replace: bool = False,
    **details: Any,
) -> Callable[[Function], Function]:
    """Register the decorated function as a fault model.

    Args:
        name: Name in plans; a name that is taken is refused.
        group: One of `GROUPS`; leave it out for a model of your own.
        parameters: Its parameters; read from the keyword-only arguments if left out.
        summary: One sentence; the first line of the docstring if left out.
        replace: Replace a model of your own of the same name, as when a notebook cell
            is run again.
        **details: Further attributes of `FaultModel`.

    Returns:
        The decorator; it gives the function back as it is.

    Raises:
        FaultError: The name is taken, or is no plain word.
    """

    def decorate(function: Function) -> Function:
        line = (function.__doc__ or "").strip().partition("\n")[0]
        details.setdefault("needs", ())
        add(
            FaultModel(
                name=name,
                group=group,
                kind="call" if details["needs"] else "value",
                parameters=from_signature(function) if parameters is None else tuple(parameters),
                summary=summary or line,
                function=function,
                **details,
            ),
            replace=replace,
        )
        return function

    return decorate


def add(model: FaultModel, *, replace: bool = False) -> None:
    """Add a fault model to the registry.

    Raises:
        FaultError: The name is taken, is no plain word, or a group or need is unknown.
    """
    if not (isinstance(model.name, str) and model.name.isidentifier()):
        raise FaultError(f"fault model name {model.name!r} is not a plain word such as 'my_fault'")
    if model.group not in GROUPS:
        raise FaultError(f"no group {model.group!r}{did_you_mean(model.group, GROUPS)}")
    for need in model.needs:
        if need not in NEEDS:
            raise FaultError(f"a fault model cannot need {need!r}{did_you_mean(need, NEEDS)}")
    taken = _registry.get(model.name)
    if taken is not None and not (replace and taken.group == OWN):
        raise FaultError(
            f"fault model {model.name!r} exists already (group {taken.group!r}); choose another "
            "name" + (", or register it with replace=True" if taken.group == OWN else "")
        )
    _registry[model.name] = model


def unregister(name: str) -> None:
    """Take a fault model of your own out of the registry.

    Args:
        name: Its name.

    Raises:
        FaultError: There is none, or it is not your own.
    """
    if get(name).group != OWN:
        raise FaultError(f"fault model {name!r} belongs to fi_notebook and cannot be removed")
    del _registry[name]


@functools.cache
def _load_entry_points() -> None:
    for entry in entry_points(group=ENTRY_POINTS):
        _load_entry_point(entry)


def _load_entry_point(entry: EntryPoint) -> None:
    """Register what an entry point names; one that fails is reported and left out."""
    try:
        loaded = entry.load()
        if isinstance(loaded, FaultModel):
            add(loaded)
        elif not any(model.function is loaded for model in _registry.values()):
            register(entry.name)(loaded)
    except Exception as error:  # noqa: BLE001 - one broken package must not break the rest
        _log.warning("fault model %r of %s was not loaded: %s", entry.name, entry.value, error)


def models() -> list[FaultModel]:
    """Every fault model, by group and then in the order of registration."""
    _load_entry_points()
    return sorted(_registry.values(), key=lambda model: GROUPS.index(model.group))


def names() -> list[str]:
    """Names of every fault model, by group."""
    return [model.name for model in models()]


def get(name: str) -> FaultModel:
    """The fault model of a name.

    Args:
        name: Its name, such as ``bitflip``.

    Returns:
        The model: its parameters, needs and source.

    Raises:
        FaultError: There is none; names the nearest ones.
    """
    _load_entry_points()
    found = _registry.get(name) if isinstance(name, str) else None
    if found is None:
        known = names()
        hint = did_you_mean(str(name), known) or f"; expected one of {', '.join(known)}"
        raise FaultError(f"no fault model {short(name)}{hint}")
    return found


def check(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Check the parameters of a fault model, as far as that needs no tensor.

    Args:
        name: Name of the fault model.
        parameters: Its parameters; those left out keep their defaults.

    Returns:
        The parameters that were given, as plain Python values.

    Raises:
        FaultError: A parameter is unknown, missing, of the wrong type, or can never be.
    """
    model = get(name)
    known = {parameter.name: parameter for parameter in model.parameters}
    for given in parameters:
        if given not in known:
            hint = did_you_mean(str(given), known) if known else "; it has none"
            raise FaultError(f"{name} has no parameter {short(given)}{hint}")
    for parameter in model.parameters:
        if parameter.default is REQUIRED and parameter.name not in parameters:
            raise FaultError(f"{name} needs {parameter.name}=: {parameter.summary}")
    checked = {key: check_value(name, known[key], value) for key, value in parameters.items()}
    reason = model.relate(checked) if model.relate else ""
    if reason:
        raise FaultError(f"{name}: {reason}")
    return checked
