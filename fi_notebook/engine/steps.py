"""When a step begins, and what a call outside the model belongs to: the one rule.

A step begins at the first outermost training forward of the model after an optimizer
that owns its parameters has stepped, or its gradients were cleared. An explicit
``micro_batch_per_step=k`` wins: every k-th outermost forward begins a step.

Gradients are seen to be cleared through ``zero_grad`` of any optimizer or module, and an
update that a `GradScaler` skips through its ``step``: torch has no hook there, so the methods
are wrapped while a clock is on, by shared wrappers that leave with the last clock. A clearing
of gradients that an update has spent, or of none, may stand behind the next step's forward, as
Lightning has it: it begins nothing.

Limits: gradients that are cleared by hand (``p.grad = None``, ``p.grad.zero_()``) begin no step.
A loop that does so and never steps an optimizer is one step, however long, unless it is given
``micro_batch_per_step``, which is 1 without accumulation. An iteration with several updates (a
GAN in one module, SAM, PPO) is as many steps without it, and a forward that is not trained on is
one where it is with gradients.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial, wraps
from typing import Any
from weakref import WeakSet

import torch
from torch import nn
from torch.amp import GradScaler
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from fi_notebook.engine.closures import Arguments, Stepping, with_closure

__all__ = ["StepClock"]

logger = logging.getLogger("fi_notebook")


def _nothing(*_told: Any) -> None:
    """Nobody asked to be told."""


class StepClock:
    """Counts the steps and micro batches of one model.

    Args:
        model: The model whose training is counted.
        micro_batch_per_step: Outermost forwards per step, or None to go by the rule.
        start_step: Number of the first step.
        one_step: Never begin a second step (a session's callable is one step).

    Attributes:
        updated: Whether an optimizer has stepped since the last forward.
        failed: Whether the last outermost training forward raised.
        on_optimizer_begins: Told when the step of an optimizer of the model begins.
        on_update_begins: Told when it is about to read the gradients: at once, or where it was
            given a closure, when it has evaluated that, the first time.
        on_optimizer_ends: Told when that step is over.
        on_cleared: Told when gradients of the model were cleared.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        micro_batch_per_step: int | None = None,
        start_step: int = 0,
        one_step: bool = False,
    ) -> None:
        """Install nothing yet; see `install`."""
        self.model = model
        self.step = start_step if one_step else start_step - 1
        self.micro_batch = -1
        self.micro_batch_per_step = micro_batch_per_step
        self.optimizers: list[Optimizer] = []
        self._stepping: list[Stepping] = []
        self._mine: frozenset[int] = frozenset()
        self.one_step = one_step
        self._due = True
        self.updated = False
        self._stepped: set[int] = set()  # by id, of the optimizers; since the last forward
        self._stepped_in = -1  # the backward within which one last stepped
        self._complete: bool | None = None  # whether they were all; asked when it matters
        self._spent: set[int] = set()  # by id, of optimizers: stepped and not cleared since
        self._met: set[int] = set()  # by id: those that stepped or were cleared
        self.failed = False
        self._forwards = 0  # since the first optimizer last stepped
        self._warned = False
        self._handles: list[Any] = []
        self.on_optimizer_begins: Callable[[Optimizer], None] = _nothing
        self.on_update_begins: Callable[[Optimizer], None] = _nothing
        self.on_optimizer_ends: Callable[[Optimizer], None] = _nothing
        self.on_cleared: Callable[[], None] = _nothing

    def install(self) -> None:
        """Watch the optimizers, ``zero_grad`` and what a `GradScaler` skips."""
        self._handles = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        _tell(self)

    def remove(self) -> None:
        """Watch no more."""
        self.pause()
        self._stepping.clear()

    def pause(self) -> None:
        """Watch no more until it is installed again; what is going on is kept."""
        while self._handles:
            self._handles.pop().remove()
        _tell_no_more(self)

    def restart(self, step: int) -> None:
        """Count from a step on again; the next outermost training forward begins it."""
        self.step, self.micro_batch, self._due = step - 1, -1, True

    @property
    def begun(self) -> bool:
        """Whether any step has begun."""
        return self.micro_batch >= 0

    @property
    def due(self) -> bool:
        """Whether the next outermost training forward begins a step."""
        if not self.begun:
            return True
        if self.one_step:
            return False
        if self.micro_batch_per_step is not None:
            return self.micro_batch + 1 >= self.micro_batch_per_step
        return self._due

    def forward(self) -> bool:
        """Count an outermost training forward; says whether it begins a step."""
        if not self.in_closure:
            self._stepping.clear()  # it raised: only a closure runs the model within a step
        begins = self.due
        self._warn_of_disagreement(begins)
        if begins:
            self.step += not self.one_step
            self.micro_batch = 0
            self._mine = frozenset()
        else:
            self.micro_batch += 1
        self._due = self.updated = False
        self._stepped.clear()
        self._complete = None
        self._forwards += 1
        return begins

    def count_hidden_step(self, optimizer: Optimizer) -> None:
        """Count a step whose forward ran no hook: its optimizer steps and none was seen."""
        if optimizer is not self.optimizers[0]:
            return
        if self._forwards == 0:
            self.step += 1
            self.micro_batch = 0
            self._due = True

    def _warn_of_disagreement(self, begins: bool) -> None:
        if self._warned or not self.begun or begins == self._due:
            return
        self._warned = True
        made = self.micro_batch + 1
        if self.one_step:
            logger.warning(
                "the session's step trained more than once: a new step would begin at its "
                "forward %d; give Injector micro_batch_per_step= the number of its forwards",
                made + 1,
            )
        else:
            what, then = _seen(begins, self.updated)
            logger.warning(
                "micro_batch_per_step=%d, but %s after %d; going by %d%s",
                self.micro_batch_per_step,
                what,
                made,
                self.micro_batch_per_step,
                then,
            )

    @property
    def done(self) -> bool:
        """Whether the update is over: what begins then is not the step's own.

        All optimizers that are known have stepped since the model's last forward, and no other
        parameter has a gradient. The rest of a backward within which the last of them stepped is
        still the step's.
        """
        if not self.updated:
            return False
        if self._complete is None:
            self._complete = self._is_complete()
        running = torch._C._current_graph_task_id()
        return self._complete and (running < 0 or running != self._stepped_in)

    def _is_complete(self) -> bool:
        stepped = [each for each in self.optimizers if id(each) in self._stepped]
        if len(stepped) < len(self.optimizers):
            return False
        updated = {id(parameter) for each in stepped for parameter in _parameters_of(each)}
        waiting = (p for p in self.model.parameters() if p.grad is not None)
        return all(id(parameter) in updated for parameter in waiting)

    @property
    def in_optimizer(self) -> bool:
        """Whether an optimizer of the model is stepping now, and not evaluating its closure."""
        if not self._stepping or self._stepping[-1].evaluating:
            return False
        return torch._C._current_autograd_node() is self._stepping[-1].node

    @property
    def stepping(self) -> Optimizer | None:
        """The optimizer of the model that is stepping now."""
        return self._stepping[-1].optimizer if self._stepping else None

    @property
    def in_closure(self) -> bool:
        """Whether an optimizer of the model is evaluating its closure now."""
        return bool(self._stepping) and self._stepping[-1].evaluating

    def owns(self, optimizer: Optimizer) -> bool:
        """Whether an optimizer holds parameters of the model."""
        return self._are_mine(_parameters_of(optimizer))

    def _are_mine(self, parameters: Iterable[torch.Tensor]) -> bool:
        if not self._mine:  # asked anew in each step: a model may be rebuilt
            self._mine = frozenset(map(id, self.model.parameters()))
        return any(id(parameter) in self._mine for parameter in parameters)

    def _before_step(
        self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Arguments | None:
        if not self.owns(optimizer):
            return None
        if not any(known is optimizer for known in self.optimizers):
            self.optimizers.append(optimizer)
        while any(interrupted.optimizer is optimizer for interrupted in self._stepping):
            self._stepping.pop()  # it raised: then no hook says that it is over
        stepping = Stepping(optimizer, torch._C._current_autograd_node())
        self._stepping.append(stepping)
        self.on_optimizer_begins(optimizer)
        given = with_closure(args, kwargs, partial(self._evaluate, stepping))
        if given is None:
            self.on_update_begins(optimizer)
        return given

    def _evaluate(
        self, stepping: Stepping, closure: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Evaluate the closure of an optimizer; its update begins with the first return."""
        __tracebackhide__ = True  # of a closure that raises, its own frames tell why
        stepping.evaluating = True
        try:
            result = closure(*args, **kwargs)
        finally:
            stepping.evaluating = False
        if stepping in self._stepping and not stepping.updating:
            stepping.updating = True
            self.on_update_begins(stepping.optimizer)
        return result

    def _after_step(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        if not (self._stepping and self._stepping[-1].optimizer is optimizer):
            return
        self._stepping.pop()
        self._spend(optimizer)
        self.updated = self.begun
        self._stepped.add(id(optimizer))
        self._stepped_in = torch._C._current_graph_task_id()
        self._complete = None
        if optimizer is self.optimizers[0]:
            self._forwards = 0
        self.on_optimizer_ends(optimizer)

    def tried(self, optimizer: Optimizer) -> None:
        """Take note that a `GradScaler` stepped an optimizer, or skipped its step."""
        if not self._stepping and self.owns(optimizer):
            self._spend(optimizer)

    def _spend(self, optimizer: Optimizer) -> None:
        self._due = self.begun
        self._spent.add(id(optimizer))
        self._met.add(id(optimizer))

    def cleared(self, owner: Optimizer | nn.Module) -> None:
        """Take note that the gradients of an optimizer or a module are about to be cleared."""
        if self._stepping or not self._are_mine(_parameters_of(owner)):
            return
        if not (self._due or self._clears_nothing(owner)):
            self._due = self.begun
        self._met.add(id(owner))
        self._spent -= self._spent if isinstance(owner, nn.Module) else {id(owner)}
        self.on_cleared()

    def _clears_nothing(self, owner: Optimizer | nn.Module) -> bool:
        """Whether an update has spent what is cleared, or an optimizer begins and finds nothing.

        After a forward that raised it is a batch that is thrown away.
        """
        if self.failed:
            return False
        if not isinstance(owner, Optimizer):
            return bool(self._spent)
        if id(owner) in self._met:
            return id(owner) in self._spent
        return all(parameter.grad is None for parameter in _parameters_of(owner))


def _seen(begins: bool, updated: bool) -> tuple[str, str]:
    """What disagrees with a number of micro batches, and what comes of it."""
    if begins:
        return "the gradients were not seen to be cleared", ""
    if updated:
        return "an optimizer stepped", ", so that a step has several updates"
    return "the gradients were cleared", ""


_clocks: WeakSet[StepClock] = WeakSet()  # registry: who is told of what torch has no hook for
_standing: dict[Any, tuple[type, str, Any]] = {}  # registry: our wrappers, and what each wraps


def _tell(clock: StepClock) -> None:
    """Tell a clock of cleared gradients and skipped updates."""
    if not _clocks:
        _wrap(Optimizer, "zero_grad", _clearing)
        _wrap(nn.Module, "zero_grad", _clearing)
        _wrap(GradScaler, "step", _stepping_by_scaler)
    _clocks.add(clock)


def _tell_no_more(clock: StepClock) -> None:
    """Put the methods back after the last clock; what others have wrapped since stays."""
    _clocks.discard(clock)
    while _standing and not _clocks:
        wrapper, (owner, name, method) = _standing.popitem()
        if getattr(owner, name) is wrapper:
            setattr(owner, name, method)


def _wrap(owner: type, name: str, telling: Callable[[Any], Any]) -> None:
    method = getattr(owner, name)
    wrapper = wraps(method)(telling(method))
    _standing[wrapper] = (owner, name, method)
    setattr(owner, name, wrapper)


def _told(wrapper: Any) -> list[StepClock]:
    """Whom a wrapper tells: nobody any more where it only stands below another's."""
    return list(_clocks) if wrapper in _standing else []


def _clearing(method: Any) -> Any:
    def zero_grad(self: Any, *args: Any, **kwargs: Any) -> Any:
        for clock in _told(zero_grad):
            clock.cleared(self)
        return method(self, *args, **kwargs)

    return zero_grad


def _stepping_by_scaler(method: Any) -> Any:
    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, optimizer, *args, **kwargs)
        for clock in _told(step):
            clock.tried(optimizer)
        return result

    return step


def _parameters_of(owner: Optimizer | nn.Module) -> Iterable[torch.Tensor]:
    if isinstance(owner, nn.Module):
        return owner.parameters()
    return (p for group in owner.param_groups for p in group["params"])
