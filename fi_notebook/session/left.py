"""What a step leaves behind that is not put back: gradients on tensors that nobody gave.

    left_behind(step, snapshot)
    # "A gradient stays on 'x', which is not put back; give the session state=[x]"

Limits: only what the step's own function names is seen, as a global or from around it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from fi_notebook.engine.snapshot import Snapshot

__all__ = ["left_behind"]


def left_behind(step: Callable[..., Any], snapshot: Snapshot) -> str:
    """Name the tensors on which the step left a gradient, and what puts them back.

    Args:
        step: The step.
        snapshot: What is put back.

    Returns:
        A sentence, or ``""`` where there is none.
    """
    try:
        around = inspect.getclosurevars(step)
    except (TypeError, ValueError):  # no function, or one of its names has no value yet
        return ""
    used = {**around.globals, **around.nonlocals}
    names = [n for n, v in used.items() if _has_gradient(v) and not snapshot.holds(v)]
    if not names:
        return ""
    told = " and ".join(map(repr, names))
    return (
        f"A gradient stays on {told}, which the step uses and no model or optimizer holds, and is "
        f"not put back; give the session state=[{', '.join(names)}]"
    )


def _has_gradient(value: object) -> bool:
    leaf = isinstance(value, torch.Tensor) and value.is_leaf and value.requires_grad
    return leaf and value.grad is not None  # type: ignore[attr-defined]  # a tensor, by the line above
