"""Statistics of every output, taken while the step runs and read when it ends.

On a device nothing is read back per call: each statistic stays there until
`Statistics.columns`. On the host, tensors up to `EXACT` elements are copied, and many of
them are summarised together in float64, so they are exact; larger ones are read at once,
a piece at a time that stays in the cache, by kernels near memory speed (``minimum``,
``maximum``, ``sum``, ``dot``). A finite minimum and maximum prove that nothing is
NaN or infinite. Only where they are not, or where float32 is too narrow for the squares,
a second look is taken.

Limits: the standard deviation of a tensor over `EXACT` elements comes from its sum and
norm in float32, which loses digits where the mean dwarfs it; its norm has 4 digits or more.
Where squares are beyond float64 (magnitudes above 1e154) the standard deviation and the norm
are infinite, and where sums are (above 1e304) the mean is infinite or NaN. A complex element
counts by its magnitude, as NaN where either part is, and as infinite where the magnitude is beyond
float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from fi_notebook.core.stats import STATISTICS, TensorStats
from fi_notebook.engine.storages import array_over, is_dense, is_readable, local_part
from fi_notebook.faults.bits import dtype_name

__all__ = [
    "EXACT",
    "Statistics",
    "euclidean_norm",
    "read_back",
    "summary",
    "tensor_stats",
    "without_statistics",
]

EXACT = 1 << 13
"""Tensors up to this many elements are summarised in float64."""

_PIECE, _PIECES = 1 << 17, 16
"""Elements that a thread looks at by one kernel after the other (512 KiB stay in the cache), and
for how many threads there is room at most."""

_WAITING = 1 << 20
"""Elements of small tensors that wait to be summarised together, at most: 8 MiB."""

_NARROW = (1e-15, 1e15)
"""Largest magnitudes between which float32 holds the squares of a piece and their sum."""

_Row = tuple[float, ...]


class Statistics:
    """Statistics of many tensors, kept where they are until they are asked for."""

    def __init__(self) -> None:
        """Start with none."""
        self._rows: list[_Row | torch.Tensor | None] = []
        self._same: dict[int, int] = {}
        self._waiting: list[tuple[int, torch.Tensor]] = []
        self._dropped: list[int] = []
        self._elements = 0
        self._room = _room()

    def __len__(self) -> int:
        """How many tensors were summarised."""
        return len(self._rows)

    def add(self, tensor: torch.Tensor | None) -> bool:
        """Summarise a tensor; None leaves a row without statistics. Says whether it could."""
        if tensor is None or not _has_values(tensor):
            self._rows.append(None)
            return False
        values = _plain(tensor)
        if not _on_host(values):
            self._rows.append(_nonfinite(values.double()))
        elif values.numel() > EXACT:
            self._rows.append(_large(values, self._room))
        else:
            self._wait(values)
        return True

    def _wait(self, values: torch.Tensor) -> None:
        self._waiting.append((len(self._rows), values.to(torch.float64, copy=True)))
        self._rows.append(None)
        self._elements += values.numel()
        if self._elements > _WAITING:
            self._look()

    def _look(self) -> None:
        """Summarise the small tensors that wait."""
        found = _small([array_over(values.reshape(-1)) for _, values in self._waiting])
        for (row, _), values in zip(self._waiting, found, strict=True):
            self._rows[row] = values
        self._waiting, self._elements = [], 0

    def repeat(self, row: int) -> None:
        """The next tensor has the elements of an earlier one."""
        self._same[len(self._rows)] = self._same.get(row, row)
        self._rows.append(None)

    def drop(self, row: int) -> None:
        """A tensor that was summarised has no values after all."""
        self._dropped.append(row)

    def columns(self) -> dict[str, np.ndarray]:
        """One column per statistic, read from the devices in one go each."""
        self._look()
        table = np.full((len(self._rows), len(STATISTICS)), np.nan)
        there = {n: values for n, values in enumerate(self._rows) if isinstance(values, tuple)}
        away = {n: v for n, v in enumerate(self._rows) if isinstance(v, torch.Tensor)}
        if there:
            table[list(there)] = list(there.values())
        if away:
            table[list(away)] = read_back(list(away.values()))
        if self._same:
            table[list(self._same)] = table[list(self._same.values())]
        table[self._dropped] = np.nan
        counts = np.nan_to_num(table[:, 5:], nan=-1).astype(np.int64)
        floats = {name: table[:, n].copy() for n, name in enumerate(STATISTICS[:5])}
        return floats | {name: counts[:, n].copy() for n, name in enumerate(STATISTICS[5:])}


def without_statistics(count: int) -> dict[str, np.ndarray]:
    """The columns of outputs that nobody looked at."""
    kinds = (np.full(count, np.nan), np.full(count, -1))
    return {name: kinds[n >= 5].copy() for n, name in enumerate(STATISTICS)}


def read_back(values: list[torch.Tensor]) -> np.ndarray:
    """Small tensors of one shape as one array, read from each device in one go."""
    by_device: dict[torch.device, list[int]] = {}
    for row, value in enumerate(values):
        by_device.setdefault(value.device, []).append(row)
    stacks = (torch.stack([values[row] for row in rows]).cpu() for rows in by_device.values())
    read = [array_over(stack) for stack in stacks]
    order = np.argsort(np.concatenate([np.asarray(rows) for rows in by_device.values()]))
    return np.concatenate(read)[order]


def summary(tensor: torch.Tensor) -> torch.Tensor | None:
    """The statistics of a tensor as one float64 vector on its device.

    Args:
        tensor: Any strided tensor; complex is summarised by magnitude.

    Returns:
        A tensor of shape ``(9,)`` in the order of ``STATISTICS``, or None for an
        empty tensor or one without strides.
    """
    if not _has_values(tensor):
        return None
    values = _plain(tensor)
    if not _on_host(values):
        return _nonfinite(values.double())
    return torch.tensor(_row_of(values), dtype=torch.float64, device="cpu")


def _has_values(tensor: torch.Tensor) -> bool:
    return tensor.numel() > 0 and is_readable(tensor)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    values = tensor.detach()
    if values.is_complex():
        return torch.where(values.isnan(), math.nan, values.to(torch.complex128).abs())
    if values.is_neg():
        values = values.resolve_neg()
    if values.element_size() == 1 and values.is_floating_point():  # float8 has few kernels
        return values.float()
    return values


def _on_host(values: torch.Tensor) -> bool:
    """Whether its memory can be read here; that of a wrapper is its parts'."""
    plain = type(values) is torch.Tensor or not is_traceable_wrapper_subclass(values)
    return values.device.type == "cpu" and plain


def _row_of(values: torch.Tensor) -> _Row:
    if values.numel() > EXACT:
        return _large(values, _room())
    return _small([array_over(values.double().reshape(-1))])[0]


def _small(vectors: Sequence[np.ndarray]) -> list[_Row]:
    """Statistics of many float64 vectors at once; those with odd values one by one."""
    if not vectors:
        return []
    values = np.concatenate(vectors)
    sizes = np.asarray([vector.size for vector in vectors])
    starts = np.cumsum([0, *sizes[:-1]])
    with np.errstate(all="ignore"):
        low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
        mean = np.add.reduceat(values, starts) / sizes
        apart = values - np.repeat(mean, sizes)
        std = np.sqrt(np.add.reduceat(np.square(apart, out=apart), starts) / sizes)
        norm = np.sqrt(np.add.reduceat(np.square(values), starts))
    zeros = np.add.reduceat(values == 0, starts, dtype=np.int64)
    nothing = np.zeros(len(vectors))
    rows = np.stack([low, high, mean, std, norm, nothing, nothing, nothing, zeros], axis=1)
    found: list[_Row] = [tuple(row) for row in rows.tolist()]
    for odd in np.flatnonzero(~(np.isfinite(low) & np.isfinite(high))).tolist():
        alone = values[starts[odd] :][: sizes[odd]]
        found[odd] = tuple(_nonfinite(torch.from_numpy(alone)).tolist())
    return found


def _room() -> np.ndarray:
    """Room for one truth of each element of a piece, which took longer to find than to fill."""
    return np.empty(_PIECE, dtype=np.bool_)


def _large(values: torch.Tensor, room: np.ndarray) -> _Row:
    """Statistics of one tensor, piece by piece."""
    flat = values.as_strided((values.numel(),), (1,)) if is_dense(values) else values.reshape(-1)
    low, high, total, squares, zeros, odd = math.inf, -math.inf, 0.0, 0.0, 0, _NONE
    threads = torch.get_num_threads()
    size = _PIECE * min(threads, _PIECES)
    for piece in flat.split(size) if flat.numel() > size else (flat,):
        part = _workable(piece)
        least, most = _range(part, threads)
        if not (math.isfinite(least) and math.isfinite(most)):
            part, found = _finite(part)
            odd = odd.plus(found)
            if not part.numel():
                continue
            least, most = _range(part, threads)
        low, high = min(low, least), max(high, most)
        if least <= 0 <= most:
            zeros += _zeros(part, room, threads)
        if not _NARROW[0] < max(-least, most) < _NARROW[1]:
            part = part.double()
        total, squares = total + part.sum().item(), squares + torch.dot(part, part).item()
    return _put_together(values.numel() - sum(odd), low, high, total, squares, odd, zeros)


def _range(part: torch.Tensor, threads: int) -> tuple[float, float]:
    """Minimum and maximum; NaN where any is NaN. Those of numpy take half as long on one thread."""
    if threads > 1:
        low, high = torch.aminmax(part)
        return low.item(), high.item()
    values = array_over(part)
    return float(np.minimum.reduce(values)), float(np.maximum.reduce(values))


def _zeros(part: torch.Tensor, room: np.ndarray, threads: int) -> int:
    """How many elements are zero, of either sign."""
    if threads > 1:
        return part.numel() - int(torch.count_nonzero(part))
    return int(np.count_nonzero(np.equal(array_over(part), 0, out=room[: part.numel()])))


class _Odd(NamedTuple):
    """How many elements are not finite, by kind."""

    nan: int
    posinf: int
    neginf: int

    def plus(self, more: _Odd) -> _Odd:
        """The counts of two pieces together."""
        return _Odd._make(mine + theirs for mine, theirs in zip(self, more, strict=True))


_NONE = _Odd(0, 0, 0)


def _finite(piece: torch.Tensor) -> tuple[torch.Tensor, _Odd]:
    """The finite elements of a piece in float64, and how many are not."""
    values = array_over(piece)
    posinf, neginf = (int(np.count_nonzero(values == odd)) for odd in (math.inf, -math.inf))
    nan = int(np.count_nonzero(np.isnan(values)))
    kept = values[np.isfinite(values)].astype(np.float64)
    return torch.from_numpy(kept), _Odd(nan, posinf, neginf)


def _put_together(
    count: int, low: float, high: float, total: float, squares: float, odd: _Odd, zeros: int
) -> _Row:
    if not count:
        return (*[math.nan] * 5, *odd, zeros)
    mean = total / count
    std = math.sqrt(max(squares / count - mean * mean, 0.0)) if squares < math.inf else math.inf
    return (low, high, mean, std, math.sqrt(squares), *odd, zeros)


def _workable(piece: torch.Tensor) -> torch.Tensor:
    """In float32 at least, integers in float64."""
    if not piece.is_floating_point():
        return piece.double()
    return piece.float() if piece.element_size() < 4 else piece


def _nonfinite(values: torch.Tensor) -> torch.Tensor:
    """Statistics of what is finite, and counts of what is not; no read-back."""
    finite = torch.isfinite(values)
    count = finite.sum()
    kept = torch.where(finite, values, 0.0)
    mean = kept.sum() / count
    std = torch.where(finite, values - mean, 0.0).square().sum().div(count).sqrt()
    low = torch.where(finite, values, torch.inf).min()
    high = torch.where(finite, values, -torch.inf).max()
    nothing = count == 0
    nan = values.isnan().sum()
    parts = (
        torch.where(nothing, torch.nan, low),
        torch.where(nothing, torch.nan, high),
        mean,
        std,
        torch.where(nothing, torch.nan, torch.linalg.vector_norm(kept)),
        nan,
        (values == torch.inf).sum(),
        (values == -torch.inf).sum(),
        (values == 0).sum(),
    )
    return torch.stack([part.double() for part in parts])


def tensor_stats(tensor: torch.Tensor) -> TensorStats:
    """The statistics of one tensor, read at once."""
    found = summary(tensor)
    values = [math.nan] * 5 + [-1.0] * 4 if found is None else found.tolist()
    counts = (int(value) for value in values[5:])
    return TensorStats(dtype_name(tensor.dtype), tuple(tensor.shape), *values[:5], *counts)


def euclidean_norm(tensors: Sequence[torch.Tensor]) -> float:
    """Euclidean norm over several tensors, in float64; NaN and Inf come through.

    Of distributed ones it is over what this rank keeps.
    """
    squares = [_square(tensor) for tensor in tensors]
    return float(torch.stack(squares).sum().sqrt()) if squares else 0.0


def _square(tensor: torch.Tensor) -> torch.Tensor:
    """Sum of squares in float64, on the host."""
    values = local_part(tensor).detach()
    values = values if values.layout == torch.strided else values.to_dense()
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj())
    if values.element_size() < 4 or not values.is_floating_point():
        values = values.double()
    return torch.linalg.vector_norm(values, dtype=torch.float64).square().cpu()
