"""What a step leaves behind, golden against faulty, as few long vectors.

    golden = EndTensors({"weight": tensor, …})
    found = golden.against({"weight": faulty})     # only what differs is given
    found.differences, found.norm, found.distance, found.digest

All tensors of a kind lie end to end in float64, so that a hundred of them are measured
by a dozen operations.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from fi_notebook.core.run import RESULT, Difference
from fi_notebook.engine.measure import SAFE_SQUARES, dense, difference, measure, wide
from fi_notebook.engine.storages import array_over

__all__ = ["EndTensors", "Ends", "result_difference", "result_metrics", "worst"]


@dataclass(frozen=True)
class Ends:
    """Faulty tensors of one kind against the golden ones.

    Attributes:
        differences: One for every tensor, in the golden order.
        norm: Euclidean norm of all faulty tensors.
        distance: Norm of all that they are apart, over the golden norm.
        digest: What differs, bit for bit, in short; ``""`` where nothing does.
    """

    differences: tuple[Difference, ...]
    norm: float
    distance: float
    digest: str


class EndTensors:
    """The golden tensors of one kind.

    Args:
        tensors: The tensors by name.
    """

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Put them end to end."""
        self._values = {name: _vector(tensor) for name, tensor in tensors.items()}
        self._equal = {
            name: Difference(name, equal=True, numel=tensor.numel())
            for name, tensor in tensors.items()
        }

    @property
    def names(self) -> list[str]:
        """Names of the tensors."""
        return list(self._values)

    @cached_property
    def _squares(self) -> dict[str, float]:
        return {name: float(np.square(v).sum()) for name, v in self._values.items()}

    @cached_property
    def equal(self) -> Ends:
        """What is found where nothing differs."""
        norm = math.sqrt(sum(self._squares.values()))
        return Ends(tuple(self._equal.values()), norm, 0.0, "")

    def against(self, faulty: Mapping[str, torch.Tensor]) -> Ends:
        """Measure what differs.

        Args:
            faulty: The tensors whose bits differ; all others are equal.
        """
        if not faulty:
            return self.equal
        golden = [self._values[name] for name in faulty]
        given = [_vector(tensor) for tensor in faulty.values()]
        one = len(given) == 1
        a, b = (golden[0], given[0]) if one else (np.concatenate(golden), np.concatenate(given))
        starts = [0] if one else np.cumsum([0, *map(len, golden[:-1])])
        with np.errstate(all="ignore"):
            apart = np.square(b - a)
            squares = dict(zip(faulty, np.add.reduceat(np.square(b), starts).tolist(), strict=True))
            measured = _measured(a, b, starts, apart)
            distance = math.sqrt(apart.sum()) / (self.equal.norm or 1.0)
            norm = math.sqrt(sum((self._squares | squares).values()))
        found = {
            name: _difference(self._equal[name], parts, before, after)
            for name, parts, before, after in zip(faulty, measured, golden, given, strict=True)
        }
        digest = hashlib.sha256("/".join(faulty).encode() + b.tobytes()).hexdigest()[:24]
        return Ends(tuple((self._equal | found).values()), norm, distance, digest)


def _vector(tensor: torch.Tensor) -> np.ndarray:
    return array_over(wide(dense(tensor)).reshape(-1).cpu())


def _measured(
    a: np.ndarray, b: np.ndarray, starts: Sequence[int] | np.ndarray, apart: np.ndarray
) -> list[tuple[float, float, int, int]]:
    """Relative L2 and the largest distance of what is finite, new NaN and Inf, part by part.

    Where golden is not finite, or its squares not held, a part is measured by itself.
    """
    plain, moved = np.ones(len(starts), dtype=np.bool_), a != b
    if np.isfinite(apart).all():
        delta, golden = apart, np.square(a)
        new_nan = new_inf = np.zeros(len(starts), dtype=np.int64)
    else:
        finite = np.isfinite(b) & np.isfinite(a)
        moved &= finite
        delta, golden = np.where(finite, apart, 0.0), np.where(finite, np.square(a), 0.0)
        new_nan = np.add.reduceat(np.isnan(b) & ~np.isnan(a), starts, dtype=np.int64)
        new_inf = np.add.reduceat(np.isinf(b) & ~np.isinf(a), starts, dtype=np.int64)
        plain &= np.logical_and.reduceat(np.isfinite(a), starts)
    still = ~np.logical_or.reduceat(moved, starts)
    parts, wholes = np.add.reduceat(delta, starts), np.add.reduceat(golden, starts)
    for squares in (parts, wholes):
        plain &= still | ((squares > SAFE_SQUARES) & (squares < math.inf))
    relative = np.where(still, 0.0, np.sqrt(parts) / np.sqrt(wholes))
    largest = np.sqrt(np.maximum.reduceat(delta, starts))
    found = (relative, largest, new_nan, new_inf)
    measured = list(zip(*(column.tolist() for column in found), strict=True))
    ends = [*starts[1:], len(a)]
    for n in np.flatnonzero(~plain).tolist():
        measured[n] = _measured_alone(*(side[starts[n] : ends[n]] for side in (a, b)))
    return measured


def _measured_alone(a: np.ndarray, b: np.ndarray) -> tuple[float, float, int, int]:
    golden, faulty = (torch.from_numpy(side.copy()) for side in (a, b))  # they may be read-only
    found = measure(golden, faulty)
    return found.relative_l2, found.max_abs, found.new_nan, found.new_inf


def _difference(
    known: Difference, found: tuple[float, float, int, int], golden: np.ndarray, faulty: np.ndarray
) -> Difference:
    scalar = known.numel == len(golden) == 1  # a complex number has two parts
    return Difference(
        known.name,
        equal=False,
        numel=known.numel,
        relative_l2=found[0],
        max_abs=found[1],
        new_nan=found[2],
        new_inf=found[3],
        golden=float(golden[0]) if scalar else math.nan,
        faulty=float(faulty[0]) if scalar else math.nan,
    )


def result_difference(
    golden: Sequence[torch.Tensor], faulty: Sequence[torch.Tensor]
) -> Difference | None:
    """What a step without a loss returned, as one difference; None where it returned nothing.

    Args:
        golden: The tensors that the golden run returned.
        faulty: Those of the faulty run.
    """
    if not golden and not faulty:
        return None
    kinds = [[(tensor.shape, tensor.dtype) for tensor in given] for given in (golden, faulty)]
    if kinds[0] != kinds[1]:
        return Difference(
            RESULT, equal=False, relative_l2=math.inf, note="the step returned other tensors"
        )
    names = [f"result {place}" for place in range(len(golden))]
    other = {
        name: after
        for name, before, after in zip(names, golden, faulty, strict=True)
        if not difference(name, before, after).equal
    }
    ends = EndTensors(dict(zip(names, golden, strict=True)))
    return worst(ends, ends.against(other))


def worst(golden: EndTensors, found: Ends) -> Difference:
    """What a step returned, as one difference; its norm stands for its value."""
    differs = [d for d in found.differences if not d.equal]
    bad = sum(d.new_nan + d.new_inf for d in differs)
    return Difference(
        RESULT,
        equal=not differs,
        numel=sum(d.numel for d in found.differences),
        relative_l2=max((d.relative_l2 for d in differs), default=0.0),
        new_nan=sum(d.new_nan for d in differs),
        new_inf=sum(d.new_inf for d in differs),
        golden=golden.equal.norm,
        faulty=math.nan if bad else found.norm,
    )


def result_metrics(golden: torch.Tensor, faulty: torch.Tensor) -> dict[str, Any]:
    """How many rows of a result (one per example) have another largest column."""
    if golden.dim() != 2 or golden.shape != faulty.shape:
        return {}
    if golden.dtype == torch.bool or golden.is_complex() or not golden.shape[1]:
        return {}
    return {"top1_changed": int((golden.argmax(1) != faulty.argmax(1)).count_nonzero())}
