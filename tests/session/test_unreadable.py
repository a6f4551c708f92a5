"""Steps with tensors whose values cannot be read: sites without statistics, not struck."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import fi_notebook as fi
from fi_notebook import Session
from fi_notebook.core.trace import Trace
from fi_notebook.session import FaultWarning

X = torch.linspace(-1, 1, 120).reshape(3, 5, 8)


def _nested() -> tuple[nn.Module, Callable[[], Tensor]]:
    """A validation forward along torch's fast path, which packs sequences without padding."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    net = nn.TransformerEncoder(layer, 2)
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[1, 3:] = True

    def step() -> Tensor:
        net.eval()
        with torch.no_grad():
            net(X, src_key_padding_mask=padding)
        net.train()
        loss: Tensor = net(X, src_key_padding_mask=padding).pow(2).sum()
        loss.backward()
        net.zero_grad()
        return loss

    return net, step


def _meta() -> tuple[nn.Module, Callable[[], Tensor]]:
    return _beside(lambda: torch.mm(*torch.empty(2, 2, 2, device="meta")))


def _packed() -> tuple[nn.Module, Callable[[], Tensor]]:
    return _beside(lambda: torch.zeros(3, 4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2))


def _beside(other: Callable[[], object]) -> tuple[nn.Module, Callable[[], Tensor]]:
    net = nn.Linear(8, 8)

    def step() -> Tensor:
        loss: Tensor = net(X).sum()
        other()
        loss.backward()
        net.zero_grad()
        return loss

    return net, step


@pytest.mark.filterwarnings("ignore:.*nested tensors.*:UserWarning")
@pytest.mark.parametrize(
    ("make", "site"),
    [
        (_nested, "other/_transformer_encoder_layer_fwd*1:0"),
        (_meta, "mm*1:0"),
    ],
)
def test_what_cannot_be_read_is_a_site_without_statistics(
    make: Callable[[], tuple[nn.Module, Callable[[], Tensor]]], site: str
) -> None:
    """Traced, replayed, saved; a fault there says that it cannot strike."""
    net, step = make()
    session = Session(step, model=net)
    trace = session.trace()
    row = next(n for n, each in enumerate(trace.find()) if str(each) == site)
    assert trace.site_columns["zeros"][row] == -1
    session.arm("addmm", "scale", factor=2.0)
    assert session.replay().injections
    session.disarm()
    session.arm(site, "zero")
    assert "zero cannot strike this tensor: " in session.replay().outcome.reason


def test_what_shares_a_byte_with_another_is_warned_of_when_armed() -> None:
    """Traced and replayed like any other step; a fault there is not injected."""
    net, step = _packed()
    session = Session(step, model=net)
    packed = next(s for s in session.trace().find("view") if s.dtype == "float4_e2m1fn_x2")
    session.arm("addmm", "scale", factor=2.0)
    assert session.replay().injections
    session.disarm()
    with pytest.warns(FaultWarning, match="no fault can strike dtype 'float4_e2m1fn_x2'"):
        session.arm(packed, "zero")
    assert session.replay().outcome.name == "not_injected"


def test_a_nested_tensor_has_the_number_of_its_elements_for_a_shape(tmp_path: object) -> None:
    """13 rows of 8 that are no padding; saved and loaded alike."""
    net, step = _nested()
    path = f"{tmp_path}/step.fi"
    Session(step, model=net).trace().save(path)
    loaded = Trace.load(path)
    nested = next(site for site in loaded.find() if site.op == "_nested_tensor_from_mask")
    assert nested.shape == (13 * 8,)


def _sparse() -> tuple[Session, Trace]:
    """An embedding with a sparse gradient; rows 0 to 5 are read."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(30, 6, sparse=True), nn.Flatten(), nn.Linear(18, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step() -> Tensor:
        optimizer.zero_grad()
        found = net(torch.arange(6).view(2, 3))
        loss = nn.functional.cross_entropy(found, torch.tensor([0, 1]))
        loss.backward()
        optimizer.step()
        return loss

    session = Session(step, model=net, optimizer=optimizer)
    return session, session.trace()


_MADE = "_sparse_coo_tensor_with_dims_and_tensors*1:0"


def _said(comparison: fi.core.run.Comparison, site: str) -> tuple[bool, bool, int, int, str]:
    row = next(n for n in range(len(comparison)) if str(comparison.site(n)) == site)
    columns = comparison.columns
    flags = (bool(columns["equal"][row]), bool(columns["exact"][row]))
    counts = (int(columns["changed"][row]), int(columns["new_nan"][row]))
    return (*flags, *counts, comparison.effect(row))


def test_an_error_is_followed_through_a_sparse_tensor(tmp_path: Path) -> None:
    """By an unknown amount: its values, read anew, and the update are not where it begins."""
    session, golden = _sparse()
    session.arm("nll_loss_backward*1:0", "scale", factor=2.0)
    comparison = session.replay().comparison
    assert _said(comparison, _MADE) == (False, False, -1, -1, "passed on")
    assert _said(comparison, "_values*1:0") == (False, True, 36, 0, "passed on")
    assert _said(comparison, "_indices*1:0") == (True, True, 0, 0, "equal")
    assert _said(comparison, "add_*1:0") == (False, True, 36, 0, "passed on")
    introduced = [str(comparison.site(n)) for n in range(len(comparison))]
    introduced = [s for n, s in enumerate(introduced) if comparison.effect(n) == "introduced"]
    assert introduced == ["nll_loss_backward*1:0"]
    assert comparison.notes[0] == (
        "2 sites hold what is not read (a sparse, nested or quantized tensor) and count as "
        "differing because an input does"
    )
    golden.save(tmp_path / "a.trace")
    comparison.faulty.save(tmp_path / "b.trace")
    compared = fi.compare(tmp_path / "a.trace", tmp_path / "b.trace")
    assert _said(compared, _MADE) == (False, False, -1, -1, "passed on")


def test_a_sparse_tensor_that_no_error_reaches_is_equal() -> None:
    """A fault in the update of the last layer is after it."""
    session, _ = _sparse()
    session.arm("param:2.bias", "scale", factor=1.0)
    comparison = session.replay().comparison
    assert _said(comparison, _MADE)[:2] == (True, False)
    assert comparison.equal
