from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fi_notebook as fi
from fi_notebook.analysis.detectors import Alarm, Bound, Observed
from fi_notebook.report import figures, text
from tests import models


class Noisy(nn.Module):
    """A Linear, and after it a factor that is a little different each time."""

    def __init__(self, factor: Iterator[float]) -> None:
        super().__init__()
        self.fc, self.factor = nn.Linear(4, 3), factor

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) * next(self.factor)


def noisy(size: float) -> fi.Session:
    """A session over it; an iterator is what nobody puts back."""
    torch.manual_seed(3)
    model = Noisy(1.0 + size * n for n in count())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(5, 4)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return fi.Session(step, model=model, optimizer=optimizer)


def test_calls_that_do_not_repeat_are_named() -> None:
    """The product, and what follows it; the Linear before it repeats."""
    session = noisy(1e-5)
    session.trace()
    session.arm("addmm*1:0", "scale", factor=2.0)
    run = session.replay()
    assert run.noise is not None
    assert str(run.noise.first) == "mul*1:0"
    (said,) = [m for m in run.messages if "golden against golden" in m]
    assert re.search(r"not bit-equal at \d+ of \d+ sites: mul\*1:0, pow\*1:0, mean\*1:0", said)
    assert run.outcome.name == "changed"


def test_nothing_below_the_floor_is_called_a_difference() -> None:
    """One ULP before the product is far below its noise of 1e-5: nothing differs."""
    session = noisy(1e-5)
    session.trace()
    session.arm("addmm*1:0", "bitflip", bit=0, elements={"index": 0})
    run = session.replay()
    compared = run.comparison
    assert [str(compared.site(int(n))) for n in compared.diverged] == ["addmm*1:0"]
    assert any("no more than golden from golden" in note for note in compared.notes)
    assert all(d.note == "within the noise floor" for d in compared.gradients)
    assert run.outcome.name == "masked_exact"
    assert "within the noise floor of the golden run" in run.outcome.reason


def test_a_step_that_does_not_repeat_is_refused() -> None:
    """Beyond a relative 1e-3 golden from golden is no noise; the call and the line are named."""
    session = noisy(0.1)
    session.trace()
    with pytest.raises(fi.errors.SessionError, match=r"differ first at mul\*1:0 .*test_comparing"):
        session.replay()


class Branching(nn.Module):
    """Draws random numbers only where its values are small, then always."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.fc(x)
        if float(h.detach().abs().max()) > 100:
            h = h + torch.rand(3)
        return h + torch.rand(3)


def test_random_numbers_that_diverged_are_named() -> None:
    """The faulty run draws once more: its first draw is golden's, its second is not."""
    model = Branching()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(5, 4)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    session = fi.Session(step, model=model, optimizer=optimizer)
    session.trace()
    session.arm("addmm*1:0", "set", value=1000.0, elements={"index": 0})
    run = session.replay()
    assert "only the faulty run makes rand*2:0" in run.comparison.structural
    assert any(m.startswith("RNG diverged at call rand*2") for m in run.messages)


def test_random_numbers_that_did_not_diverge_are_not_talked_of() -> None:
    """Dropout draws the same in both runs."""
    case = models.cnn()
    session = fi.Session(case.step, model=case.model, optimizer=case.optimizer)
    session.trace()
    session.arm("relu*1:0", "scale", factor=2.0)
    assert session.replay().messages == ()


# detectors


def replayed(session: fi.Session, steps: int = 3, **fault: Any) -> Any:
    """A replay of an MLP whose second step is struck."""
    session.trace()
    session.arm("addmm*2:0", "set", steps=1, elements={"index": 0}, **fault)
    return session.replay(steps=steps)


def mlp(**arguments: Any) -> fi.Session:
    """The MLP of the shared models."""
    case = models.mlp()
    return fi.Session(case.step, model=case.model, optimizer=case.optimizer, **arguments)


@pytest.fixture
def half_loss() -> Iterator[None]:
    """A person's own detector: the loss must stay below a limit that is too low."""

    @fi.detectors.register("half_loss")
    def half(observed: Observed, *, limit: float = 0.1) -> Iterable[Alarm | Bound]:
        """Alarms where the loss is above a limit."""
        for record in observed.steps:
            yield Bound(record.step, "loss", limit)
            if record.loss > limit:
                yield Alarm(record.step, "", record.loss, limit)

    yield
    fi.detectors.unregister("half_loss")


def test_a_replay_says_which_detectors_would_have_alarmed() -> None:
    """Inf at addmm*2:0 in step 1: the guard names the call, range and spike follow."""
    run = replayed(mlp(), value=float("inf"))
    found = {d.name: d for d in run.detections}
    assert found["nan_guard"].first is not None
    assert (found["nan_guard"].first.step, found["nan_guard"].first.site) == (1, "addmm*2:0")
    assert "nan_guard" in run.outcome.detected_by
    assert "loss_spike" in run.outcome.detected_by
    assert "gradient_norm" not in run.outcome.detected_by or found["gradient_norm"].alarms
    assert not any(d.false_alarms for d in run.detections)
    said = text.summary(run)
    assert re.search(r"nan guard +step 1 at addmm\*2:0 +Inf", said)
    assert "detected by: nan guard" in said


def test_an_infinity_that_belongs_there_is_no_detection() -> None:
    """A causal mask is -Inf in the golden run too, and stands nowhere; an Inf after it is seen."""
    net = torch.nn.Linear(4, 4)
    x = torch.randn(3, 4)
    mask = torch.triu(torch.ones(3, 4, dtype=torch.bool), 1)

    def step() -> torch.Tensor:
        net.zero_grad()
        scores = net(x).masked_fill(mask, -float("inf"))
        loss = scores.softmax(-1).square().sum()
        loss.backward()
        return loss

    session = fi.Session(step, model=net)
    session.trace()
    session.arm("_softmax*1:0", "scale", factor=1.01)
    run = session.replay()
    (found,) = [d for d in run.detections if d.name == "nan_guard"]
    assert found.alarms == found.false_alarms == ()
    assert "nan_guard" not in run.outcome.detected_by
    assert re.search(r"nan guard +none .* 0 +0\n", text.summary(run))
    drawn = figures.propagation(run.comparison, detections=run.detections)
    assert not any("nan guard" in str(trace.text) for trace in drawn.data)
    session.disarm()
    session.arm("_softmax*1:0", "inf", elements={"index": [0, 0]})
    run = session.replay()
    (found,) = [d for d in run.detections if d.name == "nan_guard"]
    assert found.first is not None
    assert found.first.site == "_softmax*1:0"
    assert "nan_guard" in run.outcome.detected_by


def test_a_nan_that_the_golden_run_has_as_well_is_no_detection() -> None:
    """The square root of -1 is NaN in every run, and thrown away: its alarm is false."""
    net = torch.nn.Linear(4, 4)
    x = torch.randn(3, 4)

    def step() -> torch.Tensor:
        net.zero_grad()
        loss = net(x).square().sum() + torch.full((), -1.0).sqrt().nan_to_num()
        loss.backward()
        return loss

    session = fi.Session(step, model=net)
    session.trace()
    session.arm("addmm*1:0", "scale", factor=1.01)
    run = session.replay()
    (found,) = [d for d in run.detections if d.name == "nan_guard"]
    for alarms in (found.alarms, found.false_alarms):
        assert [alarm.site for alarm in alarms] == ["sqrt*1:0"]
    assert found.first is None
    assert "nan_guard" not in run.outcome.detected_by
    assert re.search(r"nan guard +as in golden .* 1 +1\n", text.summary(run))


def test_a_large_finite_value_is_seen_by_the_range_guard() -> None:
    """1e4 is no Inf, but far out of the golden range of addmm*2:0."""
    run = replayed(mlp(), value=1e4)
    assert "activation_range" in run.outcome.detected_by
    assert "nan_guard" not in run.outcome.detected_by
    (found,) = [d for d in run.detections if d.name == "activation_range"]
    assert found.first is not None
    assert found.first.site == "addmm*2:0"
    assert found.first.value == 1e4
    drawn = figures.propagation(run.comparison, detections=run.detections)
    marks = [t for t in drawn.data if t.name == "first alarm"]
    assert len(marks) == 1
    assert "activation range would alarm at addmm*2:0" in marks[0].text[0]


def test_a_persons_detector_is_tried_and_its_false_alarms_are_counted(half_loss: None) -> None:
    """Every one of the 3 golden losses is above 0.1: three false alarms, said in the summary."""
    run = replayed(mlp(), value=1e4)
    (found,) = [d for d in run.detections if d.name == "half_loss"]
    assert [alarm.step for alarm in found.false_alarms] == [0, 1, 2]
    assert [bound.value for bound in found.bounds] == [0.1, 0.1, 0.1]
    assert found.caught == ()  # what it says of the faulty run, it says of the golden one too
    assert "half_loss" not in run.outcome.detected_by
    assert re.search(r"half loss +as in golden .* 3 +3\n", text.summary(run))
    drawn = figures.training(run)
    names = [trace.name for trace in drawn.data]
    assert "bound of half loss" in names
    assert "alarm of half loss" in names


def test_detectors_are_chosen_with_their_parameters(half_loss: None) -> None:
    """Only the one that was named, with its limit."""
    run = replayed(mlp(detectors={"half_loss": {"limit": 1e9}}), value=1.0)
    assert [d.name for d in run.detections] == ["half_loss"]
    assert run.outcome.detected_by == ()


def test_a_detector_that_raises_takes_nothing_with_it(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, named in the summary, and the replay goes on."""

    @fi.detectors.register("broken")
    def broken(observed: Observed) -> Iterable[Alarm]:
        """Raises."""
        raise ZeroDivisionError("no steps")

    try:
        run = replayed(mlp(), value=1.0)
    finally:
        fi.detectors.unregister("broken")
    (found,) = [d for d in run.detections if d.name == "broken"]
    assert found.error == "ZeroDivisionError: no steps"
    assert "the detector 'broken' failed" in caplog.text
    assert "failed: ZeroDivisionError: no steps" in text.summary(run)
