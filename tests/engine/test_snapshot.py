"""A snapshot puts back the same objects with the same bits, whatever a step did to them."""

from __future__ import annotations

import random
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn, optim
from torch.nn.utils import parametrizations

from fi_notebook.engine.snapshot import Snapshot
from tests.tools.traced import same_bits


class Keeper(nn.Module):
    """A module with a bit of everything that a module may hold."""

    kept: torch.Tensor
    hidden: torch.Tensor
    later: str

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.tied = nn.Linear(3, 3)
        self.tied.weight = self.layer.weight
        self.register_buffer("kept", torch.arange(3.0))
        self.register_buffer("hidden", torch.zeros(2), persistent=False)
        self.plain = torch.ones(2)
        self.count = 0
        self.cache: dict[str, Any] = {"a": torch.ones(1), "list": [torch.zeros(1)]}
        self.queue = deque([1, 2])
        self.names = {"x"}
        self.seen = defaultdict(int, {"y": 1})


def _mutate_parameters(model: Keeper) -> None:
    with torch.no_grad():
        model.layer.weight.mul_(2)
        model.layer.bias.copy_(torch.ones(3))


def _rebind_data(model: Keeper) -> None:
    model.layer.weight.data = torch.zeros(3, 3)
    model.layer.bias.data = model.layer.bias.data.double()


def _replace_parameter(model: Keeper) -> None:
    model.layer.weight = nn.Parameter(torch.zeros(3, 3))
    model.extra = nn.Parameter(torch.zeros(1))


def _untie(model: Keeper) -> None:
    model.tied.weight = nn.Parameter(torch.ones(3, 3))


def _buffers(model: Keeper) -> None:
    model.kept += 1
    model.hidden = torch.ones(2)
    model.register_buffer("new", torch.zeros(1))
    del model._buffers["kept"]


def _attributes(model: Keeper) -> None:
    model.plain.add_(1)
    model.plain = torch.zeros(3)
    model.count += 1
    model.later = "x"


def _containers(model: Keeper) -> None:
    model.cache["a"].zero_()
    model.cache["b"] = torch.ones(1)
    model.cache["list"][0].add_(5)
    model.cache["list"].append(1)
    model.queue.append(3)
    model.names.add("z")
    model.seen["new"] += 1


def _modes(model: Keeper) -> None:
    model.eval()
    model.layer.requires_grad_(False)


def _gradients(model: Keeper) -> None:
    model.layer(torch.ones(1, 3)).sum().backward()


def _submodules(model: Keeper) -> None:
    model.layer = nn.Linear(3, 3)
    model.added = nn.ReLU()


def _hooks(model: Keeper) -> None:
    model.layer.register_forward_hook(lambda *_: None)


def _resized(model: Keeper) -> None:
    model.plain.untyped_storage().resize_(0)


_MUTATIONS = [
    _mutate_parameters,
    _rebind_data,
    _replace_parameter,
    _untie,
    _buffers,
    _attributes,
    _containers,
    _modes,
    _gradients,
    _submodules,
    _hooks,
    _resized,
]


def _look(model: Keeper) -> dict[str, Any]:
    """Every object and every bit that the module holds."""
    found: dict[str, Any] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        for key, value in vars(module).items():
            found[f"{path}.{key}"] = (id(value), _inside(value))
    return found


def _inside(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        bits = value.detach().contiguous().view(-1).view(torch.uint8).tolist()
        grad = None if not value.is_leaf or value.grad is None else id(value.grad)
        facts = (
            value.dtype,
            value.shape,
            value.untyped_storage()._cdata,
            value._version,
            value.requires_grad,
        )
        return (bits, grad, *facts)
    if isinstance(value, dict):
        return [(key, id(item), _inside(item)) for key, item in value.items()]
    if isinstance(value, (list, set, deque)):
        return [(id(item), _inside(item)) for item in value]
    return value if isinstance(value, (int, float, str, bool)) else id(value)


@pytest.mark.parametrize("mutate", _MUTATIONS, ids=lambda f: f.__name__.strip("_"))
def test_everything_is_put_back(mutate: Callable[[Keeper], None]) -> None:
    """Objects, bits, versions, flags, containers and attributes are as they were, twice over."""
    model = Keeper()
    before = _look(model)
    snapshot = Snapshot.take([model])
    for _ in range(2):
        mutate(model)
        snapshot.restore()
        assert _look(model) == before


def test_what_is_as_an_earlier_snapshot_has_it_is_saved_once() -> None:
    """The bias moved in between: 3 float32 are saved anew, 9 are shared; both go back."""
    layer = nn.Linear(3, 3)
    first = Snapshot.take([layer])
    weight, bias = layer.weight.detach().clone(), layer.bias.detach().clone()
    with torch.no_grad():
        layer.bias.add_(1)
    second = Snapshot.take([layer], like=first)
    assert (first.nbytes, second.nbytes) == (4 * (9 + 3), 4 * 3)
    for snapshot, moved in ((second, 1), (first, 0), (second, 1)):
        with torch.no_grad():
            layer.weight.fill_(7)
            layer.bias.fill_(7)
        snapshot.restore()
        assert same_bits(layer.weight.detach(), weight)
        assert same_bits(layer.bias.detach(), bias + moved)


def test_tied_parameters_stay_tied() -> None:
    """After a restore the two Linears still hold one parameter, and its storage is shared."""
    model = Keeper()
    snapshot = Snapshot.take([model])
    _rebind_data(model)
    _untie(model)
    snapshot.restore()
    assert model.tied.weight is model.layer.weight


def test_gradients_go_back_to_none_or_to_the_same_object() -> None:
    """A gradient that was there is the same object with its bits; a new one is gone."""
    model = Keeper()
    model.layer(torch.ones(1, 3)).sum().backward()
    gradient, value = model.layer.bias.grad, torch.ones(3)
    assert gradient is not None
    snapshot = Snapshot.take([model])
    gradient.mul_(9)
    model.layer.bias.grad = None
    model.kept.requires_grad_()
    snapshot.restore()
    assert model.layer.bias.grad is gradient
    assert same_bits(gradient, value)
    assert not model.kept.requires_grad


def test_a_held_graph_still_runs_backward() -> None:
    """Version counters are put back, so a graph from before the snapshot is still valid."""
    model = nn.Linear(3, 3)
    loss = model(torch.ones(1, 3, requires_grad=True)).square().sum()
    snapshot = Snapshot.take([model])
    with torch.no_grad():
        model.weight.add_(1)
    snapshot.restore()
    loss.backward()  # would raise: modified by an inplace operation
    assert model.weight.grad is not None


@pytest.mark.parametrize(
    "make",
    [
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: optim.AdamW(p, amsgrad=True),
        lambda p: optim.AdamW(p, fused=True),
        optim.Adafactor,
        optim.LBFGS,
    ],
    ids=["sgd", "adamw", "fused", "adafactor", "lbfgs"],
)
@pytest.mark.parametrize("trained", [0, 2])
def test_optimizer_state_is_the_same_objects_and_groups(make: Any, trained: int) -> None:
    """Lazily made state is removed; state that was there keeps objects, bits and groups."""
    model = nn.Linear(3, 2)
    optimizer = make(model.parameters())

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.ones(4, 3)).square().sum()
        loss.backward()
        return loss

    for _ in range(trained):
        optimizer.step(closure)

    def look() -> Any:
        states = [(id(s), _inside(s)) for s in optimizer.state.values()]
        groups = [(id(group), _inside(group)) for group in optimizer.param_groups]
        return len(optimizer.state), states, groups

    before = look()
    snapshot = Snapshot.take([model, optimizer])
    optimizer.step(closure)
    optimizer.param_groups[0]["lr"] = 77.0
    optimizer.add_param_group({"params": [torch.zeros(1, requires_grad=True)]})
    snapshot.restore()
    assert look() == before
    assert len(optimizer.state) == (0 if trained == 0 else len(before[1]))


def test_fp32_state_of_bf16_parameters_is_not_cast() -> None:
    """What load_state_dict would cast to bfloat16 stays float32, bit for bit."""
    model = nn.Linear(2, 2).bfloat16()
    optimizer = optim.AdamW(model.parameters())
    model(torch.ones(1, 2).bfloat16()).sum().backward()
    optimizer.step()
    state = optimizer.state[model.weight]
    state["exp_avg"] = torch.full((2, 2), 1 / 3)
    kept = state["exp_avg"]
    snapshot = Snapshot.take([model, optimizer])
    kept.zero_()
    snapshot.restore()
    assert state["exp_avg"] is kept
    assert kept.dtype == torch.float32
    assert same_bits(kept, torch.full((2, 2), 1 / 3))


def test_all_generators_are_put_back() -> None:
    """Python's, numpy's and torch's global generators, and generators that are given."""
    own, numbers, python = torch.Generator(), np.random.default_rng(1), random.Random(2)

    def draw() -> list[float]:
        return [
            random.random(),
            float(np.random.rand()),  # noqa: NPY002  # the global generator is the subject
            float(torch.rand(())),
            float(torch.rand((), generator=own)),
            float(numbers.random()),
            python.random(),
        ]

    snapshot = Snapshot.take([own, numbers, python])
    first = draw()
    assert draw() != first
    snapshot.restore()
    assert draw() == first


def test_schedulers_and_scalers_are_put_back() -> None:
    """A scheduler's counters, the rate that it set, and a scaler's scale and growth."""
    model = nn.Linear(2, 2)
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)
    before = (scheduler.state_dict(), optimizer.param_groups[0]["lr"], scaler.state_dict())
    snapshot = Snapshot.take([model, optimizer, scheduler, scaler])
    for _ in range(2):
        scaler.scale(model(torch.ones(1, 2)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
    assert scaler.get_scale() == 32.0
    snapshot.restore()
    assert (scheduler.state_dict(), optimizer.param_groups[0]["lr"], scaler.state_dict()) == before


def test_what_has_only_a_state_dict_is_put_back_by_it() -> None:
    """An object without attributes is put back through its own state_dict."""

    class Slotted:
        __slots__ = ("value",)

        def __init__(self) -> None:
            self.value = [1]

        def state_dict(self) -> dict[str, Any]:
            return {"value": self.value}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.value = state["value"]

    thing = Slotted()
    snapshot = Snapshot.take([thing])
    thing.value.append(2)
    snapshot.restore()
    assert thing.value == [1]


def test_a_lazy_module_is_lazy_again() -> None:
    """A LazyLinear that learned its shape forgets it: class, parameters and hooks."""
    model = nn.Sequential(nn.LazyLinear(4), nn.ReLU())
    snapshot = Snapshot.take([model])
    for _ in range(2):
        model(torch.ones(2, 3))
        assert type(model[0]) is nn.Linear
        snapshot.restore()
        assert type(model[0]) is nn.LazyLinear
        assert isinstance(model[0].weight, nn.UninitializedParameter)


def test_parametrizations_keep_their_own_state() -> None:
    """Spectral norm's power iteration writes buffers in forward; they are put back."""
    model = parametrizations.spectral_norm(nn.Linear(4, 4))
    before = {name: b.clone() for name, b in model.named_buffers()}
    assert before
    snapshot = Snapshot.take([model])
    model(torch.ones(1, 4))
    snapshot.restore()
    assert all(same_bits(b, before[name]) for name, b in model.named_buffers())


def test_ordered_dictionaries_keep_their_order() -> None:
    """The order of items is part of what is put back."""
    holder = nn.Module()
    kept = OrderedDict([("a", 1), ("b", 2)])
    vars(holder)["items"] = kept
    snapshot = Snapshot.take([holder])
    kept.move_to_end("a")
    snapshot.restore()
    assert vars(holder)["items"] is kept
    assert list(kept) == ["a", "b"]
