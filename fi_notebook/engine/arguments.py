"""What a person may give to what is attached to training, checked before it is.

    check_count("start_step", -1, 0)    # ValueError: start_step is -1; expected a whole number …
    optimizers_of([adam, sgd])          # (adam, sgd)

Limits: whether an optimizer is one of the model shows when it steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch.optim import Optimizer

__all__ = ["check_count", "is_count", "optimizers_of"]


def check_count(name: str, value: Any, low: int) -> None:
    """Refuse what is no whole number from ``low`` on.

    Raises:
        ValueError: Says what was given.
    """
    if not is_count(value, low):
        raise ValueError(f"{name} is {value!r}; expected a whole number from {low}")


def is_count(value: Any, low: int) -> bool:
    """Whether it is a whole number from ``low`` on; True is none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= low


def optimizers_of(given: Any) -> tuple[Optimizer, ...]:
    """The optimizers that were given: none, one, or several.

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
            raise TypeError(f"{what}; expected a torch optimizer, or several, or None")
    return optimizers
