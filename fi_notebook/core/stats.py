"""What is known of a tensor without the tensor: its statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

__all__ = ["NONFINITE", "NONFINITE_NAMES", "STATISTICS", "TensorStats", "nonfinite_count"]

STATISTICS = ("min", "max", "mean", "std", "norm", "nan", "posinf", "neginf", "zeros")
"""The statistics of every output, in the order of a trace's columns."""

NONFINITE = ("nan", "posinf", "neginf")
"""Those that count what is not finite; below 0 where they were not taken."""

NONFINITE_NAMES = dict(zip(NONFINITE, ("NaN", "+Inf", "-Inf"), strict=True))
"""What they count, as people read it."""


@dataclass(frozen=True, slots=True)
class TensorStats:
    """Statistics of one tensor; min to norm are over its finite elements.

    Attributes:
        dtype: Name of the dtype, such as ``bfloat16``.
        shape: Shape of the tensor.
        min: Smallest finite element; NaN where there is none, as for the next four.
        max: Largest finite element.
        mean: Mean of the finite elements.
        std: Standard deviation of the finite elements (population).
        norm: Euclidean norm of the finite elements.
        nan: How many elements are NaN.
        posinf: How many elements are +Inf.
        neginf: How many elements are -Inf.
        zeros: How many elements are zero, of either sign.
    """

    dtype: str
    shape: tuple[int, ...]
    min: float
    max: float
    mean: float
    std: float
    norm: float
    nan: int
    posinf: int
    neginf: int
    zeros: int

    @property
    def nonfinite(self) -> int:
        """How many elements are NaN or infinite."""
        return self.nan + self.posinf + self.neginf


def nonfinite_count(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """How many elements of each site are NaN or infinite; 0 where that was not looked at.

    Args:
        columns: The `NONFINITE` columns of a trace, or more.
    """
    return np.sum([np.maximum(columns[name], 0) for name in NONFINITE], axis=0)
