"""What a session runs, and how everything is put back afterwards.

    with stage.running("tracing") as snapshot:
        …                       # runs of the step
    # here model, optimizers, state and generators are as they were, whatever happened

Optimizers that nobody named are found when they step, recorded just before, and belong
to the stage from then on. The schedulers of an optimizer are put back with it. A run that
another thread starts has the settings of the thread that made the session.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any
from weakref import WeakSet

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from fi_notebook.engine.plain import is_restorable
from fi_notebook.engine.replay import Setup
from fi_notebook.engine.schedulers import schedulers_of
from fi_notebook.engine.snapshot import Snapshot
from fi_notebook.engine.surroundings import Surroundings
from fi_notebook.session.events import Cancelled, Events, Progress, SessionCancelled
from fi_notebook.session.exclusive import exclusive, turn

__all__ = ["Stage"]


class Stage:
    """One model with its step, its optimizers and what else a step changes.

    Args:
        setup: What is run.
        state: What else is put back: schedulers, scalers, generators.
        events: Who is told.

    Attributes:
        readers: What makes further observers of a run that is no trial.

    Raises:
        TypeError: The state holds what cannot be put back.
    """

    def __init__(self, setup: Setup, state: Sequence[Any], events: Events) -> None:
        """Run nothing yet."""
        self.setup = setup
        self.readers = setup.readers
        self.events = events
        self._state = _checked(state)
        self._snapshots: list[Snapshot] = []
        self._schedulers: WeakSet[LRScheduler] = WeakSet()
        self._lock, self._restoring = threading.Lock(), False
        self._thread, self._surroundings = threading.current_thread(), Surroundings.of_thread()

    @contextmanager
    def running(
        self, name: str, like: Snapshot | None = None, *, trial: bool = False
    ) -> Iterator[Snapshot]:
        """Hold the model, and put everything back when the block is left, however.

        Args:
            name: What the session does meanwhile, for who listens.
            like: An earlier snapshot, most of which is probably true now.
            trial: Whether it is one of many, of which no listener is told and which no reader
                looks at.

        Raises:
            SessionError: Another run of this model is going on.
            SessionCancelled: It was cancelled; everything is as it was before.
        """
        seen = self._unseen() if trial else nullcontext()
        with self._held(), self.setup.interrupts, self._settings(name), seen:
            if name == "tracing":
                self._schedulers = WeakSet(schedulers_of(self.setup.optimizers))
            held = (*self.setup.optimizers, *self._schedulers, *self._state)
            snapshot = Snapshot.take([self.setup.model, *held], like)
            self._snapshots = [snapshot]
            self.events.tell("state", state=name)
            try:
                self.events.check()
                yield snapshot
            except Cancelled:
                raise SessionCancelled("cancelled; everything is as it was before") from None
            except Exception as error:
                self.events.tell("error", error=str(error), traceback=traceback.format_exc())
                raise
            finally:
                self._snapshots = []
                self._restore(snapshot)

    @contextmanager
    def _unseen(self) -> Iterator[None]:
        self.setup = replace(self.setup, readers=[])
        try:
            with self.events.quiet():
                yield
        finally:
            self.setup = replace(self.setup, readers=self.readers)

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Hold the model and the process's turn; a cancel is heeded from the wait for it on."""
        with exclusive(self.setup.model), self.events.stoppable(), turn(self.setup.model):
            yield

    def _restore(self, snapshot: Snapshot) -> None:
        """Put everything back, though another thread wants to interrupt this one."""
        try:
            with self._lock:
                self._restoring = True
            _hear()
        finally:
            try:
                snapshot.restore()
            finally:
                self._restoring = False
                self.events.tell("state", state="idle")

    def interrupt(self, raise_in_it: Callable[[], object]) -> bool:
        """Raise an exception in the thread that runs, but not while it puts everything back.

        Args:
            raise_in_it: What raises it; called at once or not at all.

        Returns:
            Whether it was called.
        """
        with self._lock:
            if not self._restoring:
                raise_in_it()
            return not self._restoring

    def _settings(self, name: str) -> AbstractContextManager[None]:
        """Those of the thread that made the session, as they were at its last trace."""
        if threading.current_thread() is not self._thread:
            return self._surroundings.around()
        if name == "tracing":
            self._surroundings = Surroundings.of_thread()
        return nullcontext()

    def adopting(self, *more: Snapshot) -> Callable[[Optimizer], None]:
        """What is to be called before an optimizer steps: it records one that is new.

        Args:
            *more: Snapshots that shall hold it too, beside that of the running block.
        """

        def adopt(optimizer: Optimizer) -> None:
            if any(known is optimizer for known in self.setup.optimizers):
                return
            self.setup = replace(self.setup, optimizers=(*self.setup.optimizers, optimizer))
            schedulers = schedulers_of([optimizer])
            self._schedulers.update(schedulers)
            for snapshot in dict.fromkeys((*self._snapshots, *more)):
                for thing in (optimizer, *schedulers):
                    snapshot.add(thing)

        return adopt

    def progress(self, run: str, step: int = 0, steps: int = 1, calls: int = 0) -> Progress:
        """What is to be called before each call of a run."""
        told = Progress(self.events, run, steps, calls, self.setup.interrupts)
        told.step = step
        return told


def _hear() -> None:
    """A call, in which Python raises what another thread has asked it to raise in this one."""


def _checked(state: object) -> tuple[Any, ...]:
    """What was given as state, where all of it can be put back."""
    if not isinstance(state, (list, tuple)):
        raise TypeError(f"state is {type(state).__name__}; expected a list, state=[…]")
    for each in state:
        if not is_restorable(each):
            raise TypeError(
                f"state holds {type(each).__name__}, which cannot be put back; expected "
                "objects with attributes or a state_dict (schedulers, scalers), generators, "
                "tensors, arrays, lists or dictionaries. In place of an iterator, make the "
                "step take its number (def step(i): …)"
            )
    return tuple(state)
