from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import fi_notebook as fi
from fi_notebook.core.run import Run


class Net(nn.Module):
    """A Linear, or a convolution, and then whatever a test is about."""

    def __init__(self, first: nn.Module, rest: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.rest = first, rest

    def forward(self, x: Tensor) -> Tensor:
        return self.rest(self.first(x))


def struck(net: nn.Module, x: Tensor, site: str, model: str, **fault: Any) -> Run:
    """Replay one SGD step on the mean square of the output with one fault."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    session = fi.Session(step, model=net, optimizer=optimizer)
    session.trace()
    session.arm(site, model, **fault)
    return session.replay()


def linear(out: int = 3) -> nn.Linear:
    """A Linear of four inputs with fixed weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        return nn.Linear(4, out)


X = torch.tensor([[0.5, -1.0, 2.0, 0.25], [1.5, 0.5, -0.5, 1.0]])


def masked_in(run: Run) -> dict[str, str]:
    """The mechanism of every masked site."""
    compared = run.comparison
    return {
        str(compared.site(row)): compared.mechanism(row)
        for row in range(len(compared))
        if compared.effect(row) == "masked"
    }


def test_relu_gives_zero_with_and_without_the_error() -> None:
    """The smallest output of the Linear is negative, and more so after -1."""
    net = Net(linear(), torch.relu)
    lowest = int(net.first(X).argmin())
    run = struck(net, X, "addmm*1:0", "add", value=-1.0, elements={"index": lowest})
    assert masked_in(run) == {"relu*1:0": "ReLU at zero"}
    assert run.outcome.name == "masked_exact"
    assert (
        "the error died in relu*1 (ReLU gives 0 there with and without the error); "
        "the last call that differs is addmm*1:0"
    ) in run.outcome.reason


def test_max_pooling_takes_a_larger_neighbour() -> None:
    """The smallest of a window of four stays the smallest."""
    torch.manual_seed(0)
    net = Net(nn.Conv2d(1, 2, 3), lambda h: functional.max_pool2d(h, 2))
    x = torch.randn(1, 1, 6, 6)
    lowest = int(net.first(x)[0, 0, :2, :2].argmin())
    place = [0, 0, lowest // 2, lowest % 2]
    run = struck(net, x, "convolution*1:0", "add", value=-1.0, elements={"index": place})
    assert set(masked_in(run).values()) == {"pooling"}
    assert "pooling took a larger neighbour" in run.outcome.reason


def test_a_saturated_tanh_stays_at_its_limit() -> None:
    """tanh(100 h) is ±1; twice 100 h is ±1 as well."""
    net = Net(linear(), lambda h: torch.tanh(100 * h))
    run = struck(net, X, "mul*1:0", "scale", factor=2.0, elements={"index": 0})
    assert masked_in(run) == {"tanh*1:0": "saturation"}


def test_a_cast_to_fewer_bits_rounds_the_lowest_away() -> None:
    """One ULP of float32 is 2^-23 of the value, far below bfloat16's 2^-9."""
    net = Net(linear(), lambda h: h.to(torch.bfloat16).float())
    run = struck(net, X, "addmm*1:0", "bitflip", bit=0, elements={"index": 0})
    assert masked_in(run) == {"_to_copy*1:0": "rounding in a cast"}


def test_dropout_masks_what_it_drops() -> None:
    """An element that dropout zeroes may be anything finite before."""
    net = Net(linear(40), nn.Dropout(0.5))
    state = torch.get_rng_state()
    dropped = int((net(X) == 0).flatten().nonzero()[0])
    torch.set_rng_state(state)
    run = struck(net, X, "addmm*1:0", "scale", factor=3.0, elements={"index": dropped})
    assert masked_in(run) == {"mul*1:0": "dropout mask"}
    assert "dropout masks it" in run.outcome.reason


def test_clipping_gives_its_bound_either_way() -> None:
    """7 and 8 are both clipped to 1; the gradient is 0 either way, says a comparison."""
    net = Net(linear(), lambda h: (h * 0 + 7).clamp(-1, 1))
    run = struck(net, X, "add*1:0", "add", value=1.0, elements={"index": 0})
    masked = masked_in(run)
    assert masked["clamp*1:0"] == "clipping"
    compared = {site for site, why in masked.items() if why == "comparison"}
    assert compared & {"le*1:0", "lt*1:0"}  # torch 2.13 asks whether it is inside, 2.14 outside


def test_multiplication_by_zero_is_told_from_rounding() -> None:
    """A zero factor keeps the sign of 2 h; one ULP is rounded away beside 1e8."""
    zero = torch.tensor([0.0, 1.0, 1.0])
    run = struck(
        Net(linear(), lambda h: h * zero), X, "addmm*1:0", "scale", factor=2, elements={"index": 0}
    )
    assert masked_in(run)["mul*1:0"] == "multiplication by zero"
    run = struck(
        Net(linear(), lambda h: h + 1e8), X, "addmm*1:0", "bitflip", bit=0, elements={"index": 0}
    )
    assert masked_in(run)["add*1:0"] == "cancelling or rounding"


def test_a_zero_weight_masks_in_a_matrix_product() -> None:
    """Column 0 of the second Linear is zero, so element 0 of its input reaches nothing."""
    second = nn.Linear(3, 2).requires_grad_(False)
    with torch.no_grad():
        second.weight[:, 0] = 0
    net = Net(linear(), second)
    run = struck(net, X, "addmm*1:0", "add", value=1.0, elements={"index": [0, 0]})
    assert masked_in(run)["addmm*2:0"] == "multiplication by zero"


def test_what_is_not_read_died_by_selection() -> None:
    """Row 1 is struck, row 0 is read."""
    net = Net(linear(), lambda h: h[0])
    run = struck(net, X, "addmm*1:0", "add", value=1.0, elements={"row": 1})
    assert masked_in(run) == {"select*1:0": "selection"}


def test_squares_drop_signs() -> None:
    """A sign flip before ``abs`` changes nothing after it, but its gradient's sign does."""
    net = Net(linear(), torch.abs)
    run = struck(net, X, "addmm*1:0", "bitflip", bit=31, elements={"index": 0})
    assert masked_in(run)["abs*1:0"] == "sign dropped"


def test_factories_and_calls_that_read_shapes_are_never_masked() -> None:
    """``zeros_like``, ``empty_like`` and ``bernoulli_`` make new values of a struck shape."""

    def rest(h: Tensor) -> Tensor:
        noise = torch.empty_like(h).bernoulli_(0.5)
        return h + torch.zeros_like(h) + torch.ones_like(h) + noise

    run = struck(Net(linear(), rest), X, "addmm*1:0", "add", value=1.0)
    assert masked_in(run) == {}
    effects = {
        str(run.comparison.site(row)): run.comparison.effect(row)
        for row in range(len(run.comparison))
    }
    for op in ("zeros_like", "ones_like", "empty_like", "bernoulli_"):
        assert effects[f"{op}*1:0"] == "equal", op


def test_growth_is_named_with_its_factor() -> None:
    """A relative error of an element e^x grows x-fold: (exp(2 h) - exp(h)) / exp(h)."""
    net = Net(linear(), lambda h: torch.exp(h * 6))
    run = struck(net, X, "addmm*1:0", "scale", factor=1.01)
    compared = run.comparison
    row = next(n for n in range(len(compared)) if str(compared.site(n)) == "exp*1:0")
    into = compared.columns["relative_l2"][row - 1]
    factor = compared.columns["relative_l2"][row] / into
    assert compared.columns["growth"][row] == pytest.approx(factor)
    assert compared.effect(row) == "amplified"
    assert "the error grew most in" in run.outcome.reason
