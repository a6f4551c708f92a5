"""How much of the golden run is kept, where, and which outputs are kept whatever it costs.

    keeping = Keeping(budget_of("auto"), "auto", spill=None, always=[])
    with keeping.store(keeping.keys(trace, plan)) as store:
        …                       # a golden step

The budget is for outputs. What the comparison needs beside them, copies of parameters,
buffers, optimizer state and gradients, is counted and said (``state`` of `report`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fi_notebook.core.chosen import chosen_rows
from fi_notebook.core.fault import FaultPlan
from fi_notebook.core.lookup import make_sites
from fi_notebook.core.site import Site
from fi_notebook.core.trace import Trace
from fi_notebook.engine.replay import StepResult
from fi_notebook.engine.spill import Spill
from fi_notebook.engine.store import SiteKey, ValueStore, site_key, size_of

__all__ = ["Keeping", "key_of"]

_MOST_STRUCK = 256
"""Of one fault's sites how many are kept whole, where it chooses very many."""


@dataclass(frozen=True)
class Keeping:
    """What a session keeps of a golden run.

    Attributes:
        budget: Bytes for outputs.
        memory: What was asked for: bytes, or ``auto``.
        spill: File for whole outputs that do not fit, or None.
        always: Sites that are kept whole whatever the budget.
    """

    budget: int
    memory: int | str = "auto"
    spill: Path | None = None
    always: Sequence[Site | str] = field(default_factory=list)

    @contextmanager
    def store(self, always: Container[SiteKey], step: int = 0) -> Iterator[ValueStore]:
        """An empty store for one golden step; a step that raises leaves no file."""
        spill = self._spill(step)
        try:
            yield ValueStore(self.budget, always, spill)
            if spill is not None:
                spill.finish()
        finally:
            if spill is not None:
                spill.discard()

    def _spill(self, step: int) -> Spill | None:
        """The file of a step; that of step 0 has the name that was given."""
        if self.spill is None:
            return None
        path = self.spill
        return Spill(path.with_stem(f"{path.stem}.step{step}") if step else path)

    def always_keys(self) -> set[SiteKey]:
        """The sites that are always kept."""
        sites = (Site.parse(site) if isinstance(site, str) else site for site in self.always)
        return {key_of(site) for site in sites}

    def keys(self, trace: Trace, plan: FaultPlan) -> set[SiteKey]:
        """The sites that are always kept, and those that an enabled fault may strike."""
        struck: Iterable[Site] = (
            site
            for fault in plan
            if fault.enabled and fault.target.kind == "call"
            for site in make_sites(trace, chosen_rows(fault, trace)[:_MOST_STRUCK])
        )
        return self.always_keys() | {key_of(site) for site in struck}

    def report(self, store: ValueStore, result: StepResult) -> dict[str, Any]:
        """What was kept, in plain numbers, for the trace's info."""
        state = [] if result.state is None else result.state.tensors()
        copies = [*state, *result.gradients.values()]
        return {"asked": self.memory, **store.report(), "state": sum(map(size_of, copies))}


def key_of(site: Site) -> SiteKey:
    """Identity of a site while it runs."""
    return site_key(site.op, site.counted, site.call, site.output, site.index)
