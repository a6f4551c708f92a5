"""A snapshot looks into plain objects, wherever they are reached from."""

from __future__ import annotations

import io
import itertools
import threading
from collections import Counter, UserDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn, optim
from torch.optim import lr_scheduler

from fi_notebook.engine.plain import is_plain, is_restorable
from fi_notebook.engine.snapshot import Snapshot
from tests.tools.traced import same_bits


@dataclass
class Cache:
    """What a module keeps of its own."""

    tensor: torch.Tensor
    length: int = 0
    past: list[torch.Tensor] = field(default_factory=list)


@dataclass(slots=True)
class Slotted:
    """A record without a dictionary of attributes."""

    tensor: torch.Tensor
    note: str = "before"


class Rows(torch.utils.data.Dataset[int]):
    """A data set of one row."""

    def __len__(self) -> int:
        """One."""
        return 1

    def __getitem__(self, index: int) -> int:
        """Zero."""
        return 0


class Named(dict[str, int]):
    """A dictionary that counts its writes, in an attribute, and ignores being emptied."""

    writes = 0

    def clear(self) -> None:
        """Stay as it is."""

    def __setitem__(self, key: str, value: int) -> None:
        """Count."""
        self.writes += 1
        super().__setitem__(key, value)


class Keeper(nn.Module):
    """A module whose state is in objects."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.cache = Cache(torch.zeros(2))
        self.user: UserDict[str, torch.Tensor] = UserDict(a=torch.zeros(1))
        self.counter = Counter(x=1)
        self.named = Named(x=1)
        self.slotted = Slotted(torch.zeros(2))
        self.array = np.zeros(2)
        self.pair = ([1], {"y": 2})


def _cache(model: Keeper) -> None:
    model.cache.tensor.add_(1)
    model.cache.length = 3
    model.cache.past.append(torch.ones(1))


def _replaced(model: Keeper) -> None:
    model.cache = Cache(torch.ones(2))
    model.cache.length = 9


def _user_dict(model: Keeper) -> None:
    model.user["a"].add_(1)
    model.user["b"] = torch.ones(1)


def _subclasses(model: Keeper) -> None:
    model.counter.update("xyz")
    model.named["z"] = 2


def _slots(model: Keeper) -> None:
    model.slotted.tensor.add_(1)
    model.slotted.note = "after"


def _array(model: Keeper) -> None:
    model.array += 1


def _tuple(model: Keeper) -> None:
    model.pair[0].append(2)
    model.pair[1].clear()


def _of_a_parameter(model: Keeper) -> None:
    vars(model.weight)["main_grad"] = torch.ones(2)
    model.weight.register_hook(lambda g: g * 2)
    model.weight.register_post_accumulate_grad_hook(lambda _: None)


def _look(value: Any) -> Any:
    """Every object, and every number, that is reached."""
    if isinstance(value, torch.Tensor):
        hooks = value._backward_hooks, value._post_accumulate_grad_hooks
        return (id(value), value.tolist(), value._version, _look(vars(value)), hooks)
    if isinstance(value, np.ndarray):
        return (id(value), value.tolist())
    if isinstance(value, dict):
        return (id(value), [(k, _look(v)) for k, v in value.items()], _attributes(value))
    if isinstance(value, (list, tuple)):
        return (id(value), [_look(item) for item in value])
    if isinstance(value, (Cache, Slotted, UserDict, nn.Module)):
        return (id(value), _attributes(value))
    return value


def _attributes(value: Any) -> Any:
    names = (
        ("tensor", "note") if isinstance(value, Slotted) else list(getattr(value, "__dict__", ()))
    )
    return [(name, _look(getattr(value, name))) for name in names]


@pytest.mark.parametrize(
    "mutate",
    [_cache, _replaced, _user_dict, _subclasses, _slots, _array, _tuple, _of_a_parameter],
    ids=lambda f: f.__name__.strip("_"),
)
def test_what_a_module_keeps_in_objects_is_put_back(mutate: Callable[[Keeper], None]) -> None:
    """The same objects with the same content, twice over, whatever kind of object it is."""
    model = Keeper()
    before = _look(model)
    snapshot = Snapshot.take([model])
    for _ in range(2):
        mutate(model)
        assert _look(model) != before
        snapshot.restore()
        assert _look(model) == before


@pytest.mark.parametrize("chained", [False, True])
def test_inner_schedulers_are_put_back(chained: bool) -> None:
    """Three steps of nested schedulers leave no trace in any of them."""
    optimizer = optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    inner: list[Any] = [
        lr_scheduler.ConstantLR(optimizer, 0.5, total_iters=2),
        lr_scheduler.ExponentialLR(optimizer, 0.5),
    ]
    outer = (
        lr_scheduler.ChainedScheduler(inner)
        if chained
        else lr_scheduler.SequentialLR(optimizer, inner, milestones=[1])
    )

    def look() -> Any:
        return [s.state_dict() for s in inner], outer.get_last_lr(), optimizer.param_groups[0]["lr"]

    before = str(look())
    snapshot = Snapshot.take([optimizer, outer])
    for _ in range(3):
        optimizer.step()
        outer.step()
    assert str(look()) != before
    snapshot.restore()
    assert str(look()) == before


def test_objects_that_hold_each_other_are_recorded_once() -> None:
    """A ring of objects, and a chain deeper than Python's stack, both come back."""
    first, second = Cache(torch.zeros(1)), Cache(torch.ones(1))
    vars(first)["other"], vars(second)["other"] = second, first
    last = first
    for _ in range(3000):
        vars(last)["next"] = Cache(last.tensor)
        last = vars(last)["next"]
    snapshot = Snapshot.take([first])
    second.length, last.length = 1, 2
    second.tensor.zero_()
    snapshot.restore()
    assert (second.length, last.length, second.tensor.item()) == (0, 0, 1.0)


def test_what_speaks_to_the_outside_is_left_alone() -> None:
    """An object that holds a lock or a file goes on; so does a thread, and a data set."""

    class Writer:
        def __init__(self) -> None:
            self.lock, self.lines = threading.Lock(), 0

    holder = nn.Module()
    writer = Writer()
    vars(holder)["writer"] = writer
    snapshot = Snapshot.take([holder])
    writer.lines += 1
    snapshot.restore()
    assert writer.lines == 1
    outside = [io.StringIO(), threading.Thread(), Rows(), iter([1]), len, Cache, writer]
    assert not any(is_plain(thing) for thing in outside)


def test_generators_that_a_person_holds_are_put_back() -> None:
    """The old generator of numpy, and a bare bit generator, draw the same again."""
    old, bare = np.random.RandomState(3), np.random.PCG64(4)
    snapshot = Snapshot.take([old, bare])
    first = (old.rand(2).tolist(), int(bare.random_raw()))
    assert (old.rand(2).tolist(), int(bare.random_raw())) != first
    snapshot.restore()
    assert (old.rand(2).tolist(), int(bare.random_raw())) == first


@pytest.mark.parametrize(
    ("thing", "expected"),
    [
        (None, False),
        ("cosine", False),
        (3, False),
        (iter([1]), False),
        (itertools.count(), False),
        ((n for n in [1]), False),
        (io.StringIO(), False),
        (len, False),
        (nn.Linear, False),
        ((1, 2), False),
        (iter(torch.utils.data.DataLoader(Rows())), False),
        (np.random.RandomState(0), True),
        (torch.zeros(1), True),
        (np.zeros(1), True),
        ({}, True),
        (Cache(torch.zeros(1)), True),
        (Slotted(torch.zeros(1)), True),
        (torch.utils.data.RandomSampler([1]), True),
        (torch.amp.GradScaler("cpu"), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_can_be_given_as_state(thing: Any, expected: bool) -> None:
    """Whatever has content of its own that can be written back, and nothing else."""
    assert is_restorable(thing) is expected


def test_a_gradient_of_an_object_is_the_same_object() -> None:
    """A held tensor that is no parameter of a model keeps its gradient too."""
    cache = Cache(torch.ones(2, requires_grad=True))
    cache.tensor.sum().backward()
    gradient = cache.tensor.grad
    snapshot = Snapshot.take([cache])
    (cache.tensor * 3).sum().backward()
    snapshot.restore()
    assert gradient is not None
    assert cache.tensor.grad is gradient
    assert same_bits(gradient, torch.ones(2))
