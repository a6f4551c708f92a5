"""The messages between the kernel and the page, checked in both directions.

Page to kernel: one small JSON object, at most `LARGEST_REQUEST` bytes::

    {
        "kind": "arm",
        "id": 7,
        "site": "relu*2:0",
        "model": "bitflip",
        "parameters": {"bit": 30},
        "elements": {"index": [0, 3]},
        "steps": "0",
    }

Kernel to page: a JSON head and named columns in one block of bytes, deflated where that
pays and cut into parts of at most `LARGEST_PART` bytes. Every message has the next
sequence number; a page that misses one asks for everything again (``resync``).

Limits: only what is in `REQUESTS` is understood; an unknown kind or field is refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fi_notebook.errors import MessageError, did_you_mean
from fi_notebook.report.pack import pack

__all__ = [
    "LARGEST_PART",
    "LARGEST_REQUEST",
    "REQUESTS",
    "Message",
    "MessageError",
    "Request",
    "encode",
    "parse",
]

LARGEST_REQUEST = 64_000
"""Bytes of a message from the page; a larger one can close the websocket."""

LARGEST_PART = 1_000_000
"""Bytes of one part of a message to the page."""


@dataclass(frozen=True, slots=True)
class Field:
    """What one field of a request may be.

    Attributes:
        types: Types that JSON gives for it.
        required: Whether the request is refused without it.
        longest: Length limit of text.
    """

    types: tuple[type, ...]
    required: bool = True
    longest: int = 2000


_TEXT = Field((str,))
_NUMBER = Field((int,))
_MAYBE_NUMBER = Field((int,), required=False)
_MAYBE_WHOLE = Field((int, str), required=False)  # as text beyond 2**53, where a page rounds
_MAYBE_REAL = Field((int, float), required=False)
_MAYBE_TEXT = Field((str,), required=False)
_MAPPING = Field((dict,))
_ELEMENTS = Field((str, dict), required=False)
_STEPS = Field((int, str, list), required=False)

_FAULT = {
    "site": _TEXT,
    "model": _TEXT,
    "parameters": _MAPPING,
    "elements": _ELEMENTS,
    "steps": _STEPS,
    "seed": _MAYBE_WHOLE,
    "scope": _MAYBE_TEXT,
    "probability": _MAYBE_REAL,
    "times": _MAYBE_WHOLE,
    "micro_batches": _STEPS,
    "ranks": _STEPS,
}

_SWEEP = {
    "site": _MAYBE_TEXT,
    "module": _MAYBE_TEXT,
    "count": _NUMBER,
    "element": Field((list,), required=False),
}

REQUESTS: Mapping[str, Mapping[str, Field]] = {
    "ready": {"plotly": Field((bool,), required=False)},
    "resync": {},
    "ping": {},
    "plotly": {},
    "inspect": {"row": _NUMBER, "view": Field((dict,), required=False)},
    "record": {"row": _NUMBER},
    "preview": {**_FAULT, "fault": _MAYBE_TEXT, "row": _NUMBER},
    "arm": {**_FAULT, "fault": _MAYBE_TEXT},
    "disarm": {"fault": _MAYBE_TEXT},
    "enable": {"fault": _TEXT, "on": Field((bool,))},
    "undo": {},
    "redo": {},
    "replay": {"steps": _MAYBE_NUMBER},
    "trace": {},
    "plan_sweep": _SWEEP,
    "sweep": _SWEEP,
    "arm_injection": {"number": _NUMBER},
    "stop": {},
    "save": {"path": _TEXT},
    "load": {"path": _TEXT},
    "export": {"path": _TEXT},
}
"""Every request that the page can make, with its fields."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request from the page that has been checked.

    Attributes:
        kind: One of `REQUESTS`.
        id: Number that the page gave it; the reply carries it.
        fields: The fields that were given.
    """

    kind: str
    id: int
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A message to the page.

    Attributes:
        kind: What it is: ``trace``, ``plan``, ``run``, ``state``, …
        data: Plain data, or that there is none; figures that JSON cannot write travel as text.
        columns: Arrays by name.
    """

    kind: str
    data: Mapping[str, Any] | None = field(default_factory=dict)
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)


def parse(content: object) -> Request:
    """Check a message from the page.

    Raises:
        MessageError: It is too long, of an unknown kind, or a field does not fit.
    """
    if not isinstance(content, Mapping):
        raise MessageError(f"a message is a mapping, not {type(content).__name__}")
    kind, number = content.get("kind"), content.get("id", 0)
    if not isinstance(kind, str) or kind not in REQUESTS:
        raise MessageError(f"no message {kind!r}{did_you_mean(str(kind), REQUESTS)}")
    if not _is(number, (int,)):
        raise MessageError(f"{kind}: id is a whole number, not {number!r}")
    if _length(kind, content) > LARGEST_REQUEST:
        raise MessageError(f"{kind}: longer than {LARGEST_REQUEST} bytes")
    given = {key: value for key, value in content.items() if key not in ("kind", "id")}
    return Request(kind, number, _checked(kind, given))


def _length(kind: str, content: Mapping[str, Any]) -> int:
    try:
        return len(json.dumps(content))
    except RecursionError:
        raise MessageError(f"{kind}: it is nested too deeply to be understood") from None


def _checked(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    known = REQUESTS[kind]
    for name in given:
        if name not in known:
            raise MessageError(f"{kind}: no field {name!r}{did_you_mean(name, known)}")
    present = {name: value for name, value in given.items() if value is not None}
    for name, rule in known.items():
        if name in present:
            _check(kind, name, present[name], rule)
        elif rule.required:
            raise MessageError(f"{kind}: the field {name!r} is missing")
    return present


def _check(kind: str, name: str, value: object, rule: Field) -> None:
    if not _is(value, rule.types):
        wanted = " or ".join(each.__name__ for each in rule.types)
        raise MessageError(f"{kind}: {name} is {wanted}, not {value!r}")
    if isinstance(value, str) and len(value) > rule.longest:
        raise MessageError(f"{kind}: {name} is longer than {rule.longest} characters")


def _is(value: object, types: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in types
    return isinstance(value, types)


def encode(message: Message, seq: int) -> list[tuple[dict[str, Any], bytes]]:
    """A message as the parts that travel: small JSON content and one buffer each."""
    packed = pack(message.kind, message.data, message.columns)
    block = packed.block
    pieces = [block[at : at + LARGEST_PART] for at in range(0, len(block), LARGEST_PART)]
    common = {"seq": seq, "parts": len(pieces), "head": packed.head, "deflated": packed.deflated}
    return [({**common, "part": number}, piece) for number, piece in enumerate(pieces)]
