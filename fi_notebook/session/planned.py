"""The part of a session that is its plan: what a person arms, disarms, undoes.

    fault = session.arm("relu*2:0", "bitflip", elements={"index": [0, 3]}, bit=30)
    session.disarm(fault)
    session.undo()

Nothing runs here. The plan itself is kept by a `PlanBook`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from fi_notebook.core.fault import Elements, Fault, FaultPlan, plain_elements, texts
from fi_notebook.core.site import Site, Target
from fi_notebook.core.steps import Steps, ranks_of
from fi_notebook.core.trace import Trace
from fi_notebook.core.words import counted
from fi_notebook.errors import SessionError, SiteError
from fi_notebook.session.planning import PlanBook

__all__ = ["Planned"]


class Planned:
    """What has a plan.

    Args:
        book: What keeps it.
    """

    def __init__(self, book: PlanBook) -> None:
        """Start with the plan of the book."""
        self._book = book

    @property
    def model(self) -> nn.Module:
        """The model that the faults are for."""
        raise NotImplementedError

    @property
    def golden(self) -> Trace | None:
        """The golden run that they are judged against, or None before there is one."""
        raise NotImplementedError

    @property
    def plan(self) -> FaultPlan:
        """The armed faults."""
        return self._book.typed(self.model, self.golden)

    def arm(
        self,
        site: Site | str | Sequence[Site | str],
        model: str,
        /,  # so that a fault model's own parameter may be called ``model``
        *,
        elements: Elements = "all",
        steps: int | str | Iterable[int] | Steps = 0,
        seed: int = 0,
        id: str | None = None,  # noqa: A002  # the plan's own word for a fault's name
        modules: str | Iterable[str] | None = None,
        code: str | Iterable[str] = (),
        phases: str | Iterable[str] = (),
        scope: str = "value",
        micro_batches: int | str | Iterable[int] | Steps | None = None,
        probability: float = 1.0,
        times: int | None = None,
        ranks: int | str | Iterable[int] | Steps | None = None,
        **parameters: Any,
    ) -> Fault:
        """Arm a fault; nothing runs until `replay`.

        Args:
            site: A site of the trace, a list of one, or text such as ``addmm*3:0``, ``addmm``
                (every call) or ``param:0.weight`` (also ``buffer:``, ``grad:``, ``state:``).
            model: Name of the fault model, such as ``bitflip``; see `fi_notebook.faults.names`.
            elements: Which elements of the tensor: ``"all"``, or a mapping such as
                ``{"index": [0, 3]}``, ``{"count": 5}``, ``{"row": 2}``, ``{"top": 1}``.
            steps: In which steps, counted from 0: a number, several, or text such as
                ``"2,5-7,10-"``.
            seed: Seed of the fault's own generator.
            id: Name of the fault in the plan; ``f1``, ``f2``, … if left out.
            modules: Module filter, one or several; None is no filter.
            code: Source-line filter such as ``run.py[83]``.
            phases: Phases in which it may strike; empty is all of them.
            scope: ``value`` (the readers of this output see it), ``storage`` (the memory is
                written, so that it stays) or ``contribution`` (what a rank gives to a collective).
            micro_batches: In which outermost forwards of a step; None is all.
            probability: Chance of each strike.
            times: How many times it strikes at most; None is no limit.
            ranks: On which ranks; None is all.
            **parameters: Parameters of the fault model, such as ``bit=30`` or ``factor=1.5``.

        Returns:
            The fault as it stands in the plan.

        Raises:
            SiteError: The text cannot be read, a module or phase does not exist, or a list holds
                other than one site.
            FaultError: The model, a parameter or the elements can never be.

        Warns:
            FaultWarning: The golden run made no such call, row or bit; it may stay
                ``not_injected``.
        """
        site = _only(site)
        fault = Fault(
            id=self._book.free_id() if id is None else id,
            target=site.target if isinstance(site, Site) else Target.parse(site),
            model=model,
            parameters=parameters,
            elements=plain_elements(elements),
            steps=Steps.parse(steps),
            seed=seed,
            modules=None if modules is None else texts(modules, "modules"),
            code=texts(code, "code"),
            phases=texts(phases, "phases"),
            scope=scope,
            micro_batches=(
                None if micro_batches is None else Steps.parse(micro_batches, "micro_batches")
            ),
            probability=probability,
            times=times,
            ranks=None if ranks is None else ranks_of(ranks),
        )
        return self.add(fault)

    @property
    def next_id(self) -> str:
        """Id that the next fault is given."""
        return self._book.free_id()

    def add(self, fault: Fault) -> Fault:
        """Add a whole fault to the plan, in place of its namesake; see `arm`.

        Args:
            fault: The fault, such as one of another plan.

        Returns:
            The fault as it stands in the plan, with its anchor.

        Raises:
            SiteError: A module or phase of it does not exist.
            FaultError: Its model, a parameter or the elements can never be.
        """
        name = self._book.add(fault, self.model, self.golden).id
        return self.plan[name]

    def disarm(self, fault: Fault | str | None = None) -> None:
        """Take one fault out of the plan, or all of them.

        Args:
            fault: The fault or its id; all of them if left out.

        Raises:
            NoSuchFaultError: The plan holds no such fault; names the nearest.
        """
        plan = self.plan
        kept = replace(plan, faults=()) if fault is None else plan.without(self._book.known(fault))
        self._book.put(kept)

    def set_enabled(self, fault: Fault | str, enabled: bool) -> Fault:
        """Switch a fault of the plan on or off.

        Args:
            fault: The fault, or its id.
            enabled: Whether it strikes in the next replay.

        Returns:
            The fault as it stands in the plan now.

        Raises:
            NoSuchFaultError: The plan holds no such fault; names the nearest.
        """
        changed = replace(self.plan[self._book.known(fault)], enabled=enabled)
        self._book.put(self.plan.with_fault(changed))
        return self.plan[changed.id]

    def load_plan(self, source: FaultPlan | str | Path | dict[str, Any]) -> FaultPlan:
        """Put a whole plan in place of this one.

        Args:
            source: A `FaultPlan`, a path of ``injector.json``, or what such a file holds.

        Returns:
            The plan as it stands now.

        Raises:
            PlanError: It cannot be read; names the place in it.
            SiteError: A module or phase of it does not exist in this model.
            FaultError: A model, a parameter or the elements of a fault can never be.

        Warns:
            FaultWarning: The golden run made no such call, row or bit; it may stay
                ``not_injected``.
        """
        self._book.load(source, self.model, self.golden)
        return self.plan

    def take_over(self, plan: FaultPlan) -> tuple[FaultPlan, tuple[str, ...]]:
        """Put what still fits of an earlier session's plan in place of this one.

        Args:
            plan: The plan of a session of the same step, before it or its model changed.

        Returns:
            The plan as it stands now, and why each fault that does not fit was left out.

        Raises:
            SessionError: Nothing was traced yet, so that it cannot be judged.
        """
        if self.golden is None:
            raise SessionError("nothing was traced yet; call trace() first")
        return self._book.take_over(plan, self.model, self.golden)

    def undo(self) -> FaultPlan:
        """Take back the last change of the plan, if there is one."""
        self._book.undo()
        return self.plan

    def redo(self) -> FaultPlan:
        """Do again what was taken back last, if there is any."""
        self._book.redo()
        return self.plan

    @property
    def can_undo(self) -> bool:
        """Whether there is a change to take back."""
        return self._book.can_undo

    @property
    def can_redo(self) -> bool:
        """Whether there is a change to do again."""
        return self._book.can_redo


def _only(site: Site | str | Sequence[Site | str]) -> Site | str:
    """The site, or the only one of a selection such as that of `Trace.find`."""
    if isinstance(site, (Site, str)) or not isinstance(site, Sequence):
        return site
    if len(site) != 1:
        raise SiteError(
            f"a fault is armed at one site, not at {counted(len(site), 'site')}; pass one of them, "
            "such as sites[0], or a target that chooses several, such as 'relu'"
        )
    return site[0]
