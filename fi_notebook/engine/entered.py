"""Putting the dispatch mode on and taking it off, whatever other modes came and went.

    entered = Entered(Interceptor(watch, observers))
    …                       # the step; a person's own modes may be entered and left in it
    entered.leave()

Leaving a dispatch mode is positional: a person's mode that was entered before ours and
left while ours was on has popped *ours* and stayed itself. `Entered.restack` mends that.
"""

from __future__ import annotations

import logging

import torch
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    _push_mode,
)

from fi_notebook.engine.intercept import Interceptor

__all__ = ["Entered"]

logger = logging.getLogger("fi_notebook")


class Entered:
    """A mode that is on, and how it is taken off though others came and went."""

    def __init__(self, mode: Interceptor) -> None:
        """Push the mode, with compiled functions forced to run eagerly."""
        self._mode = mode
        self._warned = False
        self._stance = torch.compiler.set_stance("force_eager")
        mode.__enter__()

    def leave(self) -> None:
        """Take the mode off, wherever in the stack it is, and restore the stance."""
        try:
            self.restack()
            above = _pop_until(self._mode)
            self._mode.__exit__(None, None, None)
            for mode in reversed(above):
                _push_mode(mode)
        finally:
            self._stance.__exit__(None, None, None)

    def restack(self) -> None:
        """Put the mode back on where another one's exit took it off; warns once."""
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


def _pop_until(wanted: TorchDispatchMode | None) -> list[TorchDispatchMode]:
    """Pop the modes above one, or all of them; the first popped comes first."""
    popped = []
    while stack := _get_current_dispatch_mode_stack():
        if stack[-1] is wanted:
            break
        popped.append(_pop_mode())
    return popped
