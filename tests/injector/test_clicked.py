"""A fault that was clicked in a session and saved strikes the same bits headless."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fi_notebook import Injector, Session
from fi_notebook.core.site import Site
from tests import models

EVERY = 9
"""One site in so many is struck, in one run."""

SHARED = ("empty_like", "expand", "view")
"""Operators whose outputs hold nothing yet, or share memory with what was struck before."""


@pytest.mark.parametrize("name", models.CASES)
def test_a_saved_plan_strikes_the_same_bits(name: str, tmp_path: Path) -> None:
    """Faults at sites of all phases: the same sites, elements and values in both."""
    case, twin = models.CASES[name](), models.CASES[name]()
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    trace = session.trace()
    floats = [s for s in trace.sites if s.dtype == "float32" and s.op not in SHARED]
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


def _clicked(
    validate: str, target: str, path: Path, steps: Any = "0-"
) -> tuple[list[Site], list[tuple[str, int]], Injector]:
    """A loop body that trains and validates, in a session of 3 steps and headless for 3."""

    def body(case: models.Case) -> torch.Tensor:
        if "before" in validate:
            with torch.no_grad():
                case.model(case.x)
        loss = case.step()
        if "after" in validate:
            case.model.eval()
            case.model(case.x)
            case.model.train()
        return loss

    case, twin = models.mlp(), models.mlp()
    session = Session(lambda: body(case), model=case.model, optimizer=case.optimizer)
    session.trace()
    session.arm(target, "bitflip", bit=20, elements={"index": 0}, steps=steps)
    expected = session.replay(steps=3).injections
    session.plan.save(path)
    with Injector(path, model=twin.model) as injector:
        for _ in range(3):
            body(twin)
    found = [(str(i.site), i.step) for i in expected]
    return [i.site for i in injector.injections], found, injector


@pytest.mark.parametrize(
    ("steps", "listed"), [(0, [0]), (1, [1]), ([0, 2], [0, 2]), ("0-", [0, 1, 2])]
)
def test_a_validation_after_the_update_is_struck_in_the_same_steps(
    steps: Any, listed: list[int], tmp_path: Path
) -> None:
    """other/addmm*2 is the second layer of the validation, in each listed step."""
    found, expected, injector = _clicked("after", "other/addmm*2:0", tmp_path / "p.json", steps)
    assert expected == [("other/addmm*2:0", step) for step in listed]
    assert [(str(i.site), i.step) for i in injector.injections] == expected
    assert {site.module for site in found} == {"2"}


def test_a_call_that_no_loop_can_number_is_said_when_it_is_armed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Before the forward a loop has no number; after it, those before are taken off."""
    _clicked("before", "other/addmm*1:0", tmp_path / "p.json")
    assert "'other/addmm*1:0' is before the step's first training forward" in caplog.text
    caplog.clear()
    _clicked("before and after", "other/addmm*3:0", tmp_path / "p.json")  # 2 come before
    assert "an Injector numbers 'other/addmm*3:0' from the forward on, as 1" in caplog.text
    caplog.clear()
    _clicked("after", "other/addmm*1:0", tmp_path / "p.json")
    assert "an Injector" not in caplog.text


def test_input_preparation_is_reported_as_what_it_is(tmp_path: Path) -> None:
    """A clicked other/neg*1 of the input never comes headless, and no script has changed."""
    case, twin = models.mlp(), models.mlp()

    def body(of: models.Case) -> torch.Tensor:
        of.x = of.x.neg().neg()
        return of.step()

    session = Session(lambda: body(case), model=case.model, state=[case])
    session.arm("other/neg*1:0", "zero", elements={"index": 0})
    assert [str(i.site) for i in session.replay().injections] == ["other/neg*1:0"]
    session.plan.save(tmp_path / "p.json")
    with Injector(tmp_path / "p.json", model=twin.model) as injector:
        body(twin)
        body(twin)
    (missed,) = injector.not_injected
    assert missed.reason == (
        "no call of 'neg' was made in step 0 (what comes before a step's first training forward "
        "takes no such number here)"
    )
