"""What may be nothing but rounding: a norm that is small beside what it was made of.

    share("float32"), share("bfloat16")     (1e-05, 0.00390625)
    noise(golden, gradients)                {'conv.bias'}: a bias before BatchNorm
    cancelled(comparison)                   rows in which large inputs cancelled

The golden gradient of such a bias is 0 but for rounding, and so its relative error says nothing.

Limits: how small is told from the dtype alone, not from how many numbers were summed; in 16 bits
a gradient that is truly below a 256th of the largest counts as rounding too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fi_notebook.analysis.effects import worst_input
from fi_notebook.core.formats import FORMATS
from fi_notebook.core.run import Comparison, Difference
from fi_notebook.core.site import PHASES
from fi_notebook.core.trace import Trace

__all__ = ["cancelled", "noise", "share"]

_BACKWARD = PHASES.index("backward")

_SUMMED = {23: 1e-5, 52: 2e-14}
"""By bits of mantissa, the share where sums are rounded at each step: 84 times the distance
from 1 to the next number."""


def share(dtype: str) -> float:
    """Share of the largest below which a norm may be that of rounding.

    Sums of 16 or fewer bits are taken in float32, so that each number is rounded once: by half
    the distance to the next one.

    Args:
        dtype: Name of the dtype that was computed in.

    Returns:
        The share; 0 of what is not rounded.
    """
    known = FORMATS.get(dtype)
    if known is None or "mantissa" not in known.fields:
        return 0.0
    width = known.fields["mantissa"][1] + 1
    return _SUMMED.get(width, 2.0 ** -(width + 1))


def noise(golden: Trace, gradients: Sequence[Difference]) -> set[str]:
    """Gradients that are rounding noise beside the largest, as of a bias before BatchNorm.

    The share is that of the lowest dtype of the backward pass, from which its rounding goes into
    every gradient after it. The golden norm is at least ``max_abs / relative_l2``, and √numel
    times that at most.

    Args:
        golden: Trace of the golden run.
        gradients: The differences of all gradients.

    Returns:
        Their names.
    """
    known = [d for d in gradients if not d.equal and 0 < d.relative_l2 < np.inf]
    known = [d for d in known if not d.new_nan + d.new_inf]
    least = _of_backward(golden) * max((d.max_abs / d.relative_l2 for d in known), default=0.0)
    return {d.name for d in known if d.max_abs * np.sqrt(d.numel) / d.relative_l2 < least}


def cancelled(comparison: Comparison) -> np.ndarray:
    """Whether the golden output of each row is what was left where large inputs cancelled.

    Its relative error is that of rounding, however small the error that entered.

    Args:
        comparison: The faulty run against the golden run.

    Returns:
        One truth for each row; False where golden has none.
    """
    golden, rows = comparison.golden, comparison.columns["golden"]
    sites, call = np.arange(len(golden)), golden.site_columns["call"]
    norms = np.nan_to_num(golden.site_columns["norm"], nan=0.0, posinf=0.0)
    shares = _shares(golden)
    shares = np.maximum(shares, worst_input(golden, sites, shares)[call])
    left = norms < shares * worst_input(golden, sites, norms)[call]
    return np.append(left, False)[rows]


def _shares(trace: Trace) -> np.ndarray:
    """The share of each site."""
    of_dtype = np.asarray([share(dtype) for dtype in trace.tables.dtypes])
    return of_dtype[trace.site_columns["dtype"]]


def _of_backward(trace: Trace) -> float:
    """The largest share in the backward pass; that of float32 where no call of it is known."""
    backward = trace.calls["phase"][trace.site_columns["call"]] == _BACKWARD
    return float(np.max(_shares(trace)[backward], initial=0.0)) or share("float32")
