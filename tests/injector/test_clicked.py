"""A fault that was clicked in a session and saved strikes the same bits headless."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fi_notebook import Injector, Session
from tests import models

EVERY = 9
"""One site in so many is struck, in one run."""


@pytest.mark.parametrize("name", models.CASES)
def test_a_saved_plan_strikes_the_same_bits(name: str, tmp_path: Path) -> None:
    """Faults at sites of all phases: the same sites, elements and values in both."""
    case, twin = models.CASES[name](), models.CASES[name]()
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    trace = session.trace()
    floats = [s for s in trace.sites if s.dtype == "float32" and s.op not in ("empty_like", "view")]
    for number, site in enumerate(floats[::EVERY]):
        session.arm(site, "bitflip", bit=20, elements={"count": 1}, seed=number, scope="storage")
    start = torch.get_rng_state()
    expected = session.replay().injections
    session.plan.save(tmp_path / "injector.json")
    torch.set_rng_state(start)
    with Injector(tmp_path / "injector.json", model=twin.model) as injector:
        twin.step()
    assert expected
    assert {i.site.phase for i in expected} >= {"forward", "backward"}
    assert not injector.not_injected
    assert [(i.fault, i.site, i.elements) for i in injector.injections] == [
        (i.fault, i.site, i.elements) for i in expected
    ]
    assert [(i.site.phase, i.site.module, i.site.parameter) for i in injector.injections] == [
        (i.site.phase, i.site.module, i.site.parameter) for i in expected
    ]
