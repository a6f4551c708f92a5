"""What names the calls of one model: its modules, steps, parameters and sources.

    watch = Watch(model, StepClock(model), SourceStacks())
    watch.install()         # hooks on; the dispatch mode asks it what each call is
    watch.pause(); watch.resume()
    watch.remove()

Numbers restart at a step's first training forward, those of ``other/…`` calls as well, so
that a validation after the update has the same numbers in every step.

Limits: numbers are those of calls that a mode has seen; while none is on, none is given.
What comes before a step's first training forward, a session's step numbers from 1; in a
training loop it cannot be told from the end of the step before, and belongs to that.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable

import torch
from torch import nn
from torch.optim import Optimizer

from fi_notebook.engine import forks
from fi_notebook.engine.lineage import Lineage
from fi_notebook.engine.modules import ModuleScope, ModuleTable
from fi_notebook.engine.parameters import ParameterScope
from fi_notebook.engine.source import SourceStacks
from fi_notebook.engine.steps import StepClock

__all__ = ["Watch"]


class Watch:
    """Module scope, step clock, parameters and sources of one model: all that names.

    Args:
        model: The model.
        clock: When its steps begin.
        sources: Where source stacks are kept.

    Attributes:
        had_backward: Whether any call of a backward was named.
        inference: Whether no forward of the step is of training, and none was made yet.
        passed_over: Of what kind the last forward was that began no step, or ``""``.
        begins: Told of each outermost training forward.
        optimizer_begins: Told where an optimizer's step begins.
        update_begins: Told where it is about to read the gradients, which a closure makes first.
        optimizer_ends: Told where its step is over.
        ends: Told where the backward of a step is over for certain: gradients are cleared
            after it, or the model is run for something else.
    """

    def __init__(self, model: nn.Module, clock: StepClock, sources: SourceStacks) -> None:
        """Install nothing yet; see `install`."""
        self.clock = clock
        self.sources = sources
        self.table = ModuleTable(model)
        self.parameters = ParameterScope(model)
        self.scope = ModuleScope(self.table, self._enter_model, self._leave_model)
        self.lineage = Lineage()
        self.numbers: Counter[tuple[str, bool]] = Counter()
        self.ordinals: Counter[tuple[int, int, int, str, bool]] = Counter()
        self.after_forward = False
        self.after_backward = False
        self.had_backward = False
        self.inference = False
        self.passed_over = ""
        self.begins: list[Callable[[nn.Module], None]] = []
        self.optimizer_begins: list[Callable[[Optimizer], None]] = []
        self.update_begins: list[Callable[[Optimizer], None]] = []
        self.optimizer_ends: list[Callable[[Optimizer], None]] = []
        self.ends: list[Callable[[], None]] = []
        clock.on_optimizer_begins = self._enter_optimizer
        clock.on_update_begins = self._begin_update
        clock.on_optimizer_ends = self._leave_optimizer
        clock.on_cleared = self._cleared

    def install(self) -> None:
        """Put the hooks of the scope and the clock on."""
        self.lineage.start(threading.get_ident())
        self.clock.install()
        self.scope.install()
        forks.add(self)

    def remove(self) -> None:
        """Take every hook off."""
        forks.discard(self)
        self.scope.remove()
        self.clock.remove()
        self.lineage.stop()

    def pause(self) -> None:
        """Name nothing until `resume`."""
        self.scope.pause()
        self.clock.pause()

    def resume(self) -> None:
        """Go on as if nothing had been in between."""
        self.lineage.pass_over(threading.get_ident())
        self.clock.install()
        self.scope.install()

    def forked(self) -> None:
        """This process is a child: nothing is named in it."""
        self.remove()

    def _enter_model(self, module: nn.Module) -> bool:
        if not (module.training and torch.is_grad_enabled()):
            self._pass_over(module)
            return False
        if self.clock.forward():
            self._begin_step()
        for begin in self.begins:
            begin(module)
        return True

    def _pass_over(self, module: nn.Module) -> None:
        """A forward that begins no step; of one that never has another, the first is told of."""
        self.passed_over = (
            "without gradients"
            if module.training
            else "in evaluation mode (model.training is False)"
        )
        self._end()
        first, self.inference = self.inference, False
        if first:
            for begin in self.begins:
                begin(module)

    def _cleared(self) -> None:
        self.scope.come_back()
        self._end()

    def _end(self) -> None:
        if self.after_backward:
            for end in self.ends:
                end()

    def _begin_step(self) -> None:
        self.lineage.begin_step()
        self.scope.parents.clear()
        for counter in (self.numbers, self.ordinals, self.scope.calls):
            for key in [key for key in counter if key[-1] or not self.clock.one_step]:
                del counter[key]
        self.parameters.begin_step()
        self.after_forward = False

    def _leave_model(self, counted: bool) -> None:
        self.after_forward, self.after_backward = counted, False
        self.clock.failed = sys.exc_info()[0] is not None

    def _enter_optimizer(self, optimizer: Optimizer) -> None:
        self.scope.come_back()
        self.parameters.stale = True
        for listener in self.optimizer_begins:
            listener(optimizer)

    def _begin_update(self, optimizer: Optimizer) -> None:
        self.parameters.stale = True
        for listener in self.update_begins:
            listener(optimizer)

    def _leave_optimizer(self, optimizer: Optimizer) -> None:
        for listener in self.optimizer_ends:
            listener(optimizer)
