"""The values of one tensor as the page shows them: a window of its last two axes, one element.

    window(tensor, [2, 0, 3])     {"grid": [...], "rows": 3, "cols": 8, "origin": [0, 0], ...}
    element(tensor, [2, 0, 3])    {"index": [2, 0, 3], "value": -0.31, "bits": "be9eb852"}
    preview(tensor, model, …)     what a fault would change, without running anything

Only what is shown leaves the device: at most `ROWS` times `COLUMNS` elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fi_notebook import faults
from fi_notebook.core.fault import Elements
from fi_notebook.core.run import ElementChange

__all__ = ["COLUMNS", "ROWS", "element", "element_payload", "preview", "window"]

ROWS = 64
COLUMNS = 96


def window(tensor: Any, index: Sequence[int]) -> dict[str, Any]:
    """The values around an element in the last two axes; the others stay where it is.

    Args:
        tensor: A tensor of any shape.
        index: Coordinates of the element in the middle.
    """
    shape = list(tensor.shape)
    plane = tensor.detach()
    fixed = list(index[:-2])
    for at in fixed:
        plane = plane[at]
    plane = plane.reshape((1,) * (2 - plane.dim()) + tuple(plane.shape))
    centre = [0, 0, *index][-2:]
    origin = [_start(c, n, w) for c, n, w in zip(centre, plane.shape, (ROWS, COLUMNS), strict=True)]
    part = plane[origin[0] : origin[0] + ROWS, origin[1] : origin[1] + COLUMNS]
    values = (part.abs() if part.is_complex() else part).double().cpu()
    rows, columns = values.shape
    grid = values.reshape(-1).tolist()
    return {
        "shape": shape,
        "fixed": fixed,
        "origin": origin,
        "rows": rows,
        "cols": columns,
        "grid": grid,
    }


def _start(centre: int, size: int, room: int) -> int:
    """Where a window of this room begins, so that it stays inside."""
    return max(0, min(centre - room // 2, size - room))


def element(tensor: Any, index: Sequence[int]) -> dict[str, Any]:
    """One element: its value, and its bits where the dtype has a bit lens."""
    scalar = tensor.detach()[tuple(index)].reshape(1).cpu()
    bits = None
    if not scalar.is_complex():
        size = 8 * scalar.element_size()
        bits = f"{int(faults.bits.bit_view(scalar).item()) % (1 << size):x}"
    return {"index": list(index), "value": scalar.item(), "bits": bits}


def element_payload(change: ElementChange) -> dict[str, Any]:
    """A changed element with its bits as hexadecimal text."""
    record = asdict(change)
    hexed = [record.pop("before_bits"), record.pop("after_bits")]
    return record | {"bits": [None if each is None else f"{each:x}" for each in hexed]}


def preview(
    tensor: Any,
    model: str,
    parameters: Mapping[str, Any],
    elements: Elements,
    seed: int,
    identity: Sequence[object] = (),
) -> dict[str, Any]:
    """What a fault would change in these values. Nothing is run, nothing is written.

    Args:
        tensor: The recorded values.
        model: Name of the fault model.
        parameters: Its parameters.
        elements: Which elements.
        seed: Seed of the fault.
        identity: What else the engine seeds the draws from, for the same draws as a replay.

    Raises:
        FaultError: The fault cannot strike this tensor; says why.
    """
    checked = faults.check(model, parameters)
    faults.check_elements(elements)
    dtype = faults.bits.dtype_name(tensor.dtype)
    faults.check_tensor(model, checked, elements, dtype, tuple(tensor.shape))
    if faults.get(model).kind != "value":
        return {"note": f"{model} needs the running call; press Replay to see what it does"}
    draws = faults.generator(seed, *identity, device=tensor.device)
    corruption = faults.corrupt(tensor, model, checked, elements, draws)
    changes = corruption.changes(tuple(tensor.shape), limit=8)
    return {
        "dtype": dtype,
        "changed": corruption.changed,
        "elements": [element_payload(each) for each in changes],
    }
