"""Training loops of unusual shape: struck exactly in the listed step, as by hand in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fi_notebook as fi
from fi_notebook import Injector
from fi_notebook.session import FaultWarning
from tests.injector.helpers import lines, plan, sites

TRIPLED = {"parameters": {"factor": 3}}
Loop = Callable[[nn.Module, int], list[float]]


def _losses(model: nn.Module, by_hand: tuple[int, ...] = ()) -> list[float]:
    """Six steps; in those given the gradient of ``weight`` is tripled before the update."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.randn(6, 6, 4, generator=torch.Generator().manual_seed(2))
    losses = []
    for step in range(6):
        optimizer.zero_grad()
        loss = model(data[step]).square().mean()
        loss.backward()
        if step in by_hand:
            model.weight.grad.mul_(3)  # type: ignore[union-attr, operator]
        optimizer.step()
        losses.append(loss.item())
    return losses


def _line() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(4, 2)


@pytest.mark.parametrize("step", [0, 3])
def test_a_gradient_is_struck_in_its_step_where_the_model_is_compiled_in_place(step: int) -> None:
    """Its forward runs no hook in steps that are not listed, and they are counted in time."""
    model = _line()
    model.compile(backend="eager")
    with Injector(plan("grad:weight", "scale", steps=[step], **TRIPLED), model=model) as injector:
        losses = _losses(model)
    assert sites(injector) == [("grad:weight", step)]
    assert losses == _losses(_line(), by_hand=(step,))


@pytest.mark.parametrize("target", ["grad:weight", "param:weight", "state:weight.momentum_buffer"])
def test_training_in_evaluation_mode_is_no_step(target: str) -> None:
    """No step was counted, so none is struck, and the reason says what a session can do."""
    model = _line().eval()
    with Injector(plan(target, "scale", steps=[0], **TRIPLED), model=model) as injector:
        losses = _losses(model)
    assert losses == _losses(_line())
    (missed,) = injector.not_injected
    assert "made in evaluation mode" in missed.reason


class Twice(torch.optim.Optimizer):
    """An optimizer that steps another one, as torch's ``ZeroRedundancyOptimizer`` does."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner.param_groups, {})
        self.inner = inner

    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # gives no loss
        """Step the other."""
        assert closure is None
        self.inner.step()


def test_a_gradient_is_struck_once_where_an_optimizer_steps_another() -> None:
    """w = 2 - 1 * 3 * 1: a gradient of 1, tripled once."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 2.0)
    optimizer = Twice(torch.optim.SGD(model.parameters(), lr=1.0))
    with Injector(plan("grad:weight", "scale", **TRIPLED), model=model) as injector:
        model(torch.ones(1, 1)).sum().backward()
        optimizer.step()
    assert sites(injector) == [("grad:weight", 0)]
    assert model.weight.item() == -1.0


class Two(nn.Module):
    """Two heads, each with an optimizer of its own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(4, 1)
        self.b = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.a(x), self.b(x)


def _two(model: Two, by_hand: int | None = None) -> list[float]:
    """One optimizer steps before the other's backward, which needs the struck weight."""
    first, second = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model.a, model.b))
    data = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(1))
    weight = model.get_parameter("b.2.weight")
    losses = []
    for step in range(3):
        right = weight.detach().clone()
        if step == by_hand:
            weight.data.mul_(3)
        one, other = (out.square().mean() for out in model(data[step]))
        first.zero_grad()
        second.zero_grad()
        one.backward()
        first.step()
        other.backward()
        if step == by_hand:
            weight.data.copy_(right)
        second.step()
        losses.append(other.item())
    return losses


def test_a_parameter_stays_struck_until_its_own_optimizer_steps() -> None:
    """The backward of the second head reads what its forward read."""
    model = Two()
    config = plan("param:b.2.weight", "scale", steps=[1], **TRIPLED)
    with Injector(config, model=model) as injector:
        losses = _two(model)
    assert sites(injector) == [("param:b.2.weight", 1)]
    assert losses == _two(Two(), by_hand=1)


def test_a_parameter_is_right_again_where_a_scaler_skips_the_update() -> None:
    """An Inf in the weight makes an Inf gradient; after the step the weight is what it was."""
    model = _line()
    right = model.weight.detach().clone()
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu")
    config = plan("param:weight", "inf", elements={"index": [0, 0]})
    with Injector(config, model=model) as injector:
        scaler.scale(model(torch.ones(3, 4)).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(model.weight, right)
    assert len(injector.injections) == 1


@pytest.mark.parametrize("cleared", [False, True])
def test_a_parameter_is_right_again_where_nothing_stepped(cleared: bool) -> None:
    """With the gradients cleared, or the model run for validation, the step is over."""
    model = _line()
    right = model.weight.detach().clone()
    with Injector(plan("param:weight", "scale", **TRIPLED), model=model):
        model.zero_grad()  # before the backward it ends nothing
        loss = model(torch.ones(3, 4)).square().mean()
        model.zero_grad()
        assert torch.equal(model.weight, right * 3)
        loss.backward()
        if cleared:
            model.zero_grad()
        else:
            with torch.no_grad():
                model.eval()(torch.ones(3, 4))
        assert torch.equal(model.weight, right)


def test_each_micro_batch_draws_anew() -> None:
    """One element of 20 in each of four micro batches of 16 steps: some differ in every step."""
    model = nn.Linear(4, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    chosen: dict[int, list[Any]] = {}
    config = plan(
        "param:weight",
        "bitflip",
        parameters={"bit": 3},
        elements={"count": 1},
        probability=0.5,
        micro_batches=[0, 1, 2, 3],
    )
    with Injector(config, model=model, micro_batch_per_step=4) as injector:
        for step in range(16):
            for _ in range(4):
                before = len(injector.injections)
                model(torch.ones(2, 4)).sum().backward()
                new = injector.injections[before:]
                chosen.setdefault(step, []).append([i.elements[0].index for i in new])
            optimizer.step()
            optimizer.zero_grad()
    fired = [sum(map(bool, each)) for each in chosen.values()]
    assert {1, 2, 3} & set(fired)  # all or none in each step, if they drew alike
    assert sum(fired) == len(injector.injections)


def _scaled(i: int, net: nn.Module, data: Tensor, optimizer: torch.optim.Optimizer) -> Tensor:
    batch = data[i] / 255
    loss: Tensor = net(batch).square().sum() / 4
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def _scaling(seed: int = 0) -> tuple[nn.Module, torch.optim.Optimizer, Callable[[int], Tensor]]:
    torch.manual_seed(seed)
    net = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    data = torch.randint(0, 255, (3, 4, 3)).float()
    return net, optimizer, lambda i: _scaled(i, net, data, optimizer)


def test_the_next_batch_is_not_struck_with_this_step() -> None:
    """Of ``div`` the loss and its backward, in a loop and in a session alike; the batch of step 1
    is scaled by ``div*3``, which is only struck where it is asked for.
    """
    config = plan("div", "scale", parameters={"factor": 100}, steps=[0])
    net, _, step = _scaling()
    with Injector(config, model=net) as injector:
        losses = [float(step(i)) for i in range(3)]
    assert sites(injector) == [("div*1:0", 0), ("div*2:0", 0)]
    net, optimizer, step = _scaling()
    session = fi.Session(step, model=net, optimizer=optimizer)
    session.trace()
    session.load_plan(config)
    assert [record.loss for record in session.replay(steps=3).faulty] == losses
    for asked in ({"target": "div*3"}, {"phases": ["other"]}):
        net, _, step = _scaling()
        named = {"version": 2, "faults": [{**config["faults"][0], **asked}]}
        with Injector(named, model=net) as injector:
            for i in range(3):
                step(i)
        assert sites(injector) == [("div*3:0", 0)]


def test_a_metric_after_the_update_says_how_to_ask_for_it() -> None:
    """The reason, and in a session the same sites: neither has any."""

    def step() -> None:
        optimizer.zero_grad()
        net(torch.ones(2, 3)).sum().backward()
        optimizer.step()
        torch.ones(3).exp()

    torch.manual_seed(0)
    net = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with Injector(plan("exp", "zero"), model=net) as injector:
        step()
    (missed,) = injector.not_injected
    assert missed.reason.startswith("exp*1 was made after the update and reads no parameter")
    assert missed.reason.endswith("ask for it by its number, or with phases=['other']")
    session = fi.Session(step, model=net, optimizer=optimizer)
    session.trace()
    with pytest.warns(FaultWarning, match="made after the update"):
        session.arm("exp", "zero")
    assert session.replay().not_injected[0].reason == missed.reason


def test_a_sparse_result_is_not_struck_and_training_goes_on() -> None:
    """The reason names the layout."""
    model = nn.Embedding(9, 5, sparse=True)
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.01)
    with Injector(plan("_coalesce", "scale", **TRIPLED), model=model) as injector:
        model(torch.tensor([1, 1, 2])).square().sum().backward()
        optimizer.step()
    (missed,) = injector.not_injected
    assert "scale cannot strike this tensor: layout sparse_coo is not supported" in missed.reason


def test_a_module_that_is_replaced_later_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Once: its gradient has no name for this injector."""
    model = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2))
    with Injector(plan("grad:1.*", "scale", **TRIPLED), model=model):
        model[1] = nn.Linear(5, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    said = [line for line in lines(caplog) if "were replaced or added since this began" in line]
    assert len(said) == 1


def _foreach(config: dict[str, Any] | None = None) -> list[Tensor]:
    """How far each of four parameters moved in one update."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=True)
    before = [p.detach().clone() for p in model.parameters()]
    injector = None if config is None else Injector(config, model=model)
    model(torch.randn(5, 3)).square().mean().backward()
    optimizer.step()
    if injector is not None:
        injector.close()
    return [p.detach() - old for p, old in zip(model.parameters(), before, strict=True)]


@pytest.mark.parametrize(
    ("target", "times"),
    [("_foreach_add_*1:0[1]", (1, 2, 1, 1)), ("_foreach_add_*1", (2, 2, 2, 2))],
)
def test_duplicate_moves_what_it_names_twice(target: str, times: tuple[int, ...]) -> None:
    """A call that writes four parameters is made again for the named ones alone."""
    once, found = _foreach(), _foreach(plan(target, "duplicate"))
    for moved, step, count in zip(found, once, times, strict=True):
        torch.testing.assert_close(moved, count * step)


def test_a_duplicate_draw_leaves_the_generator_where_it_was() -> None:
    """One element of a mask is drawn twice; the next numbers are those of a plain run."""

    def drawn(config: dict[str, Any]) -> tuple[Tensor, Tensor]:
        torch.manual_seed(0)
        model = nn.Linear(3, 1)
        with Injector(config, model=model):
            model(torch.ones(1, 3))
            mask = torch.empty(4, 4).bernoulli_(0.5)
        return mask, torch.rand(2)

    golden, after = drawn({"version": 2})
    found, later = drawn(plan("bernoulli_", "duplicate", elements={"index": [0, 0]}))
    assert torch.equal(golden.flatten()[1:], found.flatten()[1:])
    assert torch.equal(after, later)


def test_a_dropped_call_in_place_leaves_what_there_was() -> None:
    """relu_ of (-1, 2) that is not made leaves (-1, 2)."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(1, 2, bias=False)
            self.fc.weight.data = torch.tensor([[-1.0], [2.0]])

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu_(self.fc(x))

    model = Net()
    with Injector(plan("relu_", "drop"), model=model) as injector:
        assert model(torch.ones(1, 1)).tolist() == [[-1.0, 2.0]]
    assert injector.injections[0].changed == 1
