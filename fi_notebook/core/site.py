"""Where a fault can strike: sites, and the targets that choose them.

A *site* is one output of one call of the traced step; a *target* is the pattern
that a fault is aimed with. Both have one text form::

    addmm*3:0               third addmm call of the step, first output
    add.Tensor*2:0          second add call, which must be the Tensor overload
    _foreach_add_*1:0[3]    fourth tensor of the list that the call returns
    other/mul*1:0           a call that takes no number of the step
    c10d::allreduce_*1:0    a namespace other than aten is always written
    addmm*1   addmm         targets only: every output, every call
    param:layer.0.weight    targets only: a parameter, before the forward

Limits: source lines, module, phase and overload describe a site but are no part of its
identity, so two runs of an edited script still speak of the same sites.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from fi_notebook.errors import SiteError, did_you_mean, short

__all__ = [
    "ALL_PARAMETERS",
    "LOSS_FUNCTION",
    "OUTSIDE",
    "PHASES",
    "STORED_KINDS",
    "Frame",
    "Site",
    "Target",
    "module_text",
]

PHASES = ("forward", "loss", "backward", "recompute", "optimizer", "other")
"""Every phase of a training step, in the order in which they are shown."""

LOSS_FUNCTION = "loss function"
"""The module name of calls made outside the model between forward and backward."""

OUTSIDE = "(outside)"
"""The module name of calls that belong neither to the model nor to the loss."""

ALL_PARAMETERS = "*"
"""The parameter name of calls that work on several parameters at once."""

STORED_KINDS = ("param", "buffer", "grad", "state")
"""Targets that are stored tensors rather than outputs of calls."""

_TARGET = re.compile(
    r"(?P<other>other/)?"
    r"(?:(?P<namespace>[A-Za-z_]\w*)::)?"
    r"(?P<op>[A-Za-z_]\w*)"
    r"(?:\.(?P<overload>\w+))?"
    r"(?:\*(?P<call>\d{1,18}))?"
    r"(?::(?P<output>\d{1,18}))?"
    r"(?:\[(?P<index>\d{1,18})\])?",
    re.ASCII,
)
_AS_TORCH = re.compile(
    r"\A(other/)?(?:torch\.ops\.(\w+)|(aten|c10d|_c10d_functional))\.(?=[A-Za-z_])", re.ASCII
)
"""How torch writes a namespace: ``aten.addmm.default``, ``torch.ops.c10d.send``."""

_STORED = re.compile(rf"(?P<kind>{'|'.join(STORED_KINDS)}):(?P<name>\S+)")
_FORMS = (
    "expected text such as 'addmm', 'addmm*3', 'addmm*3:0', 'other/mul*1:0' or 'param:layer.weight'"
)


class Frame(NamedTuple):
    """One source line of a call's stack.

    Attributes:
        file: Path of the file, or the label of a notebook cell such as ``In [5]``.
        line: Line number, from 1.
        function: Name of the function that the line stands in.
    """

    file: str
    line: int
    function: str

    @property
    def label(self) -> str:
        """Short text for people: ``run.py:83`` or ``In [5]:3``."""
        return f"{self.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{self.line}"


@dataclass(frozen=True, slots=True)
class Target:
    """A pattern over sites, as written in ``targets`` or given to ``arm``.

    Attributes:
        op: Operator packet (``addmm``), with its namespace unless that is aten;
            for a stored tensor its dotted name.
        overload: Overload that the call must have, or None for any.
        call: Call number within the step, from 1, or None for every call.
        output: Output number, from 0, or None for every output.
        index: Position in a list output, or None for every position.
        counted: False for ``other/…``, calls that take no number of the step.
        kind: ``call``, or one of `STORED_KINDS`.
    """

    op: str
    overload: str | None = None
    call: int | None = None
    output: int | None = None
    index: int | None = None
    counted: bool = True
    kind: str = "call"

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read a target from its text.

        Args:
            text: Text such as ``addmm``, ``addmm*3:0`` or ``param:layer.weight``; torch's own
                ``aten.addmm.default`` is read too.

        Returns:
            The target.

        Raises:
            SiteError: The text is not a target; says what would be one.
        """
        if not isinstance(text, str):
            raise SiteError(f"a target is text, not {type(text).__name__}: {short(text)}; {_FORMS}")
        stripped = text.strip()
        if stored := _STORED.fullmatch(stripped):
            return cls(op=stored["name"], kind=stored["kind"])
        match = _TARGET.fullmatch(_AS_TORCH.sub(r"\1\2\3::", stripped, count=1))
        if match is None:
            kind, colon, _ = stripped.partition(":")
            near = did_you_mean(kind, STORED_KINDS) if colon and kind.isidentifier() else ""
            raise SiteError(f"cannot read the target {short(text)}{near}; {_FORMS}")
        call, output, index = (_number(match[key]) for key in ("call", "output", "index"))
        if call == 0:
            raise SiteError(f"cannot read the target {short(text)}: calls are numbered from 1")
        if call is None and output is not None:
            raise SiteError(
                f"cannot read the target {short(text)}: an output needs a call number, "
                f"such as '{match['op']}*1:{output}'"
            )
        return cls(
            op=qualified(match["namespace"], match["op"]),
            overload=match["overload"],
            call=call,
            output=output,
            index=index,
            counted=match["other"] is None,
        )

    def __str__(self) -> str:
        """The text that `parse` reads back to this target."""
        if self.kind != "call":
            return f"{self.kind}:{self.op}"
        return "".join(
            (
                "" if self.counted else "other/",
                self.op,
                f".{self.overload}" if self.overload else "",
                f"*{self.call}" if self.call is not None else "",
                f":{self.output}" if self.output is not None else "",
                f"[{self.index}]" if self.index is not None else "",
            )
        )

    def matches(self, site: Site) -> bool:
        """Whether this target chooses the site; filters of a fault come on top.

        Args:
            site: A site of a trace.

        Returns:
            Whether it chooses the site; filters beside it are not asked.
        """
        return (
            self.kind == "call"
            and self.op == site.op
            and self.counted == site.counted
            and self.call in (None, site.call)
            and self.output in (None, site.output)
            and self.index in (None, site.index)
            and (self.overload is None or self.overload == site.overload)
        )


@dataclass(frozen=True, slots=True)
class Site:
    """One output of one call: the place where a fault strikes.

    Equality and hash use the identity alone (operator, call, output, index and
    whether the call is counted); the rest describes it for people and filters.

    Attributes:
        op: Operator packet, with its namespace unless that is aten.
        call: Call number within the step, from 1, per packet.
        output: Output number, from 0.
        index: Position in a list output, else None.
        counted: False where the call takes no number of the step (``other/…``).
        overload: Overload of the call, such as ``Tensor``; ``default`` where unnamed.
        phase: One of `PHASES`.
        module: Path of the module that the call belongs to; ``""`` is the root.
        module_call: Which call of that module, from 1; 0 where there is none.
        ordinal: Which call of this operator inside (phase, module call), from 1.
        parameter: Parameter that the call works on, ``*`` for several, or ``""``.
        code: Source lines, innermost first.
        dtype: Name of the tensor's dtype, such as ``float32``.
        shape: Shape of the tensor.
        kind: ``call``, or one of `STORED_KINDS` for a stored tensor, which has no call.
    """

    op: str
    call: int = 0
    output: int = 0
    index: int | None = None
    counted: bool = True
    overload: str = field(default="", compare=False)
    phase: str = field(default="", compare=False)
    module: str = field(default="", compare=False)
    module_call: int = field(default=0, compare=False)
    ordinal: int = field(default=0, compare=False)
    parameter: str = field(default="", compare=False)
    code: tuple[Frame, ...] = field(default=(), compare=False)
    dtype: str = field(default="", compare=False)
    shape: tuple[int, ...] = field(default=(), compare=False)
    kind: str = "call"

    @classmethod
    def parse(cls, text: str) -> Site:
        """Read a site from its full text, such as ``addmm*3:0``.

        Args:
            text: What ``str(site)`` gave, such as ``addmm*3:0``.

        Returns:
            The site; where it stood is not in its text. An overload that is
            (``add.Tensor*2:0``) describes it, and `str` leaves it out.

        Raises:
            SiteError: The text is not a site, or names several of them.
        """
        target = Target.parse(text)
        if target.kind != "call":
            return cls(op=target.op, kind=target.kind)
        if target.call is None or target.output is None:
            raise SiteError(
                f"{short(text)} does not name one site; expected operator, call and output, "
                "such as 'addmm*3:0'"
            )
        return cls(
            op=target.op,
            call=target.call,
            output=target.output,
            index=target.index,
            counted=target.counted,
            overload=target.overload or "",
        )

    def __str__(self) -> str:
        """The text that `parse` reads back to an equal site; the overload describes it alone."""
        if self.kind != "call":
            return f"{self.kind}:{self.op}"
        prefix = "" if self.counted else "other/"
        index = "" if self.index is None else f"[{self.index}]"
        return f"{prefix}{self.op}*{self.call}:{self.output}{index}"

    def __repr__(self) -> str:
        """What a person wants to know of it: ``<Site relu*2:0 forward net.1 float32 [8, 4]>``."""
        place = (self.phase, self.module, self.code[0].label if self.code else "", self.dtype)
        known = [part for part in place if part]
        return f"<Site {' '.join([str(self), *known, str(list(self.shape))])}>"

    @property
    def target(self) -> Target:
        """The target that chooses exactly this site."""
        if self.kind != "call":
            return Target(op=self.op, kind=self.kind)
        return Target(
            op=self.op,
            call=self.call,
            output=self.output,
            index=self.index,
            counted=self.counted,
        )


def module_text(path: str) -> str:
    """Path of a module as it is shown; ``(model)`` for the model itself, whose path is empty."""
    return path or "(model)"


def qualified(namespace: str | None, op: str) -> str:
    """Name of an operator packet: bare for aten, ``namespace::op`` otherwise."""
    return op if namespace in (None, "", "aten") else f"{namespace}::{op}"


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
