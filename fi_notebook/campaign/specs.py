"""What goes wrong in a campaign, wherever it is.

    FaultSpec.of("bitflip")
    FaultSpec.all_of(["bitflip", ("scale", {"factor": 2}), {"model": "zero", "elements": "all"}])

Limits: whether it can strike a site is known where there is one; see `population`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fi_notebook import faults
from fi_notebook.campaign.draws import CampaignError, check_whole
from fi_notebook.core.fault import SCOPES, Elements
from fi_notebook.errors import did_you_mean, short

__all__ = ["ONE", "FaultSpec", "check_elements"]

ONE = "one"
"""The elements of a fault that strikes one element, each of them a point of its own."""


@dataclass(frozen=True)
class FaultSpec:
    """What goes wrong, wherever it is.

    Attributes:
        model: Name of the fault model.
        parameters: Its parameters.
        elements: Which elements; None for those of the campaign.
        scope: One of `SCOPES`.
    """

    model: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    elements: Elements | int | None = None
    scope: str = "value"

    @classmethod
    def of(cls, given: Any) -> FaultSpec:
        """Read a name, a pair of name and parameters, or a mapping.

        Raises:
            CampaignError: It is none of these, or there is no such scope.
            FaultError: There is no such model, parameter or selection of elements.
        """
        spec = cls._read(given)
        if not isinstance(spec.parameters, Mapping):
            raise CampaignError(_unreadable(given))
        faults.check(spec.model, spec.parameters)
        if spec.elements is not None:
            check_elements(spec.elements)
        if spec.scope not in SCOPES:
            raise CampaignError(f"no scope {spec.scope!r}{did_you_mean(str(spec.scope), SCOPES)}")
        return spec

    @classmethod
    def _read(cls, given: Any) -> FaultSpec:
        if isinstance(given, FaultSpec):
            return given
        if isinstance(given, str):
            return cls(given)
        if isinstance(given, Mapping):
            known = ("model", "parameters", "elements", "scope")
            for key in given:
                if key not in known:
                    raise CampaignError(f"no {key!r} in a fault{did_you_mean(str(key), known)}")
            if "model" in given:
                return cls(**given)
        elif isinstance(given, Sequence) and len(given) == 2:
            return cls(*given)
        raise CampaignError(_unreadable(given))

    def __str__(self) -> str:
        """As a fault is told: ``scale(factor=2)``, ``zero on {'row': 0}``, ``zero in storage``."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        elements = "" if self.elements is None else f" on {self.elements}"
        scope = "" if self.scope == "value" else f" in {self.scope}"
        return f"{self.model}{f'({given})' if given else ''}{elements}{scope}"

    @classmethod
    def all_of(cls, given: Any) -> list[FaultSpec]:
        """Read one, or several; see `of`."""
        several = [given] if isinstance(given, (str, FaultSpec, Mapping)) else given
        specs = [cls.of(each) for each in several] if isinstance(several, Iterable) else []
        if not specs:
            raise CampaignError(f"faults is {short(given)}; expected names such as ['bitflip']")
        for number, spec in enumerate(specs):
            if spec in specs[:number]:
                raise CampaignError(f"faults has {spec} twice, so its faults would count twice")
        return specs

    def bits(self, dtype: str) -> tuple[int, ...]:
        """The bits that are points of their own; empty where the model has none to choose."""
        bit = self.parameters.get("bit")
        if self.model == "bitflip" and len(self.parameters) == 1 and type(bit) is int:
            return (bit,)
        if self.model != "bitflip" or set(self.parameters) - {"field"}:
            return ()
        layout = faults.bits.format_of(dtype)
        low, high = 0, layout.bits - 1
        if "field" in self.parameters:
            if self.parameters["field"] not in layout.fields:
                return ()
            low, high = layout.fields[self.parameters["field"]]
        return tuple(range(low, high + 1))


def _unreadable(given: Any) -> str:
    return (
        f"cannot read the fault {short(given)}; expected a name such as 'bitflip', a pair such "
        "as ('scale', {'factor': 2}), or a mapping with 'model' and 'parameters'"
    )


def check_elements(elements: Elements | int) -> None:
    """Refuse elements that no campaign can have.

    Raises:
        CampaignError: A number or word that is none; says what would be one.
        FaultError: A selection that cannot be read.
    """
    words = [ONE, *(selection.name for selection in faults.selections() if selection.word)]
    if isinstance(elements, int):
        check_whole(elements=elements)
    elif not isinstance(elements, str):
        faults.check_elements(elements)
    elif elements not in words:
        raise CampaignError(f"no elements {elements!r}{did_you_mean(elements, words)}")
