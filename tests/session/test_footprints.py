"""Where a corrupted element goes: which elements differ, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import fi_notebook as fi
from fi_notebook.core.run import Run
from tests import models


class Product(nn.Module):
    """y = x W with W stored in × out."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            self.weight = nn.Parameter(torch.randn(5, 4))

    def forward(self, x: Tensor) -> Tensor:
        return (x * 1.0) @ (self.weight * 1.0)


class Wrapped(nn.Module):
    """A function of a scaled parameter of 4 × 6, to be struck at ``mul*1:0``."""

    def __init__(self, function: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> None:
        super().__init__()
        self.function = function
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(2)
            self.weight = nn.Parameter(torch.randn(shape))

    def forward(self) -> Tensor:
        return self.function(self.weight * 1.0)


def session_of(model: nn.Module, *inputs: Tensor, keep: tuple[str, ...] = ()) -> fi.Session:
    """One SGD step on the weighted sum of the outputs, so that every gradient is its own."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    def step() -> Tensor:
        optimizer.zero_grad()
        out = model(*inputs)
        weights = torch.arange(1.0, out.numel() + 1).reshape(out.shape) / out.numel()
        loss = (out * weights).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return fi.Session(step, model=model, optimizer=optimizer, keep=keep)


def changed(run: Run, site: str) -> tuple[int, int]:
    """How many elements of a site differ, and how many there are."""
    compared = run.comparison
    row = next(n for n in range(len(compared)) if str(compared.site(n)) == site)
    return int(compared.columns["changed"][row]), int(compared.columns["numel"][row])


def rows_that_differ(run: Run) -> dict[str, int]:
    """Changed elements of every site that differs, folded calls left out."""
    compared = run.comparison
    return {
        str(compared.site(int(row))): int(compared.columns["changed"][row])
        for row in compared.diverged
        if compared.site(int(row)).op not in ("detach", "alias")
    }


X = torch.tensor(
    [[1.0, 2.0, -1.0, 0.5, 3.0], [0.5, -2.0, 1.0, 4.0, -1.5], [2.0, 1.0, 1.5, -3.0, 1]]
)


def product(site: str, element: list[int]) -> Run:
    """Add 1 to one element of a site of y = x W, x of 3 × 5 and W of 5 × 4."""
    session = session_of(Product(), X)
    session.trace()
    session.arm(site, "add", value=1.0, elements={"index": element})
    return session.replay()


def test_one_element_of_x_changes_its_row_of_y() -> None:
    """x[1, 2]: row 1 of y, 4 elements; dW = xᵀ dY differs in row 2, 4 elements."""
    run = product("mul*1:0", [1, 2])
    assert changed(run, "mm*1:0") == (4, 12)
    assert {d.name: d.changed for d in run.comparison.gradients} == {"weight": 4}
    assert {d.name: d.changed for d in run.comparison.parameters} == {"weight": 4}


def test_one_element_of_w_changes_its_column_of_y() -> None:
    """W[3, 1]: column 1 of y, 3 elements; dW does not read W and stays bit-equal."""
    run = product("mul*2:0", [3, 1])
    assert changed(run, "mm*1:0") == (3, 12)
    assert all(d.equal for d in run.comparison.gradients)


def test_one_element_of_y_changes_itself_alone() -> None:
    """y[2, 3] alone; the loss is linear in y, so that no gradient differs."""
    run = product("mm*1:0", [2, 3])
    assert changed(run, "mm*1:0") == (1, 12)
    assert all(d.equal for d in run.comparison.gradients)
    assert not run.comparison.loss.equal


def test_one_element_of_dy_changes_a_row_of_dx_and_a_column_of_dw() -> None:
    """dY[1, 2]: column 2 of dW, 5 elements; row 1 of dX, 5 elements of 15."""
    model = Product()
    model.x = nn.Parameter(X.clone())
    session = session_of(model, model.x)
    trace = session.trace()
    upstream = next(s for s in trace.find("mul", phase="backward") if s.shape == (3, 4))
    session.arm(upstream, "add", value=1.0, elements={"index": [1, 2]})
    run = session.replay()
    products = {s.shape: str(s) for s in trace.find("mm", phase="backward")}
    assert changed(run, products[5, 4]) == (5, 20)
    assert changed(run, products[3, 5]) == (5, 15)
    assert run.comparison.loss.equal


@pytest.mark.parametrize(
    ("function", "site", "shape"),
    [
        (lambda h: functional.softmax(h, 1), "_softmax*1:0", (4, 6)),
        (lambda h: functional.layer_norm(h, (6,)), "native_layer_norm*1:0", (4, 6)),
    ],
    ids=["softmax", "LayerNorm"],
)
def test_normalising_spreads_along_its_axis_only(
    function: Callable[[Tensor], Tensor], site: str, shape: tuple[int, int]
) -> None:
    """One element of row 2: the 6 elements of that row, in forward and in the gradient."""
    session = session_of(Wrapped(function, shape))
    session.trace()
    session.arm("mul*1:0", "add", value=1.0, elements={"index": [2, 4]})
    run = session.replay()
    assert changed(run, site) == (6, 24)
    assert {d.name: d.changed for d in run.comparison.gradients} == {"weight": 6}


def test_a_cast_masks_below_and_passes_from_its_last_bit_on() -> None:
    """1 + 2^-10 is 1 in bfloat16; 1 + 2^-7 is the next bfloat16."""
    for exponent, expected in ((-10, 0), (-7, 1)):
        model = Wrapped(lambda h: h.to(torch.bfloat16).float(), (4,))
        with torch.no_grad():
            model.weight.fill_(1.0)
        session = session_of(model)
        session.trace()
        session.arm("mul*1:0", "scale", factor=1 + 2.0**exponent, elements={"index": 0})
        run = session.replay()
        assert changed(run, "_to_copy*1:0") == (expected, 4)
        assert run.outcome.name == ("masked_exact" if not expected else "changed")


def cast_share(values: Tensor, exponent: int, scale: float = 1.0) -> float:
    """The share of a bfloat16 cast that differs where every value grew by scale × 2^exponent."""
    model = Wrapped(lambda h: h.to(torch.bfloat16).float(), tuple(values.shape))
    with torch.no_grad():
        model.weight.copy_(values)
    session = session_of(model)
    session.trace()
    session.arm("mul*1:0", "scale", factor=1 + scale * 2.0**exponent)
    differing, total = changed(session.replay(), "_to_copy*1:0")
    return differing / total


def test_a_cast_of_what_it_holds_exactly_masks_below_an_ulps_half() -> None:
    """Every bfloat16 from 1 to 2, of spacing 2^-7: below 2^-9 a change of m · 2^-9 < 2^-8 is
    under half of that; at 2^-8 it is not, but for 1 itself, whose tie goes to the even number.
    """
    exact = 1 + torch.arange(128) / 128
    assert cast_share(exact, -9, scale=0.999) == 0.0
    assert cast_share(exact, -8) == 127 / 128


@pytest.mark.parametrize(("exponent", "share"), [(-12, 0.045), (-9, 0.36), (-8, 0.72)])
def test_a_cast_of_any_values_passes_a_share(exponent: int, share: float) -> None:
    """A change of m · 2^e crosses one of the roundings, 2^-7 apart, with m · 2^(e + 7); N(0, 1)
    has a mean mantissa of about 1 / ln 2 = 1.44, so 4.5 %, 36 % and 72 %.
    """
    values = torch.randn(20_000, generator=torch.Generator().manual_seed(3))
    assert cast_share(values, exponent) == pytest.approx(share, abs=0.011)


@pytest.mark.parametrize("after", ["backward", "optimizer", "gradient"])
def test_a_fault_after_the_loss_leaves_the_loss_bit_equal(after: str) -> None:
    """In backward, in the optimizer, or in a stored gradient; the next step's loss differs."""
    case = models.mlp()
    session = fi.Session(case.step, model=case.model, optimizer=case.optimizer)
    trace = session.trace()
    if after == "gradient":
        session.arm("grad:0.weight", "scale", factor=3.0)
    else:
        site = next(s for s in trace.sites if s.phase == after and s.shape and s.op != "detach")
        session.arm(site, "scale", factor=3.0)
    run = session.replay(steps=2)
    assert run.comparison.loss.equal
    assert run.golden[0].loss == run.faulty[0].loss
    assert run.golden[1].loss != run.faulty[1].loss
    assert "this step's loss is bit-equal" in session.replay().outcome.reason


class Normed(nn.Module):
    """BatchNorm or LayerNorm over a scaled input."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x * 1.0)


def normed(norm: nn.Module, value: float, width: int = 3) -> tuple[Run, fi.Session]:
    """Set element (1, 2) before a normalisation of 4 × width."""
    torch.manual_seed(5)
    session = session_of(Normed(norm), torch.randn(4, width))
    session.trace()
    session.arm("mul*1:0", "set", value=value, elements={"index": [1, 2]})
    return session.replay(), session


def columns(run: Run, site: str) -> dict[str, Any]:
    """The measures of a site."""
    compared = run.comparison
    row = next(n for n in range(len(compared)) if str(compared.site(n)) == site)
    return {name: compared.columns[name][row].item() for name in compared.columns}


def test_an_infinity_makes_the_batchnorm_channel_nan() -> None:
    """4 elements of channel 2."""
    run, _ = normed(nn.BatchNorm1d(3), math.inf)
    assert columns(run, "native_batch_norm*1:0")["new_nan"] == 4
    assert run.outcome.name == "nan_immediate"


def test_an_infinity_makes_the_layernorm_row_nan() -> None:
    """3 elements of row 1."""
    run, _ = normed(nn.LayerNorm(3), math.inf)
    assert columns(run, "native_layer_norm*1:0")["new_nan"] == 3


def test_an_infinity_makes_the_softmax_row_nan() -> None:
    """Inf - Inf in row 2: its 6 elements and those alone, and of the gradient too."""
    session = session_of(Wrapped(lambda h: functional.softmax(h, 1), (4, 6)))
    session.trace()
    session.arm("mul*1:0", "set", value=math.inf, elements={"index": [2, 4]})
    run = session.replay()
    found = columns(run, "_softmax*1:0")
    assert (found["new_nan"], found["changed"]) == (6, 6)
    assert {d.name: d.new_nan for d in run.comparison.gradients} == {"weight": 6}
    assert run.outcome.name == "nan_immediate"


def test_a_finite_giant_breaks_running_var_and_nothing_that_is_seen() -> None:
    """1e24 squared is beyond float32: the output stays finite, running_var is Inf for good."""
    run, _ = normed(nn.BatchNorm1d(3), 1e24)
    found = columns(run, "native_batch_norm*1:0")
    assert (found["new_nan"], found["new_inf"]) == (0, 0)
    buffers = {d.name: d for d in run.comparison.buffers}
    assert buffers["norm.running_var"].new_inf == 1
    assert any("running_var" in note and "evaluation" in note for note in run.comparison.notes)


def test_a_finite_giant_zeroes_the_layernorm_row() -> None:
    """1e24: variance Inf, 1/√Inf = 0: row 1 is 0, and so is its statistics' minimum."""
    run, session = normed(nn.LayerNorm(8), 1e24, width=8)
    found = columns(run, "native_layer_norm*1:0")
    assert (found["changed"], found["new_nan"], found["new_inf"]) == (8, 0, 0)
    assert session.golden is not None
    golden = session.golden.value(session.golden.sites[session.golden.row("native_layer_norm*1:0")])
    row = float(golden[1].norm())
    whole = float(golden.norm())
    assert found["relative_l2"] == pytest.approx(row / whole, rel=1e-6)  # row 1 went to 0


def test_cross_entropy_of_one_giant_logit_is_finite() -> None:
    """Mean of 4 with one loss of 1e24: 2.5e23."""
    model = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    x, y = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    session = fi.Session(step, model=model, optimizer=optimizer)
    session.trace()
    session.arm("addmm*1:0", "set", value=1e24, elements={"index": [1, 2]})  # its target is 1
    run = session.replay()
    assert run.comparison.loss.faulty == pytest.approx(2.5e23, rel=1e-6)


def test_sgd_moves_by_minus_lr_times_the_gradient() -> None:
    """Gradient plus 0.5 at lr 0.1: one weight moves by a further -0.05."""
    case = models.mlp()
    session = fi.Session(case.step, model=case.model, optimizer=case.optimizer)
    session.trace()
    session.arm("grad:0.weight", "add", value=0.5, elements={"index": [0, 0]})
    run = session.replay()
    moved = {d.name: d for d in run.comparison.parameters if not d.equal}
    assert list(moved) == ["0.weight"]
    assert moved["0.weight"].changed == 1
    assert moved["0.weight"].max_abs == pytest.approx(0.1 * 0.5, rel=1e-6)


@pytest.mark.parametrize(
    ("betas", "at", "expected"),
    [
        ((0.9, 0.999), 1, "6.0055"),  # bias correction at the step of the fault
        ((0.9, 0.95), 1, "6.8045"),
        ((0.9, 0.999), 100, "10.20"),
        ((0.9, 0.999), 2000, "29.56"),
        ((0.9, 0.999), 10**6, "31.77"),  # (1-β1)/√(1-β2)/(1-β1/√β2), long after warm-up
        ((0.9, 0.95), 10**6, "5.837"),
    ],
)
def test_adam_moves_by_a_fixed_number_of_learning_rates(
    betas: tuple[float, float], at: int, expected: str
) -> None:
    """One huge gradient at a step moves its weight by so many lr in all, whatever its size."""
    model = Wrapped(lambda h: h * 0, (2,)).double()
    lr = 1e-3
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, betas=betas, eps=1e-30)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = model().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step()  # the gradient is 0: both moments stay 0, and nothing moves
    optimizer.state[model.weight]["step"].fill_(at - 1)
    session = fi.Session(step, model=model, optimizer=optimizer)
    session.trace()
    session.arm("grad:weight", "set", value=1e12, elements={"index": 0})
    run = session.replay(steps=220)  # 0.9^220 is 9e-11: what is left moves nothing
    (moved,) = run.comparison.parameters
    assert moved.changed == 1
    digits = len(expected.replace(".", ""))
    assert f"{moved.max_abs / lr:#.{digits}g}" == expected
