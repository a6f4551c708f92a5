"""The text twins of the figures of one tensor.

    f1 at relu*2:0 (forward, act) in step 0
      changed 1 of 6 elements (16.67 %)
      float32, 2 × 3, functional
      element          value  hex         sign|exponent|mantissa
      (0, 2)   before    1.0  0x3f800000  0|01111111|00000000000000000000000  1,048,576 ULP
               after   1.125  0x3f900000  0|01111111|00100000000000000000000  bit 20 (mantissa)

Limits: of many changed elements the first few are shown, and how many more there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fi_notebook.core.injection import ElementChange, Injection
from fi_notebook.core.site import Site
from fi_notebook.core.stats import NONFINITE_NAMES, STATISTICS
from fi_notebook.core.words import counted
from fi_notebook.report.arrays import elements_of, furthest, values_of
from fi_notebook.report.names import cleaned
from fi_notebook.report.numbers import (
    bit_fields,
    changed_bits,
    exact,
    field_names,
    hexadecimal,
    index_text,
    number,
    pair,
    shape_text,
    share,
    ulps,
)
from fi_notebook.report.table import indented, table

__all__ = ["difference_heatmap", "injections", "scatter", "tensor_diff", "values"]


def injections(found: Iterable[Injection], limit: int = 8) -> str:
    """Every strike with the elements that it changed.

    Args:
        found: The strikes; a `Run` is one such series.
        limit: How many elements to show of each.
    """
    blocks = [tensor_diff(injection, limit) for injection in found]
    return "\n\n".join(blocks) or "no fault struck"


def tensor_diff(injection: Injection, limit: int = 8) -> str:
    """The struck tensor before and after: statistics, and the changed elements with bits.

    Args:
        injection: One strike.
        limit: How many elements to show.
    """
    site = injection.site
    numel = int(np.prod(injection.before.shape, dtype=np.int64))
    where = ", ".join(cleaned(part) for part in (site.phase, site.module) if part)
    parts = [
        f"{cleaned(injection.fault)} at {cleaned(site)} ({where}) in step {injection.step}",
        f"changed {share(injection.changed, numel, 'element')}",
        f"{site.dtype}, {shape_text(injection.before.shape)}, {injection.kind}",
        injection.note,
        _statistics(injection),
        _elements(injection, limit),
    ]
    head, *rest = [part for part in parts if part]
    return "\n".join([head, *map(indented, rest)])


def _statistics(injection: Injection) -> str:
    before, after = injection.before, injection.after
    values = [
        (NONFINITE_NAMES.get(name, name), getattr(before, name), getattr(after, name))
        for name in STATISTICS
    ]
    cells = [
        [name, *_pair(first, second), "" if _same(first, second) else "*"]
        for name, first, second in values
    ]
    return table(("", "before", "after", ""), cells, right={1, 2})


def _pair(first: float, second: float) -> list[str]:
    """Two values of a statistic; a dash where no element is finite."""
    texts = pair(first, second)
    return ["-" if np.isnan(x) else text for x, text in zip((first, second), texts, strict=True)]


def _same(first: float, second: float) -> bool:
    return first == second or (np.isnan(first) and np.isnan(second))


def _elements(injection: Injection, limit: int) -> str:
    shown, dtype = injection.elements[:limit], injection.site.dtype
    if not shown:
        return ""
    rows = []
    for change in shown:
        bits = (change.before_bits, change.after_bits)
        values = [exact(v, dtype) for v in (change.before, change.after)]
        names = [index_text(change.index), ""]
        notes = [_moved(change, dtype), changed_bits(change, dtype)]
        rows += [
            [name, word, value, hexadecimal(raw, dtype), bit_fields(raw, dtype), note]
            for name, word, value, raw, note in zip(
                names, ("before", "after"), values, bits, notes, strict=True
            )
        ]
    text = table(("element", "", "value", "hex", field_names(dtype), ""), rows, right={2})
    left = injection.changed - len(shown)
    return f"{text}\n… and {counted(left, 'more changed element')}" if left > 0 else text


def _moved(change: ElementChange, dtype: str) -> str:
    """How many representable values the element moved by, where that can be counted."""
    moved = ulps(change, dtype)
    return "" if moved is None else f"{moved:,} ULP"


def difference_heatmap(injection: Injection, limit: int = 8) -> str:
    """The elements that changed most, by the size of the difference.

    Args:
        injection: One strike.
        limit: How many elements to show.
    """
    changes = sorted(injection.elements, key=lambda c: _size(c.before, c.after), reverse=True)
    if not changes:
        return f"{cleaned(injection.site)}: no element changed"
    dtype = injection.site.dtype
    rows = [
        [
            index_text(c.index),
            exact(c.before, dtype),
            exact(c.after, dtype),
            _gap(c.before, c.after),
        ]
        for c in changes[:limit]
    ]
    return table(("element", "before", "after", "difference"), rows, right={1, 2, 3})


def _size(before: complex, after: complex) -> float:
    apart = abs(after - before)
    return float("inf") if np.isnan(apart) else float(apart)


def _gap(before: complex, after: complex) -> str:
    return number(after - before) if np.isfinite(after) and np.isfinite(before) else "-"


def scatter(injection: Injection) -> str:
    """How the faulty values lie beside the golden ones."""
    whole = values_of(injection)
    if whole is None:
        return f"{cleaned(injection.site)}: the tensors of this injection were not kept"
    before, after = whole
    changed = ~((before == after) | (np.isnan(before) & np.isnan(after)))
    tests = {
        "unchanged": ~changed,
        "larger": changed & (after > before),
        "smaller": changed & (after < before),
        "new NaN": changed & np.isnan(after),
        "other sign": changed & (np.sign(before) * np.sign(after) < 0),
    }
    rows = [[name, share(int(test.sum()), before.size)] for name, test in tests.items()]
    return f"{cleaned(injection.site)}, faulty against golden:\n{indented(table(('', ''), rows))}"


def values(site: Site, tensor: Any, limit: int = 8) -> str:
    """The elements that are furthest from zero; NaN and the infinities first.

    Args:
        site: The output.
        tensor: Its values, as a tensor or an array.
        limit: How many elements to show.
    """
    array = elements_of(tensor)
    head = f"{cleaned(site)}: {site.dtype}, {shape_text(array.shape)}"
    chosen = furthest(array, limit)
    places = [tuple(map(int, np.unravel_index(n, array.shape))) for n in chosen]
    found = array.ravel()[chosen].tolist()
    rows = [[index_text(at), number(each)] for at, each in zip(places, found, strict=True)]
    return f"{head}\n{indented(table(('element', 'value'), rows, right={1}))}" if rows else head
