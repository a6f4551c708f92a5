"""Which sites made what a call reads.

A tensor was made by the call that made this very view of its storage, else by the calls
that wrote the storage: the last that wrote all of it, and those that wrote parts since.
So an error in one part of a split is not sought in the others.

Limits: views that overlap without being the same are made by whatever wrote the storage;
of very many partial writes the last `_MOST` are known.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch.nn.parameter import is_lazy

from fi_notebook.engine.outputs import IN_PLACE, VIEW, Output
from fi_notebook.engine.storages import StorageMap, storage_of

__all__ = ["Makers"]

_MOST = 32

_Geometry = tuple[int, tuple[int, ...], tuple[int, ...], torch.dtype]


@dataclass(slots=True)
class _History:
    """The rows of the sites that wrote a storage, and of the views that were taken since."""

    writes: list[int] = field(default_factory=list)
    views: dict[_Geometry, int] = field(default_factory=dict)


class Makers:
    """What made each live tensor."""

    def __init__(self) -> None:
        """Start with nothing made."""
        self._known: StorageMap[_History] = StorageMap()

    def of(self, tensor: torch.Tensor) -> tuple[int, ...]:
        """Rows of the sites that made a tensor; none for a parameter or a batch."""
        history = self._known.get(tensor)
        if history is None or is_lazy(tensor):  # a lazy one has no shape yet
            return ()
        row = history.views.get(_geometry(tensor))
        return tuple(history.writes) if row is None else (row,)

    def note(self, output: Output, row: int) -> None:
        """A call made an output at a site row."""
        tensor = output.tensor
        history = self._known.get(tensor)
        if history is None or output.kind not in (VIEW, IN_PLACE):
            history = _History()
            self._known.set(tensor, history)
        if output.kind == VIEW:
            history.views[_geometry(tensor)] = row
            return
        history.views.clear()
        if output.kind == IN_PLACE and not _is_whole(tensor):
            history.views[_geometry(tensor)] = row
            del history.writes[: -_MOST + 1]
        else:
            history.writes.clear()
        history.writes.append(row)


def _geometry(tensor: torch.Tensor) -> _Geometry:
    if tensor.layout != torch.strided:
        return 0, tuple(tensor.shape), (), tensor.dtype
    return int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _is_whole(tensor: torch.Tensor) -> bool:
    """Whether a tensor covers its storage."""
    storage = storage_of(tensor)
    return storage is None or tensor.numel() * tensor.element_size() >= storage.nbytes()
