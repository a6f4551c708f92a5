"""Which module and line made each autograd node, found without fi_notebook.

    seen = derived.watch(case.model, case.step)
    seen.calls[7]        Seen(op="mm", number=3, node="AddmmBackward0", module="fc", line=159)

A plain run of the step, with hooks on the instances that walk the graph of what each
module returns, and torch's own anomaly mode in the forward, which writes the traceback
into each node. Backward calls are then logged with the node that runs, by identity.

A node that is made while another runs (double backward, a recompute) belongs to where
that one belongs: anomaly mode keeps it as the node's parent. One that accumulates a
gradient belongs to the module that holds the parameter, and has no line: it is made at
the parameter's first use and may serve several.

Limits: the function inside a ``CopySlices`` is no edge of the graph, so its calls have no
module here (`LOSS` stands there).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["LOSS", "Seen", "Watched", "watch"]

LOSS = "loss function"
"""What made a node that no module returned."""

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_TORCH = str(Path(torch.__file__).parent)


@dataclass(frozen=True)
class Seen:
    """One call of the step: module and line are those of the node that runs, or None.

    Attributes:
        op: Operator packet.
        number: Which call of it.
        node: Name of the autograd node that runs.
        module: Path of the module that made the node.
        line: Innermost line of the tests' own models that made it.
        where: File and line of the innermost frame outside torch that made it.
    """

    op: str
    number: int
    node: str | None
    module: str | None
    line: int | None
    where: tuple[str, int] | None


@dataclass
class Watched(TorchDispatchMode):
    """Logs every call with the node that runs."""

    modules: dict[Any, str] = field(default_factory=dict)  # node → path; holds the nodes alive
    calls: list[Seen] = field(default_factory=list)
    numbers: Counter[str] = field(default_factory=Counter)
    running: list[str] = field(default_factory=list)
    owners: dict[int, str] = field(default_factory=dict)  # id of a parameter → path

    def __post_init__(self) -> None:
        """Set the mode up."""
        super().__init__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Log the call and make it."""
        packet = func.overloadpacket
        namespace, _, name = packet._qualified_op_name.partition("::")
        op = name if namespace == "aten" else f"{namespace}::{name}"
        self.numbers[op] += 1
        node = torch._C._current_autograd_node()
        self.calls.append(
            Seen(
                op,
                self.numbers[op],
                None if node is None else node.name(),
                None if node is None else self._module(node),
                None if node is None else _line(node),
                None if node is None or _variable(node) is not None else _where(node),
            )
        )
        return func(*args, **(kwargs or {}))

    def _module(self, node: Any) -> str | None:
        """The module that returned the node, else that of the node which ran when it was made."""
        if id(_variable(node)) in self.owners:
            return self.owners[id(_variable(node))]
        while node is not None and node not in self.modules:
            if "CopySlices" in node.name():
                return None
            node = _metadata(node).get("parent_")
        return LOSS if node is None else self.modules[node]

    def learn(self, outputs: Any, path: str) -> None:
        """Every node behind the outputs that no module claimed yet belongs to this one."""
        waiting = [t.grad_fn for t in _tensors(outputs) if t.grad_fn is not None]
        in_backward = torch._C._current_autograd_node() is not None
        seen = set()
        while waiting:
            node = waiting.pop()
            if node in self.modules or node in seen:
                continue
            seen.add(node)
            if in_backward or _metadata(node).get("parent_") is None:
                self.modules[node] = path
            waiting += [child for child, _ in node.next_functions if child is not None]


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list, Mapping)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors(item)


def _metadata(node: Any) -> dict[str, Any]:
    """What anomaly mode wrote into a node."""
    return node.metadata


def _variable(node: Any) -> Any:
    """The tensor into which a node accumulates, or None."""
    return getattr(node, "variable", None)


def _line(node: Any) -> int | None:
    """The innermost line of the tests' own models in the node's traceback."""
    for text in reversed(_metadata(node).get("traceback_", [])):
        match = _FRAME.search(text)
        if match and "/tests/models" in match["file"]:
            return int(match["line"])
    return None


def _where(node: Any) -> tuple[str, int] | None:
    """The innermost line outside torch in the node's traceback."""
    for text in reversed(_metadata(node).get("traceback_", [])):
        match = _FRAME.search(text)
        if match and not match["file"].startswith(_TORCH):
            return match["file"], int(match["line"])
    return None


def watch(model: nn.Module, step: Callable[[], Any]) -> Watched:
    """Run the step once, plainly, and say which module and line made what.

    Args:
        model: The model; it is trained by the step, as always.
        step: The step. The nodes of the loss belong to no module of the model.
    """
    seen = Watched()
    handles = []
    for path, module in model.named_modules():
        for parameter in module.parameters(recurse=False):
            seen.owners.setdefault(id(parameter), path)
        enter = partial(_enter, seen, path)
        hook = module.register_forward_pre_hook(enter, prepend=True, with_kwargs=True)
        handles.append(hook)
        handles.append(module.register_forward_hook(partial(_leave, seen)))
    try:
        with torch.autograd.set_detect_anomaly(True, check_nan=False), seen:
            step()
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _enter(seen: Watched, path: str, _module: nn.Module, inputs: Any, named: Any) -> None:
    """What is behind the inputs was made by whoever runs now."""
    if seen.running:
        seen.learn((inputs, named), seen.running[-1])
    seen.running.append(path)


def _leave(seen: Watched, _module: nn.Module, _inputs: Any, outputs: Any) -> None:
    seen.learn(outputs, seen.running.pop())
