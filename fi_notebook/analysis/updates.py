"""What the update of a compared step took, and whether anything wrong is left without one.

    gradients_used(comparison)         # False: a gradient differs that no optimizer took

Limits: what a person updates by hand is no optimizer's; its gradient counts as left.
"""

from __future__ import annotations

import numpy as np

from fi_notebook.core.run import Comparison
from fi_notebook.core.site import ALL_PARAMETERS, PHASES
from fi_notebook.core.trace import Trace

__all__ = ["gradients_used", "has_optimizer", "has_update", "update_differs"]

_OPTIMIZER = PHASES.index("optimizer")
_UPDATE = (PHASES.index("backward"), _OPTIMIZER)


def gradients_used(comparison: Comparison) -> bool:
    """Whether no gradient that differs is left: the optimizer stepped its parameter.

    One that is left, as in the midst of an accumulation, goes into a later update.

    Args:
        comparison: Golden against faulty.

    Returns:
        Whether each gradient that differs was used; of gradients that were cleared without an
        update, whether the calls that made them are equal.
    """
    updated = _updated(comparison.golden)
    if not comparison.gradients and not updated:
        return not update_differs(comparison)
    left = [d.name for d in comparison.gradients if not d.equal]
    return ALL_PARAMETERS in updated or updated.issuperset(left)


def update_differs(comparison: Comparison) -> bool:
    """Whether a call of the update differs; asked where no tensor after it is known.

    Args:
        comparison: Golden against faulty.

    Returns:
        Whether a call of backward or optimizer differs, or was made in the faulty run alone.
    """
    rows = comparison.columns["golden"][comparison.diverged]
    calls = comparison.golden.site_columns["call"][rows[rows >= 0]]
    phases = comparison.golden.calls["phase"][calls]
    return bool(np.isin(phases, _UPDATE).any()) or bool((rows < 0).any())


def has_update(trace: Trace) -> bool:
    """Whether a step has a call of backward or optimizer."""
    return bool(np.isin(trace.calls["phase"], _UPDATE).any())


def has_optimizer(trace: Trace) -> bool:
    """Whether an optimizer made any call in a step."""
    return bool((trace.calls["phase"] == _OPTIMIZER).any())


def _updated(trace: Trace) -> set[str]:
    """The parameters that an optimizer worked on in a step."""
    stepping = trace.calls["phase"] == _OPTIMIZER
    own = trace.site_columns["parameter"][stepping[trace.site_columns["call"]]]
    rows = np.unique(np.concatenate([own, trace.calls["parameter"][stepping]]))
    return {trace.tables.parameters[row] for row in rows[rows >= 0].tolist()}
