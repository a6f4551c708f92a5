"""Compiled models run eagerly in the listed steps only, and compiled in between."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fi_notebook import Injector
from tests import models
from tests.injector.helpers import bits, lines, plan, sites

pytestmark = pytest.mark.usefixtures("fresh_compiler")

STEPS = 7
LISTED = [2, 4]


class Block(nn.Module):
    """A ReLU and a Linear."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        """The Linear after the ReLU."""
        return self.fc(torch.relu(x))


class Net(nn.Module):
    """A Linear and a block."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.block = Block()

    def forward(self, x: Tensor) -> Tensor:
        """The block after the Linear."""
        return self.block(self.fc(x))


class Backend:
    """A compiler that counts compilations, and in which steps what it made is run."""

    def __init__(self) -> None:
        """Start at none."""
        self.compiled, self.ran, self.step = 0, list[int](), 0

    def __call__(self, graph: Any, _inputs: Any) -> Callable[..., Any]:
        """Compile a graph: run it as it is, and note when."""
        self.compiled += 1

        def run(*given: Any) -> Any:
            self.ran.append(self.step)
            return graph.forward(*given)

        return run


@pytest.fixture
def fresh_compiler() -> Any:
    """Let each test compile anew."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def _wrapper(net: Net, backend: Backend) -> Any:
    return torch.compile(net, backend=backend)


def _inner(net: Net, backend: Backend) -> Any:
    net.block = torch.compile(net.block, backend=backend)  # type: ignore[assignment]
    return net


def _in_place(net: Net, backend: Backend) -> Any:
    net.compile(backend=backend)
    return net


def _inner_in_place(net: Net, backend: Backend) -> Any:
    net.block.compile(backend=backend)
    return net


def _train(
    compiled: Callable[[Net, Backend], Any] | None, config: dict[str, Any], *, bare: bool = False
) -> tuple[Backend, Injector, list[float], Net]:
    with models.seeded(0):
        net, x = Net(), torch.randn(3, 4)
    backend = Backend()
    model: Any = net if compiled is None else compiled(net, backend)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    with Injector(config, model=net if bare else model) as injector:
        for step in range(STEPS):
            backend.step = step
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    return backend, injector, losses, net


WAYS = [_wrapper, _inner, _in_place, _inner_in_place]


@pytest.mark.parametrize("way", WAYS)
def test_it_is_compiled_between_the_listed_steps(
    way: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Compiled once, run in steps 0, 1, 3, 5, 6; struck in 2 and 4, with one warning."""
    config = plan("relu*1:0", "light", steps=LISTED)
    backend, injector, losses, _ = _train(way, config)
    assert backend.ran == [0, 1, 3, 5, 6]
    assert backend.compiled == 1
    assert sites(injector) == [("relu*1:0", step) for step in LISTED]
    assert losses == _train(None, config)[2]
    told = [line for line in lines(caplog) if "the model is compiled" in line]
    assert told == ["the model is compiled; it runs eagerly in the steps that the plan lists"]


@pytest.mark.parametrize("way", WAYS)
def test_the_first_step_may_be_listed(way: Any) -> None:
    """Struck in step 0, compiled from step 1 on."""
    backend, injector, _, _ = _train(way, plan("relu*1:0", steps=[0]))
    assert backend.ran == [1, 2, 3, 4, 5, 6]
    assert sites(injector) == [("relu*1:0", 0)]


@pytest.mark.parametrize("way", WAYS)
def test_an_idle_injector_changes_nothing(way: Any) -> None:
    """A fault that is never due: compiled in every step, and bit-equal to eager training."""
    backend, injector, _, net = _train(way, plan("relu*1:0", steps=[99]))
    assert backend.ran == list(range(STEPS))
    assert not injector.injections
    plain = _train(None, {"version": 2, "log_steps": [99]})[3]
    pairs = zip(net.parameters(), plain.parameters(), strict=True)
    assert all(bits(one) == bits(other) for one, other in pairs)


def test_the_model_inside_a_wrapper_may_be_given() -> None:
    """Injector(model=net) where torch.compile(net) is what is called."""
    backend, injector, _, _ = _train(_wrapper, plan("relu*1:0", steps=LISTED), bare=True)
    assert backend.ran == [0, 1, 3, 5, 6]
    assert [(i.site.module, i.step) for i in injector.injections] == [("block", 2), ("block", 4)]


def test_names_of_a_wrapped_model_need_no_prefix() -> None:
    """The filter block fits _orig_mod.block."""
    injector = _train(_wrapper, plan("relu", modules=["block"], steps=[1]))[1]
    assert [i.site.module for i in injector.injections] == ["_orig_mod.block"]


@pytest.mark.parametrize("way", [_wrapper, _inner])
def test_torchs_warning_of_global_hooks_is_kept_away(way: Any) -> None:
    """torch.compile warns of hooks that fire twice; ours do not, and nobody is told."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        filters = list(warnings.filters)
        _train(way, plan("relu*1:0", steps=LISTED))
        assert list(warnings.filters) == filters
    assert not [one for one in caught if "global hooks" in str(one.message)]


@pytest.mark.parametrize("evaluations", [1, 3])
@pytest.mark.parametrize("target", ["relu*1:0", "grad:block.fc.weight"])
def test_a_closure_of_a_model_that_is_compiled_in_place(target: str, evaluations: int) -> None:
    """Seven steps of LBFGS, however often it evaluates, compiled or not."""
    net, backend = Net(), Backend()
    _in_place(net, backend)
    optimizer = torch.optim.LBFGS(
        net.parameters(), lr=1e-3, max_iter=evaluations, tolerance_grad=0, tolerance_change=0
    )

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(torch.ones(3, 4)).square().mean()
        loss.backward()
        return loss

    with Injector(plan(target, steps=LISTED), model=net) as injector:
        for step in range(STEPS):
            backend.step = step
            optimizer.step(closure)
    assert injector.step == STEPS - 1
    assert sorted(set(sites(injector))) == [(target, step) for step in LISTED]
    assert sorted(set(backend.ran)) == [0, 1, 3, 5, 6]


def test_a_model_inside_a_compiled_function_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Its forward cannot be seen; the warning says what to do."""
    backend, net = Backend(), Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    step = torch.compile(lambda x: net(x).square().mean(), backend=backend)
    with Injector(plan("relu*1:0", steps=[1]), model=net):
        for _ in range(3):
            step(torch.ones(1, 4)).backward()
            optimizer.step()
    told = [line for line in lines(caplog) if "compile the model instead" in line]
    assert len(told) == 1
