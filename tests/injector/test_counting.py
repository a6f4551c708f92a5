"""When a step begins, in the training loops that people write."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fi_notebook import Injector
from tests import models
from tests.injector.helpers import bits, lines, plan, sites


def _steps_of(injector: Injector) -> list[int]:
    return [injection.step for injection in injector.injections]


def _first_addmm(**parts: Any) -> dict[str, Any]:
    return plan("addmm*1:0", elements={"index": 0}, **parts)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([4], [4]),
        ("4", [4]),
        (4, [4]),
        ("2,5-7,10-", [2, 5, 6, 7, 10, 11]),
        ("0-100:3", [0, 3, 6, 9]),
        ([0, 2, 9], [0, 2, 9]),
        ("0-", list(range(12))),
    ],
)
def test_exactly_the_listed_steps_are_struck(steps: Any, expected: list[int]) -> None:
    """Steps count from 0; on and off as often as asked, in 12 steps."""
    case = models.mlp()
    with Injector(_first_addmm(steps=steps), model=case.model) as injector:
        for _ in range(12):
            case.step()
    assert _steps_of(injector) == expected


def test_between_listed_steps_no_mode_is_on() -> None:
    """The dispatch mode is on in steps 1 and 3 only."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack as stack

    case, seen = models.mlp(), []
    case.model.register_forward_hook(lambda *_: seen.append(len(stack())))
    with Injector(_first_addmm(steps=[1, 3]), model=case.model):
        for _ in range(5):
            case.step()
    assert seen == [0, 1, 0, 1, 0]


def test_accumulation_is_seen_by_itself() -> None:
    """Three forwards until the gradients are cleared are one step: 2 addmm each, number 5."""
    case = models.mlp()
    with Injector(plan("addmm*5:0", steps="0-"), model=case.model) as injector:
        for _ in range(4):
            for _ in range(3):
                case.forward_backward()
            case.optimizer.step()
            case.optimizer.zero_grad()
    assert sites(injector) == [("addmm*5:0", step) for step in range(4)]


def test_micro_batch_per_step_wins() -> None:
    """With k = 2 the gradients cleared after each forward begin no step, and it is said once."""
    case = models.mlp()
    with Injector(_first_addmm(), model=case.model, micro_batch_per_step=2) as injector:
        for _ in range(6):
            case.step()
    assert _steps_of(injector) == [0, 1, 2]
    assert injector.step == 2


@pytest.mark.parametrize(
    ("updates", "said"),
    [
        (True, "an optimizer stepped after 1; going by 2, so that a step has several updates"),
        (False, "the gradients were cleared after 1; going by 2"),
    ],
)
def test_a_disagreement_is_warned_of_once(
    updates: bool, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """micro_batch_per_step=2 of a loop with an update, or a zero_grad alone, after each forward."""
    case = models.mlp()
    with Injector(plan("relu", steps=[99]), model=case.model, micro_batch_per_step=2):
        for _ in range(6):
            case.forward_backward()
            if updates:
                case.optimizer.step()
            case.optimizer.zero_grad()
    found = [line for line in lines(caplog) if "micro_batch_per_step=2" in line]
    assert found == [f"micro_batch_per_step=2, but {said}"]


def test_micro_batches_may_be_chosen() -> None:
    """Only the second of three micro batches of step 1 is struck: addmm 3 and 4."""
    case = models.mlp()
    config = plan("addmm", steps=[1], micro_batches=[1])
    with Injector(config, model=case.model) as injector:
        for _ in range(3):
            for _ in range(3):
                case.forward_backward()
            case.optimizer.step()
            case.optimizer.zero_grad()
    assert sites(injector) == [("addmm*3:0", 1), ("addmm*4:0", 1)]


def test_gradients_cleared_before_the_forward() -> None:
    """zero_grad at the top of the loop makes the same steps."""
    case = models.mlp()
    with Injector(_first_addmm(), model=case.model) as injector:
        for _ in range(3):
            case.optimizer.zero_grad()
            case.forward_backward()
            case.optimizer.step()
    assert _steps_of(injector) == [0, 1, 2]


def test_a_gradient_scaler_that_skips_the_step_that_a_fault_broke() -> None:
    """An inf in step 1 makes GradScaler skip optimizer.step; step 2 begins all the same."""
    case = models.mlp()
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    stepped, scales = [], []
    case.optimizer.register_step_post_hook(lambda *_: stepped.append(injector.step))
    with Injector(plan("addmm*2:0", "inf", steps=[1]), model=case.model) as injector:
        for _ in range(4):
            case.optimizer.zero_grad()
            loss = case.criterion(case.model(case.x), case.y)
            scaler.scale(loss).backward()
            scaler.step(case.optimizer)
            scaler.update()
            scales.append(scaler.get_scale())
    assert sites(injector) == [("addmm*2:0", 1)]
    assert stepped == [0, 2, 3]
    assert scales == [8, 4, 4, 4]
    assert injector.step == 3


def test_lbfgs_closures_make_no_steps() -> None:
    """Each LBFGS.step is one step however often its closure runs the model."""
    case = models.mlp()
    optimizer = torch.optim.LBFGS(case.model.parameters(), lr=0.1, max_iter=3)
    forwards = []

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = case.criterion(case.model(case.x), case.y)
        loss.backward()
        forwards.append(injector.step)
        return loss

    with Injector(_first_addmm(), model=case.model) as injector:
        for _ in range(3):
            optimizer.step(closure)
    assert _steps_of(injector) == [0, 1, 2]
    assert sorted(set(forwards)) == [0, 1, 2]
    assert len(forwards) > 3


def test_the_closures_calls_keep_their_phases() -> None:
    """Inside LBFGS the model's calls are forward and backward, the update's are optimizer."""
    case = models.mlp()
    optimizer = torch.optim.LBFGS(case.model.parameters(), lr=0.1, max_iter=2)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = case.criterion(case.model(case.x), case.y)
        loss.backward()
        return loss

    config = {
        "version": 2,
        "faults": [
            {"id": op, "target": f"{op}*1:0", "model": "light"} for op in ("addmm", "mm", "neg")
        ],
    }
    with Injector(config, model=case.model) as injector:
        optimizer.step(closure)
    phases = {str(i.site): i.site.phase for i in injector.injections}
    assert phases == {"addmm*1:0": "forward", "mm*1:0": "backward", "neg*1:0": "optimizer"}


def test_two_optimizers_make_one_step() -> None:
    """Two optimizers over halves of the model, stepped one after the other."""
    case = models.mlp()
    parameters = list(case.model.parameters())
    optimizers = [torch.optim.SGD(parameters[:2], lr=0.1), torch.optim.Adam(parameters[2:])]
    with Injector(_first_addmm(), model=case.model, optimizer=optimizers) as injector:
        for _ in range(3):
            case.forward_backward()
            for optimizer in optimizers:
                optimizer.step()
            for optimizer in optimizers:
                optimizer.zero_grad()
    assert _steps_of(injector) == [0, 1, 2]


def test_an_optimizer_in_backward_makes_no_steps() -> None:
    """One SGD for each parameter, stepped by its gradient hook, is one step a forward."""
    case = models.mlp()
    parameters: list[Tensor] = list(case.model.parameters())
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in parameters}

    def update(parameter: Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    handles = [p.register_post_accumulate_grad_hook(update) for p in optimizers]
    config = plan("add_", elements={"index": 0}, steps=[1], phases=["optimizer"])
    with Injector(config, model=case.model) as injector:
        for _ in range(3):
            case.forward_backward()
    for handle in handles:
        handle.remove()
    assert injector.step == 2
    assert [i.step for i in injector.injections] == [1] * 4
    assert sorted(i.site.parameter for i in injector.injections) == [
        "0.bias",
        "0.weight",
        "2.bias",
        "2.weight",
    ]


def test_validation_between_steps_takes_no_number() -> None:
    """Forwards in eval mode or without grad are other; training's numbers do not move."""
    case = models.mlp()
    config = {
        "version": 2,
        "faults": [
            {"id": "train", "target": "addmm*1:0", "model": "light", "steps": "0-"},
            {"id": "other", "target": "other/addmm*1:0", "model": "light", "steps": "0-"},
        ],
    }
    with Injector(config, model=case.model) as injector:
        for _ in range(3):
            case.step()
            case.model.eval()
            with torch.no_grad():
                case.model(case.x)
            case.model(case.x)
            case.model.train()
    counted = [i.step for i in injector.injections if i.fault == "train"]
    assert counted == [0, 1, 2]
    other = [(str(i.site), i.step) for i in injector.injections if i.fault == "other"]
    assert other == [("other/addmm*1:0", step) for step in range(3)]


def test_a_deep_copy_is_another_model() -> None:
    """An EMA copy's forwards count no step and are not struck."""
    case = models.mlp()
    with Injector(_first_addmm(steps="0-"), model=case.model) as injector:
        average = copy.deepcopy(case.model)
        for _ in range(3):
            case.step()
            with torch.no_grad():
                for mine, theirs in zip(average.parameters(), case.model.parameters(), strict=True):
                    mine.lerp_(theirs, 0.1)
            average.train()(case.x)
    assert _steps_of(injector) == [0, 1, 2]
    assert not any(average._forward_hooks for average in average.modules())


def test_the_model_can_be_saved_while_the_injector_is_on() -> None:
    """torch.save(model) works between steps and inside one, and the copy holds no hook."""
    case = models.mlp()
    with Injector(_first_addmm(), model=case.model):
        case.step()
        file = io.BytesIO()
        torch.save(case.model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    pairs = zip(loaded.parameters(), case.model.parameters(), strict=True)
    assert all(bits(one) == bits(other) for one, other in pairs)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in loaded.modules())


def test_training_is_resumed_with_start_step() -> None:
    """With start_step=10 the first step is 10."""
    case = models.mlp()
    config = _first_addmm(steps="11-12")
    with Injector(config, model=case.model, start_step=10) as injector:
        for _ in range(5):
            case.step()
    assert _steps_of(injector) == [11, 12]


def test_training_is_resumed_from_a_state() -> None:
    """Steps and firings count on: times=3 fired twice before, so once more."""
    case = models.mlp()
    config = _first_addmm(steps="1-", times=3)
    with Injector(config, model=case.model) as first:
        for _ in range(3):
            case.step()
        state = first.state_dict()
    assert state == {"next_step": 3, "fired": {"f1": 2}}
    with Injector(config, model=case.model) as second:
        second.load_state_dict(state)
        for _ in range(3):
            case.step()
    assert _steps_of(first) == [1, 2]
    assert _steps_of(second) == [3]


@pytest.mark.parametrize(
    "state",
    [
        None,
        [],
        "next_step",
        {},
        {"next_step": 1},
        {"next_step": "3", "fired": {}},
        {"next_step": -1, "fired": {}},
        {"next_step": True, "fired": {}},
        {"next_step": 1.0, "fired": {}},
        {"next_step": 1, "fired": None},
        {"next_step": 1, "fired": ["f1"]},
        {"next_step": 1, "fired": {"f1": -1}},
        {"next_step": 1, "fired": {"f1": "2"}},
        {"next_step": 1, "fired": {"f1": True}},
        {"next_step": 1, "fired": {1: 1}},
    ],
)
def test_a_state_that_is_none_is_refused(state: Any) -> None:
    """load_state_dict names what it expected, and nothing of it was loaded."""
    case = models.mlp()
    with Injector(_first_addmm(), model=case.model) as injector:
        with pytest.raises(ValueError, match=r"expected what Injector\.state_dict\(\) gave, with"):
            injector.load_state_dict(state)
        assert injector.state_dict() == {"next_step": 0, "fired": {"f1": 0}}


def test_a_state_of_other_faults_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """What is known is loaded; the id that the plan lacks is named, with the nearest one."""
    case = models.mlp()
    with Injector(_first_addmm(), model=case.model) as injector:
        injector.load_state_dict({"next_step": 2, "fired": {"f1": 1, "f11": 4}})
        assert injector.state_dict() == {"next_step": 2, "fired": {"f1": 1}}
    said = [line for line in lines(caplog) if "the plan lacks" in line]
    assert said == ["the state tells of fault 'f11', which the plan lacks; did you mean 'f1'?"]


def test_a_state_is_loaded_before_training_only() -> None:
    """Once a step was made, load_state_dict refuses."""
    case = models.mlp()
    with Injector(_first_addmm(), model=case.model) as injector:
        case.step()
        with pytest.raises(ValueError, match="training has begun"):
            injector.load_state_dict(injector.state_dict())


def test_a_step_that_never_comes_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """At the end it is said which step was asked for and how far training came."""
    case = models.mlp()
    injector = Injector(_first_addmm(steps=[40]), model=case.model)
    for _ in range(3):
        case.step()
    injector.close()
    reason = "step 40 never came: the last one was step 2 (3 steps came)"
    assert [(n.fault, n.reason) for n in injector.not_injected] == [("f1", reason)]
    assert f"f1 was not injected: {reason}" in lines(caplog)
    assert "training came to step 2" in injector.report()


def test_a_fault_that_is_switched_off_keeps_its_count() -> None:
    """Resumed without it, and saved again, it has fired as often as before."""
    model = models.mlp().model
    with Injector(_first_addmm(enabled=False), model=model) as injector:
        injector.load_state_dict({"next_step": 2, "fired": {"f1": 3}})
        assert injector.state_dict() == {"next_step": 2, "fired": {"f1": 3}}


def test_a_model_that_is_never_trained_is_reported() -> None:
    """Without a step nothing is said of the target: whether it has a place shows in a step."""
    case = models.mlp()
    with Injector(_first_addmm(), model=case.model) as injector:
        (missed,) = injector.not_injected
    assert missed.reason == "no step came: the model had no training forward"


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (None, "no step came: the model had no training forward"),
        ("2-", "no step came: the model had no training forward"),
        ("1-3", "asked for steps 1-3, but training was resumed at step 5"),
    ],
)
def test_a_resumed_training_without_a_step_has_passed_only_steps_that_end(
    steps: str | None, reason: str
) -> None:
    """Steps without an end were to come still."""
    case = models.mlp()
    config = _first_addmm() if steps is None else _first_addmm(steps=steps)
    with Injector(config, model=case.model, start_step=5) as injector:
        (missed,) = injector.not_injected
    assert missed.reason == reason


def test_a_model_that_trains_in_evaluation_mode_is_told_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """At the optimizer's step, once, and in the reason at the end."""
    case = models.mlp()
    case.model.eval()
    with Injector(_first_addmm(), model=case.model) as injector:
        case.step()
        case.step()
        (missed,) = injector.not_injected
    assert missed.reason == (
        "no step came: the model had no training forward; its forwards were made in evaluation "
        "mode (model.training is False), which a session can strike"
    )
    said = (
        "an optimizer of the model stepped, but its forward was made in evaluation mode "
        "(model.training is False), which begins no step; call model.train(), and eval() of the "
        "parts that are frozen"
    )
    assert lines(caplog).count(said) == 1


def test_some_listed_steps_that_never_come_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Steps 1 and 40 of 3: step 1 fired, and step 40 is said to have been missed."""
    case = models.mlp()
    with Injector(_first_addmm(steps=[1, 40]), model=case.model) as injector:
        for _ in range(3):
            case.step()
    assert _steps_of(injector) == [1]
    told = "f1: step 40 of its steps 1,40 never came: the last one was step 2"
    assert any(told in line for line in lines(caplog))


def test_several_models_in_one_script() -> None:
    """A second model trains between the steps; only the given one counts and is struck."""
    case, other = models.mlp(), models.cnn()
    with Injector(plan("relu*1:0", "zero", steps=[1]), model=case.model) as injector:
        for _ in range(3):
            other.step()
            case.step()
            other.step()
    assert sites(injector) == [("relu*1:0", 1)]
    assert injector.injections[0].site.module == "1"


def test_two_injectors_at_two_models() -> None:
    """Each counts the steps of its own model."""
    one, other = models.mlp(), models.mlp()
    with (
        Injector(_first_addmm(steps=[1]), model=one.model) as first,
        Injector(_first_addmm(steps=[0]), model=other.model) as second,
    ):
        one.step()
        one.step()
        other.step()
    assert (sites(first), sites(second)) == ([("addmm*1:0", 1)], [("addmm*1:0", 0)])


def test_a_module_that_is_used_outside_the_model() -> None:
    """A forward of a part of the model alone is no step."""
    case = models.mlp()
    part = case.model[0]  # type: ignore[index]
    assert isinstance(part, nn.Module)
    with Injector(_first_addmm(steps="0-"), model=case.model) as injector:
        case.step()
        part(case.x)
        case.step()
    assert injector.step == 1
