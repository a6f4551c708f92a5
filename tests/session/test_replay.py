"""The numbers of a replay, against a plain eager computation of the same faulty step."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from fi_notebook import Session
from fi_notebook.core.fault import FaultPlan
from fi_notebook.core.run import Run
from fi_notebook.session.replay import _focus
from tests import models, models_graph
from tests.tools import traced


class Eager:
    """Two Linears and a ReLU by hand, with the hidden activation struck or not."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3))
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.1)
        self.x, self.y = torch.randn(4, 5), torch.randn(4, 3)

    def step(self) -> Tensor:
        """The step that the session sees."""
        loss = functional.mse_loss(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def by_hand(self, *, struck: bool) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        """Loss, gradients and updated parameters; ``struck`` doubles h[1, 2] before the ReLU."""
        names = [name for name, _ in self.model.named_parameters()]
        w1, b1, w2, b2 = (p.detach().clone().requires_grad_() for p in self.model.parameters())
        h = torch.addmm(b1, self.x, w1.t())
        if struck:
            factor = torch.ones_like(h)
            factor[1, 2] = 2.0
            h = h + (h * factor - h).detach()  # the value changes, the gradient passes as before
        loss = functional.mse_loss(torch.addmm(b2, h.relu(), w2.t()), self.y)
        loss.backward()
        parameters = dict(zip(names, (w1, b1, w2, b2), strict=True))
        gradients = {n: p.grad.clone() for n, p in parameters.items() if p.grad is not None}
        updated = {n: p.detach() - 0.1 * gradients[n] for n, p in parameters.items()}
        return loss.detach(), gradients, updated

    def replay(self) -> Run:
        """The same strike through a session."""
        session = Session(self.step, model=self.model, optimizer=self.optimizer)
        session.trace()
        session.arm("addmm*1:0", "scale", factor=2.0, elements={"index": [1, 2]})
        return session.replay()


@pytest.fixture
def eager() -> Eager:
    """One whose h[1, 2] is positive, so that the ReLU lets the strike through."""
    while True:
        made = Eager()
        if made.model[0](made.x)[1, 2] > 0.1:
            return made


def _relative(faulty: Tensor, golden: Tensor) -> float:
    return float((faulty.double() - golden.double()).norm() / golden.double().norm())


def test_the_step_that_is_compared_is_found_without_counting() -> None:
    """The first of those asked for in which a fault is due; of 10¹⁵ steps at once."""
    plan = FaultPlan.load(
        {
            "version": 2,
            "faults": [
                {"target": "relu", "model": "zero", "steps": "7-9", "enabled": False},
                {"target": "relu", "model": "zero", "steps": "40-:10,12"},
            ],
        }
    )
    assert _focus(plan, 10**15) == 12
    assert _focus(plan, 12) == 0
    assert _focus(FaultPlan(), 10**15) == 0


def test_loss_gradients_and_parameters_are_those_of_the_hand_written_step(eager: Eager) -> None:
    """Loss, relative L2 of each gradient and parameter, and both norms, within 1e-5."""
    golden, faulty = eager.by_hand(struck=False), eager.by_hand(struck=True)
    run = eager.replay()
    comparison = run.comparison
    assert comparison.loss.golden == pytest.approx(golden[0].item(), rel=1e-6)
    assert comparison.loss.faulty == pytest.approx(faulty[0].item(), rel=1e-6)
    assert comparison.loss.max_abs == pytest.approx(abs(float(faulty[0] - golden[0])), rel=1e-4)
    for difference in comparison.gradients:
        expected = _relative(faulty[1][difference.name], golden[1][difference.name])
        assert difference.relative_l2 == pytest.approx(expected, rel=1e-4, abs=1e-6)
    for difference in comparison.parameters:
        expected = _relative(faulty[2][difference.name], golden[2][difference.name])
        assert difference.relative_l2 == pytest.approx(expected, rel=1e-3, abs=1e-6)
    norms = [
        math.sqrt(sum(float(g.square().sum()) for g in run[1].values())) for run in (golden, faulty)
    ]
    assert comparison.gradient_norm.golden == pytest.approx(norms[0], rel=1e-6)
    assert comparison.gradient_norm.faulty == pytest.approx(norms[1], rel=1e-6)
    assert run.golden[0].gradient_norm == pytest.approx(norms[0], rel=1e-6)
    assert run.faulty[0].loss == pytest.approx(faulty[0].item(), rel=1e-6)


def test_the_measures_of_the_struck_site_are_known(eager: Eager) -> None:
    """One of 24 elements doubled: max_rel 1, max_abs |h|, L2 |h| / ‖h‖, 2^23 ULPs apart."""
    with torch.no_grad():
        h = eager.model[0](eager.x)
    run = eager.replay()
    columns = run.comparison.columns
    row = next(r for r in run.comparison.diverged if str(run.comparison.site(r)) == "addmm*1:0")
    assert columns["changed"][row] == 1
    assert columns["numel"][row] == 24
    assert columns["max_rel"][row] == 1.0
    assert columns["max_abs"][row] == pytest.approx(float(h[1, 2]), rel=1e-6)
    assert columns["relative_l2"][row] == pytest.approx(float(h[1, 2] / h.norm()), rel=1e-5)
    assert columns["max_ulp"][row] == 2**23  # doubling moves the exponent by one
    assert columns["sign_flips"][row] == 0
    doubled = h.clone()
    doubled[1, 2] *= 2
    cosine = functional.cosine_similarity(h.view(1, -1).double(), doubled.view(1, -1).double())
    assert columns["cosine"][row] == pytest.approx(cosine.item(), rel=1e-9)


def test_what_comes_before_the_strike_is_equal(eager: Eager) -> None:
    """The first site that differs is the struck one; nothing before it does."""
    run = eager.replay()
    assert str(run.comparison.first) == "addmm*1:0"
    before = next(s for s in run.comparison.golden.sites if s.op == "t")
    assert run.comparison.golden.row(before) < run.comparison.diverged[0]


@pytest.mark.parametrize("name", models_graph.GRAPHS)
def test_golden_against_golden_is_bit_equal(name: str) -> None:
    """A fault-free replay of each odd graph reports no divergence at all, over two steps."""
    case = models_graph.GRAPHS[name]()
    run = traced.session(case).replay(steps=2)
    assert run.comparison.equal
    assert run.noise is not None
    assert run.noise.equal
    assert run.noise.structural == ""
    assert run.golden == run.faulty


def test_memory_decides_how_exactly_not_whether(eager: Eager) -> None:
    """Without memory for whole tensors, hashes and samples find the same sites to differ."""
    rows = []
    for memory in ("auto", 0):
        session = Session(eager.step, model=eager.model, optimizer=eager.optimizer, memory=memory)
        session.trace()
        session.arm("addmm*1:0", "scale", factor=2.0, elements={"index": [1, 2]})
        comparison = session.replay().comparison
        rows.append([str(comparison.site(row)) for row in comparison.diverged])
    assert rows[0] == rows[1]


def test_a_faulty_course_of_several_steps_goes_on_from_its_own_state() -> None:
    """Three steps: the struck course is that of plain training from the struck update."""
    case, twin = models.mlp(), models.mlp()
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    session.trace()
    session.arm("grad:0.weight", "zero")
    run = session.replay(steps=3)
    losses = []
    for step in range(3):
        losses.append(twin.forward_backward().item())
        if step == 0:
            twin.model.get_parameter("0.weight").grad = torch.zeros(6, 5)
        twin.optimizer.step()
        twin.optimizer.zero_grad()
    assert [record.loss for record in run.faulty] == losses
    golden = torch.cat([p.detach().view(-1) for p in models.mlp().model.parameters()])
    assert run.golden[0].parameter_distance == 0.0
    assert 0 < run.faulty[2].parameter_distance < float(golden.norm())


def test_an_evaluation_is_run_after_each_step_of_both_courses() -> None:
    """Its metrics are kept by name; modes and generators are as before after it."""
    case = models.cnn()
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    session.arm(session.trace().find("relu")[0], "nan", steps=1)

    def evaluate(model: nn.Module) -> dict[str, Tensor]:
        model.eval()
        torch.rand(1)
        return {"out": model(case.x).sum()}

    run = session.replay(steps=2, evaluate=evaluate)
    values = [[record.metrics["out"] for record in course] for course in (run.golden, run.faulty)]
    assert values[0][0] == values[1][0]
    assert math.isfinite(values[0][1])
    assert math.isnan(values[1][1])
    assert case.model.training
