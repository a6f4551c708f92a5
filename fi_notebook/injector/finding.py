"""Which live module is the model, where a part of it begins to train.

    whole(part)                  the smallest module that holds it and all that its optimizer steps
    Named("VAE").model(part)     the smallest of that class that holds it, or None

A model that is used by methods of its own, as ``model.loss(x)`` or the ``training_step`` of a
LightningModule, may run no forward but those of its parts.

Limits: an optimizer that is made after the first training forward is not known by then; a part
that trains before the model of that class holds it is not looked at again.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterable
from typing import TypeVar
from weakref import WeakSet

import torch
from torch import nn
from torch.optim import Optimizer

__all__ = ["Named", "whole"]

logger = logging.getLogger("fi_notebook")

T = TypeVar("T")


def whole(part: nn.Module) -> nn.Module:
    """The model that a module is part of, by what the optimizers of its parameters step.

    Args:
        part: The first outermost module that trains.

    Returns:
        The smallest live module that holds the part and all of these parameters; the part
        itself where they are its own, or where there is none, which is warned of.
    """
    mine = _ids(part.parameters())
    groups = (_ids(_stepped(optimizer)) for optimizer in _living(Optimizer, "param_groups"))
    stepped = mine.union(*(group for group in groups if group & mine))
    if stepped == mine:
        return part
    fit = [holder for holder in _holders(part) if stepped <= _ids(holder.parameters())]
    if not fit:
        logger.warning(
            "the optimizer of %s steps parameters beside its own that no module holds together "
            "with it; faults can strike %s alone",
            type(part).__name__,
            type(part).__name__,
        )
    return min(fit, key=_size, default=part)


class Named:
    """The model of a class that is waited for.

    Args:
        name: Name of the class.
    """

    def __init__(self, name: str) -> None:
        """Look for nothing yet."""
        self.name = name
        self._strangers: WeakSet[nn.Module] = WeakSet()

    def model(self, part: nn.Module) -> nn.Module | None:
        """The model of that class that a module is, or is part of.

        Args:
            part: A module that trains.

        Returns:
            The smallest that is alive, or None.
        """
        if type(part).__name__ == self.name:
            return part
        if part in self._strangers:
            return None
        living = _living(nn.Module, "_modules")
        named = [module for module in living if type(module).__name__ == self.name]
        parts = {inner for module in named for inner in module.modules()}
        self._strangers = WeakSet(module for module in living if module not in parts)
        return min((m for m in named if _holds(m, part)), key=_size, default=None)


def _living(kind: type[T], attribute: str) -> list[T]:
    """Every object of a type that is alive, and complete: it has its attribute."""
    return [
        each
        for each in gc.get_objects()
        if issubclass(type(each), kind) and attribute in each.__dict__
    ]


def _holders(part: nn.Module) -> list[nn.Module]:
    return [module for module in _living(nn.Module, "_modules") if _holds(module, part)]


def _holds(module: nn.Module, part: nn.Module) -> bool:
    return any(inner is part for inner in module.modules())


def _size(module: nn.Module) -> int:
    return sum(1 for _ in module.modules())


def _stepped(optimizer: Optimizer) -> Iterable[torch.Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _ids(parameters: Iterable[torch.Tensor]) -> set[int]:
    return set(map(id, parameters))
