"""Which parameter a call outside the model works on: by the storages of its arguments.

In an optimizer step, and between backward and that step (gradient clipping), a call
belongs to the parameters whose storage, gradient or state it touches; what it makes
inherits them, so that a chain of intermediate results keeps its parameter. What is made of
a parameter after the update, as a copy of the model or an average of its weights, does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.optim.optimizer import Optimizer

from fi_notebook.core.site import ALL_PARAMETERS
from fi_notebook.engine.outputs import Output
from fi_notebook.engine.storages import StorageMap, tensors_in
from fi_notebook.engine.stored_tensors import every_name

__all__ = ["ParameterScope"]


class ParameterScope:
    """The parameters of a model by the storages that belong to them.

    Args:
        model: The model.
    """

    def __init__(self, model: nn.Module) -> None:
        """List the parameters; storages are looked up by `refresh`."""
        self.parameters = dict(model.named_parameters())
        self._names = {id(parameter): name for name, parameter in self.parameters.items()}
        self._every_name = every_name(model)
        self._known: StorageMap[str] = StorageMap()
        self._inherited: StorageMap[str] = StorageMap()
        self._states = 0
        self.stale = True

    def name(self, parameter: torch.Tensor | None) -> str:
        """Name of a parameter of the model, or ``""``."""
        return self._names.get(id(parameter), "")

    def every_name(self, name: str) -> tuple[str, ...]:
        """Every name of a parameter, a buffer, or what an optimizer keeps of a parameter."""
        if name in self._every_name:
            return self._every_name[name]
        owner, dot, key = name.rpartition(".")
        return tuple(f"{each}{dot}{key}" for each in self._every_name.get(owner, (owner,)))

    def begin_step(self) -> None:
        """Forget what results inherited in the step before."""
        self._inherited.clear()
        self.stale = True

    def refresh(self, optimizers: Sequence[Optimizer]) -> None:
        """Learn the storages of parameters, gradients and optimizer state anew."""
        self._known.clear()
        self._states = _entries(optimizers)
        for name, parameter in self.parameters.items():
            self._known.set(parameter, name)
            if parameter.grad is not None:
                self._known.set(parameter.grad, name)
        for optimizer in optimizers:
            for owner, state in optimizer.state.items():
                self._learn_state(self.name(owner), state)
        self.stale = False

    def grown(self, optimizers: Sequence[Optimizer]) -> bool:
        """Whether optimizer state was made since it was last learned."""
        return _entries(optimizers) != self._states

    def _learn_state(self, name: str, state: Any) -> None:
        if name and isinstance(state, Mapping):
            for tensor in tensors_in(list(state.values())):
                self._known.set(tensor, name)

    def of(self, tensor: torch.Tensor) -> str:
        """Parameter that a tensor belongs to, ``*`` for several, or ``""``."""
        return self._known.get(tensor) or self._inherited.get(tensor) or ""

    def at(self, reference: StorageWeakRef) -> str:
        """Parameter that a storage belongs to, or ``""``."""
        return self._known.at(reference) or ""

    def of_call(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> str:
        """Parameter that a call works on, ``*`` for several, or ``""``."""
        found = {self.of(t) for t in tensors_in((*args, *kwargs.values()))} - {""}
        if len(found) > 1:
            return ALL_PARAMETERS
        return next(iter(found), "")

    def of_list_item(self, args: Sequence[Any], index: int) -> str:
        """Parameter of one position of a call over lists (``_foreach_…``), or ``""``."""
        lists = [a for a in args if isinstance(a, (list, tuple)) and index < len(a)]
        found = {self.of(a[index]) for a in lists if isinstance(a[index], torch.Tensor)} - {""}
        return next(iter(found)) if len(found) == 1 else (ALL_PARAMETERS if found else "")

    def of_output(self, parameter: str, args: Sequence[Any], output: Output) -> str:
        """Parameter that an output belongs to, of a call that works on ``parameter``."""
        if output.index is None:
            return parameter
        return self.of(output.tensor) or self.of_list_item(args, output.index) or parameter

    def inherit(self, tensor: torch.Tensor, name: str) -> None:
        """Let a result belong to the parameter of its inputs."""
        if name and not self.of(tensor):
            self._inherited.set(tensor, name)


def _entries(optimizers: Sequence[Optimizer]) -> int:
    return sum(len(state) for o in optimizers for state in o.state.values())
