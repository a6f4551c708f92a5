"""Outputs of an optimizer that are made of nothing: whose they are shows when they are kept.

    unplaced = Unplaced()
    unplaced.add(row, output)       # zeros_like, in an optimizer's first step
    unplaced.settle(watch)          # after it: {12: "layer.weight"} in `found`

Limits: a tensor that no state keeps belongs to no parameter.
"""

from __future__ import annotations

from torch.multiprocessing.reductions import StorageWeakRef

from fi_notebook.engine.outputs import Output
from fi_notebook.engine.storages import storage_of
from fi_notebook.engine.watch import Watch

__all__ = ["Unplaced"]


class Unplaced:
    """Outputs whose parameter is not known yet.

    Attributes:
        found: The parameter of each site row whose owner showed.
    """

    def __init__(self) -> None:
        """Start with none."""
        self.found: dict[int, str] = {}
        self._waiting: list[tuple[int, StorageWeakRef]] = []

    def add(self, row: int, output: Output) -> None:
        """An optimizer made an output of nothing."""
        storage = storage_of(output.tensor)
        if storage is not None:
            self._waiting.append((row, StorageWeakRef(storage)))

    def settle(self, watch: Watch) -> None:
        """Note whose they are, while they live."""
        scope = watch.parameters
        if self._waiting:
            scope.refresh(watch.clock.optimizers)
        found = ((row, scope.at(reference)) for row, reference in self._waiting)
        self.found = {row: name for row, name in found if name}
        self._waiting.clear()
