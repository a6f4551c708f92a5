"""The headless injector of a training loop.

    injector = Injector("injector.json", model=model)
    for batch in data: …                  # the loop as it was
    print(injector.report())

The dispatch mode is on in the steps that the plan lists and off in between; it goes on
and off at the first forward of a step. A compiled model runs eagerly in listed steps
and compiled again after them.

A process that is forked (a worker of a data loader) is not struck or counted. Closed in
another thread than training's, it strikes no more at once; its mode goes off at the next
forward or optimizer step there.

A `Session` may be used meanwhile, in the middle of a step too: its runs are not struck
and take no step; transient strikes at stored tensors are lifted for them.

Limits: hooks stay on until `close`, the end of a ``with`` block, or the end of the
process; steps of a model compiled in place (``model.compile()``) are counted by its
optimizer's steps, since its forward then runs no hook.
"""

from __future__ import annotations

import atexit
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import nn
from torch.optim import Optimizer

from fi_notebook import faults
from fi_notebook.core.fault import FaultPlan
from fi_notebook.core.injection import Injection, NotInjected
from fi_notebook.core.words import counted
from fi_notebook.engine.arguments import optimizers_of
from fi_notebook.engine.attachment import Attachment
from fi_notebook.engine.inject import Striker
from fi_notebook.engine.intercept import Observer, Watch
from fi_notebook.engine.source import SourceStacks
from fi_notebook.engine.steps import StepClock
from fi_notebook.engine.world import process_rank, speaker, world_size
from fi_notebook.errors import ArgumentError
from fi_notebook.injector.aiming import aimed_at
from fi_notebook.injector.arguments import Progress, check_arguments
from fi_notebook.injector.events import EventFile
from fi_notebook.injector.log import CallLog
from fi_notebook.injector.summary import missed_steps, report_lines

__all__ = ["Injector"]

logger = logging.getLogger("fi_notebook")


class Injector:
    """Strikes a model's training with the faults of a plan.

    Args:
        config: Path of ``injector.json``, what it holds, or a `FaultPlan`.
        model: The model; only its training is in scope.
        optimizer: Its optimizer, or several; found when they step if left out.
        micro_batch_per_step: Outermost forwards per step, for gradient accumulation;
            found from optimizer steps and ``zero_grad`` if left out. A loop that has neither
            is one step unless it is given.
        start_step: Number of the first step, where training is resumed.
        rank: Rank of this process; asked of ``torch.distributed`` if left out.
        events: File of JSON lines, or None: one a strike, then one a fault without any, and one
            at the end.
        verbosity: ``quiet``, ``normal`` or ``verbose``; as the plan says if left out.

    Raises:
        PlanError: The config cannot be read; names the place in it.
        TypeError: The model is no module, an optimizer none, or ``events`` no path.
        ArgumentError: A number or verbosity that cannot be.
        OSError: The events cannot be written there.
    """

    def __init__(
        self,
        config: str | Path | Mapping[str, Any] | FaultPlan,
        *,
        model: nn.Module,
        optimizer: Optimizer | Iterable[Optimizer] | None = None,
        micro_batch_per_step: int | None = None,
        start_step: int = 0,
        rank: int | None = None,
        events: str | Path | None = None,
        verbosity: str | None = None,
    ) -> None:
        """Attach to the model's training; nothing of the model itself is changed."""
        check_arguments(
            model=model,
            micro_batch_per_step=micro_batch_per_step,
            start_step=start_step,
            rank=rank,
            events=events,
            verbosity=verbosity,
        )
        optimizers = optimizers_of(optimizer)
        self.plan = FaultPlan.load(config)
        self._given_rank = rank
        self._clock = StepClock(
            model, micro_batch_per_step=micro_batch_per_step, start_step=start_step
        )
        self._clock.optimizers += optimizers
        self._watch = Watch(model, self._clock, SourceStacks())
        aimed, self._refused = aimed_at(self.plan, self._watch.table, self._rank)
        self._striker = Striker(aimed, self._watch, fired=self._fired)
        self._begin_at(start_step)
        self._log = CallLog(self.plan, self._watch, verbosity or self.plan.verbosity)
        observers: list[Observer] = [self._log, self._striker]
        self._events = None if events is None else EventFile(events)
        self._attachment = Attachment(
            self._watch,
            observers,
            sees=self._is_seen,
            begins=self._begin_step,
            stored=self._striker.stored,
        )
        self._attachment.attach()
        atexit.register(self.close)

    # what a script asks

    @property
    def injections(self) -> list[Injection]:
        """Every strike so far, in order."""
        return list(self._striker.injections)

    @property
    def refused(self) -> tuple[NotInjected, ...]:
        """Every enabled fault that can never strike this model, with the reason."""
        return self._refused

    @property
    def not_injected(self) -> tuple[NotInjected, ...]:
        """Every enabled fault that has not fired so far, with the reason."""
        return (*self._refused, *self._striker.not_injected())

    @property
    def step(self) -> int:
        """The step that is being made, -1 before the first."""
        return self._clock.step

    def report(self) -> str:
        """What fired and what did not, and why; several lines of text."""
        lines = report_lines(self.injections, self.not_injected, self.step, self._clock.begun)
        told = "\n".join((*lines, *(f"  {text}" for text in self._missed_steps())))
        return f"{speaker(self._rank)}{told}"

    def close(self) -> None:
        """Detach from the training; may be called any number of times."""
        if self._attachment.closed:
            return
        atexit.unregister(self.close)
        try:
            self._striker.stored.undo()
        finally:
            self._attachment.detach()
        who = speaker(self._rank)
        for missed in self._striker.not_injected():  # what was refused was said at once
            if not missed.elsewhere:
                logger.warning("%s%s was not injected: %s", who, missed.fault, missed.reason)
        for text in self._missed_steps():
            logger.warning("%s%s", who, text)
        if self._events is not None:
            self._events.finish(self.not_injected, self.step, self._rank, world_size())

    def __repr__(self) -> str:
        """What it is for, how far it came, and how often it struck."""
        model = type(self._clock.model).__name__
        state = "closed" if self._attachment.closed else f"step {self.step}"
        faults_, made = counted(len(self.plan), "fault"), len(self._striker.injections)
        return f"<Injector of {model}: {faults_}, {state}, {counted(made, 'injection')}>"

    def __deepcopy__(self, _memo: dict[int, Any]) -> Injector:
        """Itself: what holds it may be copied, but it strikes the one model that it was given."""
        return self

    def __enter__(self) -> Injector:  # noqa: PYI034  (Self is newer than Python 3.10)
        """The injector itself; it is closed when the block is left."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close, whatever the block raised."""
        self.close()

    def state_dict(self) -> dict[str, Any]:
        """How far it came, for a checkpoint: the next step and how often each fault fired.

        Returns:
            A mapping of plain numbers and texts.
        """
        fired = {aim.fault.id: aim.fired for aim in self._striker.aims}
        return {"next_step": self.step + 1, "fired": fired}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Count on from a checkpoint.

        Args:
            state: What `state_dict` gave when the checkpoint was written.

        Raises:
            ArgumentError: It is not what `state_dict` gave, or training has begun.
        """
        if self._clock.begun:
            raise ArgumentError("training has begun; load the state before the first step")
        progress = Progress.of(state, [fault.id for fault in self.plan])
        self._clock.step = progress.next_step - 1
        self._begin_at(progress.next_step)
        self._striker.count(progress.fired)
        self._attachment.prepare(progress.next_step)

    def attach_to_running_forward(self, module: nn.Module) -> None:
        """Count the forward that is running now, whose start was missed.

        Args:
            module: The model or the part of it that runs.
        """
        self._watch.scope.enter(module)

    # what training tells

    def _begin_at(self, step: int) -> None:
        """Training begins, or is resumed, at a step."""
        for aim in self._striker.aims:
            aim.first_step, aim.last_step = step, step - 1

    def _missed_steps(self) -> list[str]:
        """The steps of the plan that training did not reach, where others of them came."""
        fired = [aim.fault for aim in self._striker.aims if aim.fired]
        return missed_steps(self.plan, fired, self.step)

    def _begin_step(self, step: int) -> None:
        """A step begins."""
        self._striker.begin_step(step, self._rank)
        if self._is_seen(step):
            listed = self._striker.due(step) or self._log.lists(step)
            self._log.begin_step(step, listed=listed, who=speaker(self._rank))

    def _is_seen(self, step: int) -> bool:
        """Whether the calls of a step are looked at."""
        return self._striker.looks(step) or self._log.lists(step)

    def _fired(self, injection: Injection) -> None:
        if self._events is not None:
            self._events.write(injection, faults.get(self.plan[injection.fault].model).name)

    @property
    def _rank(self) -> int:
        asked = process_rank()  # asked in each step, for when the group is gone
        return asked if self._given_rank is None else self._given_rank
