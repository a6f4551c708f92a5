"""Statistics of every output, taken while the step runs and read when it ends.

On a device nothing is read back per call: each statistic, and the hash of the bits,
stays there until `Statistics.columns`. On the host, small tensors go through float64, so
they are exact; larger ones use the kernels that run near memory speed (``aminmax``,
``sum``, ``vector_norm``). Only where those show a non-finite value, or where float32 is
too narrow for a sum, a second look is taken.

Limits: the standard deviation of a tensor over `EXACT` elements comes from its sum and
norm in float32, which loses digits where the mean dwarfs it.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from fi_notebook.core.stats import STATISTICS, TensorStats
from fi_notebook.engine.bits import position_hash

__all__ = [
    "EXACT",
    "Statistics",
    "dtype_name",
    "euclidean_norm",
    "read_back",
    "summary",
    "tensor_stats",
]

EXACT = 1 << 13
"""Tensors up to this many elements are summarised in float64."""


def dtype_name(dtype: torch.dtype) -> str:
    """Name of a dtype without its prefix, such as ``bfloat16``."""
    return str(dtype).removeprefix("torch.")


class Statistics:
    """Statistics of many tensors, kept on their devices until they are asked for."""

    def __init__(self) -> None:
        """Start with none."""
        self._rows: list[torch.Tensor | None] = []
        self._hashes: list[torch.Tensor | None] = []

    def __len__(self) -> int:
        """How many tensors were summarised."""
        return len(self._rows)

    def add(self, tensor: torch.Tensor | None) -> None:
        """Summarise a tensor; None leaves a row without statistics."""
        values = None if tensor is None else summary(tensor)
        self._rows.append(values)
        taken = tensor is not None and values is not None
        self._hashes.append(position_hash(tensor) if taken else None)  # type: ignore[arg-type]  # it is taken

    def repeat(self, row: int) -> None:
        """The next tensor is that of an earlier row, by another name."""
        self._rows.append(self._rows[row])
        self._hashes.append(self._hashes[row])

    def columns(self) -> dict[str, np.ndarray]:
        """One column per statistic, read from the devices in one go each."""
        table = np.full((len(self._rows), len(STATISTICS)), np.nan)
        hashes = np.zeros(len(self._rows), dtype=np.int64)
        taken = [row for row, values in enumerate(self._rows) if values is not None]
        if taken:
            table[taken] = read_back([values for values in self._rows if values is not None])
            hashes[taken] = read_back([hashed for hashed in self._hashes if hashed is not None])
        counts = np.nan_to_num(table[:, 5:], nan=-1).astype(np.int64)
        floats = {name: table[:, n].copy() for n, name in enumerate(STATISTICS[:5])}
        columns = {name: counts[:, n].copy() for n, name in enumerate(STATISTICS[5:])}
        return floats | columns | {"hash": hashes}


def read_back(values: list[torch.Tensor]) -> np.ndarray:
    """Small tensors of one shape as one array, read from each device in one go."""
    by_device: dict[torch.device, list[int]] = {}
    for row, value in enumerate(values):
        by_device.setdefault(value.device, []).append(row)
    read = [torch.stack([values[row] for row in rows]).cpu().numpy() for rows in by_device.values()]
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
    if tensor.layout != torch.strided or tensor.numel() == 0 or tensor.is_quantized:
        return None
    values = _plain(tensor)
    if values.device.type != "cpu":
        return _nonfinite(values.double())
    return _on_host(values)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    values = tensor.detach()
    if values.is_complex():
        return values.abs()
    if values.element_size() == 1 and values.is_floating_point():  # float8 has few kernels
        return values.float()
    return values


def _on_host(values: torch.Tensor) -> torch.Tensor:
    """Statistics where reading a number back costs nothing."""
    small = values.numel() <= EXACT or not values.is_floating_point()
    values = values.double() if small else values
    low, high = (bound.item() for bound in torch.aminmax(values))
    if not (math.isfinite(low) and math.isfinite(high)):
        return _nonfinite(values.double())
    total, norm = _sums(values)
    if not small and not (math.isfinite(total) and 0 < norm < math.inf):
        total, norm = _sums(values.double())  # too large or too small for float32
    count = values.numel()
    mean = total / count
    std = values.std(correction=0).item() if small and count > 1 else _spread(count, mean, norm)
    zeros = 0 if low > 0 or high < 0 else count - int(torch.count_nonzero(values))
    return torch.tensor((low, high, mean, std, norm, 0, 0, 0, zeros), dtype=torch.float64)


def _sums(values: torch.Tensor) -> tuple[float, float]:
    """Sum and Euclidean norm, in float32 at least."""
    dtype = torch.float32 if values.element_size() < 4 else None
    return values.sum(dtype=dtype).item(), torch.linalg.vector_norm(values, dtype=dtype).item()


def _spread(count: int, mean: float, norm: float) -> float:
    return math.sqrt(max(norm * norm / count - mean * mean, 0.0))


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
    statistics = Statistics()
    statistics.add(tensor)
    columns = statistics.columns()
    values = (columns[name][0].item() for name in STATISTICS)
    return TensorStats(dtype_name(tensor.dtype), tuple(tensor.shape), *values)


def euclidean_norm(tensors: list[torch.Tensor]) -> float:
    """Euclidean norm over several tensors, in float64; NaN and Inf come through."""
    if not tensors:
        return 0.0
    return float(torch.stack([_square(tensor) for tensor in tensors]).sum().sqrt())


def _square(tensor: torch.Tensor) -> torch.Tensor:
    """Sum of squares in float64, on the host."""
    values = tensor.detach()
    values = values if values.layout == torch.strided else values.to_dense()
    values = values.abs() if values.is_complex() else values
    return values.double().square().sum().cpu()
