"""What the values say of a call that an error entered and did not leave.

    masking.unequal[row] = kept                 an output that differs, as it was golden
    masking.before(reads); masking.after(call, outputs, rows)
    masking.column(sites)                       Evidence.SEEN | FIRST | ZERO, …

Asked only where an input differs from the golden run and no output does. Each input that
differs is held against what the golden run kept of it; where one was not kept whole, or
the call wrote over it, its values are not at hand and nothing is said of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fi_notebook.core.masking import Evidence
from fi_notebook.engine.bits import changed_mask
from fi_notebook.engine.intercept import Call
from fi_notebook.engine.measure import wide
from fi_notebook.engine.outputs import IN_PLACE, Output
from fi_notebook.engine.storages import is_readable, tensors_in
from fi_notebook.engine.store import Kept

__all__ = ["Masking", "Read", "evidence"]

_PRODUCTS = {"mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2)}
"""Positions of the two factors of a matrix product among the tensors of its arguments."""

_EVEN = frozenset({"abs", "square", "pow", "norm", "linalg_vector_norm", "_foreach_norm"})

_FACTORS = {"mul": (0, 1), "mul_": (0, 1)}


@dataclass(frozen=True, slots=True)
class Read:
    """One tensor among the arguments of a call, as it was read.

    Attributes:
        tensor: The tensor of the faulty run.
        differs: Whether a site that made it differs from the golden run.
        golden: What the golden run kept of it, or None.
    """

    tensor: torch.Tensor
    differs: bool
    golden: Kept | None = None


class Masking:
    """Watches for calls that an error enters and does not leave.

    Args:
        unequal: For each site row that differs, what the golden run kept of it.
    """

    def __init__(self, unequal: dict[int, Kept] | None = None) -> None:
        """Start with no error seen."""
        self.unequal: dict[int, Kept] = {} if unequal is None else unequal
        self._reads: list[Read] = []
        self._found: dict[int, int] = {}

    def before(self, arguments: Sequence[tuple[torch.Tensor, tuple[int, ...]]]) -> None:
        """A call is about to be made.

        Args:
            arguments: Each tensor that it reads, with the site rows that made it.
        """
        self._reads = []
        if any(row in self.unequal for _, rows in arguments for row in rows):
            self._reads = [self._read(tensor, rows) for tensor, rows in arguments]

    def _read(self, tensor: torch.Tensor, rows: tuple[int, ...]) -> Read:
        differs = any(row in self.unequal for row in rows)
        return Read(tensor, differs, self.unequal.get(rows[0]) if len(rows) == 1 else None)

    def after(self, call: Call, made: Sequence[Output], rows: range) -> None:
        """The call was made; look at its values where an input differs and no output does.

        Args:
            call: The call.
            made: Its outputs, each of them measured.
            rows: Their site rows.
        """
        if self._reads and not any(row in self.unequal for row in rows):
            self._found.update(dict.fromkeys(rows, int(evidence(call, made, self._reads))))

    def column(self, sites: int) -> np.ndarray:
        """What was seen (`core.masking.Evidence`), one entry per site."""
        seen = np.zeros(sites, dtype=np.uint8)
        seen[list(self._found)] = list(self._found.values())
        return seen


def evidence(call: Call, made: Sequence[Output], reads: Sequence[Read]) -> Evidence:
    """What the values of a masking call say.

    Args:
        call: The call.
        made: Its outputs.
        reads: The tensors among its arguments, in order.
    """
    found = Evidence(0)
    for position, read in enumerate(reads):
        if read.differs:
            found |= Evidence.OTHERS if position else Evidence.FIRST
    written = {output.tensor.data_ptr() for output in made if output.kind == IN_PLACE}
    masks = [_mask(read, written) if read.differs else None for read in reads]
    if any(mask is None and read.differs for mask, read in zip(masks, reads, strict=True)):
        return found
    found |= Evidence.SEEN
    if call.op in _EVEN and _only_signs(masks, reads):
        found |= Evidence.SIGN
    if _met_zeros(call, masks, tensors_in((*call.args, *call.kwargs.values()))):
        found |= Evidence.FACTOR
    return found | _outputs_there(masks, made[0].tensor if made else None)


def _mask(read: Read, written: set[int]) -> torch.Tensor | None:
    """Which elements of an input changed, where its values are at hand."""
    kept, tensor = read.golden, read.tensor
    if kept is None or tensor.data_ptr() in written or not is_readable(tensor):
        return None
    if kept.shape != tensor.shape or kept.dtype != tensor.dtype or kept.whole is None:
        return None
    return changed_mask(kept.whole, tensor)


def _only_signs(masks: Sequence[torch.Tensor | None], reads: Sequence[Read]) -> bool:
    found = False
    for mask, read in zip(masks, reads, strict=True):
        if mask is None or read.golden is None or read.golden.whole is None:
            continue
        if not torch.equal(wide(read.golden.whole).abs(), wide(read.tensor).abs()):
            return False
        found = True
    return found


def _met_zeros(
    call: Call, masks: Sequence[torch.Tensor | None], tensors: Sequence[torch.Tensor]
) -> bool:
    """Whether each change was multiplied by zeros only."""
    pair = _PRODUCTS.get(call.op) or _FACTORS.get(call.op)
    if pair is None or len(tensors) <= pair[1]:
        return False
    left, right = pair
    changed = [n for n, mask in enumerate(masks) if mask is not None]
    if len(changed) != 1 or changed[0] not in pair:
        return False
    (position,) = changed
    mask, other = masks[position], tensors[right if position == left else left]
    assert mask is not None  # it is one of the changed
    if call.op in _FACTORS:
        return not _at(mask, other).any()
    if position == left:  # column k of the left meets row k of the right
        return not other.detach()[mask.any(-2), :].any()
    return not other.detach().transpose(-1, -2)[mask.any(-1), :].any()


def _at(mask: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The values at the places of a mask; the two are broadcast to one shape."""
    mask, values = torch.broadcast_tensors(mask, values.detach())
    return values[mask]


def _outputs_there(masks: Sequence[torch.Tensor | None], output: torch.Tensor | None) -> Evidence:
    """What the output is where an input changed; nothing where shapes do not fit."""
    if output is None or output.is_complex() or output.layout != torch.strided:
        return Evidence(0)
    try:
        there = [_at(mask, output) for mask in masks if mask is not None]
    except RuntimeError:  # no shape that both could take
        return Evidence(0)
    values = wide(torch.cat(there)) if there else torch.zeros(0, device="cpu")
    if not len(values) or any(v.numel() > output.numel() for v in there):
        return Evidence(0)
    found = Evidence(0)
    if bool((values == 0).all()):
        found |= Evidence.ZERO
    if bool(((values == 0) | (values.abs() == 1)).all()):
        found |= Evidence.LIMIT
    if not bool(torch.isfinite(values).any()):
        found |= Evidence.NONFINITE
    return found
