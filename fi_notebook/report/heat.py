"""Errors summed up: the largest of each module, phase and rank.

    table = by_module(comparison)
    table.rows       ['(model)', 'conv1', 'layers', 'layers.0', …]
    table.columns    ['forward', 'backward', 'optimizer']
    table.errors     largest relative L2 of each cell; NaN where no call was made
    table.bad        how many outputs with new NaN or Inf

Limits: an output that was not measured counts as no error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fi_notebook.core.run import Comparison
from fi_notebook.core.site import LOSS_FUNCTION, OUTSIDE, PHASES, module_text
from fi_notebook.report.numbers import number

__all__ = ["HeatTable", "by_module", "by_rank"]


@dataclass(frozen=True, eq=False)
class HeatTable:
    """The largest error of each row and column.

    Attributes:
        rows: Name of each row.
        columns: Name of each column.
        errors: Largest relative L2; NaN where the row makes no call.
        bad: How many outputs hold new NaN or Inf.
        differing: How many outputs differ.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    errors: np.ndarray
    bad: np.ndarray
    differing: np.ndarray

    def text(self, row: int, column: int) -> str:
        """What stands in a cell: ``0.0123``, ``=``, ``3 NaN/Inf``, or nothing."""
        if np.isnan(self.errors[row, column]):
            return ""
        if self.bad[row, column]:
            return f"{self.bad[row, column]:,} NaN/Inf"
        if not self.differing[row, column]:
            return "="
        return number(float(self.errors[row, column]))

    def texts(self) -> np.ndarray:
        """What stands in every cell."""
        cells = [[self.text(r, c) for c in range(len(self.columns))] for r in range(len(self.rows))]
        return np.asarray(cells, dtype=object).reshape(len(self.rows), len(self.columns))

    def take(self, rows: np.ndarray) -> HeatTable:
        """The table of some of its rows."""
        return HeatTable(
            tuple(self.rows[row] for row in rows),
            self.columns,
            self.errors[rows],
            self.bad[rows],
            self.differing[rows],
        )


def by_module(comparison: Comparison) -> HeatTable:
    """The largest error at or below each module, phase by phase."""
    names = [info.path for info in comparison.golden.tables.modules]
    above = [_ancestors(name, names) for name in names]
    own = _summed(comparison, _columns(comparison, "module"), len(names))
    whole = [table.copy() for table in own]
    for module, ancestors in enumerate(above):
        for ancestor in ancestors:
            whole[0][ancestor] = np.fmax(whole[0][ancestor], own[0][module])
            whole[1][ancestor] += own[1][module]
            whole[2][ancestor] += own[2][module]
    table = _table([module_text(name) for name in names], whole)
    return table.take(np.flatnonzero(~np.isnan(table.errors).all(axis=1)))


def by_rank(comparisons: Mapping[int, Comparison]) -> HeatTable:
    """The largest error of each rank, phase by phase."""
    tables = [_summed(c, np.zeros_like(_columns(c, "phase")), 1) for c in comparisons.values()]
    stacked = [np.concatenate(parts) for parts in zip(*tables)] or _summed_nothing(0)
    return _table([f"rank {rank}" for rank in comparisons], stacked)


def _columns(comparison: Comparison, name: str) -> np.ndarray:
    """A column of the calls for each row that the golden run made."""
    rows = comparison.columns["golden"]
    calls = comparison.golden.site_columns["call"][rows[rows >= 0]]
    return comparison.golden.calls[name][calls].astype(np.int64)


def _ancestors(name: str, names: list[str]) -> tuple[int, ...]:
    """Numbers of the modules above a module; none for what is no module."""
    if name in ("", LOSS_FUNCTION, OUTSIDE):
        return ()
    parts = name.split(".")
    above = ["", *(".".join(parts[:n]) for n in range(1, len(parts)))]
    return tuple(names.index(module) for module in above if module in names)


def _summed_nothing(rows: int) -> list[np.ndarray]:
    shape = (rows, len(PHASES))
    return [np.full(shape, np.nan), np.zeros(shape, dtype=int), np.zeros(shape, dtype=int)]


def _summed(comparison: Comparison, groups: np.ndarray, count: int) -> list[np.ndarray]:
    """Largest error, outputs with new NaN or Inf, and differing outputs, by group and phase."""
    made = comparison.columns["golden"] >= 0
    columns = {name: values[made] for name, values in comparison.columns.items()}
    cell = groups, _columns(comparison, "phase")
    errors, bad, differing = _summed_nothing(count)
    relative = np.nan_to_num(columns["relative_l2"], nan=0.0, posinf=np.inf)
    np.fmax.at(errors, cell, relative)
    np.add.at(bad, cell, (columns["new_nan"] > 0) | (columns["new_inf"] > 0))
    np.add.at(differing, cell, ~columns["equal"])
    return [errors, bad, differing]


def _table(rows: Sequence[str], tables: Sequence[np.ndarray]) -> HeatTable:
    used = np.flatnonzero(~np.isnan(tables[0]).all(axis=0))
    errors, bad, differing = (values[:, used] for values in tables)
    return HeatTable(tuple(rows), tuple(PHASES[p] for p in used), errors, bad, differing)
