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


def crash() -> Outcome:
    """Token 99 of a vocabulary of 7 raises inside the step."""
    model = Tokens()
    session = training(model, torch.optim.SGD(model.parameters(), lr=0.1))
    return judged(session, "mul*1:0", "set", value=99, elements={"index": 2})


def not_injected() -> Outcome:
    """Two ReLUs were called, the seventh was asked for."""
    with pytest.warns(fi.session.FaultWarning):
        return judged(mlp(), "relu*7:0", "set", value=1.0)


def inactive() -> Outcome:
    """An absolute value of what a ReLU gave changes no bit."""
    return judged(mlp(), "relu*1:0", "bitflip", bit=31, elements={"fraction": 0.0})


def nan_immediate() -> Outcome:
    """Inf in an activation: the loss of the same step is Inf."""
    return judged(mlp(), "addmm*2:0", "set", value=float("inf"))


def nan_delayed() -> Outcome:
    """A gradient of 1e30 at lr 0.1: a weight of -1e29, whose square is Inf a step later."""
    return judged(sgd(0.1), "grad:fc.weight", "set", 4, value=1e30, steps=1)


def masked_exact() -> Outcome:
    """Below 0 a ReLU gives 0, with -1 added too."""
    case = models.mlp()
    lowest = int(case.model[0](case.x).argmin())  # type: ignore[index]  # a Sequential
    session = fi.Session(case.step, model=case.model, optimizer=case.optimizer)
    return judged(session, "addmm*1:0", "add", value=-1.0, elements={"index": lowest})


def masked_tolerance() -> Outcome:
    """One ULP (2^-24 to 2^-23 relative) of one activation stays below 1e-5 everywhere."""
    session = mlp()
    trace = session.trace()
    shown = int(trace.value(trace.sites[trace.row("relu*1:0")]).argmax())
    return judged(session, "relu*1:0", "bitflip", bit=0, elements={"index": shown})


def changed() -> Outcome:
    """Twice an activation: the loss is another, and so are the weights."""
    return judged(mlp(), "relu*1:0", "scale", factor=2.0)


def spike_degrade() -> Outcome:
    """At lr 0.001 a weight that a gradient of -4000 moved by 4 comes back by 2 per mille a step."""
    return judged(sgd(0.001), "grad:fc.weight", "add", 10, value=-4000.0, steps=2)


def spike_recover() -> Outcome:
    """At lr 0.3 the same move is made good in some steps."""
    return judged(
        sgd(0.3), "grad:fc.weight", "add", 40, value=-10.0, steps=4, elements={"index": 0}
    )


def slow_degrade() -> Outcome:
    """Adam: huge gradients leave huge second moments, and all weights but stand still."""
    model = Regression()
    session = training(model, torch.optim.Adam(model.parameters(), lr=0.01))
    return judged(session, "grad:fc.weight", "scale", 60, factor=1e8, steps=0)


def silent_drift() -> Outcome:
    """The weight of a feature that is always 0 moves by lr * 5, and no loss sees it."""
    return judged(sgd(0.1), "grad:fc.weight", "set", 6, value=5.0, steps=1, elements={"index": 3})


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


def metric_degraded() -> Outcome:
    """An infinite ``running_var`` is read by evaluation alone: only the bias is left."""
    model = Normed()
    session = training(model, torch.optim.SGD(model.parameters(), lr=0.01))
    return judged(
        session,
        "buffer:norm.running_var",
        "set",
        3,
        value=float("inf"),
        scope="storage",
        evaluate=accuracy,
    )


CASES: dict[str, tuple[Callable[[], Outcome], tuple[str, ...]]] = {
    "crash": (
        crash,
        ("the faulty run stopped in step 0 with IndexError", "after f1 struck mul*1:0 in step 0"),
    ),
    "not_injected": (not_injected, ("asked for call 7 of relu, 2 were made",)),
    "inactive": (inactive, ()),
    "nan_immediate": (nan_immediate, ("and in the same step the loss became Inf",)),
    "nan_delayed": (nan_delayed, ("1 step later, in step 2, the loss became Inf",)),
    "masked_exact": (masked_exact, ("the error died in relu*1 (ReLU gives 0 there",)),
    "masked_tolerance": (masked_tolerance, ("stays below the tolerance",)),
    "changed": (changed, ("the loss is", "parameters differ, most")),
    "spike_degrade": (spike_degrade, ("by step 3 the loss rose beside the golden one by",)),
    "spike_recover": (spike_recover, ("and it came back to within 5 %",)),
    "slow_degrade": (
        slow_degrade,
        (
            "without a spike the loss in the end exceeds the golden one",
            "exp_avg_sq",
            "a weight hardly moves any more",
        ),
    ),
    "silent_drift": (silent_drift, ("at most 0 % away", "the parameters are")),
    "metric_degraded": (metric_degraded, ("evaluate gives accuracy 0.01361 instead of 1",)),
}
"""By name: how each outcome comes about, and what its sentence says."""


@pytest.mark.parametrize("name", CASES)
def test_each_outcome_on_a_real_step(name: str) -> None:
    """The replay is judged so, and the sentence says what happened."""
    case, said = CASES[name]
    outcome = case()
    assert outcome.name == name
    assert [words for words in said if words not in outcome.reason] == []


def test_no_outcome_is_without_a_case() -> None:
    """The table above holds all thirteen."""
    assert set(CASES) == set(OUTCOMES)


def test_the_step_of_a_delayed_nan_is_that_in_which_it_showed() -> None:
    """Struck in step 1, the loss is Inf in step 2."""
    assert nan_delayed().step == 2


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


def without_update(clear: str, *, every: int = 0) -> fi.Session:
    """Two layers of which a step makes gradients; every so many steps an optimizer takes them."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(number: int) -> Tensor:
        if clear == "before":
            optimizer.zero_grad()
        loss = model(torch.ones(3, 4)).sum()
        loss.backward()
        if every and number % every == every - 1:
            optimizer.step()
        if clear == "after" or (every and number % every == every - 1):
            optimizer.zero_grad()
        return loss.detach()

    return fi.Session(step, model=model, optimizer=optimizer)


@pytest.mark.parametrize("clear", ["before", "after", "never"])
def test_a_gradient_that_no_optimizer_took_is_not_masked(clear: str) -> None:
    """Scaled after the first layer, the second one's gradient is wrong and the backward's last
    call is equal: what a step leaves without an update are its gradients.
    """
    session = without_update(clear)
    session.trace()
    session.arm("addmm*1:0", "scale", factor=2.0)
    run = session.replay()
    assert run.outcome.name == "changed"
    wrong = {d.name for d in run.comparison.gradients if not d.equal}
    assert wrong == (set() if clear == "after" else {"1.weight"})


def test_a_gradient_in_the_midst_of_an_accumulation_is_not_masked() -> None:
    """In a later micro step too; with the step of the update it is the update that differs."""
    session = without_update("never", every=4)
    session.trace()
    session.arm("mm*1:0", "scale", factor=2.0)
    assert session.replay().outcome.name == "changed"
    session.disarm()
    session.arm("mm*1:0", "scale", factor=2.0, steps=1)
    for steps in (2, 4):
        assert not session.replay(steps=steps).outcome.name.startswith("masked")


def test_a_gradient_that_the_optimizer_took_in_vain_is_masked() -> None:
    """A learning rate of 0 leaves every weight bit-equal, however wrong the gradients."""
    session = sgd(0.0)
    session.arm("mse_loss_backward", "scale", factor=2.0)
    run = session.replay()
    assert run.outcome.name == "masked_exact"
    assert not any(d.equal for d in run.comparison.gradients)


def normed() -> fi.Session:
    """BatchNorm under SGD."""
    model = Normed()
    return training(model, torch.optim.SGD(model.parameters(), lr=0.1))


def test_a_later_strike_is_judged_by_the_buffers_that_it_leaves() -> None:
    """A running mean of 0 times 100 is 0 in step 0, so that step 1 is the first that changes."""
    session = normed()
    where = "buffer:norm.running_mean"
    outcome = judged(session, where, "scale", 3, factor=100.0, scope="storage", steps="0-")
    assert outcome.name == "changed"
    assert (
        "struck buffer:norm.running_mean in step 1 (and 2 more times); after step 2 1 of 3 buffers "
        "differs, most norm.running_mean (relative L2 "
    ) in outcome.reason


def test_a_later_strike_is_judged_by_the_optimizer_state_that_it_leaves() -> None:
    """A learning rate of 0 moves no weight, and the moments of Adam differ all the same."""
    model = Regression()
    session = training(model, torch.optim.Adam(model.parameters(), lr=0.0))
    session.trace()
    fault: dict[str, Any] = {
        "factor": 50.0,
        "scope": "storage",
        "steps": "0-",
        "probability": 0.3,
        "times": 1,
    }
    late = []
    for seed in range(8):
        session.disarm()
        session.arm("grad:fc.weight", "scale", seed=seed, **fault)
        run = session.replay(steps=4)
        late += [run.outcome.name for injection in run.injections if injection.step]
    assert set(late) == {"changed"}


class Masked(nn.Module):
    """A Linear, and a buffer that no call reads."""

    def __init__(self, kept: Tensor) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 1)
        self.register_buffer("kept", kept)

    def forward(self) -> Tensor:
        loss: Tensor = self.fc(torch.ones(1, 2)).sum()
        return loss


@pytest.mark.parametrize(
    ("kept", "fault", "far"),
    [
        ([0.0, -torch.inf], {"model": "set", "value": 5.0}, "Inf"),
        ([0.0, -torch.inf], {"model": "set", "value": torch.inf}, "Inf"),
        ([0.0, 1e200], {"model": "scale", "factor": 3.0}, "2"),
        ([0.0, 1e-170], {"model": "scale", "factor": 2.0}, "1"),
    ],
)
def test_a_buffer_that_is_another_is_not_masked(
    kept: list[float], fault: dict[str, Any], far: str
) -> None:
    """Whether its distance is infinite, or its squares are: (3 - 1) / 1 and (2 - 1) / 1."""
    model = Masked(torch.tensor(kept, dtype=torch.float64))
    session = training(model, torch.optim.SGD(model.parameters(), lr=0.1))
    outcome = judged(session, "buffer:kept", elements={"index": 1}, scope="storage", **fault)
    assert outcome.name == "changed"
    assert outcome.reason.endswith(f"1 of 1 buffer differs, most kept (relative L2 {far})")
