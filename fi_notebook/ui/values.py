"""The values of one tensor as the page shows them: a window of it, and one element.

    window(tensor, around=[2, 0, 3])   {"grid": [...], "facets": 8, "rows": 4, "cols": 4, …}
    element(tensor, [2, 0, 3])         {"index": [2, 0, 3], "value": -0.31, "bits": "be9eb852"}
    preview(tensor, fault, site)       what a fault would change, without running anything

A window shows planes of the last two axes side by side, one for each position of the axis
before; a vector goes over several lines. Only what is shown leaves the device: at most
`MOST` elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fi_notebook import faults
from fi_notebook.core.fault import Fault
from fi_notebook.core.site import Site
from fi_notebook.engine.world import process_rank
from fi_notebook.report.payload import element_payload

__all__ = [
    "COLUMNS",
    "FACETS",
    "LINE",
    "MOST",
    "ROWS",
    "element",
    "preview",
    "window",
]

ROWS, COLUMNS = 64, 96
"""The largest plane that is shown."""

FACETS = 24
"""How many planes are shown side by side at most."""

LINE = 32
"""Elements of a vector in one line."""

MOST = ROWS * COLUMNS
"""Elements of a window, at most."""

_MARKED = 64  # elements that a preview marks


def window(
    tensor: torch.Tensor, corner: Sequence[int] | None = None, around: Sequence[int] | None = None
) -> dict[str, Any]:
    """The values of a window of a tensor.

    Args:
        tensor: A tensor of any shape with at least one element.
        corner: Its first element, brought inside; None lays the window around an element.
        around: That element; None is the first of all.

    Returns:
        The shape, the window's corner and how many facets, rows and columns it has, and
        its values facet by facet.
    """
    shape = list(tensor.shape)
    room = _room(shape)
    given = corner if corner is not None else _centred(around or [0] * len(shape), room)
    first = [
        max(0, min(at, size - extent)) for at, size, extent in zip(given, shape, room, strict=True)
    ]
    if len(shape) == 1:
        first = [-(-first[0] // LINE) * LINE]
    part = tensor.detach()[tuple(slice(f, f + r) for f, r in zip(first, room, strict=True))]
    values = (part.abs() if part.is_complex() else part).double().cpu().reshape(-1)
    lines = [1, 1, *room][-3:]
    facets, rows, cols = [1, -(-len(values) // LINE), LINE] if room[-1:] == room else lines
    return {
        "shape": shape,
        "corner": first,
        "facets": facets,
        "rows": rows,
        "cols": min(cols, len(values)),
        "grid": values.tolist(),
    }


def _room(shape: Sequence[int]) -> list[int]:
    """How many elements of each axis a window shows."""
    if len(shape) < 2:
        return [min(size, LINE * ROWS) for size in shape]
    rows, cols = min(shape[-2], ROWS), min(shape[-1], COLUMNS)
    leading = [1] * (len(shape) - 2)
    if leading:
        leading[-1] = max(1, min(shape[-3], FACETS, MOST // (rows * cols)))
    return [*leading, rows, cols]


def _centred(around: Sequence[int], room: Sequence[int]) -> list[int]:
    return [at - extent // 2 for at, extent in zip(around, room, strict=True)]


def element(tensor: Any, index: Sequence[int]) -> dict[str, Any]:
    """One element: its value, and its bits where the dtype has a bit lens."""
    scalar = tensor.detach()[tuple(index)].reshape(1).cpu()
    bits = None
    if not scalar.is_complex():
        size = 8 * scalar.element_size()
        bits = f"{int(faults.bits.bit_view(scalar).item()) % (1 << size):x}"
    return {"index": list(index), "value": scalar.item(), "bits": bits}


def preview(tensor: torch.Tensor, fault: Fault, site: Site) -> dict[str, Any]:
    """What a fault would change in the recorded values. Nothing is run, nothing is written.

    The draws are those of its first step, seeded as the engine seeds them, so that a
    replay of that step strikes these very elements.

    Args:
        tensor: The recorded values.
        fault: The fault as it would be armed.
        site: Where it strikes.

    Raises:
        FaultError: The fault cannot strike this tensor; says why.
    """
    faults.check_tensor(fault.model, fault.parameters, fault.elements, site.dtype, site.shape)
    if faults.get(fault.model).kind != "value":
        return {"note": f"{fault.model} needs the running call; press Replay to see what it does"}
    step = fault.steps.first or 0
    identity = faults.firing(fault, site, step, rank=process_rank())
    draws = faults.generator(fault.seed, *identity, device=tensor.device)
    corruption = faults.corrupt(tensor, fault.model, fault.parameters, fault.elements, draws)
    changes = corruption.changes(tuple(tensor.shape), limit=_MARKED)
    return {
        "dtype": site.dtype,
        "step": step,
        "comes_up": faults.comes_up(fault.probability, fault.seed, *identity),
        "changed": corruption.changed,
        "elements": [element_payload(each) for each in changes],
    }
