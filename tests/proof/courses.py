"""Two steps of a recipe with something done before each, and every bit that is left.

    plain = course(make, ARMS["plain"])
    differences(course(make, ARMS["replayed"]), plain)      # [] where nothing differs

Gradients are read when an optimizer is about to step, by a hook that is on for the real
steps alone, and once more after them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fi_notebook import Injector, Session
from tests.proof.recipes import Recipe
from tests.tools.traced import same_bits

__all__ = ["ARMS", "Between", "Make", "course", "differences", "session_of", "state_of"]

Make = Callable[[], Recipe]
Between = Callable[[], None]
Arm = Callable[[Recipe], Iterator[Between]]
State = dict[str, Any]

_STEPS = 2
_NEVER: Mapping[str, Any] = {
    "version": 2,
    "faults": [{"target": "mul", "model": "zero", "steps": "100-"}],
}
_WATCHING: Mapping[str, Any] = {
    "version": 2,
    "modules": [""],
    "log_steps": "0-",
    "faults": [
        {"target": op, "model": "zero", "probability": 0} for op in ("mm", "addmm", "add", "t")
    ],
}


def session_of(recipe: Recipe) -> Session:
    """A session on a recipe."""
    return Session(recipe.step, model=recipe.model, optimizer=recipe.optimizers)


def _armed_session(recipe: Recipe, steps: int) -> Session:
    """One with a bit armed in the first float that the forward makes."""
    session = session_of(recipe)
    sites = session.trace().sites
    floats = (site for site in sites if "float" in site.dtype and site.shape)
    site = next(site for site in floats if site.phase == "forward")
    session.arm(site, "bitflip", bit=14, elements={"count": 3}, steps=steps)
    return session


def _plain(_recipe: Recipe) -> Iterator[Between]:
    yield lambda: None


def _traced(recipe: Recipe) -> Iterator[Between]:
    yield lambda: _discard(session_of(recipe).trace())


def _idle(recipe: Recipe) -> Iterator[Between]:
    with Injector(_NEVER, model=recipe.model) as injector:
        yield lambda: None
    assert not injector.injections


def _watching(recipe: Recipe) -> Iterator[Between]:
    with Injector(_WATCHING, model=recipe.model, verbosity="quiet") as injector:
        yield lambda: None
    assert not injector.injections


def _armed(recipe: Recipe) -> Iterator[Between]:
    def between() -> None:
        assert not _armed_session(recipe, steps=1).replay().injections

    yield between


def _replayed(recipe: Recipe) -> Iterator[Between]:
    def between() -> None:
        assert _armed_session(recipe, steps=0).replay().injections

    yield between


def _explored(recipe: Recipe) -> Iterator[Between]:
    """All that a session does, one after the other."""

    def between() -> None:
        session = _armed_session(recipe, steps=1)
        assert not session.replay().injections
        site = session.plan.faults[0].target
        session.disarm()
        session.arm(str(site), "bitflip", bit=14, elements={"count": 3})
        assert session.replay().injections
        session.disarm()
        assert session.replay().comparison.equal

    yield between


def _discard(_made: object) -> None:
    pass


ARMS: Mapping[str, Arm] = {
    "plain": _plain,
    "traced": _traced,
    "idle": _idle,
    "watching": _watching,
    "armed": _armed,
    "replayed": _replayed,
    "explored": _explored,
}
"""What is done to a training that must not notice, by name."""


def course(make: Make, arm: Arm) -> list[State]:
    """Everything there is after each of the steps.

    Args:
        make: Makes the recipe.
        arm: What is done before each step.
    """
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002  # the global generator is the subject
    recipe = make()
    states = []
    with contextmanager(arm)(recipe) as between:
        for _ in range(_STEPS):
            between()
            with _gradients(recipe) as gradients:
                loss = recipe.step()
            states.append(state_of(recipe) | gradients | {"loss": loss})
    return states


@contextmanager
def _gradients(recipe: Recipe) -> Iterator[State]:
    """Gradients as each optimizer finds them, by parameter."""
    names = {id(p): name for name, p in recipe.model.named_parameters()}
    found: State = {}

    def take(optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    found[f"update of {names[id(parameter)]}"] = _copy(parameter.grad)

    with ExitStack() as ends:
        for optimizer in recipe.optimizers:
            ends.callback(optimizer.register_step_pre_hook(take).remove)
        yield found


def state_of(recipe: Recipe) -> State:
    """Parameters, buffers, gradients, optimizer state and the generators, copied.

    Of parameters and buffers also whether their memory can be resized.
    """
    model = recipe.model
    named = dict((*model.named_parameters(), *model.named_buffers()))
    found: State = {name: _copy(tensor) for name, tensor in named.items()}
    for name, parameter in model.named_parameters():
        found[f"{name}.grad"] = None if parameter.grad is None else _copy(parameter.grad)
    found |= {f"resizing {n}": t.untyped_storage().resizable() for n, t in named.items()}
    for number, optimizer in enumerate(recipe.optimizers):
        for place, state in enumerate(optimizer.state.values()):
            found |= dict(_flat(state, f"optimizer {number}, parameter {place}"))
        groups = [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]
        found |= dict(_flat(groups, f"groups of optimizer {number}"))
    numbers: Any = np.random.get_state()  # noqa: NPY002  # the global generator is the subject
    return found | {
        "torch's generator": torch.get_rng_state(),
        "numpy's generator": (numbers[1].tobytes(), *numbers[2:]),
        "Python's generator": random.getstate(),
    }


def _flat(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Tensor):
        yield name, _copy(value)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(part, f"{name}.{key}")
    elif isinstance(value, (list, tuple)):
        for place, part in enumerate(value):
            yield from _flat(part, f"{name}[{place}]")
    else:
        yield name, value


def _copy(tensor: Tensor) -> Tensor:
    return (tensor.to_dense() if tensor.is_sparse else tensor).detach().clone()


def differences(states: list[State], expected: list[State]) -> list[str]:
    """What is not the same to the bit, by step and name."""
    found = []
    for step, (mine, theirs) in enumerate(zip(states, expected, strict=True)):
        names = {**mine, **theirs}
        found += [f"step {step}: {n}" for n in names if not _same(mine, theirs, n)]
    return found


def _same(mine: State, theirs: State, name: str) -> bool:
    if name not in mine or name not in theirs:
        return False
    a, b = mine[name], theirs[name]
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return same_bits(a, b)
    return type(a) is type(b) and bool(a == b)
