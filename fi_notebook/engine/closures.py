"""The steps of optimizers that are under way, and the closures that some are given.

    stepping = Stepping(optimizer, node)
    given = with_closure(args, kwargs, evaluate)   # None where there is none

An optimizer that is given a closure runs the model, forward and backward, within its step
(LBFGS; Lightning and skorch always do so). It is given another in its place, which does the same
and tells when it runs.

Limits: a closure is known by being callable, the first argument that is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

from torch.optim import Optimizer

__all__ = ["Arguments", "Stepping", "with_closure"]

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""What a step is called with: the optimizer and more by position, and by keyword."""


@dataclass(eq=False, slots=True)
class Stepping:
    """An optimizer that is stepping.

    Attributes:
        optimizer: The optimizer.
        node: Autograd node that it steps under, or None.
        evaluating: Whether it is evaluating its closure now.
        updating: Whether its update has begun.
    """

    optimizer: Optimizer
    node: Any
    evaluating: bool = False
    updating: bool = False


def with_closure(
    args: tuple[Any, ...], kwargs: dict[str, Any], evaluate: Callable[..., Any]
) -> Arguments | None:
    """What a step is to be called with so that its closure is evaluated by a function.

    Args:
        args: What it is called with by position, the optimizer first.
        kwargs: And by keyword.
        evaluate: Called with the closure and what that is called with, in its place.

    Returns:
        None where there is no closure.
    """
    for place, value in enumerate(args[1:], start=1):
        if callable(value):
            return (*args[:place], _instead_of(value, evaluate), *args[place + 1 :]), kwargs
    for name, value in kwargs.items():
        if callable(value):
            return args, kwargs | {name: _instead_of(value, evaluate)}
    return None


def _instead_of(closure: Callable[..., Any], evaluate: Callable[..., Any]) -> Callable[..., Any]:
    return wraps(closure)(partial(evaluate, closure))
