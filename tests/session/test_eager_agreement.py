"""A replay against a separate eager computation with plain hooks and tensors."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import fi_notebook as fi


class Digits(nn.Module):
    """A convolution, pooling and two Linears, as in the quickstart."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.hidden, self.out = nn.Linear(4 * 4 * 4, 16), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        h = functional.max_pool2d(torch.relu(self.conv(x)), 2)
        return self.out(torch.relu(self.hidden(h.flatten(1))))


ELEMENT = (2, 5)
"""Row and column of the struck element of the hidden layer's output."""


def flip_bit_30(output: Tensor) -> Tensor:
    """One bit of one element, by an integer view of a copy; the gradient passes as it is."""
    with torch.no_grad():
        struck = output.clone()
        struck.view(torch.int32)[ELEMENT] ^= 1 << 30
        return struck


class Struck(torch.autograd.Function):
    """The flip in forward; in backward the gradient of what was computed before it."""

    @staticmethod
    def forward(ctx: object, output: Tensor) -> Tensor:
        return flip_bit_30(output)

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return gradient


def eager_step(
    model: Digits, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor, *, strike: bool
) -> tuple[dict[str, Tensor], Tensor, dict[str, Tensor]]:
    """One step in plain PyTorch: outputs of the modules, loss, gradients."""
    seen: dict[str, Tensor] = {}

    def keep(name: str, output: Tensor) -> Tensor:
        struck = Struck.apply(output) if strike and name == "hidden" else output
        seen[name] = struck.detach().clone()
        return struck

    hooks = [
        module.register_forward_hook(lambda _m, _i, out, name=name: keep(name, out))
        for name, module in model.named_children()
    ]
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(x), y)
    loss.backward()
    for hook in hooks:
        hook.remove()
    gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    optimizer.step()
    return seen, loss.detach(), gradients


def far(golden: Tensor, faulty: Tensor) -> float:
    """‖faulty - golden‖₂ / ‖golden‖₂ in float64."""
    return float((faulty.double() - golden.double()).norm() / golden.double().norm())


def test_a_replay_agrees_with_plain_pytorch() -> None:
    """Outputs, loss, gradients and weights: changed elements exactly, distances to 12 digits."""
    torch.manual_seed(8)
    model, x, y = Digits(), torch.randn(6, 1, 8, 8), torch.randint(10, (6,))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    runs = []
    for strike in (False, True):
        twin = copy.deepcopy(model)
        adam = torch.optim.AdamW(twin.parameters(), lr=1e-2)
        runs.append((*eager_step(twin, adam, x, y, strike=strike), dict(twin.named_parameters())))

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    session = fi.Session(step, model=model, optimizer=optimizer)
    session.trace()
    session.arm("addmm*1:0", "bitflip", bit=30, elements={"index": list(ELEMENT)})
    run = session.replay()
    compared = run.comparison
    golden, faulty = runs
    for name, site in (("conv", "convolution*1:0"), ("hidden", "addmm*1:0"), ("out", "addmm*2:0")):
        row = compared.golden.row(site)
        a, b = golden[0][name], faulty[0][name]
        assert compared.columns["changed"][row] == int((a != b).sum())
        assert compared.columns["relative_l2"][row] == pytest.approx(far(a, b), rel=1e-12)
        assert compared.columns["max_abs"][row] == float((b.double() - a.double()).abs().max())
    assert compared.loss.golden == float(golden[1])
    assert compared.loss.faulty == float(faulty[1])
    for kind, at in ((compared.gradients, 2), (compared.parameters, 3)):
        for found in kind:
            a, b = golden[at][found.name], faulty[at][found.name]  # type: ignore[index]  # by name
            assert found.equal == torch.equal(a, b)
            assert found.changed == int((a != b).sum())
            assert found.relative_l2 == pytest.approx(far(a.detach(), b.detach()), rel=1e-12)
