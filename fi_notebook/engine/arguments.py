"""What a person may give as optimizers, checked before anything is attached to training.

    optimizers_of([adam, sgd])          # (adam, sgd)

Limits: whether an optimizer is one of the model shows when it steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch.optim import Optimizer

__all__ = ["optimizers_of"]


def optimizers_of(given: Any, hint: str = "") -> tuple[Optimizer, ...]:
    """The optimizers that were given: none, one, or several.

    Args:
        given: What was given.
        hint: What else to do, as the tail of the message.

    Raises:
        TypeError: Something that is no optimizer; says what it is.
    """
    if given is None:
        return ()
    several = isinstance(given, Iterable) and not isinstance(given, (str, Mapping))
    optimizers = tuple(given) if several else (given,)
    for each in optimizers:
        if not isinstance(each, Optimizer):
            what = f"optimizer holds {type(each).__name__}" if several else f"optimizer is {each!r}"
            raise TypeError(f"{what}; expected a torch optimizer, or several, or None{hint}")
    return optimizers
