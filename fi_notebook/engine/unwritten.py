"""Memory that was made and not yet written: what it holds is chance, and says nothing.

    out = torch.empty(4, 3)      # unwritten
    row = out[0]                 # a view of it: its values are not looked at
    row.copy_(x)                 # 3 of 12 elements are written
    …                            # until all 12 are, whole views of it are not looked at

Limits: how much was written is counted, not which parts; a part written twice counts
twice.
"""

from __future__ import annotations

from fi_notebook.core.valueless import UNWRITTEN
from fi_notebook.engine.collectives import COLLECTIVES
from fi_notebook.engine.outputs import IN_PLACE, Output
from fi_notebook.engine.storages import StorageMap, storage_of

__all__ = ["MAKES_MEMORY", "OVERWRITES", "Unwritten"]

MAKES_MEMORY = UNWRITTEN | {"resize_"}
"""Operators that give memory as they find it, be it new or more of it."""

OVERWRITES = {"fsdp::split_with_sizes_copy"} | {
    op
    for op, moves in COLLECTIVES.items()
    if moves.gets and not moves.in_place and not moves.root_only
}
"""Operators that write what they get and never read it.

A view that nobody reads before such a call writes it shows nothing. So FSDP fills memory that
it took away after the last use, and gave back without a call that could be seen.
"""


class Unwritten:
    """How many bytes of each storage were made and not yet written."""

    def __init__(self) -> None:
        """Start with none."""
        self._left: StorageMap[int] = StorageMap()

    def holds(self, op: str, output: Output) -> bool:
        """Whether an output shows unwritten memory; takes note of what a call wrote.

        Args:
            op: The operator that gave it.
            output: The output.
        """
        tensor = output.tensor
        if op in MAKES_MEMORY:
            storage = storage_of(tensor)
            self._left.set(tensor, 0 if storage is None else storage.nbytes())
            return True
        left = self._left.get(tensor) or 0
        if output.kind == IN_PLACE and left > 0:
            self._left.set(tensor, left - tensor.numel() * tensor.element_size())
            return False
        return left > 0
