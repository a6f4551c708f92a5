"""What a person's ``evaluate(model)`` says after each step of a replay.

    def accuracy(model):
        return {"accuracy": (model(x_test).argmax(1) == y_test).float().mean()}

    session.replay(steps=20, evaluate=accuracy)

Generators and training modes are as they were afterwards.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, SupportsFloat

import torch
from torch import nn

from fi_notebook.engine.generators import Generators
from fi_notebook.engine.replay import Setup
from fi_notebook.errors import SessionArgumentError, SessionError

__all__ = ["Evaluate", "check_evaluate", "evaluated"]

Evaluate = Callable[[nn.Module], "SupportsFloat | Mapping[str, SupportsFloat]"]
"""Takes the model, gives a metric or several by name."""


def check_evaluate(evaluate: Any, model: nn.Module) -> None:
    """Refuse what cannot be called with the model alone.

    Raises:
        SessionArgumentError: It is no callable, or takes other arguments.
    """
    expected = "expected a callable that takes the model"
    if not callable(evaluate):
        raise SessionArgumentError(f"evaluate is {evaluate!r}; {expected}")
    try:
        signature = inspect.signature(evaluate)
    except (TypeError, ValueError):  # a builtin without a signature
        return
    try:
        signature.bind(model)
    except TypeError as error:
        raise SessionArgumentError(
            f"evaluate{signature} cannot be called: {error}; {expected}"
        ) from None


def evaluated(evaluate: Evaluate, setup: Setup) -> dict[str, float]:
    """What ``evaluate(model)`` says, as numbers by name.

    Raises:
        SessionError: It says something that is no number.
        Exception: Whatever it raised.
    """
    generators = Generators.take()
    modes = [(module, module.training) for module in setup.model.modules()]
    try:
        with setup.interrupts.let_through():
            answer = evaluate(setup.model)
    finally:
        generators.restore()
        for module, training in modes:
            module.training = training
    metrics = answer if isinstance(answer, Mapping) else {"metric": answer}
    return {str(name): _number(name, value) for name, value in metrics.items()}


def _number(name: Any, value: Any) -> float:
    try:
        return float(value.detach() if isinstance(value, torch.Tensor) else value)
    except (TypeError, ValueError, RuntimeError):
        kind = type(value).__name__
        raise SessionError(
            f"evaluate gave a {kind} as {name!r}; expected a number, a tensor of one element, or "
            "a mapping of names to these"
        ) from None
