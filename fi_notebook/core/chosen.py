"""Which sites of the golden run a fault chooses: one answer for arming, keeping and the page.

    fault = Fault("f1", Target("relu"), "zero", micro_batches=Steps.parse(1))
    chosen_rows(fault, trace)       # array([7]): of relu*1:0 and relu*2:0 the second

Limits: where it may strike in such a step. When it does (its steps, ranks, probability and
number of times) is no matter of the trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from fi_notebook.core.fault import Fault
from fi_notebook.core.lookup import find_rows
from fi_notebook.core.match import CodeFilter, module_matches
from fi_notebook.core.site import PHASES
from fi_notebook.core.trace import Trace

__all__ = ["chosen_rows", "takes_late", "within", "without_late"]

_OPTIMIZER, _OTHER = PHASES.index("optimizer"), PHASES.index("other")


def chosen_rows(fault: Fault, golden: Trace) -> np.ndarray:
    """Rows of the sites that a fault chooses, in execution order; none for a stored tensor.

    Raises:
        SiteError: There is no such phase, or a source line cannot be read.
    """
    code = tuple(map(CodeFilter.parse, fault.code))
    rows = find_rows(golden, fault.target, phases=fault.phases or None, code=code)
    if fault.modules is not None:
        rows = rows[within(golden, rows, fault.modules)]
    if fault.micro_batches is not None:
        numbers = golden.calls["micro_batch"][golden.site_columns["call"][rows]].tolist()
        rows = rows[[number in fault.micro_batches for number in numbers]]
    return rows if takes_late(fault) else without_late(golden, rows)


def within(golden: Trace, rows: np.ndarray, patterns: Sequence[str]) -> np.ndarray:
    """Whether a module filter chooses each site: by its module, or by its parameter."""
    modules = _matching(patterns, (info.names for info in golden.tables.modules))
    parameters = _matching(patterns, ((name,) for name in golden.tables.parameters))
    columns = golden.site_columns
    by_module = modules[golden.calls["module"][columns["call"][rows]]]
    return np.asarray(by_module | parameters[columns["parameter"][rows]])


def _matching(patterns: Sequence[str], several: Iterable[Sequence[str]]) -> np.ndarray:
    """Whether a filter chooses each of several; a last False is that of -1, which is none."""
    chosen = [any(module_matches(pattern, names) for pattern in patterns) for names in several]
    return np.asarray([*chosen, False])


def takes_late(fault: Fault) -> bool:
    """Whether a fault asks for calls after the update that read no parameter."""
    return fault.target.call is not None or bool(fault.phases)


def without_late(golden: Trace, rows: np.ndarray) -> np.ndarray:
    """The rows but for counted calls after an update and of no parameter; see `engine.aim`."""
    calls, call = golden.calls, golden.site_columns["call"][rows]
    numbers, forwards = np.arange(golden.call_count), calls["micro_batch"]
    updates = np.where(calls["phase"] == _OPTIMIZER, numbers, -1)
    last = np.maximum.accumulate(updates)[call]
    late = (last >= 0) & (forwards[last] == forwards[call])  # no forward has come since
    late &= (calls["phase"][call] == _OTHER) & calls["counted"][call]
    return rows[~late | (golden.site_columns["parameter"][rows] >= 0)]
