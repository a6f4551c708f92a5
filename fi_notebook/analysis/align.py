"""Rows of two traces matched by site, tolerant of streams of different length.

    >>> alignment = align(golden, faulty)
    >>> alignment.golden_rows  # -1 where only the faulty run has the site
    array([0, 1, 2, -1, 3])
    >>> alignment.structural
    "only the faulty run makes relu*2:0 (forward, layer.1, run.py:12); in all 1 site …"

A site is found again by where its call stands (phase, module, call of the module,
parameter), by its operator and by which call of that operator it is *there*; not by
its place in the stream, and not by its number over the whole step, which one extra
call would shift for every later call. Where both runs make the same calls this is the
same as matching by site text. Where one makes more of them there, the shape tells first
which they are.

Calls that mean nothing (`analysis.incidental`) are no structural difference.

Limits: a module that was renamed between two scripts has no counterpart; the prefixes
of wrappers (DDP, torch.compile) are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from fi_notebook.analysis.incidental import is_incidental, is_incidental_alone
from fi_notebook.core.match import unwrapped
from fi_notebook.core.trace import Tables, Trace

__all__ = ["Alignment", "align", "describe"]


@dataclass(frozen=True, eq=False)
class Alignment:
    """Which row of one trace is which row of the other.

    Attributes:
        golden_rows: Site rows of the golden trace in execution order of the faulty
            run; -1 where only the faulty run has the site.
        faulty_rows: Site rows of the faulty trace; -1 where only the golden run has it.
        structural: The first site that only one run has, or whose shape differs, in
            plain words, bare memory aside; ``""`` where the runs have the same structure.
    """

    golden_rows: np.ndarray
    faulty_rows: np.ndarray
    structural: str = ""

    def __len__(self) -> int:
        """How many sites either run has."""
        return len(self.golden_rows)

    @property
    def matched(self) -> np.ndarray:
        """Positions of the sites that both runs have."""
        return np.flatnonzero((self.golden_rows >= 0) & (self.faulty_rows >= 0))

    @property
    def only_golden(self) -> np.ndarray:
        """Positions of the sites that only the golden run has."""
        return np.flatnonzero(self.faulty_rows < 0)

    @property
    def only_faulty(self) -> np.ndarray:
        """Positions of the sites that only the faulty run has."""
        return np.flatnonzero(self.golden_rows < 0)


def align(golden: Trace, faulty: Trace) -> Alignment:
    """Match the sites of two traces.

    Args:
        golden: The trace to compare with.
        faulty: The trace to be judged.

    Returns:
        Every site that either run has, once, in execution order of the faulty run; a
        site that only the golden run has stands after the one that precedes it there.
    """
    golden_keys, faulty_keys = _site_keys(golden, faulty)
    _, golden_hit, faulty_hit = np.intersect1d(
        golden_keys, faulty_keys, assume_unique=True, return_indices=True
    )
    golden_rows, faulty_rows = _merge(len(golden), len(faulty), golden_hit, faulty_hit)
    return Alignment(
        golden_rows, faulty_rows, _structural(golden, faulty, golden_rows, faulty_rows)
    )


def _merge(
    golden_count: int, faulty_count: int, golden_hit: np.ndarray, faulty_hit: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Both row columns, the golden-only rows put where they would have come."""
    counterpart = np.full(golden_count, -1, dtype=np.int64)
    counterpart[golden_hit] = faulty_hit
    partner = np.full(faulty_count, -1, dtype=np.int64)
    partner[faulty_hit] = golden_hit
    lone = np.flatnonzero(counterpart < 0)
    before = np.maximum.accumulate(np.where(counterpart < 0, -1, np.arange(golden_count)))
    anchor = np.where(before[lone] < 0, -1, counterpart[before[lone]])
    place = np.concatenate([np.arange(faulty_count), anchor])
    is_lone = np.concatenate([np.zeros(faulty_count, bool), np.ones(len(lone), bool)])
    order = np.lexsort((np.arange(len(place)), is_lone, place))
    golden_rows = np.concatenate([partner, lone])[order]
    faulty_rows = np.concatenate([np.arange(faulty_count), np.full(len(lone), -1)])[order]
    return golden_rows.astype(np.int64), faulty_rows.astype(np.int64)


def _site_keys(golden: Trace, faulty: Trace) -> tuple[np.ndarray, np.ndarray]:
    """One number per site, the same for sites that are each other's counterpart."""
    calls = _call_keys(golden, faulty)
    columns = [
        [keys[at["call"]], at["output"], at["index"]]
        for at, keys in zip((golden.site_columns, faulty.site_columns), calls, strict=True)
    ]
    both = _codes([np.concatenate(pair) for pair in zip(*columns, strict=True)])
    return both[: len(golden)], both[len(golden) :]


def _call_keys(golden: Trace, faulty: Trace) -> tuple[np.ndarray, np.ndarray]:
    """One number per call: where it stands, its operator, and the how-manieth there.

    Where one run makes more of them than the other, those of the same shape are matched first,
    and then what is left.
    """
    context = [np.concatenate(pair) for pair in zip(*_contexts(golden, faulty), strict=True)]
    codes = _codes(context)
    split = golden.call_count
    keys = _numbered(codes, split)
    lone = _is_lone(keys, split)
    if np.any(lone):
        uneven = np.isin(codes, codes[lone])
        shapes = np.concatenate(_call_shapes(golden, faulty))
        keys = _numbered(_codes([codes, np.where(uneven, shapes, 0)]), split)
        lone = _is_lone(keys, split)
        keys = _codes([lone, np.where(lone, _numbered(_codes([codes, lone]), split), keys)])
    return keys[:split], keys[split:]


def _numbered(codes: np.ndarray, split: int) -> np.ndarray:
    """One number per call of either run: its code, and the how-manieth of its run has it."""
    nth = np.concatenate([_occurrence(codes[:split]), _occurrence(codes[split:])])
    return _codes([codes, nth])


def _is_lone(keys: np.ndarray, split: int) -> np.ndarray:
    """Whether the other run has no call of the same key."""
    golden, faulty = keys[:split], keys[split:]
    return ~np.concatenate([np.isin(golden, faulty), np.isin(faulty, golden)])


def _call_shapes(golden: Trace, faulty: Trace) -> list[np.ndarray]:
    """The number of the shape of each call's first output; -1 where it has none."""
    numbers = _shared(golden.tables, faulty.tables, lambda tables: tables.shapes)
    found = []
    for trace, number in zip((golden, faulty), numbers, strict=True):
        shapes = np.full(trace.call_count, -1, dtype=np.int64)
        calls, first = np.unique(trace.site_columns["call"], return_index=True)
        shapes[calls] = number[trace.site_columns["shape"][first]]
        found.append(shapes)
    return found


def _contexts(golden: Trace, faulty: Trace) -> list[list[np.ndarray]]:
    """The columns that say where each call of each trace stands."""
    shared = [
        _shared(golden.tables, faulty.tables, names)
        for names in (
            lambda tables: tables.ops,
            lambda tables: [unwrapped(module.path) for module in tables.modules],
            lambda tables: ["", *map(unwrapped, tables.parameters)],
        )
    ]
    return [
        [
            ops[trace.calls["op"]],
            modules[trace.calls["module"]],
            parameters[trace.calls["parameter"] + 1],
            *(trace.calls[name] for name in ("counted", "phase", "module_call", "micro_batch")),
        ]
        for trace, ops, modules, parameters in zip((golden, faulty), *shared, strict=True)
    ]


def _shared(
    golden: Tables, faulty: Tables, names: Callable[[Tables], Sequence[Hashable]]
) -> tuple[np.ndarray, np.ndarray]:
    """The number of each name, the same in both traces."""
    number: dict[Hashable, int] = {}
    first, second = (
        np.asarray([number.setdefault(name, len(number)) for name in names(tables)], dtype=np.int64)
        for tables in (golden, faulty)
    )
    return first, second


def _codes(columns: Sequence[np.ndarray]) -> np.ndarray:
    """One small number per distinct row of the columns."""
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values = column.astype(np.int64)
        low = values.min(initial=0)
        span = int(values.max(initial=0) - low) + 1
        codes = np.unique(codes * span + (values - low), return_inverse=True)[1].reshape(-1)
    return codes


def _occurrence(codes: np.ndarray) -> np.ndarray:
    """For each entry how many equal ones stand before it."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(codes) else order
    lengths = np.diff(np.r_[starts, len(codes)])
    counts = np.empty(len(codes), dtype=np.int64)
    counts[order] = np.arange(len(codes)) - np.repeat(starts, lengths)
    return counts


def _structural(
    golden: Trace, faulty: Trace, golden_rows: np.ndarray, faulty_rows: np.ndarray
) -> str:
    shapes = [
        np.where(rows < 0, -1, numbers[trace.site_columns["shape"][np.maximum(rows, 0)]])
        if len(trace)
        else np.full(len(rows), -1)
        for trace, rows, numbers in zip(
            (golden, faulty),
            (golden_rows, faulty_rows),
            _shared(golden.tables, faulty.tables, lambda tables: tables.shapes),
            strict=True,
        )
    ]
    passing = np.zeros(len(golden_rows), bool)
    for trace, mine, theirs in (
        (golden, golden_rows, faulty_rows),
        (faulty, faulty_rows, golden_rows),
    ):
        passing |= is_incidental(trace, mine)
        passing |= is_incidental_alone(trace, mine) & (theirs < 0)
    differs = np.flatnonzero((shapes[0] != shapes[1]) & ~passing)
    if not len(differs):
        return ""
    first = _first_words(golden, faulty, int(golden_rows[differs[0]]), int(faulty_rows[differs[0]]))
    lone_golden, lone_faulty = (
        int((rows[differs] < 0).sum()) for rows in (faulty_rows, golden_rows)
    )
    reshaped = len(differs) - lone_golden - lone_faulty
    counts = [
        f"{count} {words}"
        for count, words in (
            (lone_golden, "only in the golden run"),
            (lone_faulty, "only in the faulty run"),
            (reshaped, "of another shape"),
        )
        if count
    ]
    return f"{first}; in all, sites: {', '.join(counts)}"


def _first_words(golden: Trace, faulty: Trace, golden_row: int, faulty_row: int) -> str:
    if faulty_row < 0:
        return f"only the golden run makes {describe(golden, golden_row)}"
    if golden_row < 0:
        return f"only the faulty run makes {describe(faulty, faulty_row)}"
    return (
        f"{describe(golden, golden_row)} has the shape {golden.site(golden_row).shape} "
        f"in the golden run and {faulty.site(faulty_row).shape} in the faulty run"
    )


def describe(trace: Trace, row: int) -> str:
    """A site in words: ``relu*2:0 (forward, layer.1, run.py:12)``."""
    site = trace.site(row)
    where = [site.phase, site.module, site.code[0].label if site.code else ""]
    return f"{site} ({', '.join(part for part in where if part)})"
