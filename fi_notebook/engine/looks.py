"""What is looked at of each output: statistics, hash, value, distance from the golden run.

    looks = Looks(model, statistics=True, store=ValueStore(budget), golden=None)
    looks.look(key, output, read, bare=False)      # once for each output, in order
    looks.columns(); looks.hashes()                # one entry per output

Nothing is looked at twice. A view of memory that was not written since has what the site
that it is of has; an output that is equal to the golden one has its statistics and hash.
A hash is taken of what is kept, when it is asked for, and at once of what differs from the
golden run; where neither keeps nor compares anything, none is.

Limits: what other code than a call writes into parameters, or into memory that a call of
the step made, is not seen until a call writes there too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import nn

from fi_notebook.core.stats import STATISTICS
from fi_notebook.core.trace import Trace
from fi_notebook.engine.bits import position_hash
from fi_notebook.engine.makers import Makers, Shown
from fi_notebook.engine.measure import EQUAL, Measure, compare_kept
from fi_notebook.engine.outputs import Output
from fi_notebook.engine.ruler import Ruler
from fi_notebook.engine.stats import Statistics, read_back
from fi_notebook.engine.storages import is_readable, local_part
from fi_notebook.engine.store import Base, Kept, SiteKey, ValueStore

__all__ = ["Looks"]


class Looks:
    """What is looked at of the outputs of one step.

    Args:
        model: The model; views of its parameters and buffers are known.
        statistics: Whether outputs are summarised.
        store: Where their values are kept, or None.
        golden: What was kept of the golden run, to measure against, or None.

    Attributes:
        makers: What made each tensor.
        measures: For each row that was measured, its golden row and what was found.
        unequal: For each row that differs, what the golden run kept of it.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        statistics: bool,
        store: ValueStore | None,
        golden: Mapping[SiteKey, Kept] | None,
    ) -> None:
        """Start with nothing seen."""
        self.makers = Makers(chain(model.parameters(), model.buffers()))
        self.measures: dict[int, tuple[int, Measure]] = {}
        self.unequal: dict[int, Kept] = {}
        self.idle = not statistics and store is None and golden is None
        self._summarises = statistics
        self._statistics = Statistics()
        self._store, self._golden = store, golden
        self._keys: list[SiteKey] = []
        self._as_golden: dict[int, int] = {}
        self._hashes = _Hashes()
        self._ruler = None if golden is None else Ruler(single=True)

    def look(
        self,
        key: SiteKey,
        output: Output,
        read: Sequence[torch.Tensor],
        *,
        bare: bool = False,
        folded: bool = False,
    ) -> bool:
        """Look at the next output, before it is noted.

        Args:
            key: Its identity.
            output: The output.
            read: The tensors that its call read.
            bare: Whether it holds no values that mean anything.
            folded: Whether it is summarised only where that costs nothing.

        Returns:
            Whether its values are known from now on.
        """
        row = len(self._keys)
        self._keys.append(key)
        if bare:
            self._statistics.add(None)
            return False
        shown, tensor = self.makers.shown(output, read), local_part(output.tensor)
        readable = is_readable(tensor)
        if readable and self._store is not None:
            base = None if shown is None else Base(self._keys[shown.row], shown.start)
            self._store.add(key, row, tensor, base)
        if readable and self._golden is not None:
            self._compare(row, key, tensor, shown)
        if self._summarises and not (folded and shown is None):
            return self._summarise(row, key, tensor, shown) and readable
        self._statistics.add(None)
        return readable and not self._summarises

    def _compare(self, row: int, key: SiteKey, tensor: torch.Tensor, shown: Shown | None) -> None:
        """Measure an output against the golden one, where that was kept."""
        assert self._golden is not None  # asked by the caller
        kept = self._golden.get(key)
        if kept is None:
            return
        found = None if shown is None else self._measured_before(kept, tensor, shown)
        if found is None:
            found = compare_kept(kept, tensor, self._ruler)
        self.measures[row] = (kept.row, found)
        if not found.equal:
            self.unequal[row] = kept

    def _measured_before(self, kept: Kept, tensor: torch.Tensor, shown: Shown) -> Measure | None:
        """What is known of a view that shows what the golden one did of the same base.

        Of an equal tensor every view is equal; a view of all its elements, in whatever
        order, is as far from the golden one as the tensor is.
        """
        _, found = self.measures.get(shown.row, (0, None))
        if found is None or kept.held is None or kept.base is None:
            return None
        alike = kept.shape == tensor.shape and kept.held.stride() == tensor.stride()
        if not alike or kept.base != Base(self._keys[shown.row], shown.start):
            return None
        if found.equal:
            return EQUAL._replace(numel=tensor.numel())
        return found if shown.permuted else None

    def _summarise(self, row: int, key: SiteKey, tensor: torch.Tensor, shown: Shown | None) -> bool:
        """Summarise and hash an output, or note whose statistics it has."""
        measured = self.measures.get(row)
        if measured is not None and measured[1].equal:
            self._as_golden[row] = self._hashes.golden[row] = measured[0]
        elif shown is not None and shown.permuted and shown.row in self._as_golden:
            self._as_golden[row] = self._as_golden[shown.row]
        elif shown is not None and shown.permuted:
            self._statistics.repeat(shown.row)
            self._hash(row, key, tensor, shown)
            return True
        else:
            taken = self._statistics.add(tensor)
            if taken:
                self._hash(row, key, tensor, shown)
            return taken
        self._statistics.add(None)
        if row not in self._hashes.golden:
            self._hash(row, key, tensor, shown)
        return True

    def _hash(self, row: int, key: SiteKey, tensor: torch.Tensor, shown: Shown | None) -> None:
        """Hash what is not kept; what is, when somebody asks."""
        if shown is not None and shown.alike:
            self._hashes.same[row] = shown.row
        elif self._store is not None and key in self._store.kept:
            self._hashes.kept[row] = key
        elif self._golden is not None:
            self._hashes.taken[row] = position_hash(tensor)

    def unsee(self, row: int) -> None:
        """What an output showed has no meaning: it was written over, and nobody had read it."""
        self._statistics.drop(row)
        self._hashes.drop(row)
        for known in (self.measures, self.unequal, self._as_golden):
            known.pop(row, None)

    def columns(self, golden: Trace | None = None) -> dict[str, np.ndarray]:
        """One column per statistic.

        Args:
            golden: Trace of the golden run; without it NaN and -1 stand for what it tells.
        """
        columns = self._statistics.columns()
        if golden is not None and self._as_golden:
            rows, theirs = list(self._as_golden), list(self._as_golden.values())
            for name in STATISTICS:
                columns[name][rows] = golden.site_columns[name][theirs]
        return columns

    def measure_columns(self, sites: int, golden_rows: Mapping[int, int]) -> dict[str, np.ndarray]:
        """The measures as columns; see `Recorder.measure_columns`."""
        unknown = (math.nan,) * len(Measure._fields)
        rows: list[tuple[Any, ...]] = [unknown] * sites
        for row, (golden, found) in self.measures.items():
            if golden_rows.get(row) == golden:
                rows[row] = found
        columns = zip(*rows, strict=True) if rows else [()] * len(Measure._fields)
        return {
            name: np.asarray(column, dtype=np.float64)
            for name, column in zip(Measure._fields, columns, strict=True)
        }

    def hashes(self, golden: Trace | None = None) -> np.ndarray:
        """The hash of each output; 0 where none was taken. What is kept is hashed now."""
        kept = {} if self._store is None else self._store.kept
        return self._hashes.column(len(self._keys), kept, golden)


class _Hashes:
    """Where the hash of each row comes from.

    Attributes:
        taken: The hash itself, where it lies.
        kept: What the store kept the tensor, or its hash, under.
        golden: Row of the golden trace that has it.
        same: Earlier row that has it.
    """

    def __init__(self) -> None:
        """Start with no row."""
        self.taken: dict[int, torch.Tensor] = {}
        self.kept: dict[int, SiteKey] = {}
        self.golden: dict[int, int] = {}
        self.same: dict[int, int] = {}

    def drop(self, row: int) -> None:
        """A row has none."""
        for known in (self.taken, self.kept, self.golden, self.same):
            known.pop(row, None)

    def column(self, count: int, kept: Mapping[SiteKey, Kept], golden: Trace | None) -> np.ndarray:
        """All of them; those of kept tensors are taken now, and known from then on."""
        for row, key in self.kept.items():
            self.taken[row] = kept[key].hashed()
        self.kept = {}
        column = np.zeros(count, dtype=np.int64)
        if self.taken:
            column[list(self.taken)] = read_back(list(self.taken.values()))
        if self.golden and golden is not None:
            column[list(self.golden)] = golden.site_columns["hash"][list(self.golden.values())]
        for row, source in self.same.items():  # in order: a source is settled before
            column[row] = column[source]
        return column
