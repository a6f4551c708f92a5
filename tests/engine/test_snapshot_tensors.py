"""Tensors that are not plain: sparse, of inference mode, or held together with a graph."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn, optim

from fi_notebook.engine.snapshot import Snapshot
from fi_notebook.errors import SessionError
from tests.tools.traced import same_bits


def _embedded() -> tuple[nn.Embedding, Tensor]:
    """An embedding that has a sparse gradient, of rows 1, 3 and 1 again."""
    model = nn.Embedding(5, 2, sparse=True)
    model(torch.tensor([1, 3, 1])).sum().backward()
    assert model.weight.grad is not None
    return model, model.weight.grad


def _train(model: nn.Embedding) -> None:
    optim.SGD(model.parameters(), lr=0.5).step()
    model(torch.tensor([0, 4])).sum().backward()


def _clear(model: nn.Embedding) -> None:
    assert model.weight.grad is not None
    model.weight.grad.zero_()
    model.weight.grad = None


def _scale(model: nn.Embedding) -> None:
    assert model.weight.grad is not None
    model.weight.grad.mul_(3)
    model.weight.grad._coalesced_(True)


@pytest.mark.parametrize("change", [_train, _clear, _scale])
def test_a_sparse_gradient_is_put_back(change: Callable[[nn.Embedding], None]) -> None:
    """The same object with the same indices, values, version and flag, twice over."""
    model, gradient = _embedded()

    def look() -> list[object]:
        parts = [gradient._indices(), gradient._values()]
        places = [part.data_ptr() for part in parts]
        return [places, *(p.tolist() for p in parts), gradient._version, gradient.is_coalesced()]

    before, weight = look(), model.weight.detach().clone()
    snapshot = Snapshot.take([model])
    for _ in range(2):
        change(model)
        snapshot.restore()
        assert model.weight.grad is gradient
        assert look() == before
        assert same_bits(model.weight, weight)


@pytest.mark.filterwarnings("ignore:Sparse CS. tensor support is in beta")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_a_sparse_buffer_is_put_back(layout: torch.layout) -> None:
    """Values and version of a sparse buffer, whose structure was emptied meanwhile."""
    model = nn.Module()
    model.register_buffer("mask", torch.eye(3).to_sparse(layout=layout))
    mask = model.get_buffer("mask")
    snapshot = Snapshot.take([model])
    mask.values().mul_(7) if layout != torch.sparse_coo else mask.zero_()
    snapshot.restore()
    assert model.get_buffer("mask") is mask
    assert torch.equal(mask.to_dense(), torch.eye(3))
    assert mask._version == 0


def test_a_buffer_of_inference_mode_is_put_back() -> None:
    """It has no version to put back; its bits and its identity are."""
    model = nn.Module()
    with torch.inference_mode():
        model.register_buffer("mean", torch.ones(2))
    mean = model.get_buffer("mean")
    snapshot = Snapshot.take([model])
    with torch.inference_mode():
        mean.add_(1)
    snapshot.restore()
    assert model.get_buffer("mean") is mean
    assert mean.tolist() == [1.0, 1.0]
    assert mean.is_inference()


def _detach(hidden: Tensor) -> None:
    hidden.detach_()


def _detach_and_ask(hidden: Tensor) -> None:
    hidden.detach_().requires_grad_()


def _write(hidden: Tensor) -> None:
    hidden.mul_(2)


def _keep(hidden: Tensor) -> None:
    hidden.retain_grad()


@pytest.mark.parametrize("change", [_detach, _detach_and_ask, _write, _keep])
def test_a_held_state_of_a_graph_is_no_leaf_again(change: Callable[[Tensor], None]) -> None:
    """h = 3 w is the same object, no leaf, and d(h²)/dw is 2 · 3w · 3 = 18, twice over."""
    holder, weight = nn.Module(), torch.ones(2, requires_grad=True)
    holder.hidden = hidden = weight * 3
    version = hidden._version
    snapshot = Snapshot.take([holder])
    for _ in range(2):
        change(hidden)
        snapshot.restore()
        assert holder.hidden is hidden
        assert not hidden.is_leaf
        assert hidden.requires_grad
        assert hidden._version == version
        assert hidden.tolist() == [3.0, 3.0]
        (found,) = torch.autograd.grad(hidden.square().sum(), weight, retain_graph=True)
        assert found.tolist() == [18.0, 18.0]


def test_an_untouched_graph_keeps_its_very_node() -> None:
    """What a step only reads has the node that it had."""
    holder, weight = nn.Module(), torch.ones(2, requires_grad=True)
    holder.hidden = hidden = weight * 3
    node = hidden.grad_fn
    snapshot = Snapshot.take([holder])
    hidden.sum().backward()
    snapshot.restore()
    assert hidden.grad_fn is node
    assert weight.grad is not None  # no given object holds it


@pytest.mark.parametrize("asks", [False, True])
def test_a_leaf_that_a_graph_wrote_is_a_leaf_again(asks: bool) -> None:
    """A buffer that was written with a graph forgets the graph, and asks as before."""
    holder = nn.Module()
    holder.hidden = torch.zeros(2, requires_grad=asks)
    snapshot = Snapshot.take([holder])
    with torch.no_grad():
        holder.hidden.requires_grad_(False)
    holder.hidden.copy_(torch.ones(2, requires_grad=True) * 2)
    assert not holder.hidden.is_leaf
    snapshot.restore()
    assert holder.hidden.is_leaf
    assert holder.hidden.requires_grad is asks
    assert holder.hidden.tolist() == [0.0, 0.0]
    assert holder.hidden._version == 0


def test_a_view_that_cannot_be_made_again_is_named() -> None:
    """The error names the attribute; everything else is put back before it is raised."""
    holder, weight = nn.Module(), torch.ones(4, requires_grad=True)
    vars(holder)["count"] = 0
    holder.part = (weight * 3)[:2]
    snapshot = Snapshot.take([holder])
    vars(holder)["count"] = 1
    holder.part.mul_(2)
    with pytest.raises(SessionError, match=r"'part', of shape \(2,\).*detach\(\)"):
        snapshot.restore()
    assert holder.count == 0
    assert holder.part.tolist() == [3.0, 3.0]
