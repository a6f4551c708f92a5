"""Why filters choose none of the calls that were made, each filter by itself.

    asked = Asked("mm", phases=("forward",), modules=("out",))
    asked.unfit(made, "in step 0")
    "no call of 'mm' in step 0 is in phase 'forward': they are in 'backward'"
    "no call of 'mm' in step 0 is in module 'out': the nearest are in 'layer.out', 'layer.1'"
    "no call of 'mm' in step 0 is in phase 'loss' and in module 'out' at once; each alone fits some"

Limits: of what the calls have instead the nearest three are named.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import NamedTuple

from fi_notebook.core.match import CodeFilter
from fi_notebook.core.site import Frame, Target, module_text
from fi_notebook.core.steps import Steps

__all__ = ["Asked", "Made"]

_MOST = 3
"""How many near values are named."""


class Made(NamedTuple):
    """One call that was made.

    Attributes:
        overload: Its overload.
        phase: Its phase.
        module: Path of its module.
        within: Whether the filter of modules chooses it.
        frames: Its source lines, innermost first, and those of what caused it.
        micro_batch: Its micro batch.
    """

    overload: str
    phase: str
    module: str
    within: bool
    frames: tuple[Frame, ...]
    micro_batch: int = 0


class _Filter(NamedTuple):
    """One filter: what it asks for, what fits it, and what the calls have in its place."""

    asks: str
    fits: Callable[[Made], bool]
    near: Callable[[Collection[Made]], str]


@dataclass(frozen=True)
class Asked:
    """The filters of a fault or of a choice.

    Attributes:
        op: The calls that are meant, by operator and number.
        overload: The overload, or None for any.
        phases: Phases; empty is all.
        modules: Modules; None is all.
        code: Source lines; empty is all.
        micro_batches: Micro batches; None is all.
    """

    op: str
    overload: str | None = None
    phases: Sequence[str] = ()
    modules: Sequence[str] | None = None
    code: Sequence[str] = ()
    micro_batches: Steps | None = None

    @classmethod
    def of(
        cls,
        target: Target,
        phases: Sequence[str] = (),
        modules: Sequence[str] | None = None,
        code: Sequence[str] = (),
        micro_batches: Steps | None = None,
    ) -> Asked:
        """What a target asks of the calls that its operator and number mean.

        Args:
            target: The target; its overload is a filter of those calls, its output none.
            phases: Phases; empty is all.
            modules: Modules; None is all.
            code: Source lines; empty is all.
            micro_batches: Micro batches; None is all.

        Returns:
            The filters.
        """
        op = str(replace(target, overload=None, output=None, index=None))
        return cls(op, target.overload, phases, modules, code, micro_batches)

    def unfit(self, made: Collection[Made], where: str = "") -> str:
        """Why none of the calls of the operator that were made is chosen.

        Args:
            made: The calls.
            where: Where they were made, such as ``in step 0``.

        Returns:
            One plain clause, or ``""`` where one is chosen, or none was made.
        """
        filters = self._filters()
        if not made or any(all(each.fits(call) for each in filters) for call in made):
            return ""
        no_call = f"no call of {self.op!r}{where and ' ' + where} is"
        alone = [each for each in filters if not any(map(each.fits, made))]
        if alone:
            return f"{no_call} " + "; none is ".join(f"{f.asks}: {f.near(made)}" for f in alone)
        asked = " and ".join(each.asks for each in filters)
        return f"{no_call} {asked} at once; each alone fits some"

    def _filters(self) -> list[_Filter]:
        found = []
        if self.overload is not None:
            asks = f"of overload {self.overload!r}"
            found.append(_Filter(asks, lambda call: call.overload == self.overload, _overloads))
        if self.phases:
            asks = f"in phase {_either(map(repr, self.phases))}"
            found.append(_Filter(asks, lambda call: call.phase in self.phases, _phases))
        if self.modules is not None:
            asks = (
                f"in module {_either(map(repr, self.modules))}" if self.modules else "in modules []"
            )
            found.append(_Filter(asks, lambda call: call.within, self._near_modules))
        if self.code:
            lines = [CodeFilter.parse(text) for text in self.code]
            found.append(
                _Filter(
                    f"on {_either(self.code)}",
                    lambda call: any(line.matches(call.frames) for line in lines),
                    lambda made: _near_lines(lines, made),
                )
            )
        if self.micro_batches is not None:
            chosen = self.micro_batches
            asks = f"in {chosen.in_words('micro batch')}"
            found.append(_Filter(asks, lambda call: call.micro_batch in chosen, _micro_batches))
        return found

    def _near_modules(self, made: Collection[Made]) -> str:
        def far(path: str) -> float:
            return -max(
                (SequenceMatcher(None, path, asked).ratio() for asked in self.modules or ()),
                default=0.0,
            )

        paths = sorted(dict.fromkeys(call.module for call in made), key=far)
        return _nearest("in", [repr(path) if path else module_text(path) for path in paths])


def _near_lines(asked: Sequence[CodeFilter], made: Collection[Made]) -> str:
    frames = dict.fromkeys(frame for call in made for frame in call.frames)
    if not frames:
        return "they have no source lines"
    near = sorted(frames, key=lambda frame: min(_far(line, frame) for line in asked))
    return _nearest("on", list(dict.fromkeys(frame.label for frame in near)))


def _far(asked: CodeFilter, frame: Frame) -> tuple[float, int]:
    """How far a line is from the one that was asked for: first by its file, then by its number."""
    if CodeFilter(asked.file, None).matches((frame,)):
        return -1.0, abs(frame.line - (asked.line or frame.line))
    return -SequenceMatcher(None, frame.file.rsplit("/", 1)[-1], asked.file).ratio(), 0


def _nearest(place: str, values: Sequence[str]) -> str:
    which = "they" if len(values) <= _MOST else "the nearest"
    return f"{which} are {place} {', '.join(values[:_MOST])}"


def _overloads(made: Collection[Made]) -> str:
    return f"they are of {_all(call.overload for call in made)}"


def _phases(made: Collection[Made]) -> str:
    return f"they are in {_all(call.phase for call in made)}"


def _micro_batches(made: Collection[Made]) -> str:
    return f"they are in {', '.join(map(str, sorted({call.micro_batch for call in made})))}"


def _all(values: Iterable[str]) -> str:
    return ", ".join(map(repr, dict.fromkeys(values)))


def _either(values: Iterable[str]) -> str:
    return " or ".join(values)
