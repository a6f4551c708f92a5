"""What training keeps between steps: parameters, buffers and optimizer state, by name.

    before = TrainingState.take(model, optimizers)      # copies
    before.optimizer_state["0.weight.exp_avg"]

Limits: names of state that two optimizers keep of one parameter, or of parameters that are
not the model's, go by the order of the optimizers and of what they keep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import nn
from torch.optim import Optimizer

from fi_notebook.engine.stats import euclidean_norm

__all__ = ["TrainingState"]


@dataclass(frozen=True, eq=False)
class TrainingState:
    """Copies of what training keeps between steps, by name.

    Attributes:
        parameters: Parameters of the model.
        buffers: Buffers of the model.
        optimizer_state: Tensors of optimizer state, ``parameter.name``; the second of one
            name (of parameters that are not the model's, or of two optimizers) is
            ``parameter.name (2)``.
    """

    parameters: dict[str, torch.Tensor]
    buffers: dict[str, torch.Tensor]
    optimizer_state: dict[str, torch.Tensor]

    @cached_property
    def parameter_norm(self) -> float:
        """Euclidean norm of all parameters."""
        return euclidean_norm(list(self.parameters.values()))

    @classmethod
    def take(cls, model: nn.Module, optimizers: Sequence[Optimizer]) -> TrainingState:
        """Copy what is there now."""
        live = cls.live(model, optimizers)
        copies = (
            {name: tensor.clone() for name, tensor in tensors.items()}
            for tensors in (live.parameters, live.buffers, live.optimizer_state)
        )
        return cls(*copies)

    @classmethod
    def live(cls, model: nn.Module, optimizers: Sequence[Optimizer]) -> TrainingState:
        """The tensors themselves, detached."""
        return cls(
            {name: p.detach() for name, p in model.named_parameters()},
            {name: b.detach() for name, b in model.named_buffers()},
            _optimizer_state(model, optimizers),
        )

    def tensors(self) -> list[torch.Tensor]:
        """Every copy."""
        return [
            tensor
            for kind in (self.parameters, self.buffers, self.optimizer_state)
            for tensor in kind.values()
        ]


def _optimizer_state(model: nn.Module, optimizers: Sequence[Optimizer]) -> dict[str, torch.Tensor]:
    """Every tensor of optimizer state, each by a name of its own."""
    names = {id(p): name for name, p in model.named_parameters()}
    found: dict[str, torch.Tensor] = {}
    times: Counter[str] = Counter()
    for optimizer in optimizers:
        for parameter, values in optimizer.state.items():
            for key, value in values.items() if isinstance(values, Mapping) else ():
                if isinstance(value, torch.Tensor):
                    name = f"{names.get(id(parameter), 'parameter')}.{key}"
                    times[name] += 1
                    own = f"{name} ({times[name]})" if times[name] > 1 else name
                    found[own] = value.detach()
    return found
