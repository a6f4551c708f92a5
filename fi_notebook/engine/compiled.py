"""What is attached to training must know of ``torch.compile``.

A compiled model runs eagerly in the steps that are looked at, and compiled in between.
torch warns at each forward of a compiled module while global hooks are on; ours do
nothing while it is compiled, so that one warning is kept from the person.
"""

from __future__ import annotations

import warnings
from typing import Any

from torch import nn

__all__ = ["HookWarning", "is_compiled", "is_compiled_in_place"]

_ABOUT_HOOKS = r"Using `torch\.compile\(module\)` when there are global hooks"


def is_compiled_in_place(model: nn.Module) -> bool:
    """Whether a part of the model was compiled by ``compile()``: its forward runs no hook."""
    return any(getattr(m, "_compiled_call_impl", None) is not None for m in model.modules())


def is_compiled(model: nn.Module) -> bool:
    """Whether the model, or a part of it, was compiled in either way."""
    wrapped = any(hasattr(module, "_orig_mod") for module in model.modules())
    return wrapped or is_compiled_in_place(model)


class HookWarning:
    """Keeps torch's warning of global hooks away while something is attached."""

    def __init__(self) -> None:
        """Ignore the warning from now on."""
        before = list(warnings.filters)
        warnings.filterwarnings("ignore", message=_ABOUT_HOOKS)
        self._added: list[Any] = [one for one in warnings.filters if one not in before]

    def allow(self) -> None:
        """Let it through again; what others did to the filters stays."""
        for one in self._added:
            if one in warnings.filters:
                warnings.filters.remove(one)  # type: ignore[attr-defined]  # it is a list
        self._added.clear()
