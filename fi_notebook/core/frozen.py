"""Plain data that nobody can change: what a fault holds, whoever else holds it.

    given = {"index": [0, 3]}
    kept = frozen(given)
    kept == given           # True; it is written as JSON, copied and pickled as a dict is
    kept["index"][0] = 5    # TypeError

Limits: mappings, lists and tuples are frozen, to any depth; another object is kept as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

__all__ = ["FrozenDict", "FrozenList", "frozen"]


def _refuse(self: object, *_args: Any, **_named: Any) -> NoReturn:
    raise TypeError(f"{self!r} is part of a record, which is never changed; make another record")


class FrozenDict(dict[Any, Any]):
    """A dict that is never changed."""

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type, tuple[dict[Any, Any]]]:
        """Copied and pickled whole, not item by item."""
        return type(self), (dict(self),)


class FrozenList(list[Any]):
    """A list that is never changed."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = _refuse
    reverse = sort = _refuse

    def __reduce__(self) -> tuple[type, tuple[list[Any]]]:
        """Copied and pickled whole, not item by item."""
        return type(self), (list(self),)


def frozen(value: Any) -> Any:
    """What was given, frozen; later changes of what was given do not reach it."""
    if isinstance(value, Mapping):
        return FrozenDict({key: frozen(item) for key, item in value.items()})
    if isinstance(value, list):
        return FrozenList(map(frozen, value))
    return tuple(map(frozen, value)) if type(value) is tuple else value
