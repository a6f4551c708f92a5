"""Which steps a fault strikes in: ``"2,5-7,10-"``, ``"0-100:10"``, ``[4]``, ``0``.

Steps count from 0. ``a-b`` includes both ends, ``a-`` has no end, ``a-b:k`` takes
every k-th step from a on; ``[]`` is no step. The same form serves for ranks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fi_notebook.core.words import several
from fi_notebook.errors import FaultError, short

__all__ = ["Steps", "ranks_of"]

_NUMBER = r"(\d{1,18})"
_PART = re.compile(rf"\s*{_NUMBER}\s*(?:(-)\s*{_NUMBER}?)?\s*(?::\s*{_NUMBER})?\s*", re.ASCII)
_END = 10**18
_NONE = "[]"


@dataclass(frozen=True, slots=True)
class Steps:
    """A set of step numbers, kept as ranges.

    Attributes:
        ranges: ``(first, last, stride)`` each; ``last`` None has no end.
    """

    ranges: tuple[tuple[int, int | None, int], ...]

    @classmethod
    def parse(cls, value: int | str | Iterable[int] | Steps, what: str = "steps") -> Steps:
        """Read steps from an int, a list of ints or text (at most 18 digits each).

        Args:
            value: What is read.
            what: What the numbers are of, in the words of the plan, for an error.

        Raises:
            FaultError: The value is none of these, or a number is negative.
        """
        if isinstance(value, Steps):
            return value
        if isinstance(value, str):
            if value.strip() == _NONE:
                return cls(())
            return cls(tuple(_range(part, value, what) for part in value.split(",")))
        numbers = [value] if isinstance(value, int) else value
        if not isinstance(numbers, Iterable) or isinstance(numbers, (bytes, Mapping)):
            raise FaultError(_expected(value, what))
        return cls(tuple((_step(n, value, what), n, 1) for n in numbers))

    def __contains__(self, step: object) -> bool:
        """Whether the step is one of them."""
        return isinstance(step, int) and any(
            first <= step and (last is None or step <= last) and (step - first) % stride == 0
            for first, last, stride in self.ranges
        )

    def __str__(self) -> str:
        """The text that `parse` reads back to these steps."""
        return ",".join(_text(*part) for part in self.ranges) or _NONE

    def in_words(self, noun: str, every: str = "every") -> str:
        """These steps for people: ``step 0``, ``steps 5-7``, ``every step``.

        Args:
            noun: What the numbers are of, in the singular.
            every: The word for all of them; ``any`` in a sentence that denies.
        """
        if self.ranges == ((0, None, 1),):
            return f"{every} {noun}"
        return f"{noun if str(self).isdigit() else several(noun)} {self}"

    @property
    def first(self) -> int | None:
        """The first step, or None where there is none."""
        return min((first for first, _, _ in self.ranges), default=None)

    @property
    def last(self) -> int | None:
        """The last step, -1 where there is none, or None where there is no end."""
        ends = [last for _, last, _ in self.ranges]
        return None if None in ends else max((e for e in ends if e is not None), default=-1)


def ranks_of(value: int | str | Iterable[int] | Steps) -> Steps:
    """Read ranks as `Steps.parse` reads steps; there must be one.

    Raises:
        FaultError: The value is none of these, a number is negative, or it is empty.
    """
    found = Steps.parse(value, "ranks")
    if not found.ranges:
        raise FaultError(
            "ranks is an empty list, and would strike nowhere; name one, or leave it out for all"
        )
    return found


def _range(part: str, whole: str, what: str) -> tuple[int, int | None, int]:
    match = _PART.fullmatch(part)
    if match is None:
        raise FaultError(_expected(whole, what))
    first, dash, last, stride = match.groups()
    end = int(first) if dash is None else (None if last is None else int(last))
    if end is not None and end < int(first):
        raise FaultError(f"the range {part.strip()!r} ends before it begins")
    if stride is not None and (dash is None or int(stride) == 0):
        raise FaultError(_expected(whole, what))
    return int(first), end, int(stride or 1)


def _step(number: object, whole: object, what: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < _END:
        raise FaultError(_expected(whole, what))
    return number


def _text(first: int, last: int | None, stride: int) -> str:
    if last == first and stride == 1:
        return str(first)
    end = "" if last is None else str(last)
    return f"{first}-{end}" + (f":{stride}" if stride != 1 else "")


def _expected(value: object, what: str) -> str:
    return (
        f"cannot read {short(value)} as {what}; expected a number from 0, a list of them, "
        "or text such as '2,5-7,10-' or '0-100:10'"
    )
