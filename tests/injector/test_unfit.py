"""A filter that leaves nothing is named, in a training loop as where a fault is armed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fi_notebook import Injector, Session
from fi_notebook.session import FaultWarning
from tests import models
from tests.injector.helpers import plan

_UNFIT = pytest.mark.parametrize(
    ("op", "filters", "said"),
    [
        ("mm", {"phases": ["forward"]}, "is in phase 'forward': they are in 'backward'"),
        ("relu", {"modules": ["0"]}, "is in module '0': they are in '1'"),
        (
            "addmm",
            {"modules": ["2"], "phases": ["backward"]},
            "is in phase 'backward': they are in 'forward'",
        ),
        (
            "mm",
            {"modules": ["1"], "code": ["nowhere.py"], "micro_batches": [0]},
            "is in module '1': they are in '2', '0'; none is on nowhere.py: ",
        ),
    ],
)
"""What a fault asks for, and what is said of it."""


@_UNFIT
def test_a_session_warns_of_the_filter(op: str, filters: dict[str, Any], said: str) -> None:
    """When it is armed, with what the calls of the operator have in its place."""
    case = models.mlp()
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    session.trace()
    with pytest.warns(FaultWarning) as warned:
        session.arm(op, "zero", **filters)
    assert str(warned[0].message).startswith(f"f1: no call of {op!r} {said}")


@_UNFIT
@pytest.mark.parametrize("probability", [1.0, 0.5])
def test_an_injector_reports_the_filter(
    op: str, filters: dict[str, Any], said: str, probability: float
) -> None:
    """At the end, in the steps that were listed, also where the fault is drawn by chance."""
    case = models.mlp()
    fault = plan(op, "zero", steps="0-1", probability=probability, **filters)
    with Injector(fault, model=case.model) as injector:
        case.step()
    (missed,) = injector.not_injected
    where = (
        "in steps 0-1, micro batch 0 (the last step had 1)" if "code" in filters else "in steps 0-1"
    )
    assert missed.reason.startswith(f"no call of {op!r} {where} {said}")


def test_an_overload_that_was_not_called_is_told_with_those_that_were() -> None:
    """As a filter is that leaves nothing."""
    case = models.mlp()
    with Injector(plan("addmm.out", "zero", steps=0), model=case.model) as injector:
        case.step()
    (missed,) = injector.not_injected
    assert missed.reason == (
        "no call of 'addmm' in step 0 is of overload 'out': they are of 'default'"
    )


class Averaged(nn.Linear):
    """A layer that averages over one dimension, as its loss does over all."""

    def forward(self, x: Tensor) -> Tensor:
        """The mean of each row."""
        return super().forward(x).mean(1)


def test_an_overload_in_another_phase_is_not_mistaken_for_all_calls_of_its_operator() -> None:
    """A session and an injector say alike that the overload and the phase fit apart alone."""
    model = Averaged(3, 4)

    def step() -> None:
        model(torch.ones(2, 3)).mean().backward()

    said = "is of overload 'dim' and in phase 'loss' at once; each alone fits some"
    session = Session(step, model=model)
    session.trace()
    with pytest.warns(FaultWarning) as warned:
        session.arm("mean.dim", "zero", phases=["loss"])
    assert str(warned[0].message) == f"f1: no call of 'mean' {said}"
    with Injector(plan("mean.dim", "zero", steps=0, phases=["loss"]), model=model) as injector:
        step()
    (missed,) = injector.not_injected
    assert missed.reason == f"no call of 'mean' in step 0 {said}"


def test_a_call_by_number_is_named_with_its_number() -> None:
    """Others of its operator may fit; its output is no part of the call."""
    case = models.mlp()
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    session.trace()
    with pytest.warns(FaultWarning) as warned:
        session.arm("relu*1:0", "zero", modules=["0"])
    assert str(warned[0].message) == (
        "f1: no call of 'relu*1' is in module '0': they are in '1' "
        "(calls are numbered through the whole step)"
    )


def test_a_call_by_number_on_another_line_says_its_line() -> None:
    """Its own line, beside its phase and module."""
    case = models.mlp()
    fault = plan("addmm*1", "zero", steps=0, code=["nowhere.py[3]"])
    with Injector(fault, model=case.model) as injector:
        case.step()
    (missed,) = injector.not_injected
    assert missed.reason.startswith(
        "addmm*1 was made in phase 'forward', module '0', on models.py:"
    )
    assert missed.reason.endswith(", which is outside the fault's code")
