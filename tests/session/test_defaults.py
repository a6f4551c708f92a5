"""Torch's default device and dtype are a person's own: what we make does not depend on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import pytest
import torch

from fi_notebook import Injector, Session, faults
from fi_notebook.errors import FaultError
from fi_notebook.session import FaultWarning
from tests import models
from tests.tools import traced

_DEFAULTS: dict[str, Callable[[], object]] = {
    "meta": partial(torch.set_default_device, "meta"),
    "bfloat16": partial(torch.set_default_dtype, torch.bfloat16),
    "float64": partial(torch.set_default_dtype, torch.float64),
}


@pytest.fixture(params=_DEFAULTS)
def defaults(request: pytest.FixtureRequest) -> Iterator[Callable[[], object]]:
    """What sets one of them; both are put back afterwards."""
    yield _DEFAULTS[request.param]
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)


def _session() -> Session:
    """One whose optimizer has its state: up to torch 2.11 AdamW made it on the default device."""
    case = models.cnn()
    with models.seeded(0):  # it has dropout
        case.step()
    return traced.session(case)


@cache
def _plain() -> list[Any]:
    """What is found under the defaults that torch begins with."""
    return _everywhere(_session())


def _everywhere(session: Session) -> list[Any]:
    """What each fault model and each selection does, and a fault in each stored tensor."""
    session.trace()
    found: list[Any] = []
    for model in faults.models():
        if model.kind == "value":
            found += _struck(session, "relu*1:0", model.name, model.example, "all")
    for selection in faults.selections():
        for example in selection.examples:
            found += _struck(session, "addmm*1:0", "bitflip", {"bit": 20}, example)
    names = [name for name, _ in session.model.named_parameters()]
    for place in (f"param:{names[0]}", f"grad:{names[-1]}"):
        found += _struck(session, place, "scale", {"factor": 1.5}, "all")
    return found


def _struck(session: Session, site: str, model: str, given: Any, elements: Any) -> list[Any]:
    """The firing of one fault, and how far each output went."""
    session.disarm()
    try:
        session.arm(site, model, elements=elements, probability=0.99, **given)
    except (FaultError, FaultWarning) as error:  # nothing there fits it
        return [str(error)]
    run = session.replay()
    assert run.comparison is not None
    apart = run.comparison.columns["relative_l2"]
    return [*map(repr, (*run.injections, *run.not_injected, *apart.tolist()))]


def test_a_replay_is_the_same_under_any_default(defaults: Callable[[], object]) -> None:
    """Every fault model and selection: the same firings and the same differences."""
    plain, session = _plain(), _session()
    defaults()
    assert _everywhere(session) == plain


def test_an_injector_draws_the_same_under_any_default(defaults: Callable[[], object]) -> None:
    """A fault that comes up half of the time, at the same ones of forty calls in twenty steps."""
    fault = {"target": "relu", "model": "bitflip", "parameters": {"bit": 3}, "probability": 0.5}
    plan = {"version": 2, "faults": [fault | {"elements": {"count": 2}}], "verbosity": "quiet"}
    fired = []
    for change in (lambda: None, defaults):
        case = models.mlp()
        change()
        with Injector(plan, model=case.model) as injector:
            for _ in range(20):
                case.step()
        fired.append([(i.step, i.changed) for i in injector.injections])
    assert fired[0] == fired[1]
    assert 0 < len(fired[0]) < 40
