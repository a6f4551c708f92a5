"""What of a step is its loss: what it returned, else what `backward` was called of.

    loss_of(loss)                       a number, or a tensor of one element
    loss_of({"loss": loss, "acc": …})   or one named ``loss`` in a mapping or a record
    loss_of((loss, logits))             or the first of a tuple or list
    total(roots.items)                  else all that backward was called of, summed

A step that accumulates gradients calls ``backward`` more than once: the sum is what it
trained on. An optimizer's closure is evaluated again and again: its last evaluation counts.

Limits: a `GradScaler` multiplies what backward is called of; a step that returns its loss
is told of right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from fi_notebook.core.site import PHASES
from fi_notebook.engine.intercept import Call, Watch
from fi_notebook.engine.storages import tensors_in

__all__ = ["Roots", "loss_of", "number_of", "total"]

T = TypeVar("T")
_BACKWARD = PHASES.index("backward")


def loss_of(returned: Any) -> torch.Tensor | None:
    """The loss among what a step returned, as a tensor of one element; None where it is not.

    Args:
        returned: A number, a tensor, a mapping or record with ``loss``, or a tuple or list
            that begins with it.

    Returns:
        The tensor itself, or a number as float64.
    """
    if isinstance(returned, Mapping):
        returned = returned.get("loss")
    elif not isinstance(returned, torch.Tensor) and hasattr(returned, "loss"):
        returned = returned.loss
    elif isinstance(returned, (tuple, list)) and returned:
        returned = returned[0]
    if isinstance(returned, torch.Tensor):
        return returned.detach() if returned.numel() == 1 else None
    if isinstance(returned, np.ndarray) and returned.size == 1:
        returned = returned.reshape(()).item()
    if isinstance(returned, Real) and not isinstance(returned, bool):
        return torch.tensor(float(returned), dtype=torch.float64, device="cpu")
    return None


def number_of(loss: torch.Tensor) -> float:
    """A loss as a number; the real part of a complex one."""
    return float(loss.detach().double().real)


def total(losses: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """The sum of what backward was called of: one as it is, several as float64, or None."""
    if len(losses) < 2:
        return losses[0].reshape(()) if losses else None
    return torch.tensor(sum(map(number_of, losses)), dtype=torch.float64, device="cpu")


class Roots(Generic[T]):
    """What stands for each tensor that backward was called of, in a step.

    Attributes:
        items: They, in order.
    """

    def __init__(self) -> None:
        """None was yet."""
        self.items: list[T] = []
        self._in_closure = False

    @staticmethod
    def of(call: Call, watch: Watch) -> torch.Tensor | None:
        """The tensor of one element that backward is being called of, if this call tells."""
        if call.phase != _BACKWARD or not watch.sources.asking_for_gradients:
            return None
        root = next(iter(tensors_in(call.args)), None)
        return root if root is not None and root.numel() == 1 else None

    def add(self, item: T, *, in_closure: bool) -> None:
        """Take another; of an optimizer's closure the last evaluation counts."""
        if in_closure and self._in_closure:
            self.items.pop()
        self.items.append(item)
        self._in_closure = in_closure
