"""The models that the tests share are what their names say, and the same each time."""

from __future__ import annotations

import pytest
import torch

from tests import models


@pytest.mark.draws_nothing
@pytest.mark.parametrize("name", models.CASES)
def test_making_a_case_draws_nothing_and_repeats(name: str) -> None:
    """Equal seeds make bit-equal models and batches without the global generator."""
    one, other = models.CASES[name](seed=5), models.CASES[name](seed=5)
    assert torch.equal(one.x, other.x)
    assert torch.equal(one.y, other.y)
    pairs = zip(one.model.state_dict().values(), other.model.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("name", models.CASES)
def test_a_step_trains_and_leaves_no_gradients(name: str) -> None:
    """A step has a finite loss, moves parameters, and leaves gradients at None."""
    case = models.CASES[name]()
    before = [p.detach().clone() for p in case.model.parameters()]
    assert torch.isfinite(case.step())
    moved = [not torch.equal(a, b) for a, b in zip(before, case.model.parameters(), strict=True)]
    assert any(moved)
    assert all(p.grad is None for p in case.model.parameters())


def test_the_shared_module_is_one() -> None:
    """One Linear under two names counts once among the parameters: 5 × 5 + 5 = 30."""
    case = models.shared_module()
    assert sum(p.numel() for p in case.model.parameters()) == 30


def test_the_tied_weight_is_one_parameter() -> None:
    """The head's weight is the embedding's: 9 × 6 = 54 numbers in all."""
    case = models.tied_weights()
    assert [p.numel() for p in case.model.parameters()] == [54]
