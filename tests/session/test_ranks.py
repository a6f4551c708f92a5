"""A session in a process that is not the first of a distributed training."""

from __future__ import annotations

import pytest

from fi_notebook import Injector, Session
from fi_notebook.core.fault import Fault
from fi_notebook.errors import FaultError
from fi_notebook.ui.values import preview
from tests import models


def test_all_ways_to_strike_draw_for_the_rank_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Slice, replay, preview and injector strike one element, another one than on rank 0."""
    struck = []
    for rank in (0, 1):
        monkeypatch.setenv("RANK", str(rank))
        case = models.mlp()
        session = Session(case.step, model=case.model, optimizer=case.optimizer)
        trials = session.trials()
        assert trials.slices is not None
        site = trials.trace.site(trials.trace.row("addmm*1:0"))
        fault = Fault("f1", site.target, "zero", {}, {"count": 1})
        lean, full = trials.slices.run(fault, site, 0), trials.replay(fault)
        value = session.kept(site)
        assert value is not None
        shown = preview(value, fault, site)["elements"][0]
        session.add(fault)
        with Injector(session.plan, model=case.model) as injector:
            case.step()
        (trained,) = injector.injections
        (element,) = trained.elements
        assert lean.injection is not None
        assert full.injection is not None
        assert [i.rank for i in (lean.injection, full.injection, trained)] == [rank] * 3
        assert lean.before == full.before == shown["before"] == element.before
        assert tuple(shown["index"]) == element.index
        struck.append(element.index)
    assert struck[0] != struck[1]


def test_no_rank_at_all_is_refused() -> None:
    """An empty list is no way to say all, and a number is called what it is."""
    case = models.mlp()
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    with pytest.raises(FaultError, match=r"^ranks is an empty list, and would strike nowhere; "):
        session.arm("relu*1:0", "zero", ranks=[])
    with pytest.raises(FaultError, match=r"^cannot read \[-1\] as ranks; expected a number from 0"):
        session.arm("relu*1:0", "zero", ranks=[-1])
