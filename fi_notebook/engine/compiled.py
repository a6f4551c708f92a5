"""What is attached to training must know of ``torch.compile``.

A compiled model runs eagerly in the steps that are looked at, and compiled in between.
torch warns at each forward of a compiled module while global hooks are on; ours do
nothing while it is compiled, so that one warning is kept from the person.
"""

from __future__ import annotations

import threading
import warnings
from typing import Any

from torch import nn

__all__ = ["ABOUT_HOOKS", "HookWarning", "is_compiled", "is_compiled_in_place"]

ABOUT_HOOKS = r"Using `torch\.compile\(module\)` when there are global hooks"
"""What torch says of our hooks, as a pattern; a person put on none."""


def is_compiled_in_place(model: nn.Module) -> bool:
    """Whether a part of the model was compiled by ``compile()``: its forward runs no hook."""
    return any(getattr(m, "_compiled_call_impl", None) is not None for m in model.modules())


def is_compiled(model: nn.Module) -> bool:
    """Whether the model, or a part of it, was compiled in either way."""
    wrapped = any(hasattr(module, "_orig_mod") for module in model.modules())
    return wrapped or is_compiled_in_place(model)


class _Filter:
    """The one filter that ignores the warning, shared by all that is attached."""

    def __init__(self) -> None:
        """Start without it."""
        self._lock = threading.Lock()
        self._users = 0
        self._added: list[Any] = []

    def add(self) -> None:
        """Ignore the warning for one more."""
        with self._lock:
            before = list(warnings.filters)
            warnings.filterwarnings("ignore", message=ABOUT_HOOKS)
            if not self._users:
                self._added = [one for one in warnings.filters if one not in before]
            self._users += 1

    def remove(self) -> None:
        """Let it through again after the last; what others did to the filters stays."""
        with self._lock:
            self._users -= 1
            if not self._users:
                left = [one for one in warnings.filters if one not in self._added]
                warnings.filters[:] = left  # type: ignore[index]  # it is a list


_FILTER = _Filter()


class HookWarning:
    """Keeps torch's warning of global hooks away while something is attached."""

    def __init__(self) -> None:
        """Ignore the warning from now on."""
        self._ignored = True
        _FILTER.add()

    def allow(self) -> None:
        """Let it through again, unless something else is attached."""
        if self._ignored:
            self._ignored = False
            _FILTER.remove()
