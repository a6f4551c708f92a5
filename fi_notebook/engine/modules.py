"""Which module a forward call belongs to: the global forward hooks, one stack a thread.

Modules are compared by identity, so a deep copy of the model (an EMA) is not the
model. The hooks are global, never on instances, so the model can be copied and saved
while they are on. A shared module is pushed once per call and answers to all names.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from fi_notebook.core.site import LOSS_FUNCTION, OUTSIDE
from fi_notebook.core.trace import ModuleInfo

__all__ = ["ModuleScope", "ModuleTable", "Scope"]


class ModuleTable:
    """The modules of a model by identity, and the names for calls outside it."""

    def __init__(self, model: nn.Module) -> None:
        """List the modules in the order of ``named_modules``, with all their names."""
        names: dict[nn.Module, list[str]] = {}
        for name, module in model.named_modules(remove_duplicate=False):
            names.setdefault(module, []).append(name)
        self.model = model
        self.infos = [
            ModuleInfo(paths[0], type(module).__name__, tuple(paths[1:]))
            for module, paths in names.items()
        ]
        self._rows = {id(module): row for row, module in enumerate(names)}
        self.loss = len(self.infos)
        self.outside = self.loss + 1
        self.infos += [ModuleInfo(LOSS_FUNCTION), ModuleInfo(OUTSIDE)]
        self.parameters = [name for name, _ in model.named_parameters()]
        self._owners: dict[int, int] = {}
        for row, module in enumerate(names):
            for parameter in module.parameters(recurse=False):
                self._owners.setdefault(id(parameter), row)  # the first of those that share it

    def row(self, module: nn.Module) -> int | None:
        """Row of a module of the model; None for any other module.

        What ``torch.compile`` wraps around the model stands for the model.
        """
        row = self._rows.get(id(module))
        if row is None and getattr(module, "_orig_mod", None) is self.model:
            return 0
        return row

    def owner(self, parameter: torch.Tensor | None) -> int:
        """Row of the module that owns a parameter; the row outside for any other."""
        return self._owners.get(id(parameter), self.outside)

    def shares(self, model: nn.Module) -> bool:
        """Whether a model has a module or a parameter of this one."""
        parts = map(id, (*model.modules(), *model.parameters()))
        return any(part in self._rows or part in self._owners for part in parts)

    @property
    def names(self) -> list[str]:
        """Every name of every module of the model."""
        return [name for info in self.infos[: self.loss] for name in info.names]


@dataclass(slots=True)
class Scope:
    """One module that is running its forward.

    Attributes:
        module: Its row in the `ModuleTable`.
        number: Which call of this module in the step, from 1.
        node: Autograd node that was running when it was entered (a recompute), or None.
        counted: Whether its calls take numbers of the step.
        wrapper: Whether it is what ``torch.compile`` wrapped around the model.
    """

    module: int
    number: int
    node: Any
    counted: bool
    wrapper: bool = False


class ModuleScope:
    """The modules that are running now, for each thread.

    Args:
        table: The modules of the model.
        entering: Called before an outermost forward of the model, with the module;
            says whether its calls take numbers of the step.
        left: Called after that forward, with whether its calls took numbers.
    """

    def __init__(
        self,
        table: ModuleTable,
        entering: Callable[[nn.Module], bool],
        left: Callable[[bool], None],
    ) -> None:
        """Install nothing yet; see `install`."""
        self.table = table
        self.calls: Counter[tuple[int, bool]] = Counter()
        self.entered = False
        self.wrapped = False
        self._entering = entering
        self._left = left
        self._stacks: dict[int, list[Scope]] = {}
        self._handles: list[Any] = []

    def install(self) -> None:
        """Put the global hooks on."""
        self._handles = [
            register_module_forward_pre_hook(self.enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]

    def remove(self) -> None:
        """Take the global hooks off and forget what was running."""
        self.pause()
        self._stacks.clear()

    def pause(self) -> None:
        """Take the hooks off until they are put on again; what is running is kept."""
        while self._handles:
            self._handles.pop().remove()

    @property
    def top(self) -> Scope | None:
        """The innermost running module of this thread."""
        stack = self._stacks.get(threading.get_ident())
        return stack[-1] if stack else None

    def enter(self, module: nn.Module, _inputs: Any = None) -> None:
        """A module begins its forward."""
        if torch.compiler.is_compiling():
            return
        row = self.table.row(module)
        if row is None:
            return
        stack = self._stacks.setdefault(threading.get_ident(), [])
        wrapper = row == 0 and module is not self.table.model
        if row == 0 and not (len(stack) == 1 and stack[0].wrapper):
            stack.clear()  # what is left was interrupted: the root does not call itself
        node = torch._C._current_autograd_node()
        counted = stack[-1].counted if stack else node is not None or self._entering(module)
        self.entered = True
        self.wrapped |= wrapper
        self.calls[row, counted] += not wrapper
        stack.append(Scope(row, self.calls[row, counted], node, counted, wrapper))

    def _leave(self, module: nn.Module, _inputs: Any, _output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        stack = self._stacks.get(threading.get_ident())
        row = self.table.row(module)
        if not stack or row is None or stack[-1].module != row:
            return
        scope = stack.pop()
        if not stack and scope.node is None:
            self._left(scope.counted)
