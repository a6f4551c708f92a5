"""The closure of an optimizer is evaluated as it would be, and it is known when."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn, optim

from fi_notebook.engine.closures import with_closure
from fi_notebook.engine.intercept import Watch
from fi_notebook.engine.source import SourceStacks
from fi_notebook.engine.steps import StepClock


def _call(closure: Any, *args: Any, **kwargs: Any) -> Any:
    return closure(*args, **kwargs)


def test_what_is_no_closure_is_left_alone() -> None:
    """Neither the optimizer, which comes first and may be callable, nor a number or a tensor."""
    assert with_closure((len, 1.0, torch.ones(1)), {"grad_scaler": None}, _call) is None


def test_a_closure_is_found_by_position_and_by_keyword() -> None:
    """What stands in its place has its name, and gives what it gives; all else stays."""

    def closure(x: int) -> list[int]:
        return kept[x:]

    kept = [1, 2]
    for args, kwargs in (((None, 5, closure), {"more": 6}), ((None, 5), {"closure": closure})):
        given = with_closure(args, kwargs, _call)
        assert given is not None
        (instead,) = [value for value in (*given[0], *given[1].values()) if callable(value)]
        assert instead is not closure
        assert (instead(1), instead.__name__, instead.__wrapped__) == ([2], "closure", closure)
        back = lambda value: closure if value is instead else value  # noqa: E731, B023
        assert tuple(map(back, given[0])) == args
        assert {name: back(value) for name, value in given[1].items()} == kwargs


class _Told:
    """A model whose clock writes down what it tells, with the forwards in between."""

    def __init__(self) -> None:
        self.model = nn.Linear(3, 2)
        self.seen: list[str] = []
        self.clock = StepClock(self.model)

    def forward(self) -> torch.Tensor:
        self.seen.append("closure" if self.clock.in_closure else "forward")
        out = self.model(torch.ones(4, 3))
        assert not self.clock.in_optimizer
        return out.square().sum()

    @contextmanager
    def watched(self) -> Iterator[None]:
        watch = Watch(self.model, self.clock, SourceStacks())
        watch.optimizer_begins.append(lambda o: self.seen.append(f"{type(o).__name__} begins"))
        watch.update_begins.append(lambda o: self.seen.append(f"{type(o).__name__} updates"))
        watch.optimizer_ends.append(lambda o: self.seen.append(f"{type(o).__name__} ends"))
        watch.install()
        try:
            yield
        finally:
            watch.remove()


def _evaluated(told: _Told, optimizer: optim.Optimizer) -> list[str]:
    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = told.forward()
        loss.backward()
        return loss

    with told.watched():
        optimizer.step(closure)  # type: ignore[arg-type]
    assert (told.clock.step, told.clock.in_closure, told.clock.stepping) == (0, False, None)
    return told.seen


def test_without_a_closure_the_update_begins_with_the_step() -> None:
    """The forward was before."""
    told = _Told()
    with told.watched():
        told.forward().backward()
        optim.SGD(told.model.parameters(), lr=0.1).step()
    assert told.seen == ["forward", "SGD begins", "SGD updates", "SGD ends"]


def test_with_a_closure_the_update_begins_after_it() -> None:
    """The forward is within the step, and is not the optimizer's."""
    told = _Told()
    optimizer = optim.SGD(told.model.parameters(), lr=0.1)
    assert _evaluated(told, optimizer) == ["SGD begins", "closure", "SGD updates", "SGD ends"]


def test_of_several_evaluations_the_first_begins_the_update() -> None:
    """LBFGS evaluates three times."""
    told = _Told()
    optimizer = optim.LBFGS(told.model.parameters(), lr=1e-3, max_iter=3, tolerance_change=0)
    expected = ["LBFGS begins", "closure", "LBFGS updates", "closure", "closure", "LBFGS ends"]
    assert _evaluated(told, optimizer) == expected


class _Around(optim.Optimizer):
    """Hands its closure on to another optimizer, as Lookahead does."""

    def __init__(self, base: optim.Optimizer) -> None:
        self.base = base
        super().__init__(base.param_groups, {})

    def step(self, closure: Any = None) -> Any:
        """The other's step."""
        return self.base.step(closure)


class _Twice(_Around):
    """Evaluates its closure, then steps another optimizer without, as SAM does."""

    def step(self, closure: Any = None) -> Any:
        """The second pass, and the other's step."""
        loss = closure()
        self.base.step()
        return loss


def test_an_optimizer_that_hands_its_closure_on() -> None:
    """One evaluation begins the update of both, that of the outer first."""
    told = _Told()
    seen = _evaluated(told, _Around(optim.SGD(told.model.parameters(), lr=0.1)))
    begun = ["_Around begins", "SGD begins", "closure", "_Around updates", "SGD updates"]
    assert seen == [*begun, "SGD ends", "_Around ends"]


def test_an_optimizer_that_evaluates_and_then_steps_another() -> None:
    """The outer update begins with the evaluation, the inner with the inner step."""
    told = _Told()
    seen = _evaluated(told, _Twice(optim.SGD(told.model.parameters(), lr=0.1)))
    begun = ["_Twice begins", "closure", "_Twice updates", "SGD begins", "SGD updates"]
    assert seen == [*begun, "SGD ends", "_Twice ends"]


class _Deaf(optim.SGD):
    """Takes a closure and does not call it."""

    def step(self, closure: Any = None) -> Any:
        """Nothing."""


def test_a_closure_that_is_never_called() -> None:
    """No update begins; the step is over all the same."""
    told = _Told()
    with told.watched():
        told.forward().backward()
        _Deaf(told.model.parameters(), lr=0.1).step(lambda: 1.0)
        told.forward()
    assert told.seen == ["forward", "_Deaf begins", "_Deaf ends", "forward"]
    assert told.clock.step == 1


def test_a_closure_that_is_kept_and_called_later_tells_nothing() -> None:
    """After its step is over it is only what it was."""
    told = _Told()
    kept: list[Any] = []

    class Keeper(optim.SGD):
        def step(self, closure: Any = None) -> Any:
            kept.append(closure)

    with told.watched():
        Keeper(told.model.parameters(), lr=0.1).step(lambda: 5.0)
        assert kept[0]() == 5.0
    assert kept[0]() == 5.0
    assert told.seen == ["Keeper begins", "Keeper ends"]


def test_a_closure_that_raises_begins_no_update() -> None:
    """Its own exception comes out, and the next step is a step."""
    told = _Told()
    optimizer = optim.SGD(told.model.parameters(), lr=0.1)
    error = ValueError("no data")

    def closure() -> torch.Tensor:
        raise error

    with told.watched():
        with pytest.raises(ValueError, match="no data") as raised:
            optimizer.step(closure)
        assert raised.value is error
        assert not told.clock.in_closure
        told.forward().backward()
        optimizer.step()
    assert told.seen == ["SGD begins", "forward", "SGD begins", "SGD updates", "SGD ends"]


def test_two_clocks_watch_one_closure() -> None:
    """Each is told after it, and what it gives is the optimizer's."""
    one, other = _Told(), _Told()
    other.model = other.clock.model = one.model
    optimizer = optim.SGD(one.model.parameters(), lr=0.1)
    loss = torch.ones(1)
    with one.watched(), other.watched():
        assert optimizer.step(closure=lambda: loss) is loss
    assert one.seen == other.seen == ["SGD begins", "SGD updates", "SGD ends"]
