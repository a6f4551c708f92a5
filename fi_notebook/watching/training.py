"""Reading chosen tensors in a person's own training loop.

    training = Training(model, choices, Steps.parse("0-"), add=recordings.add)
    for batch in data: …        # the loop as it was
    training.close()

The model, its optimizer and the generators are not touched. A `Session` and an
`Injector` may be used meanwhile: the first's runs are not read, the second's faults are
seen, whichever was attached first.

Limits: a model that was compiled runs eagerly in the steps in which outputs of calls are
read; stored tensors alone are read without that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import nn
from torch.optim import Optimizer

from fi_notebook.core.steps import Steps
from fi_notebook.engine.attachment import Attachment
from fi_notebook.engine.compiled import is_compiled_in_place
from fi_notebook.engine.intercept import Watch
from fi_notebook.engine.reading import Choice, LeanMode, Reader, Reading
from fi_notebook.engine.source import SourceStacks
from fi_notebook.engine.steps import StepClock

__all__ = ["Training"]


class Training:
    """Reads a model's training.

    Args:
        model: The model.
        choices: What is read.
        steps: In which steps.
        add: Told of the step and of what was read in it.
        optimizers: Its optimizers, where they are known.
        micro_batch_per_step: Outermost forwards per step, or None to go by the rule.
        start_step: Number of the first step.

    Raises:
        SiteError: A choice can choose nothing; names the nearest.
    """

    def __init__(
        self,
        model: nn.Module,
        choices: Sequence[Choice],
        steps: Steps,
        add: Callable[[int, Sequence[Reading]], None],
        *,
        optimizers: Sequence[Optimizer] = (),
        micro_batch_per_step: int | None = None,
        start_step: int = 0,
    ) -> None:
        """Attach to the training."""
        self._clock = StepClock(
            model, micro_batch_per_step=micro_batch_per_step, start_step=start_step
        )
        self._clock.optimizers += optimizers
        self._first = self._last = start_step
        self._steps, self._add = steps, add
        watch = Watch(model, self._clock, SourceStacks())
        for choice in choices:
            choice.check(watch)
        self.reader = Reader(watch, choices)
        self._attachment = Attachment(
            watch,
            [self.reader],
            sees=self._sees,
            begins=self._begin,
            mode=LeanMode,
            where="in the steps that are watched",
            looks_only=True,
        )
        watch.optimizer_ends.append(self._on_update)
        self._attachment.attach()

    @property
    def step(self) -> int:
        """The step that is being made, -1 before the first."""
        return self._clock.step

    @property
    def closed(self) -> bool:
        """Whether it is detached."""
        return self._attachment.closed

    def flush(self) -> None:
        """Hand on what was read so far."""
        found = self.reader.take()
        if found:
            self._add(self._last, found)

    def restart(self) -> None:
        """Hand on what is left, and count the steps from the first one again."""
        self.flush()
        self._clock.restart(self._first)

    def close(self) -> None:
        """Hand on what is left, and detach; may be called any number of times."""
        if not self.closed:
            self.flush()
            self._attachment.detach()

    def _sees(self, step: int) -> bool:
        """Whether the mode is on in a step; a forward that is compiled in place runs no hook."""
        needed = bool(self.reader.ops) or is_compiled_in_place(self._clock.model)
        return needed and step in self._steps

    def _begin(self, step: int) -> None:
        self.flush()  # of the step before: what came after its optimizer, or without one
        self._last = step
        self.reader.begin(step in self._steps)

    def _on_update(self, optimizer: Optimizer) -> None:
        """A step has ended, as far as that can be seen: once its last optimizer stepped."""
        if optimizer is self._clock.optimizers[-1]:
            self.flush()
