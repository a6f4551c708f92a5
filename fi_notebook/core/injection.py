"""The record of one strike of a fault, or of a fault that never struck.

>>> injection
<Injection of f1 at relu*2:0 in step 0: 1 element changed>
>>> injection.elements[0]
ElementChange(index=(0, 3), before=0.5, after=1.7e+38, before_bits=…, after_bits=…)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fi_notebook.core.site import Site
from fi_notebook.core.stats import TensorStats
from fi_notebook.core.words import counted

__all__ = ["NO_ELEMENT", "ElementChange", "Injection", "NotInjected"]

NO_ELEMENT = "no element fits its selection"
"""Note of an injection that chose nothing."""


@dataclass(frozen=True, slots=True)
class ElementChange:
    """One element that a fault struck.

    Attributes:
        index: Coordinates of the element.
        before: Value before; real and imaginary part are written as a complex.
        after: Value after.
        before_bits: Raw bits before, as an unsigned integer; None for complex.
        after_bits: Raw bits after.
    """

    index: tuple[int, ...]
    before: float | int | complex
    after: float | int | complex
    before_bits: int | None
    after_bits: int | None


@dataclass(frozen=True, slots=True)
class Injection:
    """One strike of one fault.

    Attributes:
        fault: Id of the fault.
        site: Where it struck.
        step: In which step.
        before: Statistics of the tensor before.
        after: Statistics of the tensor after.
        changed: How many elements changed their bits; 0 is *inactive*.
        elements: The changed elements in row-major order, the first 64 of them.
        kind: ``functional``, ``in place``, ``view`` or ``stored``.
        note: What a person must know of this strike (``unsafe_view: …``), or ``""``.
        rank: Rank of the process.
    """

    fault: str
    site: Site
    step: int
    before: TensorStats
    after: TensorStats
    changed: int
    elements: tuple[ElementChange, ...]
    kind: str = "functional"
    note: str = ""
    rank: int = 0
    _tensors: tuple[Any, Any] | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        """What struck where, and how many elements it changed."""
        changed = counted(self.changed, "element")
        return f"<Injection of {self.fault} at {self.site} in step {self.step}: {changed} changed>"

    def tensors(self) -> tuple[Any, Any]:
        """The whole tensor before and after.

        Raises:
            LookupError: They were not kept (headless, or read from a file).
        """
        if self._tensors is None:
            raise LookupError("the tensors of this injection were not kept; replay it in a Session")
        return self._tensors


@dataclass(frozen=True, slots=True)
class NotInjected:
    """A fault, or one that never came to strike, with the reason.

    Attributes:
        fault: Id of the fault.
        reason: One plain clause: ``asked for call 7 of relu, 3 were made``.
        elsewhere: Whether it is for other ranks, so that nothing is amiss on this one.
    """

    fault: str
    reason: str
    elsewhere: bool = False
