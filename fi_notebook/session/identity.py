"""What tells one training from another, in words and numbers that a campaign can keep.

    identity(trials.stage, golden)
    {"optimizer": "SGD(lr=0.1, …)", "gradient_norm": 0.71, "update_norm": 0.071, …}

The numbers are of the golden run's first step, so that another learning rate, other weights or
other data show in one of them, whatever the loss is.

Limits: norms; a change that keeps all of them, such as two neurons that changed places, does not
show.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import Optimizer
from torch.utils._python_dispatch import _disable_current_modes

from fi_notebook.engine.replay import Setup
from fi_notebook.engine.stats import euclidean_norm
from fi_notebook.session.golden import GoldenRun

__all__ = ["identity"]


@torch.no_grad()
@_disable_current_modes()
def identity(setup: Setup, golden: GoldenRun) -> dict[str, Any]:
    """What tells this golden run from that of another training.

    Args:
        setup: The model as the step begins, and its optimizers.
        golden: The golden run.

    Returns:
        ``optimizer`` in words, and norms of gradients, parameters, the update, optimizer state
        and buffers, as far as the step has them.
    """
    told: dict[str, Any] = {"optimizer": ", ".join(map(_in_words, setup.optimizers))}
    result, state = golden.result, golden.result.state
    told["gradient_norm"] = euclidean_norm(list(result.gradients.values()))
    if state is None:
        return told
    before = dict(setup.model.named_parameters())
    moved = [after - before[name] for name, after in state.parameters.items() if name in before]
    return told | {
        "parameter_norm": state.parameter_norm,
        "update_norm": euclidean_norm(moved),
        "optimizer_state_norm": euclidean_norm(list(state.optimizer_state.values())),
        "buffer_norm": euclidean_norm(list(state.buffers.values())),
    }


def _in_words(optimizer: Optimizer) -> str:
    """Its name and what it was given, group by group: ``SGD(lr=0.1, momentum=0)``."""
    groups = (
        ", ".join(f"{name}={_plain(value)}" for name, value in group.items() if name != "params")
        for group in optimizer.param_groups
    )
    return f"{type(optimizer).__name__}({'; '.join(dict.fromkeys(groups))})"


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, torch.Tensor) else value
