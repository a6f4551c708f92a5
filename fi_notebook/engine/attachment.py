"""How observers hang on to a person's own training: on, off, or looking away.

    attachment = Attachment(watch, observers, sees=lambda step: step in steps)
    attachment.attach()     # hooks on; the mode goes on and off at the first forward of a step
    attachment.detach()     # mode and hooks off, for good

The mode is on in the steps that are looked at, and off in between. What only looks
(`looks_only`) comes after what strikes, whichever was attached first: its hooks run last,
and its mode is the outermost, so that it sees what the rest of the step sees.

It looks away while a `Session` runs, which is no training: hooks off, the mode passing
every call through, and transient strikes at stored tensors lifted. In a forked process
it is detached.

Limits: a session of another model in another thread is not looked away from, since this
thread's training may go on meanwhile.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from torch import nn
from torch.optim import Optimizer

from fi_notebook.engine import attached, forks
from fi_notebook.engine.compiled import HookWarning, is_compiled, is_compiled_in_place
from fi_notebook.engine.entered import Entered
from fi_notebook.engine.intercept import Interceptor, Observer, Watch
from fi_notebook.engine.stored import StoredStriker, Transient

__all__ = ["Attachment"]

logger = logging.getLogger("fi_notebook")

MakeMode = Callable[[Watch, Sequence[Observer]], Interceptor]


def _nothing(_step: int) -> None:
    """Nobody asked to be told that a step begins."""


class Attachment:
    """How observers hang on to training.

    Args:
        watch: Its hooks.
        observers: Who is told of calls.
        sees: Whether the calls of a step are looked at.
        begins: Told of each step as it begins, before its calls.
        stored: What strikes stored tensors, or None.
        mode: What makes the dispatch mode.
        where: In which steps that is, in words: ``in the steps that the plan lists``.
        looks_only: Whether it only looks, and so comes after what strikes.
    """

    def __init__(
        self,
        watch: Watch,
        observers: Sequence[Observer],
        *,
        sees: Callable[[int], bool],
        begins: Callable[[int], None] = _nothing,
        stored: StoredStriker | None = None,
        mode: MakeMode = Interceptor,
        where: str = "in the steps that the plan lists",
        looks_only: bool = False,
    ) -> None:
        """Attach to nothing yet."""
        self.closed = False
        self.looks_only = looks_only
        self._watch, self._stored, self._observers = watch, stored, observers
        self._sees, self._begins, self._where = sees, begins, where
        self._make = mode
        self._mode = mode(watch, observers)
        self._entered: Entered | None = None
        self._thread = threading.get_ident()
        self._lifted: list[Transient] = []
        self._warned = self._outdated = False
        watch.begins.insert(0, self._on_forward)
        watch.update_begins.insert(0, self._before_update)
        watch.optimizer_ends.append(self._on_update)

    def attach(self) -> None:
        """Put the hooks on, and the mode if the first step needs it before its forward."""
        self._watch.install()
        self._hook_warning = HookWarning()
        forks.add(self)
        attached.add(self)
        try:
            self.prepare(self._watch.clock.step + 1)
        except BaseException:
            self.detach()
            raise

    def detach(self) -> None:
        """Take mode and hooks off for good."""
        self.closed = True
        forks.discard(self)
        attached.discard(self)
        try:
            self._leave()
        finally:
            self._watch.remove()
            self._hook_warning.allow()

    def prepare(self, step: int) -> None:
        """Go on or off before a step, where the model is compiled in place.

        Its forward runs no hook while it is compiled, and what its wrapper does to the
        thread's dispatch keys would undo a mode that is entered beneath it.
        """
        if not is_compiled_in_place(self._watch.table.model):
            return
        if not self._sees(step):
            self._leave()
        else:
            self._enter()

    # what training tells

    def _on_forward(self, _module: nn.Module) -> None:
        """An outermost training forward begins; the mode, if it is on, shall be on here."""
        self._thread = threading.get_ident()
        if self._entered is not None and not self._entered.here:
            self._leave()
            self._mode = self._make(self._watch, self._observers)
            self._enter()
        if self._watch.clock.micro_batch == 0:
            self._begin_step(self._watch.clock.step)
        self._restack()

    def _begin_step(self, step: int) -> None:
        self._begins(step)
        seen, in_place = self._sees(step), is_compiled_in_place(self._watch.table.model)
        self._watch.scope.looks_inside = seen or in_place
        if seen:
            self._warn_of_new_modules()
            self._enter()
        elif not in_place:
            self._leave()

    def _before_update(self, optimizer: Optimizer) -> None:
        """An update begins: its step is counted by now, though its forward ran no hook."""
        if is_compiled_in_place(self._watch.table.model):
            self._watch.clock.count_hidden_step(optimizer)

    def _on_update(self, _optimizer: Optimizer) -> None:
        """An optimizer has stepped: the next forward may begin a step."""
        clock = self._watch.clock
        self._restack()
        if is_compiled_in_place(self._watch.table.model):
            self.prepare(clock.step + 1)
        elif not clock.begun:
            made = self._watch.passed_over
            self._warn(
                f"an optimizer of the model stepped, but its forward was made {made}, which "
                "begins no step; call model.train(), and eval() of the parts that are frozen"
                if made
                else "an optimizer of the model stepped and no training forward of it was seen; "
                "where a compiled function runs the model, compile the model instead"
            )

    # the mode

    def _enter(self) -> None:
        """Put the mode on, where it is off."""
        if self._entered is None:
            self._mode.row = 0
            self._entered = Entered(self._mode)
            if is_compiled(self._watch.table.model) or self._watch.scope.wrapped:
                self._warn(f"the model is compiled; it runs eagerly {self._where}")

    def _leave(self) -> None:
        """Take the mode off, where it is on."""
        if self._entered is not None:
            entered, self._entered = self._entered, None
            entered.leave()

    def _restack(self) -> None:
        """Mend what another mode's exit did to ours; what only looks goes to the top."""
        if self._entered is not None:
            self._entered.restack(on_top=self.looks_only)

    def _warn(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("%s", text)

    def _warn_of_new_modules(self) -> None:
        """What was put into the model since has no name here."""
        if not self._outdated and self._watch.table.outdated:
            self._outdated = True
            logger.warning(
                "modules of the model were replaced or added since this began: their calls have "
                "no names, and faults in them may not be found; begin after the model is complete"
            )

    # forks and sessions

    def forked(self) -> None:
        """This process is a child, such as a worker of a data loader: it is not for it."""
        self.detach()

    def concerns(self, model: nn.Module) -> bool:
        """Whether it could take a session's run of a model, in this thread, for training."""
        here = self._thread == threading.get_ident()
        return not self.closed and (here or self._watch.table.shares(model))

    def look_away(self) -> None:
        """See nothing of a session's run."""
        self._mode.off = True
        self._watch.pause()
        self._lifted = [] if self._stored is None else self._stored.lift()

    def look_again(self) -> None:
        """Go on where it was, unless it was closed meanwhile."""
        if not self.closed:
            if self._stored is not None:
                self._stored.strike_again(self._lifted)
            self.hook_last()
            self._mode.off = False

    def hook_last(self) -> None:
        """Take the hooks off and put them on again, so that they run after all others."""
        self._watch.pause()
        self._watch.resume()
