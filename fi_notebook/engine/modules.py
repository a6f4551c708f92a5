"""Which module a forward call belongs to: the global forward hooks, one stack a thread.

Modules are compared by identity, so a deep copy of the model (an EMA) is not the
model. The hooks are global, never on instances, so the model can be copied and saved
while they are on. A shared module is pushed once per call and answers to all names.

Where nobody asks what happens inside the model (`ModuleScope.looks_inside`), an outermost
training forward is counted as it begins, and the hooks are off until it ends; while it runs,
and only then, its own module has a hook, which puts them on again.

Limits: of a forward that a KeyboardInterrupt ended the hooks are back when an optimizer of
the model steps or gradients are cleared.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import (
    _global_forward_hooks,
    _global_forward_hooks_always_called,
    _global_forward_pre_hooks,
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from fi_notebook.core.site import LOSS_FUNCTION, OUTSIDE
from fi_notebook.core.trace import ModuleInfo

__all__ = ["ModuleScope", "ModuleTable", "Scope"]

_HOOKS: tuple[dict[int, Any], ...] = (
    _global_forward_pre_hooks,
    _global_forward_hooks,
    _global_forward_hooks_always_called,
)
"""Where torch keeps the hooks of all modules."""


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
        self.root, self.loss = 0, len(self.infos)
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
    def outdated(self) -> bool:
        """Whether the model has modules now that it had not when they were listed."""
        return any(id(module) not in self._rows for module in self.model.modules())

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

    Attributes:
        looks_inside: Whether it is asked what runs inside outermost forwards.
        parents: Of each counted call of a module in the step, that in which it was made.
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
        self.parents: dict[tuple[int, int], tuple[int, int]] = {}
        self.entered = False
        self.wrapped = False
        self.looks_inside = True
        self._entering = entering
        self._left = left
        self._stacks: dict[int, list[Scope]] = {}
        self._handles: list[Any] = []
        self._aside: _Aside | None = None
        self._left_over: list[Any] = []

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
        self.come_back()
        self._clear_up()
        while self._handles:
            self._handles.pop().remove()

    def come_back(self) -> None:
        """Put the hooks on again that are off while a forward runs."""
        if self._aside is not None:
            aside, self._aside = self._aside, None
            self._left_over.append(aside.end())
            if sys.exc_info()[0] is None:  # else torch may be walking through them just now
                self._clear_up()
            self._left(True)

    def _clear_up(self) -> None:
        """Take hooks of modules off whose forward has ended."""
        while self._left_over:
            self._left_over.pop().remove()

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
        outermost = not stack and node is None
        counted = self._entering(module) if outermost else not stack or stack[-1].counted
        self.entered = True
        self.wrapped |= wrapper
        if self._left_over:
            self._clear_up()
        if outermost and counted and not (self.looks_inside or wrapper) and _nobody_else_hooks():
            self._aside = _Aside(self, module, self._handles)
            return
        self.calls[row, counted] += not wrapper
        number = self.calls[row, counted]
        if stack and counted:
            self.parents[row, number] = stack[-1].module, stack[-1].number
        stack.append(Scope(row, number, node, counted, wrapper))

    def enclosing(self, module: int, number: int) -> list[tuple[int, int]]:
        """A call of a module and those in which it was made, innermost first."""
        calls = [(module, number)]
        while (parent := self.parents.get(calls[-1])) is not None:
            calls.append(parent)
        return calls

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


class _Aside:
    """The hooks of a scope, off while a forward runs; as a hook of its module, their return.

    A copy of the model that is made meanwhile gets a hook that does nothing.
    """

    def __init__(self, scope: ModuleScope, module: nn.Module, handles: list[Any]) -> None:
        """Take them off."""
        self._scope, self._module = scope, module
        self._off = [
            (hooks, handle.id, hooks.pop(handle.id))
            for handle in handles
            for hooks in _HOOKS
            if handle.id in hooks
        ]
        self._handle = module.register_forward_hook(self, always_call=True)

    def __call__(self, module: nn.Module, _inputs: Any, _output: Any) -> None:
        """The forward ended."""
        if module is self._module and self._scope._aside is self:
            self._scope.come_back()

    def __deepcopy__(self, _memo: Any) -> Any:
        return _nothing

    def end(self) -> Any:
        """Put them on; gives what takes the module's own hook off."""
        for hooks, number, hook in self._off:
            hooks[number] = hook
        return self._handle


def _nothing(_module: nn.Module, _inputs: Any, _output: Any) -> None:
    """The hook of a copy."""


def _nobody_else_hooks() -> bool:
    """Whether a single scope has put hooks on all modules: else they are called anyway."""
    return all(len(hooks) <= 1 for hooks in _HOOKS)
