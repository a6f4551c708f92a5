"""Parameters, buffers, gradients and optimizer state by name, and the names that there are.

    for name, module, tensor in model_tensors(model, "param"): …
    check_stored(Target.parse("param:fc.wieght"), model)     refuses, and names the nearest

What has several names, being tied, is shown by the first and chosen by any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.optim import Optimizer

from fi_notebook.core.match import is_glob, name_matches
from fi_notebook.core.site import Site, Target
from fi_notebook.engine.storages import local_part
from fi_notebook.errors import SiteError, did_you_mean
from fi_notebook.faults.bits import dtype_name

if TYPE_CHECKING:
    from fi_notebook.engine.watch import Watch

__all__ = [
    "BEFORE_FORWARD",
    "check_stored",
    "dtypes_of",
    "every_name",
    "model_tensors",
    "optimizer_tensors",
    "stored_site",
    "stored_sites",
]

BEFORE_FORWARD = ("param", "buffer")
"""Stored tensors of the model, which are struck or read before the forward."""


def model_tensors(model: nn.Module, kind: str) -> Iterator[tuple[str, str, torch.Tensor]]:
    """Name, module and tensor of every parameter (``param``) or ``buffer``."""
    named = model.named_parameters() if kind == "param" else model.named_buffers()
    for name, tensor in named:
        yield name, name.rpartition(".")[0], tensor


def every_name(model: nn.Module) -> dict[str, tuple[str, ...]]:
    """Every name of each parameter and buffer, by the first: one that is tied has several."""
    found: dict[int, list[str]] = {}
    for kind in BEFORE_FORWARD:
        for name, tensor in _named(model, kind):
            found.setdefault(id(tensor), []).append(name)
    return {names[0]: tuple(names) for names in found.values()}


def dtypes_of(target: Target, model: nn.Module) -> set[str]:
    """Dtypes of the stored tensors that a target names; none of optimizer state."""
    if target.kind == "state":
        return set()
    named = _named(model, target.kind)
    return {dtype_name(tensor.dtype) for name, tensor in named if name_matches(target.op, [name])}


def optimizer_tensors(
    watch: Watch, optimizer: Optimizer, kind: str
) -> Iterator[tuple[str, str, torch.Tensor]]:
    """Name, module and tensor of every ``param``, gradient (``grad``) or ``state`` it holds."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            name = watch.parameters.name(parameter)
            if not name:
                continue
            module = name.rpartition(".")[0]
            if kind == "param":
                yield name, module, parameter
                continue
            if kind == "grad":
                if parameter.grad is not None:
                    yield name, module, parameter.grad
                continue
            state = optimizer.state.get(parameter)
            for key, value in (state or {}).items() if isinstance(state, Mapping) else ():
                if isinstance(value, torch.Tensor):
                    yield f"{name}.{key}", module, value


def stored_site(kind: str, name: str, module: str, tensor: torch.Tensor) -> Site:
    """The site of a stored tensor, described."""
    return Site(
        op=name,
        kind=kind,
        phase="forward" if kind in BEFORE_FORWARD else "optimizer",
        module=module,
        parameter="" if kind == "buffer" else name,
        dtype=dtype_name(tensor.dtype),
        shape=tuple(tensor.shape),
    )


def stored_sites(model: nn.Module) -> list[Site]:
    """Every parameter and buffer, then the gradient of every parameter, as sites."""
    kinds = (("param", "param"), ("buffer", "buffer"), ("grad", "param"))
    return [
        stored_site(kind, name, module, local_part(tensor))
        for kind, source in kinds
        for name, module, tensor in model_tensors(model, source)
    ]


def check_stored(target: Target, model: nn.Module) -> None:
    """Refuse a stored tensor that a model cannot have.

    Raises:
        SiteError: Names the nearest there are.
    """
    kind, wanted = target.kind, target.op
    names = _names(model, kind)
    if not names:
        raise SiteError(f"no {kind} {wanted!r}; the model has none")
    if kind == "state":  # parameter.name; which names there are shows when it is stepped
        _check_state(wanted, model, names)
    elif not name_matches(wanted, names):
        trained = _names(model, kind, trained=kind == "grad") or names
        raise SiteError(f"no {kind} {wanted!r}{_nearest(wanted, names, trained)}")


def _check_state(wanted: str, model: nn.Module, names: list[str]) -> None:
    if not is_glob(wanted) and name_matches(wanted, names):
        raise SiteError(
            f"no state {wanted!r}: name what the optimizer keeps of it, such as "
            f"'state:{wanted}.exp_avg' of Adam or 'state:{wanted}.momentum_buffer' of SGD"
        )
    owner, _, key = wanted.rpartition(".")
    if is_glob(wanted) or any(name_matches(f"{name}.*", [wanted]) for name in names):
        return
    trained = _names(model, "state", trained=True) or names
    near = _nearest(owner, names, trained, f".{key}")
    raise SiteError(f"no state {wanted!r}{near}")


def _names(model: nn.Module, kind: str, *, trained: bool = False) -> list[str]:
    """Every name that a target of this kind may have; for states, of their parameters.

    Args:
        model: The model.
        kind: The kind.
        trained: Whether only of what has a gradient.
    """
    return [name for name, tensor in _named(model, kind) if tensor.requires_grad or not trained]


def _named(model: nn.Module, kind: str) -> list[tuple[str, torch.Tensor]]:
    """Every name that a tensor of the model has, with it: buffers, or for all else parameters."""
    named = model.named_buffers if kind == "buffer" else model.named_parameters
    return list(named(remove_duplicate=False))


def _nearest(wanted: str, names: list[str], near: list[str], key: str = "") -> str:
    """What to write instead of a name, as the tail of an error message."""
    module, _, attribute = wanted.rpartition(".")
    start = f"{module}.parametrizations.{attribute}.".removeprefix(".")
    originals = [repr(f"{name}{key}") for name in names if name.startswith(start)]
    if originals:
        return f", which is computed; expected what it is computed from: {', '.join(originals)}"
    return did_you_mean(f"{wanted}{key}", [f"{name}{key}" for name in near])
