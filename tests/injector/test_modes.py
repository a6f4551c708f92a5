"""The user's own dispatch modes beside the injector's, entered and left at any time."""

from __future__ import annotations

from typing import Any

import pytest
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils.flop_counter import FlopCounterMode

from fi_notebook import Injector
from tests import models
from tests.injector.helpers import lines, plan, sites

EVERY = plan("addmm*1:0", elements={"index": 0}, steps=[1, 2, 4])


class Counting(TorchDispatchMode):
    """A mode that counts calls."""

    def __init__(self) -> None:
        """Start at none."""
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count and call."""
        self.calls += 1
        return func(*args, **(kwargs or {}))


def _counted(steps: int) -> int:
    case, mode = models.mlp(), Counting()
    with mode:
        for _ in range(steps):
            case.step()
    return mode.calls


def test_a_counter_around_the_whole_loop() -> None:
    """FlopCounterMode counts what it counts without us, and every listed step is struck."""
    case, twin = models.mlp(), models.mlp()
    with FlopCounterMode(display=False) as plain:
        for _ in range(5):
            twin.step()
    with (
        Injector(EVERY, model=case.model) as injector,
        FlopCounterMode(display=False) as counter,
    ):
        for _ in range(5):
            case.step()
    assert sites(injector) == [("addmm*1:0", step) for step in (1, 2, 4)]
    assert counter.get_total_flops() == plain.get_total_flops()
    assert not _get_current_dispatch_mode_stack()


def test_a_mode_in_every_step() -> None:
    """Entered and left in each step: it counts as ever."""
    case, mode = models.mlp(), Counting()
    with Injector(EVERY, model=case.model) as injector:
        for _ in range(5):
            with mode:
                case.step()
    assert [step for _, step in sites(injector)] == [1, 2, 4]
    assert mode.calls == _counted(5)


def test_a_mode_that_begins_before_ours_and_ends_within() -> None:
    """Its exit takes ours off; ours goes on again at the next step, with one warning."""
    case, mode = models.mlp(), Counting()
    with Injector(EVERY, model=case.model) as injector:
        case.step()
        mode.__enter__()
        case.step()  # ours goes on above it
        mode.__exit__(None, None, None)  # takes ours off
        for _ in range(3):
            case.step()
    assert [step for _, step in sites(injector)] == [1, 2, 4]
    assert not _get_current_dispatch_mode_stack()


def test_the_mend_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """Two such exits, one warning."""
    case = models.mlp()
    config = plan("addmm*1:0", elements={"index": 0})
    with Injector(config, model=case.model) as injector:
        for _ in range(2):
            case.step()
            mode = Counting()
            injector_mode = _get_current_dispatch_mode_stack()[-1]
            assert injector_mode is not mode
            mode.__enter__()
            case.step()
            mode.__exit__(None, None, None)
            case.step()
    assert [step for _, step in sites(injector)] == list(range(6))
    assert len([line for line in lines(caplog) if "another dispatch mode" in line]) <= 1
    assert not _get_current_dispatch_mode_stack()


def test_closing_inside_a_mode_leaves_that_one() -> None:
    """close() under a person's mode takes ours off and leaves theirs."""
    case, mode = models.mlp(), Counting()
    injector = Injector(plan("addmm*1:0"), model=case.model)
    case.step()
    with mode:
        injector.close()
        assert _get_current_dispatch_mode_stack() == [mode]
        before = mode.calls
        case.step()
        assert mode.calls > before
    assert not _get_current_dispatch_mode_stack()
