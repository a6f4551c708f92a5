"""Every outcome on a real step, through a real replay: its name and its sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import fi_notebook as fi
from fi_notebook.core.run import OUTCOMES, Outcome
from tests import models

SEEN: dict[str, Outcome] = {}
"""The outcomes that the tests of this file have met, by name."""


@pytest.fixture(autouse=True)
def one_seed() -> Iterator[None]:
    """The same models in every test."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        yield


class Regression(nn.Module):
    """A Linear from four features, of which the last is always 0."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 1, bias=False)
        self.x = torch.cat([torch.randn(32, 3), torch.zeros(32, 1)], 1)
        self.y = self.x @ torch.tensor([[2.0], [-1.0], [0.5], [0.0]]) + torch.randn(32, 1)

    def forward(self) -> Tensor:
        return functional.mse_loss(self.fc(self.x), self.y)


def training(
    model: nn.Module, optimizer: torch.optim.Optimizer, clip: float | None = None
) -> fi.Session:
    """One step over a model that gives its loss."""

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = model()
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        return loss.detach()

    return fi.Session(step, model=model, optimizer=optimizer)


def sgd(lr: float) -> fi.Session:
    """A regression under SGD."""
    model = Regression()
    return training(model, torch.optim.SGD(model.parameters(), lr=lr))


def judged(session: fi.Session, site: str, model: str, length: int = 1, **fault: Any) -> Outcome:
    """The outcome of a fault over so many steps."""
    evaluate: Callable[[nn.Module], Any] | None = fault.pop("evaluate", None)
    session.trace()
    session.arm(site, model, **fault)
    run = session.replay(steps=length, evaluate=evaluate)
    SEEN[run.outcome.name] = run.outcome
    assert run.outcome.reason.count("struck") <= 2
    return run.outcome


def mlp() -> fi.Session:
    """The MLP of the shared models."""
    case = models.mlp()
    return fi.Session(case.step, model=case.model, optimizer=case.optimizer)


class Tokens(nn.Module):
    """An Embedding of tokens that a call has made."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 3)

    def forward(self) -> Tensor:
        return self.embed(torch.arange(5) * 1).square().mean()


def test_crash() -> None:
    """Token 99 of a vocabulary of 7 raises inside the step."""
    model = Tokens()
    session = training(model, torch.optim.SGD(model.parameters(), lr=0.1))
    outcome = judged(session, "mul*1:0", "set", value=99, elements={"index": 2})
    assert outcome.name == "crash"
    assert outcome.reason.startswith("the faulty run stopped in step 0 with IndexError")
    assert outcome.reason.endswith("after f1 struck mul*1:0 in step 0")


def test_not_injected() -> None:
    """Two ReLUs were called, the seventh was asked for."""
    with pytest.warns(fi.session.FaultWarning):
        outcome = judged(mlp(), "relu*7:0", "set", value=1.0)
    assert outcome.name == "not_injected"
    assert "asked for call 7 of relu, 2 were made" in outcome.reason


def test_inactive() -> None:
    """An absolute value of what a ReLU gave changes no bit."""
    outcome = judged(mlp(), "relu*1:0", "bitflip", bit=31, elements={"fraction": 0.0})
    assert outcome.name == "inactive"


def test_nan_immediate() -> None:
    """Inf in an activation: the loss of the same step is Inf."""
    outcome = judged(mlp(), "addmm*2:0", "set", value=float("inf"))
    assert outcome.name == "nan_immediate"
    assert "and in the same step the loss became Inf" in outcome.reason


def test_nan_delayed() -> None:
    """A gradient of 1e30 at lr 0.1: a weight of -1e29, whose square is Inf a step later."""
    outcome = judged(sgd(0.1), "grad:fc.weight", "set", 4, value=1e30, steps=1)
    assert (outcome.name, outcome.step) == ("nan_delayed", 2)
    assert "1 step later, in step 2, the loss became Inf" in outcome.reason


def test_masked_exact() -> None:
    """Below 0 a ReLU gives 0, with -1 added too."""
    case = models.mlp()
    lowest = int(case.model[0](case.x).argmin())  # type: ignore[index]  # a Sequential
    session = fi.Session(case.step, model=case.model, optimizer=case.optimizer)
    outcome = judged(session, "addmm*1:0", "add", value=-1.0, elements={"index": lowest})
    assert outcome.name == "masked_exact"
    assert "the error died in relu*1 (ReLU gives 0 there" in outcome.reason


def test_masked_tolerance() -> None:
    """One ULP (2^-24 to 2^-23 relative) of one activation stays below 1e-5 everywhere."""
    session = mlp()
    trace = session.trace()
    shown = int(trace.value(trace.sites[trace.row("relu*1:0")]).argmax())
    outcome = judged(session, "relu*1:0", "bitflip", bit=0, elements={"index": shown})
    assert outcome.name == "masked_tolerance"
    assert "stays below the tolerance" in outcome.reason


def test_changed() -> None:
    """Twice an activation: the loss is another, and so are the weights."""
    outcome = judged(mlp(), "relu*1:0", "scale", factor=2.0)
    assert outcome.name == "changed"
    assert "the loss is" in outcome.reason
    assert "parameters differ, most" in outcome.reason


def test_spike_degrade() -> None:
    """At lr 0.001 a weight that a gradient of -4000 moved by 4 comes back by 2 per mille a step."""
    outcome = judged(sgd(0.001), "grad:fc.weight", "add", 10, value=-4000.0, steps=2)
    assert outcome.name == "spike_degrade"
    assert "by step 3 the loss exceeded the golden one by" in outcome.reason


def test_spike_recover() -> None:
    """At lr 0.3 the same move is made good in some steps."""
    outcome = judged(
        sgd(0.3), "grad:fc.weight", "add", 40, value=-10.0, steps=4, elements={"index": 0}
    )
    assert outcome.name == "spike_recover"
    assert "and it came back to within 5 %" in outcome.reason


def test_slow_degrade_of_frozen_weights() -> None:
    """Adam: huge gradients leave huge second moments, and all weights but stand still."""
    model = Regression()
    session = training(model, torch.optim.Adam(model.parameters(), lr=0.01))
    outcome = judged(session, "grad:fc.weight", "scale", 60, factor=1e8, steps=0)
    assert outcome.name == "slow_degrade"
    assert "without a spike the loss in the end exceeds the golden one" in outcome.reason
    assert "exp_avg_sq" in outcome.reason
    assert "hardly move any more" in outcome.reason


def test_silent_drift() -> None:
    """The weight of a feature that is always 0 moves by lr * 5, and no loss sees it."""
    outcome = judged(
        sgd(0.1), "grad:fc.weight", "set", 6, value=5.0, steps=1, elements={"index": 3}
    )
    assert outcome.name == "silent_drift"
    assert "at most 0 % away" in outcome.reason
    assert "the parameters are" in outcome.reason


class Normed(nn.Module):
    """BatchNorm before a Linear."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.fc = nn.BatchNorm1d(3), nn.Linear(3, 1)
        self.x, self.y = torch.randn(16, 3), torch.randn(16, 1)

    def forward(self) -> Tensor:
        return functional.mse_loss(self.fc(self.norm(self.x)), self.y)


def accuracy(model: nn.Module) -> dict[str, float]:
    """A number that is 1 where the model in eval mode gives what batches give."""
    model.eval()
    assert isinstance(model, Normed)
    with torch.no_grad():
        spread = float(model.norm(model.x).std())
    return {"accuracy": min(1.0, spread)}


def test_metric_degraded() -> None:
    """An infinite ``running_var`` is read by evaluation alone: only the bias is left."""
    model = Normed()
    session = training(model, torch.optim.SGD(model.parameters(), lr=0.01))
    outcome = judged(
        session,
        "buffer:norm.running_var",
        "set",
        3,
        value=float("inf"),
        scope="storage",
        evaluate=accuracy,
    )
    assert outcome.name == "metric_degraded"
    assert "evaluate gives accuracy 0.01361 instead of 1" in outcome.reason


def test_an_infinite_second_moment_is_named() -> None:
    """(1e30)² is Inf in float32: the weight stands still, and no NaN is anywhere else."""
    model = Regression()
    session = training(model, torch.optim.Adam(model.parameters(), lr=0.01))
    outcome = judged(session, "grad:fc.weight", "set", value=1e30, elements={"index": 0})
    assert outcome.name == "changed"
    assert (
        "optimizer state fc.weight.exp_avg_sq holds 1 new Inf in 4 elements: "
        "the update divides by it, so that gradients move these weights no more"
    ) in outcome.reason


def test_gradients_zeroed_by_a_clipped_infinite_norm_are_named() -> None:
    """The norm of a gradient of 1e30 is Inf in float32; 1 / Inf = 0 times every gradient."""
    model = Regression()
    session = training(model, torch.optim.SGD(model.parameters(), lr=0.1), clip=1.0)
    trace = session.trace()
    site = next(
        str(s) for s in trace.sites if s.phase == "backward" and s.op == "mm" and s.shape == (1, 4)
    )
    outcome = judged(session, site, "set", value=1e30, elements={"index": 0})
    assert outcome.name == "changed"
    assert "became zero: clipping divided by an infinite norm" in outcome.reason


def test_an_update_that_a_scaler_skipped_is_named() -> None:
    """An Inf in the gradient: the weights of the step stay, and the note says why they differ."""
    model = Regression()
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu")

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = model()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    session = fi.Session(step, model=model, optimizer=optimizer, state=[scaler])
    session.trace()
    said = "the update was skipped: the optimizer stepped in the golden run and not in this one"
    session.arm("grad:fc.weight", "scale", factor=2.0)  # after the scaler looked
    assert said not in " ".join(session.replay().comparison.notes)
    session.disarm()
    session.arm("mse_loss_backward*1:0", "set", value=float("inf"), elements={"index": 0})
    run = session.replay()
    assert run.comparison.notes[0].startswith(said)
    assert run.outcome.name == "nan_immediate"


def test_every_outcome_was_met() -> None:
    """The tests above, run before this one, met all thirteen."""
    if len(SEEN) > 10:  # not where one test is run alone
        assert set(SEEN) == set(OUTCOMES)
