"""Somebody who holds what torch makes, as a profiler does that looks at frames."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Holder"]


class Holder(TorchDispatchMode):
    """Holds what one operator makes."""

    def __init__(self, op: str) -> None:
        super().__init__()
        self.op, self.held = op, list[Tensor]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Make the call, and hold its result where it is of the operator."""
        result = func(*args, **(kwargs or {}))
        if str(func).startswith(f"aten.{self.op}."):
            self.held.append(result)
        return result
