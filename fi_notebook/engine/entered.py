"""Putting the dispatch mode on and taking it off, whatever other modes came and went.

    entered = Entered(Interceptor(watch, observers))
    …                       # the step; a person's own modes may be entered and left in it
    entered.leave()

Leaving a dispatch mode is positional: it pops what is on top. So ours goes beneath the
modes that a person has open, as a session's is beneath those that the step opens, and sees
what these let through. Where modes were left out of order, `Entered.restack` mends that.

Limits: a thread's modes can be taken off by that thread alone. Left from another one,
the mode does nothing at once, and goes at the next forward or optimizer step there.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    _push_mode,
)

from fi_notebook.engine import forks
from fi_notebook.engine.intercept import Interceptor

__all__ = ["Entered"]

logger = logging.getLogger("fi_notebook")


_FLAGS = (
    "old_dispatch_mode_flags",
    "old_non_infra_dispatch_mode_flags",
    "old_without_ignore_compile_internals_dispatch_mode_flags",
)
_stanced: list[Entered] = []  # registry: whose stance is on, in order


class Entered:
    """A mode that is on, and how it is taken off though others came and went."""

    def __init__(self, mode: Interceptor) -> None:
        """Push the mode, with compiled functions forced to run eagerly."""
        self._mode = mode
        self._warned = False
        self._thread = threading.current_thread()
        self._handles: list[Any] = []
        self._left = False
        mode.off = False
        self._stance = torch.compiler.set_stance("force_eager")
        _stanced.append(self)
        _enter_beneath(mode)
        forks.add(self)

    @property
    def here(self) -> bool:
        """Whether it is on in this thread."""
        return threading.current_thread() is self._thread

    def leave(self) -> None:
        """Take the mode off, wherever in the stack it is, and restore the stance.

        In another thread: let it do nothing from now on, and take it off in its own.
        """
        if self._left:
            return
        self._left = self._mode.off = True
        if not self.here and self._thread.is_alive():
            self._handles = [
                register_module_forward_pre_hook(self._retire),
                register_optimizer_step_post_hook(self._retire),
            ]
        else:
            self._take_off()

    def _retire(self, *_told: Any) -> None:
        """A hook of some thread: it is time if that is ours, or if ours has ended."""
        if torch.compiler.is_compiling():
            return
        if self.here or not self._thread.is_alive():
            while self._handles:
                self._handles.pop().remove()
            self._take_off()

    def _take_off(self) -> None:
        if self not in _stanced:  # it was taken off before
            return
        forks.discard(self)
        try:
            if self.here:
                self._restack()
                above = _pop_until(self._mode)
                _exchange_flags(self._mode, above)
                self._mode.__exit__(None, None, None)
                for mode in reversed(above):
                    _push_mode(mode)
        finally:
            self._restore_stance()

    def _restore_stance(self) -> None:
        """Restore the stance, or let the mode that was entered next do so."""
        later = _stanced[_stanced.index(self) + 1 :]
        _stanced.remove(self)
        if later:
            later[0]._stance = self._stance
        else:
            self._stance.__exit__(None, None, None)

    def forked(self) -> None:
        """This process is a child: the mode is not for it."""
        self._mode.off = self._left = True
        while self._handles:
            self._handles.pop().remove()
        self._take_off()

    def restack(self, *, on_top: bool = False) -> None:
        """Put the mode back on where another one's exit took it off; warns once.

        Args:
            on_top: Whether it is to see calls before every other mode of ours does.
        """
        if self.here and not self._left:
            self._restack()
            if on_top:
                self._raise()

    def _raise(self) -> None:
        stack = _get_current_dispatch_mode_stack()
        above = stack[[mode is self._mode for mode in stack].index(True) + 1 :]
        if any(isinstance(mode, Interceptor) for mode in above):
            _pop_until(self._mode)
            _pop_mode()
            last = max(n for n, mode in enumerate(above) if isinstance(mode, Interceptor))
            for mode in (*above[: last + 1], self._mode, *above[last + 1 :]):
                _push_mode(mode)

    def _restack(self) -> None:
        if any(mode is self._mode for mode in _get_current_dispatch_mode_stack()):
            return
        if not self._warned:
            logger.warning(
                "another dispatch mode was entered before fi_notebook's and left after it, "
                "which took ours off; it is on again, calls in between were not seen"
            )
        self._warned = True
        kept: list[TorchDispatchMode] = []
        for mode in _pop_until(None):  # the innermost first; one that was left is on no more
            if sum(other is mode for other in kept) < len(mode.old_dispatch_mode_flags):
                kept.append(mode)
        for mode in (*reversed(kept), self._mode):
            _push_mode(mode)


def _enter_beneath(mode: Interceptor) -> None:
    """Enter a mode beneath those of a person, whose own exits pop what is on top."""
    above: list[TorchDispatchMode] = []
    while stack := _get_current_dispatch_mode_stack():
        if isinstance(stack[-1], Interceptor):
            break
        above.append(_pop_mode())
    try:
        mode.__enter__()
        _exchange_flags(mode, above)
    finally:
        for other in reversed(above):
            _push_mode(other)


def _exchange_flags(mode: Interceptor, above: list[TorchDispatchMode]) -> None:
    """Let a mode and the next one above it change places in what their exits put back."""
    for name in _FLAGS if above else ():
        mine, theirs = getattr(mode, name, ()), getattr(above[-1], name, ())
        if mine and theirs:
            mine[-1], theirs[0] = theirs[0], mine[-1]


def _pop_until(wanted: TorchDispatchMode | None) -> list[TorchDispatchMode]:
    """Pop the modes above one, or all of them; the first popped comes first."""
    popped = []
    while stack := _get_current_dispatch_mode_stack():
        if stack[-1] is wanted:
            break
        popped.append(_pop_mode())
    return popped
