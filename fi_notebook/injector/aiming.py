"""The faults of a plan as they can be aimed at one model; what cannot be is reported.

    some of the target modules: lyer (did you mean 'layer'?) do not exist in the model. …
    f2: no param 'layer.0.wieght'; did you mean 'layer.0.weight'?

Nothing of this ends the training: unknown modules are left out of a filter, a fault that
chooses nothing is left out of the run, and the rest goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace

from fi_notebook.core.fault import Fault, FaultPlan
from fi_notebook.core.injection import NotInjected
from fi_notebook.core.match import has_module, module_hint, unknown_hint
from fi_notebook.engine import arming
from fi_notebook.engine.collectives import qualified_operator
from fi_notebook.engine.modules import ModuleTable
from fi_notebook.engine.operators import is_operator
from fi_notebook.engine.world import speaker
from fi_notebook.errors import FaultError, SiteError

__all__ = ["aimed_at"]

logger = logging.getLogger("fi_notebook")


def aimed_at(
    plan: FaultPlan, table: ModuleTable, rank: int
) -> tuple[list[Fault], tuple[NotInjected, ...]]:
    """The faults that can strike a model, and those that never can, with the reason.

    A name that only another rank's fault gives may be one of that rank's model. Of one that is
    switched off nothing is said; it stays, where it could strike, so that how often it struck is
    not forgotten.
    """
    names = [*table.names, *table.parameters]
    enabled = [fault for fault in plan if fault.enabled and fault.is_for(rank)]
    lost = [f.id for f in enabled if f.modules and not _known(f.modules, names)]
    given = [
        pattern
        for patterns in (plan.modules, *(f.modules for f in enabled))
        for pattern in patterns or ()
    ]
    who = speaker(rank)
    _report_unknown_modules(list(dict.fromkeys(given)), table, lost, who)
    aimed, refused = [], []
    for fault in plan:
        fault = _with_known_modules(fault, names)
        try:
            arming.check_filters(fault, table.model)
        except (SiteError, FaultError) as error:
            if isinstance(error, SiteError) and not fault.is_for(rank):
                aimed.append(fault)
            elif fault.enabled:
                if not (isinstance(error, SiteError) and fault.id in lost):  # else it was said
                    said = f"{who}{fault.id}: {error}"
                    logger.error("%s", said)  # noqa: TRY400  (said, not raised)
                refused.append(NotInjected(fault.id, str(error)))
        else:
            if fault.enabled:
                _report_module_as_operator(fault, names, who)
            aimed.append(fault)
    return aimed, tuple(refused)


def _report_module_as_operator(fault: Fault, names: list[str], who: str) -> None:
    target = fault.target
    hint = module_hint(str(target), names) if target.kind == "call" else ""
    if hint and not is_operator(qualified_operator(target.op)):
        logger.error("%s%s: no operator %r%s", who, fault.id, target.op, hint)


def _report_unknown_modules(
    given: list[str], table: ModuleTable, lost: list[str], who: str
) -> None:
    """Say which modules there are not, what may have been meant, and which faults have no other."""
    names = [*table.names, *table.parameters]
    unknown = [pattern for pattern in given if not has_module(pattern, names)]
    if unknown:
        logger.error(
            "%ssome of the target modules: %s do not exist in the model. Check the modules.%s",
            who,
            ", ".join(_with_hint(pattern, names, table.infos[0].kind) for pattern in unknown),
            f" Nothing is left to strike for {', '.join(lost)}." if lost else "",
        )


def _with_hint(pattern: str, names: list[str], root: str) -> str:
    hint = unknown_hint(pattern, names, root)
    return f"{pattern} ({hint})" if hint else pattern


def _known(patterns: Collection[str], names: list[str]) -> tuple[str, ...]:
    return tuple(pattern for pattern in patterns if has_module(pattern, names))


def _with_known_modules(fault: Fault, names: list[str]) -> Fault:
    """The fault without unknown modules in its filter, unless it has no others."""
    if not fault.modules:
        return fault
    known = _known(fault.modules, names)
    return replace(fault, modules=known) if known else fault
