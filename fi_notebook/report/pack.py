"""A message for the page as one block of bytes: a JSON head, then columns.

    packed = pack("trace", data, columns)
    packed.head        length of the head in bytes
    packed.block       head and columns, each padded to eight bytes; deflated where that pays

The page reads columns in place. JSON has no NaN and no infinity: they travel as text.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fi_notebook.core.files import json_float

__all__ = ["Packed", "pack", "plain"]

_DEFLATE_FROM = 16_000
_ALIGN = 8


class Packed(NamedTuple):
    """One message as bytes.

    Attributes:
        head: Length of the JSON head in bytes, before deflating.
        deflated: Whether the block is deflated (zlib).
        block: The bytes.
    """

    head: int
    deflated: bool
    block: bytes


def pack(kind: str, data: Mapping[str, Any] | None, columns: Mapping[str, np.ndarray]) -> Packed:
    """Pack a message.

    Args:
        kind: What the message is: ``trace``, ``plan``, ``run`` …
        data: Plain data.
        columns: Arrays of uint8, int32, float32 or float64, by name.
    """
    arrays = {name: np.ascontiguousarray(each) for name, each in columns.items()}
    described = [[name, each.dtype.name, each.size] for name, each in arrays.items()]
    record = {"kind": kind, "data": plain(data), "columns": described}
    head = json.dumps(record, allow_nan=False, separators=(",", ":")).encode()
    block = b"".join(map(_padded, (head, *(each.tobytes() for each in arrays.values()))))
    if len(block) < _DEFLATE_FROM:
        return Packed(len(head), False, block)
    return Packed(len(head), True, zlib.compress(block, 1))


def _padded(block: bytes) -> bytes:
    return block + b"\0" * (-len(block) % _ALIGN)


def plain(value: Any) -> Any:
    """A value as JSON can write it: NaN and infinities as text, tuples as lists."""
    if isinstance(value, float):
        return json_float(value)
    if isinstance(value, complex):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(each) for each in value]
    return value if value is None or isinstance(value, (str, int)) else str(value)
