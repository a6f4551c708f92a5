"""Steps with tensors whose values cannot be read: sites without statistics, not struck."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

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
    assert "float4_e2m1fn_x2" in {site.dtype for site in session.trace().find()}
    session.arm("addmm", "scale", factor=2.0)
    assert session.replay().injections
    session.disarm()
    with pytest.warns(FaultWarning, match="no fault can strike dtype 'float4_e2m1fn_x2'"):
        session.arm("view*3:0", "zero")
    assert session.replay().outcome.name == "not_injected"


def test_a_nested_tensor_has_the_number_of_its_elements_for_a_shape(tmp_path: object) -> None:
    """13 rows of 8 that are no padding; saved and loaded alike."""
    net, step = _nested()
    path = f"{tmp_path}/step.fi"
    Session(step, model=net).trace().save(path)
    loaded = Trace.load(path)
    nested = next(site for site in loaded.find() if site.op == "_nested_tensor_from_mask")
    assert nested.shape == (13 * 8,)
