"""The hooks and the mode of an injector: on, off, or looking away.

    attachment = Attachment(watch, stored, observers)
    attachment.attach(); attachment.enter()      # hooks on; mode on
    attachment.leave(); attachment.detach()      # mode off; hooks off, for good

It looks away while a `Session` runs, which is no training: hooks off, the mode passing
every call through, and transient strikes at stored tensors lifted. In a forked process
it is detached.

Limits: a session of another model in another thread is not looked away from, since this
thread's training may go on meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from torch import nn

from fi_notebook.engine import attached, forks
from fi_notebook.engine.entered import Entered
from fi_notebook.engine.intercept import Interceptor, Observer, Watch
from fi_notebook.engine.stored import StoredStriker, Struck
from fi_notebook.injector.compiled import HookWarning

__all__ = ["Attachment"]


class Attachment:
    """How an injector hangs on to training.

    Args:
        watch: Its hooks.
        stored: What strikes stored tensors.
        observers: Who is told of calls.
    """

    def __init__(self, watch: Watch, stored: StoredStriker, observers: Sequence[Observer]) -> None:
        """Attach to nothing yet."""
        self.closed = False
        self._watch, self._stored = watch, stored
        self._mode = Interceptor(watch, observers)
        self._entered: Entered | None = None
        self._thread = threading.get_ident()
        self._lifted: list[Struck] = []

    def attach(self) -> None:
        """Put the hooks on."""
        self._watch.install()
        self._hook_warning = HookWarning()
        forks.add(self)
        attached.add(self)

    def detach(self) -> None:
        """Take mode and hooks off for good."""
        self.closed = True
        forks.discard(self)
        attached.discard(self)
        try:
            self.leave()
        finally:
            self._watch.remove()
            self._hook_warning.allow()

    @property
    def is_on(self) -> bool:
        """Whether the mode is on."""
        return self._entered is not None

    def enter(self) -> None:
        """Put the mode on, where it is off."""
        if self._entered is None:
            self._mode.row = 0
            self._entered = Entered(self._mode)

    def leave(self) -> None:
        """Take the mode off, where it is on."""
        if self._entered is not None:
            entered, self._entered = self._entered, None
            entered.leave()

    def forward_begins(self) -> None:
        """Training is in this thread; the mode, if it is on, shall be on here."""
        self._thread = threading.get_ident()
        if self._entered is not None and not self._entered.here:
            self.leave()
            self._mode = Interceptor(self._watch, self._mode.observers)
            self.enter()
        self.restack()

    def restack(self) -> None:
        """Mend what another mode's exit did to ours."""
        if self._entered is not None:
            self._entered.restack()

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
        self._lifted = self._stored.lift()

    def look_again(self) -> None:
        """Go on where it was, unless it was closed meanwhile."""
        if not self.closed:
            self._stored.strike_again(self._lifted)
            self._watch.resume()
            self._mode.off = False
