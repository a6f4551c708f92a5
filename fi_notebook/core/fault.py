"""What goes wrong, where and when: faults, and the plans that hold them.

A `Fault` is plain data; `fi_notebook.faults` knows what its model does, and
``fi_notebook.config`` how a plan is written as ``injector.json``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from fi_notebook.core.formats import field_words
from fi_notebook.core.frozen import frozen
from fi_notebook.core.site import Site, Target
from fi_notebook.core.steps import Steps
from fi_notebook.core.words import counted
from fi_notebook.errors import FaultError, NoSuchFaultError, did_you_mean, short

__all__ = [
    "EVERY_STEP",
    "LIMIT",
    "SCOPES",
    "Anchor",
    "Elements",
    "Fault",
    "FaultPlan",
    "free_ids",
    "plain_elements",
    "texts",
]

Elements = str | Mapping[str, Any]
"""Which elements: a word (``"all"``) or a one-key mapping (``{"index": [0, 3]}``)."""

_DRAWS_A_BIT = {"bitflip": ("bit", "field", "ber"), "burst": ("bit",)}
"""Fault models that draw a bit for each element where none of these parameters is given."""

LIMIT = 1 << 63
"""Seeds, counts and whole parameters lie below it: they are held in 64 bits."""

SCOPES = ("value", "storage", "contribution")
"""What a fault changes: one output, the memory that it lies in, or what a rank gives."""

EVERY_STEP = Steps.parse("0-")
"""The steps of a fault that says nothing of steps."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where a clicked call stood in the golden run, to notice that a script changed.

    Attributes:
        phase: Phase of the call.
        module: Module path of the call.
        module_call: Which call of that module, from 1; 0 where there is none.
        ordinal: Which call of this operator inside (phase, module call), from 1.
    """

    phase: str
    module: str
    module_call: int
    ordinal: int

    @classmethod
    def of(cls, site: Site) -> Anchor:
        """The anchor of a site of the golden run."""
        return cls(site.phase, site.module, site.module_call, site.ordinal)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: site pattern, fault model, elements, trigger and seed.

    Parameters and elements are copies of what was given, and nobody can change them.

    Attributes:
        id: Name within its plan; part of what seeds the fault's randomness.
        target: Which calls and outputs.
        model: Name of the fault model, such as ``bitflip``.
        parameters: Parameters of the fault model by name.
        elements: Which elements of the tensor.
        steps: In which steps, counted from 0.
        seed: Seed of the fault's own generator.
        modules: Names of modules or parameters; None is no filter, an empty list chooses
            nothing.
        code: Source-line filter such as ``run.py[83]``; empty is no filter.
        phases: Phases in which it may strike; empty is all of them.
        scope: ``value`` (only readers of this output see it) or ``storage``
            (a view's base is written, so that the fault persists) or ``contribution``
            (what this rank gives to a collective, before the call).
        micro_batches: In which root forwards of a step, from 0; None is all.
        probability: Chance of each strike, drawn from the fault's own generator.
        times: How many times it strikes at most, over the whole run; None is no limit.
        ranks: Which ranks; None is all of them.
        anchor: Where the clicked call stood, or None where nothing was clicked.
        enabled: False where it is kept in the plan but switched off.
        dtype: What it strikes, where a session knows it; names the fields of bits in its line, and
            is no part of the fault.
    """

    id: str
    target: Target
    model: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    elements: Elements = "all"
    steps: Steps = EVERY_STEP
    seed: int = 0
    modules: tuple[str, ...] | None = None
    code: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    scope: str = "value"
    micro_batches: Steps | None = None
    probability: float = 1.0
    times: int | None = None
    ranks: Steps | None = None
    anchor: Anchor | None = None
    enabled: bool = True
    dtype: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """Hold parameters and elements apart from what the caller holds, and from changes."""
        for name in ("parameters", "elements"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    def __str__(self) -> str:
        """One line: ``f1: bitflip(bit=31 (sign)) on element [0, 3] of relu*2:0, step 0``."""
        given = [f"{key}={value!r}{self._fields(key)}" for key, value in self.parameters.items()]
        bits = [self.parameters.get(key) for key in _DRAWS_A_BIT.get(self.model, ())]
        if bits and all(bit is None for bit in bits):
            given.append("random bit")
        model = f"{self.model}({', '.join(given)})" if given else self.model
        where = f"on {_in_words(self.elements)} of" if self.elements != "all" else "at"
        return f"{self.id}: {model} {where} {self.target}, {self.steps.in_words('step')}"

    def __repr__(self) -> str:
        """The line for people, marked as a fault."""
        return f"<Fault {self}>"

    def _fields(self, key: str) -> str:
        return field_words(self.dtype, self.parameters[key]) if key == "bit" else ""

    def is_for(self, rank: int) -> bool:
        """Whether its filter of ranks chooses one.

        Args:
            rank: The rank, among all processes.

        Returns:
            Whether it may strike there.
        """
        return self.ranks is None or rank in self.ranks

    def __hash__(self) -> int:
        """Hash of the identity; parameters are compared, not hashed."""
        return hash((self.id, self.target, self.model, self.seed))


def texts(given: str | Iterable[str], what: str) -> tuple[str, ...]:
    """One text or several as a tuple; a text alone is one, not its letters.

    Raises:
        FaultError: It is neither; says what was given.
    """
    several = (given,) if isinstance(given, str) else given
    if isinstance(several, Iterable):
        found = tuple(several)
        if all(isinstance(text, str) for text in found):
            return found
    raise FaultError(f"{what} is {given!r}; expected a text or a list of texts")


def plain_elements(elements: Any) -> Any:
    """A selection of elements as JSON would hold it, apart from what the caller holds.

    Tuples become lists; arrays and tensors become lists of numbers.
    """
    if isinstance(elements, Mapping):
        return {key: plain_elements(value) for key, value in elements.items()}
    if isinstance(elements, (list, tuple)):
        return [plain_elements(value) for value in elements]
    return plain_elements(elements.tolist()) if hasattr(elements, "tolist") else elements


def free_ids(taken: Collection[str]) -> Iterator[str]:
    """Those of ``f1``, ``f2``, … that no fault has, without end.

    Args:
        taken: The ids that faults have.

    Returns:
        The free ids, the first one first.
    """
    return (name for name in map("f{}".format, count(1)) if name not in taken)


def _in_words(elements: Elements) -> str:
    """Elements for people: ``element [0, 3]``, ``5 drawn elements``, ``row 5, 7``."""
    if isinstance(elements, str):
        return elements
    return ", ".join(_selected(name, value) for name, value in elements.items())


def _selected(name: str, value: Any) -> str:
    match name, value:
        case "index", [int(), *_]:
            return f"element {value}"
        case "index", [[*_], *_]:
            return f"elements {str(value)[1:-1]}"
        case "count", int():
            return counted(value, "drawn element")
        case _, {"shape": [*shape], **rest}:
            return f"{name} of {' × '.join(map(str, shape))}{_from(' at', rest.get('at'))}"
        case _, {"length": length, **rest}:
            return f"{name} of {length}{_from(' from', rest.get('start'))}"
        case _, [int(), *_]:
            return f"{name} {str(value)[1:-1]}"
    return f"{name} {value}"


def _from(word: str, place: Any) -> str:
    return "" if place is None else f"{word} {place}"


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """An ordered list of faults and how a run with them is logged.

    Attributes:
        faults: The faults, struck in this order where several meet at one site.
        modules: Modules whose calls are logged; None is every module that a fault
            names.
        code: Source lines whose calls are logged; empty is everywhere.
        phases: Phases whose calls are logged; empty is all of them.
        log_steps: Steps whose calls are logged although no fault is due in them.
        ignore: Operators (``view`` is all its overloads) that are counted but not logged,
            and struck only where a target names them; None is the default list.
        verbosity: ``quiet`` logs strikes alone, ``normal`` the calls of the listed steps as
            well, ``verbose`` their dtypes, shapes and source lines too.
    """

    faults: tuple[Fault, ...] = ()
    modules: tuple[str, ...] | None = None
    code: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    log_steps: Steps | None = None
    ignore: tuple[str, ...] | None = None
    verbosity: str = "normal"

    def __str__(self) -> str:
        """One line for each fault; those that are switched off say so."""
        lines = [f"{fault}{'' if fault.enabled else ' (off)'}" for fault in self.faults]
        return "\n".join(lines) or "no fault is armed"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002
        """How IPython shows a plan."""
        printer.text(str(self))

    def __iter__(self) -> Iterator[Fault]:
        """The faults in order."""
        return iter(self.faults)

    def __len__(self) -> int:
        """How many faults the plan holds."""
        return len(self.faults)

    def __getitem__(self, key: int | str) -> Fault:
        """A fault by position or by id.

        Raises:
            NoSuchFaultError: The plan holds no fault of this id; names the nearest. It is a
                `FaultError` and a `KeyError`.
        """
        if isinstance(key, int):
            return self.faults[key]
        for fault in self.faults:
            if fault.id == key:
                return fault
        ids = [fault.id for fault in self.faults]
        raise NoSuchFaultError(f"the plan holds no fault {short(key)}{did_you_mean(str(key), ids)}")

    def with_fault(self, fault: Fault) -> FaultPlan:
        """The plan with the fault added at the end, or in place of its namesake.

        Args:
            fault: The fault.

        Returns:
            The new plan; this one stays as it is.
        """
        ids = [known.id for known in self.faults]
        if fault.id not in ids:
            return replace(self, faults=(*self.faults, fault))
        kept = [fault if known.id == fault.id else known for known in self.faults]
        return replace(self, faults=tuple(kept))

    def without(self, fault_id: str) -> FaultPlan:
        """The plan without the fault of this id.

        Args:
            fault_id: Id of the fault; one that is not there is no error.

        Returns:
            The new plan; this one stays as it is.
        """
        return replace(self, faults=tuple(f for f in self.faults if f.id != fault_id))

    def to_dict(self) -> dict[str, Any]:
        """The plan as the mapping that ``injector.json`` holds.

        Returns:
            The mapping; JSON can hold it as it is.
        """
        mapping: dict[str, Any] = _config().to_dict(self)
        return mapping

    @classmethod
    def load(cls, source: str | Path | Mapping[str, Any] | FaultPlan) -> FaultPlan:
        """Read a plan from a path or a mapping; a plan is given back as it is.

        Args:
            source: A path of ``injector.json`` in either form, what such a file holds, or a
                plan.

        Returns:
            The plan.

        Raises:
            PlanError: Names the place in the file, what stood there, what was expected.
            OSError: There is no such file.
        """
        plan: FaultPlan = _config().load(source)
        return plan

    def save(self, path: str | Path) -> None:
        """Write the plan to a file, whole or not at all.

        Args:
            path: The file; one that is there is replaced.

        Raises:
            OSError: It cannot be written there.
        """
        _config().save(self, path)


def _config() -> ModuleType:
    """The room above that reads and writes plans; the one import upwards from here."""
    from fi_notebook import config

    return config
