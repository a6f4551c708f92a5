"""What a checkpoint computes again has the module of its forward, in modules and between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

from fi_notebook import Injector
from fi_notebook.engine.lineage import Lineage
from tests.injector.helpers import plan
from tests.tools import traced

_KINDS = pytest.mark.parametrize("reentrant", [False, True], ids=["not reentrant", "reentrant"])

_WITHOUT_LINES = """
def between(block, h):
    h = block.a(h).tanh()
    return block.b(h)
"""


class Block(nn.Module):
    """A checkpoint around calls of its own, and around those of two modules."""

    def __init__(self, *, reentrant: bool, inner: nn.Module | None = None) -> None:
        """Make the layers; ``inner`` stands in place of the second."""
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = inner or nn.Linear(4, 4)
        self.reentrant = reentrant

    def part(self, h: Tensor) -> Tensor:
        """What is under the checkpoint; what the second layer takes is all that it keeps."""
        h = self.a(h * 2)
        return self.b(squashed(h))

    def forward(self, x: Tensor) -> Tensor:
        """The checkpoint."""
        return _checkpointed(self.part, x, self.reentrant)


class Mirror(Block):
    """A block whose first call is one of a module, and whose last one is its own."""

    def part(self, h: Tensor) -> Tensor:
        """The first call is of ``a``; the last two are its own."""
        h = self.b(squashed(self.a(h)))
        return squashed(h) * 2


class Squash(nn.Module):
    """A module that calls the function that those around it call."""

    def forward(self, x: Tensor) -> Tensor:
        """As its block squashes, in its own lines."""
        return squashed(x) * 3


class Written(Block):
    """A block whose function has no lines that anybody could read."""

    def __init__(self, **more: Any) -> None:
        """Make the layers, and the function of a text."""
        super().__init__(**more)
        made: dict[str, Callable[..., Tensor]] = {}
        exec(_WITHOUT_LINES, made)
        self.between = made["between"]

    def forward(self, x: Tensor) -> Tensor:
        """The checkpoint around it, with no line of this file under it."""
        return _checkpointed(self.between, self, x, self.reentrant)


def _checkpointed(function: Callable[..., Tensor], *given: Any) -> Tensor:
    *inputs, reentrant = given
    again: Tensor = checkpoint(function, *inputs, use_reentrant=reentrant)
    return again


def squashed(h: Tensor) -> Tensor:
    """What several modules have in common."""
    return torch.tanh(h)


def _calls(model: nn.Module) -> list[traced.CallRecord]:
    x = torch.randn(3, 4, requires_grad=True)

    def step() -> Tensor:
        loss = model(x).square().sum()
        loss.backward()
        return loss.detach()

    return traced.step_of(step, model)


def _placed(calls: list[traced.CallRecord], phase: str) -> set[tuple[str, str]]:
    """The operators that the models themselves call, each with its module."""
    own = {"mul", "tanh", "addmm"}
    return {(call.op, call.module) for call in calls if call.phase == phase and call.op in own}


def _between(calls: list[traced.CallRecord], phase: str) -> list[tuple[str, str, int]]:
    return [
        (call.op, call.module, call.module_call)
        for call in calls
        if call.phase == phase and call.op in ("mul", "tanh")
    ]


@_KINDS
@pytest.mark.parametrize("kind", [Block, Mirror, Written])
def test_what_is_computed_again_between_modules_is_where_it_was(
    kind: type[Block], reentrant: bool
) -> None:
    """Of a function that calls modules and operators in turn, each recompute is in its module."""
    calls = _calls(nn.Sequential(kind(reentrant=reentrant)))
    assert {module for _, module in _placed(calls, "recompute")} == {"0", "0.a"} | (
        {"0.b"} if reentrant or kind is Mirror else set()
    )
    assert _placed(calls, "recompute") <= _placed(calls, "forward")
    assert _between(calls, "recompute")[:2] == _between(calls, "forward")[:2]


@_KINDS
def test_each_of_six_equal_blocks_is_computed_again_in_itself(reentrant: bool) -> None:
    """Blocks that share every line differ by the module call in which the checkpoint was made."""
    calls = _calls(nn.Sequential(*(Block(reentrant=reentrant) for _ in range(6))))
    forward = _between(calls, "forward")
    assert forward[::2] == [("mul", str(block), 1) for block in range(6)]
    again = _between(calls, "recompute")
    assert again == [pair for n in range(10, -1, -2) for pair in forward[n : n + 2]]


@_KINDS
def test_a_block_that_is_called_twice_is_computed_again_in_either_call(reentrant: bool) -> None:
    """Of a shared block the recompute has the number of the module call, too."""
    block = Block(reentrant=reentrant)
    calls = _calls(nn.Sequential(block, nn.Tanh(), block))
    again = [(module, number) for op, module, number in _between(calls, "recompute") if op == "mul"]
    assert again == [("0", 2), ("0", 1)]


@pytest.mark.filterwarnings(
    "ignore:None of the inputs:UserWarning"
)  # of a reentrant one in another
@pytest.mark.parametrize("outer", [False, True])
@_KINDS
def test_a_checkpoint_within_another_is_computed_again_in_its_own_module(
    outer: bool, reentrant: bool
) -> None:
    """What either checkpoint makes again is in the module that made it at first."""
    within = Mirror(reentrant=reentrant)
    calls = _calls(nn.Sequential(Block(reentrant=outer, inner=within)))
    assert _placed(calls, "recompute") <= _placed(calls, "forward")
    again = [(op, module) for op, module, _ in _between(calls, "recompute")]
    assert {("mul", "0"), ("tanh", "0"), ("tanh", "0.b")} <= set(again)
    assert again[:2] == [("mul", "0"), ("tanh", "0")]


@_KINDS
def test_a_function_that_several_modules_call_is_computed_again_in_each(reentrant: bool) -> None:
    """The lines that called the function tell whose call of it is repeated."""
    calls = _calls(nn.Sequential(Block(reentrant=reentrant, inner=Squash())))
    again = _between(calls, "recompute")
    assert again[:2] == [("mul", "0", 1), ("tanh", "0", 1)]
    assert [module for _, module, _ in again[2:]] == ["0.b", "0.b"][: len(again) - 2]


def test_what_is_computed_again_after_all_that_is_needed_is_where_it_was() -> None:
    """Where a checkpoint does not stop early, its last calls are in their own block as well."""
    model = nn.Sequential(*(Mirror(reentrant=False) for _ in range(3)))
    with set_checkpoint_early_stop(False):
        calls = _calls(model)
    again = [(op, module) for op, module, _ in _between(calls, "recompute")]
    assert again == [(op, str(block)) for block in (2, 1, 0) for op in ("tanh", "tanh", "mul")]


@_KINDS
@pytest.mark.parametrize("kind", [Block, Mirror])
def test_each_further_block_costs_as_much_as_the_one_before(
    kind: type[Block], reentrant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many calls are looked at for each call that is made again, however many a step makes."""
    looked_at = 0
    made_before = Lineage.made_before

    def counting(self: Lineage, node: Any, cause: Any, places: Any, same: Any) -> Any:
        def counted(origin: Any) -> Any:
            nonlocal looked_at
            looked_at += 1
            return same(origin)

        return made_before(self, node, cause, places, counted)

    monkeypatch.setattr(Lineage, "made_before", counting)
    costs = []
    for blocks in (4, 8, 12):
        looked_at = 0
        _calls(nn.Sequential(*(kind(reentrant=reentrant) for _ in range(blocks))))
        costs.append(looked_at)
    assert costs[2] - costs[1] == costs[1] - costs[0] > 0


@_KINDS
def test_a_filter_of_modules_strikes_what_is_computed_again(reentrant: bool) -> None:
    """A fault in the block's recompute strikes what the block makes between its modules."""
    model = nn.Sequential(Block(reentrant=reentrant))
    x = torch.randn(3, 4, requires_grad=True)
    fault = plan("tanh", "zero", modules=["0"], phases=["recompute"])
    with Injector(fault, model=model) as injector:
        model(x).sum().backward()
    assert [(str(done.site), done.site.module) for done in injector.injections] == [
        ("tanh*2:0", "0")
    ]
