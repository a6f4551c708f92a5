"""Columns of which some are made when they are first asked for.

    columns = Columns({"mean": means}, {"hash": make_hashes})
    columns["hash"]         # made now, and kept

Limits: what a column is made from lives until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

__all__ = ["Columns"]


class Columns(Mapping[str, np.ndarray]):
    """Columns of which some are made when they are first asked for.

    Args:
        known: Columns by name.
        later: What makes the others.
    """

    def __init__(
        self, known: Mapping[str, np.ndarray], later: Mapping[str, Callable[[], np.ndarray]]
    ) -> None:
        """Make nothing yet."""
        self._known, self._later = dict(known), dict(later)

    def __getitem__(self, name: str) -> np.ndarray:
        """A column, made now if need be."""
        if name in self._later:
            self._known[name] = self._later[name]()
            del self._later[name]
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter((*self._known, *self._later))

    def __len__(self) -> int:
        """How many columns there are."""
        return len(self._known) + len(self._later)
