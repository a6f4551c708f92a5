"""Which sites made what a call reads, and which show what a view shows.

A tensor was made by the call that made this very view of its storage, else by the calls
that wrote the storage: the last that wrote all of it, and those that wrote parts since.
So an error in one part of a split is not sought in the others.

A new view shows what an earlier site showed where both lie in memory that a call of the
step made, or that is the model's, and nothing was written since: then its values need
not be looked at, or copied, again.

Limits: views that overlap without being the same are made by whatever wrote the storage;
of very many partial writes the last `_MOST` are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch.nn.parameter import is_lazy

from fi_notebook.engine.outputs import FUNCTIONAL, IN_PLACE, VIEW, Output
from fi_notebook.engine.storages import (
    StorageMap,
    address_of,
    is_dense,
    is_plain,
    memory_of,
    shape_of,
    storage_of,
)

__all__ = ["Makers", "Shown"]

_MOST = 32

_Geometry = tuple[int, tuple[int, ...], tuple[int, ...], torch.dtype]


@dataclass(frozen=True, slots=True)
class Shown:
    """An earlier site whose tensor lies where a view lies, unwritten since.

    Attributes:
        row: Row of the site.
        start: Where the view begins in its tensor, in elements.
        permuted: Whether the view has all of its elements, each once.
        alike: Whether it has them in the same order, row by row.
    """

    row: int
    start: int
    permuted: bool
    alike: bool


class _Sight(NamedTuple):
    """What a site showed: a tensor without gaps, at one version of its memory."""

    row: int
    version: int
    dtype: torch.dtype
    offset: int
    numel: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    in_order: bool


@dataclass(slots=True)
class _History:
    """The rows of the sites that wrote a storage, and of the views that were taken since."""

    writes: tuple[int, ...] = ()
    views: dict[_Geometry, int] = field(default_factory=dict)
    sights: list[_Sight] = field(default_factory=list)
    ours: bool = False


class Makers:
    """What made each live tensor.

    Args:
        stored: The parameters and buffers of the model.
    """

    def __init__(self, stored: Iterable[torch.Tensor] = ()) -> None:
        """Start with nothing made."""
        self._known: StorageMap[_History] = StorageMap()
        for tensor in stored:
            if not is_lazy(tensor):
                self._known.set(memory_of(tensor), _History(ours=True))

    def of(self, tensor: torch.Tensor) -> tuple[int, ...]:
        """Rows of the sites that made a tensor; none for a parameter or a batch."""
        history = self._known.get(memory_of(tensor))
        if history is None or is_lazy(tensor):  # a lazy one has no shape yet
            return ()
        row = history.views.get(_geometry(tensor)) if history.views else None
        return history.writes if row is None else (row,)

    def shown(self, output: Output, read: Sequence[torch.Tensor]) -> Shown | None:
        """The site that showed what an output shows; None for new memory, or a write.

        Args:
            output: The output of a call that was not noted yet.
            read: The tensors that the call read.
        """
        tensor = output.tensor
        if output.kind == IN_PLACE or not is_plain(tensor):
            return None
        history = self._known.get(tensor)
        if history is None or not history.ours:
            return None
        version = _version_of(tensor, read)
        for sight in reversed(history.sights):
            if sight.version == version and sight.dtype == tensor.dtype:
                found = _within(tensor, sight)
                if found is not None:
                    return found
        return None

    def see(self, output: Output, row: int, read: Sequence[torch.Tensor]) -> None:
        """The values of an output, which was noted, were looked at or are known."""
        tensor = output.tensor
        if output.kind == IN_PLACE or not is_plain(tensor) or not is_dense(tensor):
            return
        history = self._known.get(tensor)
        version = _version_of(tensor, read)
        if history is None or not history.ours or version < 0:
            return
        place = (int(tensor.storage_offset()), tensor.numel(), tuple(tensor.shape))
        sight = _Sight(row, version, tensor.dtype, *place, tensor.stride(), tensor.is_contiguous())
        del history.sights[: -_MOST + 1]
        history.sights.append(sight)

    def wrote(self, tensor: torch.Tensor) -> None:
        """A call wrote a tensor that it does not give."""
        history = self._known.get(memory_of(tensor))
        if history is not None:
            history.sights.clear()

    def note(self, output: Output, row: int) -> None:
        """A call made an output at a site row."""
        tensor = output.tensor
        memory = memory_of(tensor)
        history = None if output.kind == FUNCTIONAL else self._known.get(memory)
        if history is None:
            history = _History(ours=output.kind == FUNCTIONAL)
            self._known.set(memory, history)
        if output.kind == VIEW:
            history.views[_geometry(tensor)] = row
            return
        history.views.clear()
        history.sights.clear()
        if output.kind == IN_PLACE and not _is_whole(tensor):
            history.views[_geometry(tensor)] = row
            history.writes = (*history.writes[-_MOST + 1 :], row)
        else:
            history.writes = (row,)


def _geometry(tensor: torch.Tensor) -> _Geometry:
    if tensor.layout != torch.strided or tensor.is_nested:
        return 0, shape_of(tensor), (), tensor.dtype
    return int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _version_of(tensor: torch.Tensor, read: Sequence[torch.Tensor]) -> int:
    """The version of an output's memory, as the tensor tells that the call read there.

    A view is given its base's count of versions only after its call.
    """
    address = address_of(tensor)
    return _version(next((each for each in read if address_of(each) == address), tensor))


def _version(tensor: torch.Tensor) -> int:
    try:
        return tensor._version
    except RuntimeError:  # made under inference mode, where none is counted
        return -1


def _within(tensor: torch.Tensor, sight: _Sight) -> Shown | None:
    """How a tensor lies in what a site showed of the same memory; None where it does not."""
    start = int(tensor.storage_offset()) - sight.offset
    shape, stride = tuple(tensor.shape), tensor.stride()
    if start == 0 and shape == sight.shape and stride == sight.stride:
        return Shown(sight.row, 0, permuted=True, alike=True)
    reach = sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    if start < 0 or start + reach >= sight.numel or 0 in shape:
        return None
    permuted = tensor.numel() == sight.numel and is_dense(tensor)
    alike = permuted and sight.in_order and tensor.is_contiguous()
    return Shown(sight.row, start, permuted, alike)


def _is_whole(tensor: torch.Tensor) -> bool:
    """Whether a tensor covers its storage."""
    storage = storage_of(tensor)
    return storage is None or tensor.numel() * tensor.element_size() >= storage.nbytes()
