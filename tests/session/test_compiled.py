"""Compiled models are seen eagerly while a session runs, and are compiled again after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from fi_notebook import Session


class Compiled:
    """A model compiled by a backend that counts how often a compiled graph is run."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3))
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.1)
        self.x, self.y = torch.randn(4, 5), torch.randn(4, 3)
        self.graphs, self.runs = 0, 0
        self.function = torch.compile(self.model, backend=self._compile)

    def _compile(self, module: Any, _examples: Any) -> Any:
        self.graphs += 1

        def run(*arguments: Any) -> Any:
            self.runs += 1
            return module.forward(*arguments)

        return run

    def step(self) -> Tensor:
        """A training step through the compiled function."""
        loss = functional.mse_loss(self.function(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()


@pytest.fixture
def compiled() -> Iterator[Compiled]:
    """A compiled model; what Dynamo knows is forgotten afterwards."""
    torch._dynamo.reset()
    yield Compiled()
    torch._dynamo.reset()


def _explore(compiled: Compiled, model: nn.Module) -> Session:
    session = Session(compiled.step, model=model, optimizer=compiled.optimizer)
    session.trace()
    session.arm("relu*1:0", "zero")
    session.replay()
    return session


def test_a_compiled_function_runs_compiled_again(compiled: Compiled) -> None:
    """One graph; none of its runs is in the session; the next step runs it, not a new one."""
    compiled.step()
    assert (compiled.graphs, compiled.runs) == (1, 1)
    _explore(compiled, compiled.model)
    assert (compiled.graphs, compiled.runs) == (1, 1)
    compiled.step()
    assert (compiled.graphs, compiled.runs) == (1, 2)


def test_a_function_first_run_in_a_session_is_compiled_later(compiled: Compiled) -> None:
    """Explored before its first compilation: eager in the session, compiled afterwards."""
    _explore(compiled, compiled.model)
    assert (compiled.graphs, compiled.runs) == (0, 0)
    compiled.step()
    assert (compiled.graphs, compiled.runs) == (1, 1)


@pytest.mark.parametrize("given", ["model", "wrapper"])
def test_the_calls_inside_are_named(compiled: Compiled, given: str) -> None:
    """Given the model or what torch.compile made of it: calls, modules and gradients are there."""
    model = compiled.model if given == "model" else compiled.function
    session = _explore(compiled, model)  # type: ignore[arg-type]  # a compiled module is one
    assert session.golden is not None
    assert [s.module.removeprefix("_orig_mod.") for s in session.golden.find("addmm")] == ["0", "2"]
    assert len(session.golden.find("mm", module="0", phase="backward")) == 1
    assert session.run is not None
    assert session.run.injections[0].changed > 0


@pytest.mark.parametrize("given", ["model", "wrapper"])
def test_the_tree_says_that_a_compiled_model_ran_eagerly(compiled: Compiled, given: str) -> None:
    """In its root and in `Trace.info`; of a model that is not compiled neither does."""
    model = compiled.model if given == "model" else compiled.function
    trace = Session(compiled.step, model=model).trace()  # type: ignore[arg-type]  # as above
    assert trace.info["ran_eagerly"] is True
    assert trace.tree().label == "step  ran eagerly"
    assert str(trace.tree("op")).startswith("step  ran eagerly  ")
    plain = Session(lambda: compiled.model(compiled.x).sum(), model=compiled.model).trace()
    assert "ran_eagerly" not in plain.info
    assert plain.tree().label == "step"


def test_an_eager_model_whose_step_is_compiled(compiled: Compiled) -> None:
    """A compiled loss function beside an eager model is seen through as well."""
    criterion = torch.compile(lambda a, b: (a - b).square().mean(), backend="eager")

    def step() -> Tensor:
        loss = criterion(compiled.model(compiled.x), compiled.y)
        loss.backward()
        compiled.model.zero_grad()
        return loss

    session = Session(step, model=compiled.model)
    ops = [site.op for site in session.trace().sites if site.phase == "loss"]
    assert ops == ["sub", "pow", "mean"]
    assert session.replay().comparison.equal
