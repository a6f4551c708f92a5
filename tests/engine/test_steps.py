"""When a step begins: the one rule, counted by hand over small loops."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn, optim

from fi_notebook.engine.intercept import Watch
from fi_notebook.engine.source import SourceStacks
from fi_notebook.engine.steps import StepClock


class Loop:
    """A model and its optimizer, with the step and micro batch of each training forward."""

    def __init__(self, **options: Any) -> None:
        self.model = nn.Linear(3, 2)
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.1)
        self.x = torch.ones(4, 3)
        self.clock = StepClock(self.model, **options)
        self.seen: list[tuple[int, int]] = []

    def forward(self) -> torch.Tensor:
        """A forward, written down if the clock counted it."""
        before = (self.clock.step, self.clock.micro_batch)
        out = self.model(self.x).sum()
        after = (self.clock.step, self.clock.micro_batch)
        if after != before:
            self.seen.append(after)
        return out

    @contextmanager
    def watched(self) -> Iterator[None]:
        """With the clock and the module hooks on."""
        watch = Watch(self.model, self.clock, SourceStacks())
        watch.install()
        try:
            yield
        finally:
            watch.remove()


def _steps(loop: Loop, body: Callable[[Loop], None], times: int = 3) -> list[tuple[int, int]]:
    with loop.watched():
        for _ in range(times):
            body(loop)
    return loop.seen


def _zero_last(loop: Loop) -> None:
    loop.forward().backward()
    loop.optimizer.step()
    loop.optimizer.zero_grad()


def _zero_first(loop: Loop) -> None:
    loop.optimizer.zero_grad()
    loop.forward().backward()
    loop.optimizer.step()


def _zero_between(loop: Loop) -> None:
    loss = loop.forward()
    loop.optimizer.zero_grad()
    loss.backward()
    loop.optimizer.step()


def _zero_to_zeros(loop: Loop) -> None:
    loop.forward().backward()
    loop.optimizer.step()
    loop.optimizer.zero_grad(set_to_none=False)


def _model_zero(loop: Loop) -> None:
    loop.model.zero_grad()
    loop.forward().backward()
    loop.optimizer.step()


def _no_zero(loop: Loop) -> None:
    loop.forward().backward()
    loop.optimizer.step()


def _only_zero(loop: Loop) -> None:
    loop.forward().backward()
    loop.optimizer.zero_grad()


def _validating(loop: Loop) -> None:
    _zero_last(loop)
    loop.model.eval()
    loop.forward()
    loop.model.train()
    with torch.no_grad():
        loop.forward()


@pytest.mark.parametrize(
    "body",
    [
        _zero_last,
        _zero_first,
        _zero_between,
        _zero_to_zeros,
        _model_zero,
        _no_zero,
        _only_zero,
        _validating,
    ],
)
def test_every_usual_loop_has_one_step_per_update(body: Callable[[Loop], None]) -> None:
    """Three rounds are steps 0, 1, 2 with one forward each, wherever gradients are cleared."""
    assert _steps(Loop(), body) == [(0, 0), (1, 0), (2, 0)]


def _accumulating(loop: Loop) -> None:
    for _ in range(3):
        loop.forward().backward()
    loop.optimizer.step()
    loop.optimizer.zero_grad()


def test_accumulation_counts_micro_batches() -> None:
    """Three forwards before an update are one step with micro batches 0, 1, 2."""
    expected = [(step, micro) for step in range(2) for micro in range(3)]
    assert _steps(Loop(), _accumulating, 2) == expected


def _accumulating_zero_between(loop: Loop) -> None:
    for micro_batch in range(3):
        loss = loop.forward()
        if micro_batch == 0:
            loop.optimizer.zero_grad()
        loss.backward()
    loop.optimizer.step()


@pytest.mark.parametrize("options", [{}, {"micro_batch_per_step": 3}])
def test_gradients_that_an_update_has_spent_are_cleared_behind_the_forward(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Forward, zero_grad, backward, as Lightning accumulates: three micro batches, no warning."""
    expected = [(step, micro) for step in range(3) for micro in range(3)]
    with caplog.at_level(logging.WARNING, logger="fi_notebook"):
        assert _steps(Loop(**options), _accumulating_zero_between) == expected
    assert not caplog.records


def test_each_of_two_optimizers_clears_what_it_has_spent() -> None:
    """Both behind the first of two forwards: two micro batches a step."""
    loop = Loop()
    halves = [optim.SGD([p], lr=0.1) for p in loop.model.parameters()]

    def body(loop: Loop) -> None:
        loss = loop.forward()
        for half in halves:
            half.zero_grad()
        loss.backward()
        loop.forward().backward()
        for half in halves:
            half.step()

    assert _steps(loop, body) == [(step, micro) for step in range(3) for micro in range(2)]


def test_a_batch_that_is_thrown_away_is_a_step() -> None:
    """Its gradients were cleared behind the forward, and are again behind the backward."""

    def body(loop: Loop) -> None:
        loss = loop.forward()
        loop.optimizer.zero_grad()
        loss.backward()
        if loop.clock.step == 1:
            loop.optimizer.zero_grad()
        else:
            loop.optimizer.step()

    assert _steps(Loop(), body) == [(0, 0), (1, 0), (2, 0)]


def test_a_forward_that_raised_is_a_step_once_gradients_are_cleared() -> None:
    """The batch is thrown away, though what is cleared was spent by the update before."""
    loop = Loop()

    def fail(*_: Any) -> None:
        if loop.clock.step == 1:
            raise ValueError("a bad batch")

    loop.model.register_forward_pre_hook(fail)

    def body(loop: Loop) -> None:
        try:
            _zero_between(loop)
        except ValueError:
            loop.optimizer.zero_grad()

    assert _steps(loop, body) == [(0, 0), (2, 0)]  # what raised wrote nothing down


def test_an_update_by_hand_is_a_step_where_the_module_is_cleared() -> None:
    """Without an optimizer, the gradients cleared behind the forward, as torch's tutorial does."""

    def body(loop: Loop) -> None:
        loss = loop.forward()
        loop.model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in loop.model.parameters():
                assert parameter.grad is not None
                parameter.sub_(0.1 * parameter.grad)

    assert _steps(Loop(), body) == [(0, 0), (1, 0), (2, 0)]


def test_micro_batch_per_step_wins_and_a_disagreement_is_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With k = 2, three forwards per update are steps of two; one warning says so."""
    with caplog.at_level(logging.WARNING, logger="fi_notebook"):
        seen = _steps(Loop(micro_batch_per_step=2), _accumulating, 2)
    assert seen == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    said = [r.getMessage() for r in caplog.records if "micro_batch_per_step=2" in r.getMessage()]
    assert len(said) == 1
    assert "the gradients were not seen to be cleared after 2" in said[0]


def test_micro_batch_per_step_that_agrees_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """With k = 3 and three forwards per update there is nothing to warn of."""
    with caplog.at_level(logging.WARNING, logger="fi_notebook"):
        seen = _steps(Loop(micro_batch_per_step=3), _accumulating, 2)
    assert seen[-1] == (1, 2)
    assert not caplog.records


def _by_hand(loop: Loop) -> None:
    loop.forward().backward()
    for parameter in loop.model.parameters():
        parameter.grad = None


def test_gradients_that_are_cleared_by_hand_begin_no_step() -> None:
    """Without an optimizer's step they are micro batches of one, unless that is said."""
    assert _steps(Loop(), _by_hand) == [(0, 0), (0, 1), (0, 2)]
    assert _steps(Loop(micro_batch_per_step=1), _by_hand) == [(0, 0), (1, 0), (2, 0)]


def test_steps_count_on_from_a_start_step() -> None:
    """Resumed at step 10, the first step is 10."""
    assert _steps(Loop(start_step=10), _zero_last, 2) == [(10, 0), (11, 0)]


@pytest.mark.parametrize("cleared", ["before", "between", "after"])
def test_a_scaler_that_skips_the_update_still_ends_the_step(cleared: str) -> None:
    """An inf gradient lets GradScaler skip step(), wherever gradients are cleared."""
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)

    def body(loop: Loop) -> None:
        clear = {cleared: loop.optimizer.zero_grad}
        clear.get("before", list)()
        loss = loop.forward() * (float("inf") if loop.clock.step == 1 else 1.0)
        clear.get("between", list)()
        scaler.scale(loss).backward()
        scaler.step(loop.optimizer)
        scaler.update()
        clear.get("after", list)()

    loop = Loop()
    assert _steps(loop, body) == [(0, 0), (1, 0), (2, 0)]
    assert scaler.get_scale() == 2.0  # halved once: step 1 was skipped


def test_two_optimizers_make_no_extra_step() -> None:
    """Two optimizers over halves of the model, both stepped and cleared: one step a round."""
    loop = Loop()
    halves = [optim.SGD([p], lr=0.1) for p in loop.model.parameters()]

    def body(loop: Loop) -> None:
        loop.forward().backward()
        for half in halves:
            half.step()
        for half in halves:
            half.zero_grad()

    assert _steps(loop, body) == [(0, 0), (1, 0), (2, 0)]


def test_an_optimizer_in_backward_makes_no_extra_step() -> None:
    """One optimizer a parameter, stepped by a hook in backward: one step a round."""
    loop = Loop()
    own = {p: optim.SGD([p], lr=0.1) for p in loop.model.parameters()}

    def update(parameter: torch.Tensor) -> None:
        own[parameter].step()  # type: ignore[index]
        own[parameter].zero_grad()  # type: ignore[index]

    handles = [p.register_post_accumulate_grad_hook(update) for p in loop.model.parameters()]
    assert _steps(loop, lambda loop: loop.forward().backward()) == [(0, 0), (1, 0), (2, 0)]
    for handle in handles:
        handle.remove()


def test_a_closure_is_within_its_step() -> None:
    """LBFGS evaluates three times a step: micro batches 0 to 2, then the next step."""
    loop = Loop()
    optimizer = optim.LBFGS(loop.model.parameters(), lr=1e-3, max_iter=3, tolerance_change=0)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loop.forward().square()
        loss.backward()
        return loss

    seen = _steps(loop, lambda _loop: optimizer.step(closure) and None, 2)
    assert seen == [(step, micro) for step in range(2) for micro in range(3)]


def test_a_closure_that_raises_is_over() -> None:
    """After a closure raised, the loop goes on counting one step per update."""
    loop = Loop()

    def closure() -> torch.Tensor:
        raise ValueError("no data")

    def body(loop: Loop) -> None:
        with pytest.raises(ValueError, match="no data"):
            loop.optimizer.step(closure)
        _zero_last(loop)
        assert not loop.clock.in_optimizer

    assert _steps(loop, body) == [(0, 0), (1, 0), (2, 0)]


def test_a_copy_of_the_model_counts_nothing() -> None:
    """An EMA deepcopy, made and run in training mode while watched, is another model."""
    loop = Loop()
    others: list[nn.Module] = []

    def body(loop: Loop) -> None:
        _zero_last(loop)
        others.append(copy.deepcopy(loop.model))
        others[-1](loop.x)
        optim.SGD(others[-1].parameters(), lr=0.1).zero_grad()

    assert _steps(loop, body) == [(0, 0), (1, 0), (2, 0)]
    assert not others[-1]._forward_hooks
    assert not others[-1]._forward_pre_hooks


def test_an_optimizer_of_another_model_begins_nothing() -> None:
    """A step and a zero_grad of parameters that are not the model's do not count."""
    loop = Loop()
    other = nn.Linear(2, 2)
    foreign = optim.SGD(other.parameters(), lr=0.1)

    def body(loop: Loop) -> None:
        loop.forward().backward()
        foreign.step()
        foreign.zero_grad()

    assert _steps(loop, body) == [(0, 0), (0, 1), (0, 2)]


def test_zero_grad_is_as_before_when_the_last_clock_is_gone() -> None:
    """While any clock is on, the methods are wrapped once; then they are torch's."""
    before = optim.Optimizer.zero_grad, nn.Module.zero_grad, torch.amp.GradScaler.step
    one, two = Loop(), Loop()
    with one.watched():
        wrapped = optim.Optimizer.zero_grad
        with two.watched():
            assert optim.Optimizer.zero_grad is wrapped
        assert optim.Optimizer.zero_grad is wrapped
        assert torch.amp.GradScaler.step is not before[2]
    assert (optim.Optimizer.zero_grad, nn.Module.zero_grad, torch.amp.GradScaler.step) == before


def test_what_somebody_else_wraps_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours below it tells nobody any more: with another clock one clearing is told of once."""
    monkeypatch.setattr(optim.Optimizer, "zero_grad", optim.Optimizer.zero_grad)  # put back
    passed: list[Any] = []
    with Loop().watched():
        ours = optim.Optimizer.zero_grad

        def theirs(self: Any, *args: Any, **kwargs: Any) -> None:
            passed.append(self)
            ours(self, *args, **kwargs)

        monkeypatch.setattr(optim.Optimizer, "zero_grad", theirs)
    assert optim.Optimizer.zero_grad is theirs
    loop = Loop()
    told: list[Any] = []
    monkeypatch.setattr(loop.clock, "cleared", told.append)
    with loop.watched():
        loop.optimizer.zero_grad()
    assert told == passed == [loop.optimizer]
    assert optim.Optimizer.zero_grad is theirs


def test_a_session_is_one_step_and_says_where_more_were_made(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A clock of one step never begins a second; it warns once, naming the forward."""
    with caplog.at_level(logging.WARNING, logger="fi_notebook"):
        seen = _steps(Loop(one_step=True), _zero_last, 3)
    assert seen == [(0, 0), (0, 1), (0, 2)]
    assert [("forward 2" in r.getMessage()) for r in caplog.records] == [True]
