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


def mean_square(output: Tensor) -> Tensor:
    """A loss whose gradient knows the output."""
    return output.square().mean()


def struck(
    net: nn.Module,
    x: Tensor,
    site: str,
    model: str,
    loss_of: Callable[[Tensor], Tensor] = mean_square,
    **fault: Any,
) -> Run:
    """Replay one SGD step with one fault."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(net(x))
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


@pytest.mark.parametrize("fill", [-1e9, float("-inf")])
def test_a_mask_covers_whatever_it_fills_in(fill: float) -> None:
    """That it fills in an infinity is not why the error ended there."""
    mask = torch.tensor([True, False, False])
    net = Net(linear(), lambda h: torch.softmax(h.masked_fill(mask, fill), 1))
    run = struck(net, X, "addmm*1:0", "scale", factor=3.0, elements={"index": [0, 0]})
    assert masked_in(run) == {"masked_fill*1:0": "mask"}


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


@pytest.mark.parametrize(
    "even", [lambda h: h.pow(2), torch.cos, lambda h: h * h, lambda h: h.square()]
)
def test_even_functions_drop_signs(even: Callable[[Tensor], Tensor]) -> None:
    """f(-h) = f(h): nothing was rounded."""
    run = struck(Net(linear(), even), X, "addmm*1:0", "negate", elements={"index": 0})
    assert next(iter(masked_in(run).values())) == "sign dropped"


def test_a_gradient_that_is_squared_loses_its_sign() -> None:
    """Adam's second moment of -g is that of g."""
    net = linear()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        net(X).square().mean().backward()
        optimizer.step()

    session = fi.Session(step, model=net, optimizer=optimizer)
    session.trace()
    session.arm("mm*1:0", "negate", elements={"index": 0})
    assert masked_in(session.replay())["addcmul_*1:0"] in {"sign dropped", "unknown"}


def test_a_flipped_comparison_is_not_called_the_same() -> None:
    """0 becomes 4e-34, so the ReLU is on; but pooling chose another, and its gradient is 0."""
    net = Net(nn.Conv2d(1, 1, 3), lambda h: functional.max_pool2d(torch.relu(h), 2))
    torch.manual_seed(1)
    x = torch.randn(1, 1, 6, 6)
    out = torch.relu(net.first(x))[0, 0]
    place = next(
        (r, c)
        for r in range(4)
        for c in range(4)
        if out[r, c] == 0
        and out[r // 2 * 2 : r // 2 * 2 + 2, c // 2 * 2 : c // 2 * 2 + 2].max() > 0
    )
    run = struck(net, x, "relu*1:0", "set", value=4e-34, elements={"index": [0, 0, *place]})
    masked = masked_in(run)
    assert masked["max_pool2d_with_indices*1:0"] == "pooling"
    assert masked["threshold_backward*1:0"] == "multiplication by zero"


def test_an_element_in_no_window_is_not_read() -> None:
    """5 x 5 pooled by 2 leaves the last row and column out, however large they are."""
    net = Net(nn.Conv2d(1, 1, 3), lambda h: functional.max_pool2d(h, 2))
    run = struck(
        net,
        torch.randn(1, 1, 7, 7),
        "convolution*1:0",
        "set",
        value=1e6,
        elements={"index": [0, 0, 4, 4]},
    )
    assert masked_in(run)["max_pool2d_with_indices*1:0"] == "selection"


def test_a_zero_that_is_divided_stays_zero() -> None:
    """0 / b is 0 for every b."""
    net = Net(linear(), lambda h: torch.relu(h - 100) / (X.abs().sum(1, keepdim=True) + 1))
    run = struck(net, X, "add*1:0", "scale", factor=8.0)
    assert masked_in(run)["div*1:0"] == "multiplication by zero"


def test_a_value_in_range_is_not_clipped_in_the_backward() -> None:
    """relu6 of 1.2 and of 1.7 has the slope 1."""
    net = Net(linear(), lambda h: functional.relu6(h * 0.01 + 2))
    run = struck(net, X, "add*1:0", "add", torch.sum, value=0.5, elements={"index": 0})
    assert masked_in(run)["hardtanh_backward*1:0"] == "comparison"


def test_no_gradient_is_not_saturation() -> None:
    """tanh is not saturated at -0.8: what comes in at column 0 is 0."""
    mask = torch.tensor([0.0, 1.0, 1.0])
    net = Net(linear(), lambda h: torch.tanh(h) * mask)
    run = struck(net, X, "tanh*1:0", "add", torch.sum, value=0.5, elements={"index": [0, 0]})
    assert masked_in(run)["tanh_backward*1:0"] == "multiplication by zero"


def test_another_condition_is_no_mask() -> None:
    """Both branches are 1, whichever the condition takes."""
    net = Net(linear(), lambda h: torch.where(h > 0, h * 0 + 1, h * 0 + 1))
    run = struck(net, X, "gt*1:0", "bitflip", bit=0, elements={"index": 0})
    assert masked_in(run)["where*1:0"] == "unknown"


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
