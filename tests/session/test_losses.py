"""What of a step is its loss, and what is compared where it has none."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fi_notebook import Session
from fi_notebook.core.run import Run
from tests import models


class _Line(nn.Module):
    """y = w x with w = 2."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        """``w x``."""
        return torch.mul(self.w, x)


def _replayed(step: Callable[[nn.Module], Any], target: str, **parameters: Any) -> Run:
    model = _Line()
    session = Session(lambda: step(model), model=model)
    session.trace()
    session.arm(target, "scale", factor=10.0, **parameters)
    return session.replay()


def _values(run: Run) -> tuple[float, float]:
    loss = run.comparison.loss
    return loss.golden, loss.faulty


def test_several_backward_calls_are_summed() -> None:
    """Losses 2 * 3 and 2 * 5 make 16; the first ten times larger makes 70. The run says so."""

    def step(model: nn.Module) -> None:
        for x in (3.0, 5.0):
            model(torch.tensor(x)).backward()

    run = _replayed(step, "mul*1:0")
    assert _values(run) == (16.0, 70.0)
    assert run.messages[0].startswith("the loss is the sum of what backward was called of, 2 times")


def test_a_penalty_of_its_own_backward_is_part_of_the_loss() -> None:
    """2 * 3 and 2 ** 2 make 10; 60 and 4 make 64."""

    def step(model: nn.Module) -> None:
        model(torch.tensor(3.0)).backward()
        model.get_parameter("w").pow(2).backward()

    assert _values(_replayed(step, "mul*1:0")) == (10.0, 64.0)


@pytest.mark.parametrize(
    "form",
    [
        lambda loss: loss,
        lambda loss: loss.item(),
        lambda loss: loss.reshape(1, 1),
        lambda loss: np.float32(loss.item()),
        lambda loss: np.array([loss.item()]),
        lambda loss: {"accuracy": 0.5, "loss": loss},
        lambda loss: {"loss": loss.item()},
        lambda loss: (loss, torch.ones(3)),
        lambda loss: [loss.detach()],
        lambda loss: SimpleNamespace(loss=loss, logits=torch.ones(3)),
    ],
)
def test_a_loss_is_found_in_what_is_returned(form: Callable[[Tensor], Any]) -> None:
    """Returned is the sum 6 of two terms, backward is called of each: it is 6, and 60."""

    def step(model: nn.Module) -> Any:
        loss = model(torch.tensor(3.0))
        (loss * 0.5).backward(retain_graph=True)
        (loss * 0.5).backward()
        return form(loss)

    run = _replayed(step, "mul*1:0")
    assert _values(run) == (6.0, 60.0)
    assert run.messages == ()


@pytest.mark.parametrize(
    "returned", [None, {"accuracy": 0.5}, (torch.ones(3), 1.0), True, {"loss": None}, ()]
)
def test_where_none_is_returned_it_is_what_backward_was_called_of(returned: Any) -> None:
    """One call, of 6; a single one is said nothing of."""

    def step(model: nn.Module) -> Any:
        model(torch.tensor(3.0)).backward()
        return returned

    run = _replayed(step, "mul*1:0")
    assert _values(run) == (6.0, 60.0)
    assert run.messages == ()


def test_of_a_closure_the_last_evaluation_counts() -> None:
    """LBFGS evaluates (w - 1)² at w = 2 and at w = 1, its minimum: the loss is 0, not 1."""
    model = _Line()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=2)

    def step() -> None:
        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = (model(torch.tensor(1.0)) - 1).pow(2)
            loss.backward()
            return loss.detach()

        optimizer.step(closure)

    assert Session(step, model=model, optimizer=optimizer).trace().info["loss"] < 0.5


def test_a_step_without_a_loss_is_judged_by_what_it_returned() -> None:
    """Of (6, 8) the norm is 10; ten times as large it is 100, which is relative L2 9 away."""
    run = _replayed(lambda model: model(torch.tensor([3.0, 4.0])).detach(), "mul*1:0")
    assert run.comparison.loss.name == "result"
    assert _values(run) == (10.0, 100.0)
    assert run.comparison.loss.relative_l2 == 9.0
    assert run.outcome.name == "changed"
    assert "the norm of the result is 100 instead of 10 (relative L2 9)" in run.outcome.reason


def test_a_step_without_any_result_says_so() -> None:
    """There is no loss to call bit-equal."""

    def step(model: nn.Module) -> None:
        model(torch.tensor([3.0, 4.0]))

    run = _replayed(step, "mul*1:0")
    assert run.comparison.loss.note == "no loss was found"
    assert run.outcome.name == "changed"
    assert run.outcome.reason == (
        "f1 struck mul*1:0 in step 0; the step has no loss to compare; 1 of 2 sites "
        "differs, the last mul*1:0"
    )


def test_a_loss_that_there_is_not_is_no_alarm() -> None:
    """Records have NaN for it, which the guard against NaN is not to see."""
    run = _replayed(lambda model: model(torch.tensor([3.0, 4.0])).detach(), "mul*1:0")
    guard = next(found for found in run.detections if found.name == "nan_guard")
    assert not guard.alarms
    assert not guard.false_alarms


def test_a_call_after_the_update_is_masked_and_named() -> None:
    """What is looked at last differs, and neither loss nor weights: nothing is left of it."""

    def step(model: nn.Module) -> Tensor:
        loss = model(torch.tensor(3.0))
        loss.backward()
        torch.exp(loss.detach())
        return loss

    run = _replayed(step, "exp*1:0")
    assert run.outcome.name == "masked_tolerance"
    assert run.outcome.reason == (
        "f1 struck exp*1:0 in step 0, and calls differ to the end of the step, the last exp*1:0, "
        "but nothing that it leaves behind does"
    )


def test_trials_of_summed_losses_agree_with_replays() -> None:
    """Every output of an accumulating step that returns nothing, doubled: as slice, and in full."""
    case = models.mlp()

    def step() -> None:
        case.optimizer.zero_grad()
        for part in (slice(0, 2), slice(2, 4)):
            case.criterion(case.model(case.x[part]), case.y[part]).backward()
        case.optimizer.step()

    session = Session(step, model=case.model, optimizer=case.optimizer)
    golden = session.trace()
    trials = session.trials()
    assert not trials.why
    for site in golden.find(phase="forward"):
        session.disarm()
        assert trials.audit(session.arm(site, "scale", factor=2.0), site, 0) == ""
    session.disarm()
    fault = session.arm("addmm*1:0", "scale", factor=2.0)
    sliced, full = trials.run(fault, golden.find("addmm")[0], 0), trials.replay(fault)
    assert sliced.way == "slice"
    assert sliced.outcome.reason == full.outcome.reason
    assert sliced.records[0].loss == full.records[0].loss != golden.info["loss"]


@pytest.mark.filterwarnings(
    "ignore:Sparse CSR", "ignore:torch.quantize", "ignore:The PyTorch API of"
)
@pytest.mark.parametrize(
    "form",
    [
        torch.Tensor.to_sparse,
        torch.Tensor.to_sparse_csr,
        torch.Tensor.to_mkldnn,
        lambda scores: torch.quantize_per_tensor(scores, 0.5, 0, torch.qint8),
        lambda scores: torch.nested.nested_tensor(list(scores)),
    ],
)
def test_a_result_without_strides_is_judged_by_its_values(
    form: Callable[[Tensor], Tensor],
) -> None:
    """Of (3, 4) in two rows the norm is 5 √2; ten times it is further."""

    def step(model: nn.Module) -> Tensor:
        with torch.no_grad():
            return form(model(torch.tensor([[1.5, 2.0], [1.5, 2.0]])))

    run = _replayed(step, "other/mul*1:0")
    assert run.outcome.name == "changed"
    assert list(_values(run)) == pytest.approx([50**0.5, 5000**0.5])


def test_gradients_of_before_are_no_part_of_a_step_without_any() -> None:
    """What lies in ``.grad`` since the last training step is not of this inference."""
    model = _Line()
    model(torch.tensor(3.0)).backward()

    def step() -> Tensor:
        with torch.no_grad():
            return model(torch.tensor([3.0, 4.0]))

    session = Session(step, model=model)
    session.trace()
    session.arm("other/mul*1:0", "scale", factor=2.0)
    run = session.replay()
    assert run.comparison.gradients == ()
    assert run.golden[0].gradient_norm == 0.0
