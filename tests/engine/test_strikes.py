"""What a strike does downstream: hand-computed rows and columns, updates, unsafe views."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from fi_notebook import Session
from fi_notebook.core.run import Run
from fi_notebook.errors import FaultError
from tests.tools.traced import same_bits


class Product(nn.Module):
    """y = x W with W stored in × out, and h = y + 0 so that y is read once."""

    def __init__(self) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.randn(5, 3))

    def forward(self, x: Tensor) -> Tensor:
        return (x * 1.0) @ (self.W * 1.0)


class Linear:
    """A step of y = x W with loss = sum(y * C), so that dY = C, dX = C Wᵀ, dW = xᵀ C."""

    def __init__(self) -> None:
        self.model = Product()
        self.x = torch.randn(4, 5, requires_grad=True)
        self.C = torch.randn(4, 3)
        self.seen: list[dict[str, Tensor]] = []
        self.session = Session(self.step, model=self.model, state=[self.x])

    def step(self) -> Tensor:
        y = self.model(self.x)
        loss = (y * self.C).sum()
        loss.backward()
        given = {"y": y, "dX": self.x.grad, "dW": self.model.W.grad}
        with torch.utils._python_dispatch._disable_current_modes():
            self.seen.append({k: v.detach().clone() for k, v in given.items() if v is not None})
        return loss

    def strike(self, site: str, model: str, **how: Any) -> dict[str, np.ndarray]:
        """Which elements of y, dX and dW changed."""
        self.session.trace()
        before = self.seen[-1]
        self.session.arm(site, model, **how)
        self.session.replay()
        after = self.seen[-1]
        return {name: (before[name] != after[name]).numpy() for name in before}


def _only(shape: tuple[int, int], row: int | None = None, column: int | None = None) -> np.ndarray:
    mask = np.zeros(shape, dtype=bool)
    mask[slice(None) if row is None else row, slice(None) if column is None else column] = True
    return mask


def test_one_element_of_x_changes_its_row_of_y() -> None:
    """x[2, 3] is read by y's row 2, by dW's row 3 (dW = xᵀ C), and not by dX = C Wᵀ."""
    changed = Linear().strike("mul*1:0", "add", value=8.0, elements={"index": [2, 3]})
    assert np.array_equal(changed["y"], _only((4, 3), row=2))
    assert np.array_equal(changed["dW"], _only((5, 3), row=3))
    assert not changed["dX"].any()


def test_one_element_of_W_changes_its_column_of_y() -> None:
    """W[3, 1] is read by y's column 1 and by dX's column 3 (dX = C Wᵀ), not by dW."""
    changed = Linear().strike("mul*2:0", "add", value=8.0, elements={"index": [3, 1]})
    assert np.array_equal(changed["y"], _only((4, 3), column=1))
    assert np.array_equal(changed["dX"], _only((4, 5), column=3))
    assert not changed["dW"].any()


def test_one_element_of_y_changes_itself_alone() -> None:
    """y[1, 2] is linear in the loss: no gradient changes."""
    changed = Linear().strike("mm*1:0", "add", value=8.0, elements={"index": [1, 2]})
    assert np.array_equal(changed["y"], _only((4, 3), row=1, column=2))
    assert not changed["dX"].any()
    assert not changed["dW"].any()


def test_one_element_of_dY_changes_a_row_of_dX_and_a_column_of_dW() -> None:
    """dY[1, 2] (the backward of y * C): row 1 of dX = dY Wᵀ, column 2 of dW = xᵀ dY."""
    site = "mul*4:0"  # x * 1, W * 1, y * C, then its backward
    changed = Linear().strike(site, "add", value=8.0, elements={"index": [1, 2]})
    assert not changed["y"].any()
    assert np.array_equal(changed["dX"], _only((4, 5), row=1))
    assert np.array_equal(changed["dW"], _only((5, 3), column=2))


def _update(
    make: Any, site: str, model: str, trained: int = 0, **how: Any
) -> tuple[Tensor, Tensor, Run]:
    """The weight after one step, golden and with a strike on a gradient of 1."""
    module = nn.Linear(2, 1, bias=False)
    optimizer = make(module.parameters())
    x = torch.ones(1, 2)
    after: list[Tensor] = []

    def step() -> Tensor:
        loss = module(x).sum()  # the gradient is (1, 1)
        loss.backward()
        optimizer.step()
        with torch.utils._python_dispatch._disable_current_modes():
            after.append(module.weight.detach().clone())
        optimizer.zero_grad()
        return loss

    for _ in range(trained):
        step()
    session = Session(step, model=module, optimizer=optimizer)
    session.trace()
    session.arm(site, model, **how)
    run = session.replay()
    return after[-3], after[-1], run


def test_sgd_moves_by_exactly_lr_times_the_gradient() -> None:
    """A gradient of 1 + 2^20 instead of 1: the weight moves by -0.5 · 2^20 more, exactly."""
    golden, faulty, run = _update(
        lambda p: optim.SGD(p, lr=0.5),
        "grad:weight",
        "add",
        value=2.0**20,
        elements={"index": [0, 1]},
    )
    assert faulty[0, 0] == golden[0, 0]
    assert faulty[0, 1] - golden[0, 1] == pytest.approx(-0.5 * 2**20, rel=1e-6)
    assert run.comparison.loss.equal  # a fault after the loss leaves this step's loss
    assert [d.changed for d in run.comparison.parameters] == [1]


@pytest.mark.parametrize(
    ("betas", "expected"), [((0.9, 0.999), 6.0055), ((0.9, 0.95), 6.8045)], ids=str
)
def test_adam_moves_by_a_bounded_step_at_the_first(
    betas: tuple[float, float], expected: float
) -> None:
    """One huge gradient in step 1, then none: lr · 6.0055 or 6.8045 in all (bias corrected)."""
    lr, huge = 0.01, 2.0**20
    module = nn.Linear(2, 1, bias=False)
    optimizer = optim.Adam(module.parameters(), lr=lr, betas=betas, eps=1e-30)
    x = torch.zeros(1, 2)  # gradients are zero but for the strike
    session = Session(lambda: _zero_step(module, optimizer, x), model=module, optimizer=optimizer)
    session.trace()
    session.arm("grad:weight", "set", value=huge, elements={"index": [0, 0]})
    run = session.replay(steps=100)  # 0.9^100 = 3e-5 of the momentum is left
    moved = run.comparison.parameters[0].max_abs
    assert moved == pytest.approx(expected * lr, rel=2e-3)


def _zero_step(module: nn.Module, optimizer: optim.Optimizer, x: Tensor) -> Tensor:
    loss = module(x).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


def test_a_fault_in_an_optimizer_call_changes_its_parameter_alone() -> None:
    """SGD's ``add_`` struck: that weight's element, no other parameter, this loss the same."""
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(5, 3), torch.randn(5, 2)

    def step() -> Tensor:
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    session = Session(step, model=model, optimizer=optimizer)
    site = session.trace().find("add_", parameter="2.weight")[0]
    session.arm(site, "bitflip", bit=31, elements={"index": [1, 3]})
    run = session.replay()
    (injection,) = run.injections
    assert injection.kind == "in place"
    assert injection.elements[0].after == -injection.elements[0].before
    changed = {d.name: d.changed for d in run.comparison.parameters}
    assert changed == {"0.weight": 0, "0.bias": 0, "2.weight": 1, "2.bias": 0}
    difference = next(d for d in run.comparison.parameters if d.name == "2.weight")
    assert difference.max_abs == 2 * abs(injection.elements[0].before)
    assert run.comparison.loss.equal
    assert [str(run.comparison.site(r)) for r in run.comparison.diverged] == [str(site)]


class Written(nn.Module):
    """A slice that is written after it was taken: a struck copy of it would be lost."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        part = h[:, :2]
        part.mul_(3)
        return h


def _written_session() -> tuple[Session, list[Tensor]]:
    model, x, seen = Written(), torch.randn(2, 3), []

    def step() -> Tensor:
        h = model(x)
        with torch.utils._python_dispatch._disable_current_modes():
            seen.append(h.detach().clone())
        loss = h.sum()
        loss.backward()
        model.zero_grad()
        return loss

    session = Session(step, model=model)
    session.trace()
    return session, seen


def test_a_view_that_is_written_later_is_refused_by_value() -> None:
    """``h[:, :2]`` and then ``mul_``: value scope is refused when armed, storage offered."""
    session, _ = _written_session()
    site = session.golden.find("slice", phase="forward")[-1]  # type: ignore[union-attr]
    with pytest.raises(FaultError, match="scope='storage'"):
        session.arm(site, "zero")


def test_the_same_view_struck_in_its_memory_keeps_the_later_write() -> None:
    """Storage scope: element [0, 1] is set to 2 before ``mul_(3)``, so h[0, 1] is 6."""
    session, seen = _written_session()
    site = session.golden.find("slice", phase="forward")[-1]  # type: ignore[union-attr]
    session.arm(site, "set", value=2.0, elements={"index": [0, 1]}, scope="storage")
    session.replay()
    expected = seen[0].clone()
    expected[0, 1] = 6.0
    assert same_bits(seen[-1], expected)


def test_relu_masks_a_change_that_stays_negative() -> None:
    """Doubling a negative input of ReLU: masked from the ReLU on, bit-equal to the end."""
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU())
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, -1.0]]))  # type: ignore[operator]
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(1, 2)

    def step() -> Tensor:
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    session = Session(step, model=model, optimizer=optimizer)
    session.trace()
    session.arm("mm*1:0", "scale", factor=2.0, elements={"index": [0, 1]})
    run = session.replay()
    assert run.injections[0].elements[0].before == -1.0
    assert run.injections[0].elements[0].after == -2.0
    assert run.outcome.name == "masked_exact"
    assert len(run.comparison.diverged) == 1


def test_a_finite_1e24_breaks_running_var_but_not_batch_norms_output() -> None:
    """Oracle: output finite, running_var inf for good; a true Inf makes the channel NaN."""
    model = nn.Sequential(nn.Conv1d(1, 2, 1), nn.BatchNorm1d(2))
    x, seen = torch.randn(4, 1, 3), []

    def step() -> Tensor:
        out = model(x)
        with torch.utils._python_dispatch._disable_current_modes():
            seen.append((out.detach().clone(), model[1].running_var.clone()))  # type: ignore[operator]
        loss = out.sum()
        loss.backward()
        model.zero_grad()
        return loss

    session = Session(step, model=model)
    session.trace()
    fault = session.arm("convolution*1:0", "set", value=1e24, elements={"index": [0, 1, 0]})
    session.replay()
    out, variance = seen[-1]
    assert torch.isfinite(out).all()
    assert variance[0].isfinite().item()
    assert math.isinf(variance[1].item())
    assert torch.isfinite(model[1].running_var).all()  # type: ignore[arg-type]  # put back
    session.disarm(fault)
    session.arm("convolution*1:0", "inf", elements={"index": [0, 1, 0]})
    session.replay()
    assert seen[-1][0].isnan().all(dim=(0, 2)).tolist() == [False, True]


def test_a_struck_recompute_changes_the_gradient_and_raises_nothing() -> None:
    """Oracle: corrupting the recompute of a checkpointed block is silent."""
    from tests import models

    case = models.checkpointed()
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    site = session.trace().find("tanh", phase="recompute")[0]
    session.arm(site, "scale", factor=2.0)
    run = session.replay()
    assert run.error == ""
    assert run.comparison.loss.equal
    changed = {d.name for d in run.comparison.gradients if not d.equal}
    assert "block.0.weight" in changed
    assert "block.3.bias" not in changed


class Expanded(nn.Module):
    """A mean, whose gradient is expanded, of a weight and of a buffer that is expanded too."""

    b: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.ones(3))
        self.register_buffer("b", torch.ones(1).expand(3))

    def forward(self) -> Tensor:
        return (self.W * self.b).mean()


@pytest.mark.parametrize("target", ["expand", "buffer:b"])
def test_memory_that_elements_share_is_not_struck_and_training_goes_on(target: str) -> None:
    """One write would change all three; the outcome says why, and no error comes of it."""
    net = Expanded()
    session = Session(lambda: net().backward(), model=net)
    session.trace()
    session.arm(target, "scale", factor=3.0, scope="storage", steps="0-")
    run = session.replay()
    assert run.outcome.name == "not_injected"
    assert "scale cannot strike the memory of this tensor: its elements share it (strides (0,)" in (
        run.outcome.reason
    )


def test_memory_that_an_expanded_tensor_shares_is_refused_when_armed() -> None:
    """The golden run tells: its input has one element, its output three."""
    net = Expanded()
    session = Session(lambda: net().backward(), model=net)
    session.trace()
    with pytest.raises(FaultError, match=r"expand\*1:0 gives each element .* scope='value'"):
        session.arm("expand*1:0", "scale", factor=3.0, scope="storage")
    session.arm("expand*1:0", "scale", factor=3.0)
    assert session.replay().injections[0].changed == 3
