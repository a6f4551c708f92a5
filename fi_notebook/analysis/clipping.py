"""Whether a step clips its gradients, as its calls show.

    clips_gradients(trace)      True: _foreach_norm and _foreach_mul_ on gradients

A step's gradient norm is read where the optimizer finds the gradients, which is after they
were clipped; a reader has to know.

Limits: clipping is known by its calls between backward and the update: a norm of gradients
and a multiplication into them, or a clamp of them in place; clipping by an operator of a
person's own is not seen.
"""

from __future__ import annotations

import numpy as np

from fi_notebook.core.site import PHASES
from fi_notebook.core.trace import Trace

__all__ = ["clips_gradients"]

_NORMS = {"_foreach_norm", "linalg_vector_norm", "norm"}
_FACTORS = {"_foreach_mul_", "mul_"}
_CLAMPS = {"_foreach_clamp_min_", "_foreach_clamp_max_", "clamp_"}


def clips_gradients(trace: Trace) -> bool:
    """Whether the gradients were clipped before the optimizer read them."""
    calls, sites = trace.calls, trace.site_columns
    own = sites["parameter"] >= 0  # outputs that belong to a parameter
    between = calls["phase"][sites["call"]] == PHASES.index("other")
    numbers = np.unique(calls["op"][sites["call"][own & between]])
    names = {trace.tables.ops[number] for number in numbers}
    return bool(names & _CLAMPS) or bool(names & _NORMS and names & _FACTORS)
