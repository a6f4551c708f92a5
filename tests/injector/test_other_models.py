"""Models that train or are run beside the one that is struck: their calls are not its own."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fi_notebook import Injector, Session
from tests.injector.helpers import plan, sites

STEPS = 3


class Training:
    """A small network with its optimizer and the losses of its steps."""

    def __init__(self, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.losses: list[float] = []

    def step(self, number: int, *, clear_first: bool) -> None:
        """One step on its own batch."""
        x = torch.randn(5, 3, generator=torch.Generator().manual_seed(number))
        if clear_first:
            self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.model(x), torch.tensor([0, 1, 0, 1, 0]))
        loss.backward()
        self.optimizer.step()
        if not clear_first:
            self.optimizer.zero_grad()
        self.losses.append(loss.item())


def losses(
    config: dict[str, Any] | None, order: str, *, clear_first: bool
) -> dict[str, list[float]]:
    """Of two models that train in turns; the injector is of the one called mine."""
    both = {"mine": Training(0), "other": Training(1)}
    injector = None if config is None else Injector(config, model=both["mine"].model)
    for number in range(STEPS):
        for name in order.split():
            both[name].step(number, clear_first=clear_first)
    if injector is not None:
        injector.close()
    return {name: each.losses for name, each in both.items()}


@pytest.mark.parametrize("clear_first", [True, False])
@pytest.mark.parametrize("order", ["mine other", "other mine"])
@pytest.mark.parametrize("op", ["relu", "addmm", "threshold_backward", "mm", "ones_like"])
def test_another_model_that_trains_in_turns_is_not_struck(
    op: str, order: str, clear_first: bool
) -> None:
    """Neither its forward, its loss nor its backward: its losses are bit-equal."""
    plain = losses(None, order, clear_first=clear_first)
    found = losses(plan(op, "scale", parameters={"factor": 5.0}), order, clear_first=clear_first)
    assert found["mine"] != plain["mine"]
    assert found["other"] == plain["other"]


@pytest.mark.parametrize("training", [True, False])
def test_a_copy_of_the_weights_is_not_struck(training: bool) -> None:
    """An average of them that follows in place, and a copy made in the loop, run after the update
    with or without gradients: only the two calls of the model's own forward are struck.
    """
    case = Training(0)
    average = copy.deepcopy(case.model)
    with Injector(plan("addmm", "negate"), model=case.model) as injector:
        case.step(0, clear_first=True)
        with torch.no_grad():
            for mine, its in zip(average.parameters(), case.model.parameters(), strict=True):
                mine.lerp_(its, 0.1)
        with torch.set_grad_enabled(training):
            average(torch.ones(5, 3))
            copy.deepcopy(case.model)(torch.ones(5, 3))
        assert sites(injector) == [("addmm*1:0", 0), ("addmm*2:0", 0)]


def test_what_another_model_does_after_the_update_is_other() -> None:
    """In a trace of a step that trains both: its forward, its loss and its backward."""
    mine, other = Training(0), Training(1)

    def step() -> Tensor:
        mine.step(0, clear_first=True)
        other.step(0, clear_first=True)
        return torch.tensor(mine.losses[-1])

    trace = Session(
        step, model=mine.model, optimizer=mine.optimizer, state=[other.model, other.optimizer]
    ).trace()
    assert [site.phase for site in trace.find("relu")] == ["forward", "other"]
    assert [site.phase for site in trace.find("threshold_backward")] == ["backward", "other"]
    assert [site.phase for site in trace.find("nll_loss_forward*2")] == ["other", "other"]


def two_optimizers() -> tuple[nn.Sequential, torch.optim.Optimizer, torch.optim.Optimizer]:
    """A model of two layers with an optimizer for each."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    first, second = (torch.optim.SGD(layer.parameters(), lr=0.1) for layer in model)
    return model, first, second


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("op", ["abs", "sgn", "linalg_vector_norm", "stack", "clamp"])
def test_what_comes_between_two_updates_is_the_models_own(op: str, known: bool) -> None:
    """A second loss of what the model gave, its backward, and the clipping of what is left; in the
    first step too, where it shows by a gradient that waits that another optimizer is to come.
    """
    model, first, second = two_optimizers()

    def step() -> None:
        out = model(torch.ones(2, 3))
        out.square().mean().backward(retain_graph=True)
        first.step()
        out.abs().mean().backward()
        nn.utils.clip_grad_norm_(model[1].parameters(), 0.01)
        second.step()

    config = plan(op, "scale", parameters={"factor": 2.0}, steps="0-")
    with Injector(config, model=model, optimizer=[first, second] if known else None) as injector:
        step()
        step()
    assert {site_step for _, site_step in sites(injector)} == {0, 1}


def test_the_rest_of_a_backward_that_updates_is_the_steps_own() -> None:
    """Each parameter is updated as its gradient comes; a trained layer before the model follows."""
    before, model = nn.Linear(3, 3), nn.Linear(3, 3)
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: optimizers[p].step())

    def step() -> Tensor:
        loss = model(before(torch.ones(2, 3)).tanh()).square().mean()
        loss.backward()
        return loss

    trace = Session(step, model=model, optimizer=list(optimizers.values()), state=[before]).trace()
    (tanh_backward,) = trace.find("tanh_backward")
    assert (tanh_backward.phase, tanh_backward.module) == ("backward", "(outside)")
