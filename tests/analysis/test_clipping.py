"""Whether a step clips its gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from fi_notebook.analysis.clipping import clips_gradients
from fi_notebook.session import Session
from tests import models, traces

CLIPS: dict[str, Callable[[list[nn.Parameter]], object]] = {
    "norm": lambda parameters: nn.utils.clip_grad_norm_(parameters, 1.0),
    "norm, one by one": lambda parameters: nn.utils.clip_grad_norm_(parameters, 1.0, foreach=False),
    "value": lambda parameters: nn.utils.clip_grad_value_(parameters, 1.0),
    "value, one by one": lambda parameters: nn.utils.clip_grad_value_(
        parameters, 1.0, foreach=False
    ),
}


@pytest.mark.parametrize("clip", CLIPS.values(), ids=list(CLIPS))
def test_clipping_is_seen(clip: Callable[[list[nn.Parameter]], object]) -> None:
    """By norm and by value, for all gradients at once and one by one."""
    case = models.mlp(seed=1)

    def step() -> torch.Tensor:
        loss = case.forward_backward()
        clip(list(case.model.parameters()))
        case.optimizer.step()
        case.optimizer.zero_grad()
        return loss

    session = Session(step, model=case.model, optimizer=case.optimizer)
    assert clips_gradients(session.trace())


def test_a_step_without_clipping_clips_nothing() -> None:
    """Neither plain steps nor a norm that is only looked at, nor a trace without parameters."""
    case = models.mlp(seed=1)

    def step() -> torch.Tensor:
        loss = case.forward_backward()
        for parameter in case.model.parameters():
            assert parameter.grad is not None
            torch.linalg.vector_norm(parameter.grad)
        case.optimizer.step()
        case.optimizer.zero_grad()
        return loss

    session = Session(step, model=case.model, optimizer=case.optimizer)
    assert not clips_gradients(session.trace())
    assert not clips_gradients(traces.digits_step())
