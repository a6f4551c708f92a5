"""The plan of a session while it is made: checked, changed, undone and done again.

book = PlanBook(events)
book.add(fault, model, golden)      # checked against both; anchored where it was clicked
book.undo()
"""

from __future__ import annotations

import logging
import sys
import warnings
from dataclasses import replace
from typing import Any

from torch import nn

from fi_notebook.core.fault import Fault, FaultPlan, free_ids
from fi_notebook.core.trace import Trace
from fi_notebook.engine import arming
from fi_notebook.errors import OURS, FaultWarning, FiError
from fi_notebook.session.events import Events

__all__ = ["FaultWarning", "PlanBook"]

logger = logging.getLogger("fi_notebook")


class PlanBook:
    """A plan, what it was before, and what was taken back.

    Args:
        events: Who is told of changes.
    """

    def __init__(self, events: Events) -> None:
        """Start with an empty plan."""
        self.plan = FaultPlan()
        self._events = events
        self._done: list[FaultPlan] = []
        self._undone: list[FaultPlan] = []
        self._golden: Trace | None = None  # what the faults below were typed by
        self._typed: dict[str, tuple[Fault, Fault]] = {}  # as armed, and with its dtype

    def typed(self, model: nn.Module, golden: Trace | None) -> FaultPlan:
        """The plan; each fault with the dtype of what it strikes, where that is known."""
        if golden is not self._golden:
            self._golden = golden
            self._typed.clear()
        faults = tuple(self._with_dtype(fault, model) for fault in self.plan)
        return replace(self.plan, faults=faults)

    def _with_dtype(self, fault: Fault, model: nn.Module) -> Fault:
        """A fault with its dtype, which is looked up once while golden stays the same."""
        known = self._typed.get(fault.id)
        if known is None or not any(fault is each for each in known):
            known = self._typed[fault.id] = fault, arming.typed(fault, model, self._golden)
        return known[1]

    def add(self, fault: Fault, model: nn.Module, golden: Trace | None) -> Fault:
        """Add a fault in place of its namesake; gives it back as it stands.

        Args:
            fault: The fault.
            model: The model whose modules it may name.
            golden: The golden run that it is judged against, if there is one.

        Raises:
            SiteError: A module, phase or line that cannot be.
            FaultError: A model, parameter or elements that cannot be.

        Warns:
            FaultWarning: The golden run made no such call, row or bit.
        """
        _warn(_checked(fault, model, golden))
        if golden is not None and fault.anchor is None:
            fault = replace(fault, anchor=arming.anchored(fault, golden))
        self.put(self.plan.with_fault(fault))
        return fault

    def load(self, source: Any, model: nn.Module, golden: Trace | None) -> FaultPlan:
        """Put a whole plan in place of this one; its faults are checked, and stay as they are.

        Args:
            source: A plan, a path, or a mapping.
            model: The model whose modules the faults may name.
            golden: The golden run that they are judged against, if there is one.

        Raises:
            PlanError: It cannot be read.
            SiteError: A module, phase or line of a fault that cannot be.
            FaultError: A model, parameter or elements of a fault that cannot be.

        Warns:
            FaultWarning: The golden run made no such call, row or bit.
        """
        plan = FaultPlan.load(source)
        for said in [_checked(fault, model, golden) for fault in plan]:
            _warn(said)
        self.put(plan)
        return plan

    def take_over(
        self, plan: FaultPlan, model: nn.Module, golden: Trace
    ) -> tuple[FaultPlan, tuple[str, ...]]:
        """Put what still fits of an earlier plan in place of this one, in one change.

        Args:
            plan: The plan of another session.
            model: The model whose modules the faults may name.
            golden: The golden run that they are judged against.

        Returns:
            The plan of what fits, and why each of the others does not.
        """
        said = {fault.id: _unfit(fault, model, golden) for fault in plan}
        self.put(replace(plan, faults=tuple(fault for fault in plan if not said[fault.id])))
        return self.plan, tuple(why for why in said.values() if why)

    def put(self, plan: FaultPlan) -> None:
        """Put a plan in place of this one."""
        self._done.append(self.plan)
        self._undone.clear()
        self._set(plan)

    @property
    def can_undo(self) -> bool:
        """Whether there is a change to take back."""
        return bool(self._done)

    @property
    def can_redo(self) -> bool:
        """Whether there is a change to do again."""
        return bool(self._undone)

    def undo(self) -> FaultPlan:
        """Take back the last change, if there is one."""
        return self._step(self._done, self._undone)

    def redo(self) -> FaultPlan:
        """Do again what was taken back last, if there is any."""
        return self._step(self._undone, self._done)

    def _step(self, source: list[FaultPlan], target: list[FaultPlan]) -> FaultPlan:
        if source:
            target.append(self.plan)
            self._set(source.pop())
        return self.plan

    def _set(self, plan: FaultPlan) -> None:
        self.plan = plan
        self._events.tell("plan", plan=plan)

    def known(self, fault: Fault | str) -> str:
        """Id of a fault of the plan.

        Raises:
            NoSuchFaultError: The plan holds no such fault; names the nearest.
        """
        return self.plan[fault.id if isinstance(fault, Fault) else str(fault)].id

    def free_id(self) -> str:
        """The first of ``f1``, ``f2``, … that no fault has."""
        return next(free_ids([fault.id for fault in self.plan]))


def _checked(fault: Fault, model: nn.Module, golden: Trace | None) -> str:
    """Judge a fault as far as it can be judged; what the golden run did not make, or ``""``."""
    arming.check_filters(fault, model)
    if golden is None:
        return ""
    warning, headless = arming.check_fault(fault, golden), arming.unlike_headless(fault, golden)
    if headless:
        logger.warning("%s: %s", fault.id, headless)
    return f"{fault.id}: {warning}" if warning else ""


def _unfit(fault: Fault, model: nn.Module, golden: Trace) -> str:
    """Why a fault of an earlier golden run does not fit this one, or ``""``."""
    try:
        said = _checked(fault, model, golden)
    except FiError as error:
        return f"{fault.id}: {error}"
    moved = fault.anchor is not None and arming.anchored(fault, golden) != fault.anchor
    return said or f"{fault.id}: {fault.target} is another call now" * moved


def _warn(said: str) -> None:
    """Warn at the line of the person who called, however many calls of ours lie between."""
    if said:
        frame, above = sys._getframe(1), 2  # noqa: SLF001 - what `warnings` itself looks at
        while frame.f_back is not None and frame.f_code.co_filename.startswith(OURS):
            frame, above = frame.f_back, above + 1
        warnings.warn(said, FaultWarning, stacklevel=above)
