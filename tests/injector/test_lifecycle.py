"""Attaching and detaching: nothing is left behind, whatever the training does."""

from __future__ import annotations

import copy
import gc
import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fi_notebook import FaultPlan, Injector
from fi_notebook.errors import PlanError
from tests import models
from tests.injector.helpers import plan, sites
from tests.tools import leaks

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("form", ["path", "text", "mapping", "plan"])
def test_a_plan_may_be_a_path_a_mapping_or_a_plan(form: str, tmp_path: Path) -> None:
    """All of them strike alike."""
    config, case = plan("relu*2:0", "zero", steps=[0]), models.mlp()
    path = tmp_path / "injector.json"
    path.write_text(json.dumps(config))
    given = {"path": path, "text": str(path), "mapping": config, "plan": FaultPlan.load(config)}
    with Injector(given[form], model=case.model) as injector:  # type: ignore[arg-type]
        case.step()
    assert sites(injector) == [("relu*2:0", 0)]


@pytest.mark.parametrize(
    "fault",
    [
        {"target": "relu*2:0", "modules": ["nowhere"]},
        {"target": "param:nowhere.weight"},
        {"target": "nowhere"},
    ],
)
def test_nothing_is_said_of_a_fault_that_is_switched_off(
    fault: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Switched on it is logged and listed, whatever is wrong with it."""
    case = models.mlp()
    for enabled in (True, False):
        caplog.clear()
        config = plan(model="zero", enabled=enabled, **fault)
        with Injector(config, model=case.model) as injector:
            case.step()
        assert bool(injector.not_injected) is enabled
        assert bool([r for r in caplog.records if "nowhere" in r.getMessage()]) is enabled


def test_close_ends_it() -> None:
    """After close() steps are not struck, hooks and mode are gone, and it may be repeated."""
    before = leaks.state()
    case = models.mlp()
    injector = Injector(plan("relu*2:0", "zero"), model=case.model)
    case.step()
    injector.close()
    injector.close()
    leaks.assert_clean(before)
    case.step()
    assert sites(injector) == [("relu*2:0", 0)]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("where", ["forward", "backward", "optimizer", "between"])
def test_an_exception_in_training_leaves_nothing_behind(
    error: type[BaseException], where: str
) -> None:
    """Whatever is raised wherever, the with block leaves no hook, mode or patch."""
    before = leaks.state()
    case = models.mlp()

    def fail(*_: object) -> None:
        raise error("on purpose")

    def train() -> None:
        case.step()
        if where == "forward":
            case.model[1].register_forward_hook(fail)  # type: ignore[index]
        elif where == "backward":
            next(iter(case.model.parameters())).register_hook(fail)
        elif where == "optimizer":
            case.optimizer.register_step_pre_hook(fail)
        else:
            fail()
        case.step()

    with pytest.raises(error), Injector(plan("relu", "zero"), model=case.model) as injector:
        train()
    leaks.assert_clean(before)
    assert injector.injections


def test_training_goes_on_after_a_caught_exception() -> None:
    """A batch that raises in the middle of a forward is skipped; the next one is struck."""
    case = models.mlp()
    failing = [True]

    def fail_once(*_: object) -> None:
        if failing:
            failing.clear()
            raise RuntimeError("a bad batch")

    case.model[1].register_forward_hook(fail_once)  # type: ignore[index]
    with Injector(plan("relu*2:0", "zero", steps="0-"), model=case.model) as injector:
        with pytest.raises(RuntimeError, match="a bad batch"):
            case.step()
        case.optimizer.zero_grad()
        case.step()
        case.step()
    assert sites(injector) == [("relu*2:0", 1), ("relu*2:0", 2)]
    assert [i.site.module for i in injector.injections] == ["3", "3"]


def test_a_model_that_is_none_is_refused() -> None:
    """The message says what was given and what is expected."""
    with pytest.raises(TypeError, match=r"model is Linear.*expected a torch\.nn\.Module"):
        Injector(plan("relu"), model=type("Linear", (), {})())


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2"])
def test_a_wrong_micro_batch_count_is_refused(value: object) -> None:
    """A whole number from 1 is expected."""
    with pytest.raises(ValueError, match=r"micro_batch_per_step is .*; expected a whole number"):
        Injector(plan("relu"), model=nn.ReLU(), micro_batch_per_step=value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("argument", "error", "said"),
    [
        ({"optimizer": 3}, TypeError, "optimizer is 3; expected a torch optimizer"),
        ({"optimizer": "sgd"}, TypeError, "optimizer is 'sgd'; expected a torch optimizer"),
        ({"optimizer": [None]}, TypeError, "optimizer holds NoneType; expected a torch optimizer"),
        ({"rank": "2"}, ValueError, "rank is '2'; expected a whole number from 0"),
        ({"rank": -1}, ValueError, "rank is -1; expected a whole number from 0"),
        ({"rank": True}, ValueError, "rank is True; expected a whole number from 0"),
        ({"start_step": None}, ValueError, "start_step is None; expected a whole number from 0"),
        ({"verbosity": "verbos"}, ValueError, "did you mean 'verbose'?"),
        ({"verbosity": ""}, ValueError, "verbosity is ''; expected one of"),
        ({"events": 1}, TypeError, "events is int; expected a path, or None"),
        ({"micro_batch_per_step": 0}, ValueError, "micro_batch_per_step is 0; expected a whole"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_is_attached(
    argument: dict[str, Any], error: type[Exception], said: str, tmp_path: Path
) -> None:
    """It is named with what was expected; no hook is on and no file was made."""
    before = leaks.state()
    with pytest.raises(error, match=re.escape(said)):
        Injector(plan("relu"), model=nn.ReLU(), **({"events": tmp_path / "e"} | argument))
    leaks.assert_clean(before)
    assert not list(tmp_path.iterdir())


def test_several_optimizers_may_be_any_iterable() -> None:
    """A generator of two is taken as well as a list."""
    first, second = (torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1) for _ in range(2))
    given = (one for one in (first, second))
    with Injector(plan("relu"), model=nn.ReLU(), optimizer=given) as injector:
        assert injector._clock.optimizers == [first, second]


def test_a_refused_plan_leaves_nothing_behind(tmp_path: Path) -> None:
    """A bad config raises before anything is attached."""
    before = leaks.state()
    with pytest.raises(PlanError, match="error_tpe"):
        Injector({"targets": ["relu"], "error_tpe": "light"}, model=nn.ReLU())
    with pytest.raises(FileNotFoundError):
        Injector(plan("relu"), model=nn.ReLU(), events=tmp_path / "none" / "events.jsonl")
    leaks.assert_clean(before)


def test_a_forgotten_injector_closes_at_the_end_of_the_process(tmp_path: Path) -> None:
    """A script that never closes it still says what was not injected, and exits with 0."""
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nfrom fi_notebook import Injector\n"
        "model = torch.nn.Linear(2, 2)\n"
        "injector = Injector({'targets': ['addmm'], 'steps': [3], 'error_type': 'light'},"
        " model=model)\n"
        "model(torch.ones(1, 2)).sum().backward()\n"
    )
    done = _python(str(script))
    assert "f1 was not injected: step 3 never came: the last one was step 0" in done.stderr


def test_it_is_headless() -> None:
    """Training with the injector imports no widget, plot or notebook package."""
    heavy = ["anywidget", "plotly", "IPython", "ipywidgets", "traitlets", "pandas", "matplotlib"]
    code = (
        "import sys, torch\nfrom fi_notebook import Injector\n"
        "model = torch.nn.Linear(2, 2)\n"
        "with Injector({'targets': ['addmm'], 'error_type': 'light'}, model=model) as injector:\n"
        "    model(torch.ones(1, 2)).sum().backward()\n"
        "assert injector.injections\n"
        f"print(sorted(set({heavy!r}) & set(sys.modules)))\n"
    )
    assert _python("-c", code).stdout.strip() == "[]"


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )


def test_the_optimizer_is_found_when_it_steps() -> None:
    """Without optimizer= the one that owns the parameters is found, others are not."""
    case, other = models.mlp(), models.mlp()
    with Injector(plan("add_*1:0", phases=["optimizer"]), model=case.model) as injector:
        other.step()
        case.step()
        other.step()
    assert [i.site.parameter for i in injector.injections] == ["0.weight"]
    assert injector._clock.optimizers == [case.optimizer]


def test_probability_and_times() -> None:
    """With probability 0.5 some of 40 calls are struck, the same ones each time; times caps."""
    struck = []
    for _ in range(2):
        case = models.mlp()
        config = plan("relu", elements={"index": 0}, probability=0.5, seed=4)
        with Injector(config, model=case.model) as injector:
            for _ in range(20):
                case.step()
        struck.append(sites(injector))
    assert struck[0] == struck[1]
    assert 8 <= len(struck[0]) <= 32  # 20 of 40, give or take four standard deviations
    case = models.mlp()
    with Injector(plan("relu", times=3), model=case.model) as injector:
        for _ in range(5):
            case.step()
    assert sites(injector) == [("relu*1:0", 0), ("relu*2:0", 0), ("relu*1:0", 1)]


def test_a_stale_value_is_that_of_the_step_before() -> None:
    """In step 3 relu*1 gives what it gave in step 2; the step before is looked at as well."""
    case = models.mlp()
    seen: list[torch.Tensor] = []
    case.model[1].register_forward_hook(lambda *given: seen.append(given[2].detach().clone()))  # type: ignore[index]
    with Injector(plan("relu*1:0", "stale", steps=[3]), model=case.model) as injector:
        for _ in range(5):
            case.step()
    assert sites(injector) == [("relu*1:0", 3)]
    assert torch.equal(seen[3], seen[2])
    assert not torch.equal(seen[4], seen[3])


def test_a_report_names_fifty_firings_and_counts_the_others() -> None:
    """2 calls of addmm in each of 30 steps: 60 firings, of which 10 are not named."""
    case = models.mlp()
    with Injector(plan("addmm"), model=case.model) as injector:
        for _ in range(30):
            case.step()
    told = injector.report().splitlines()
    assert told[0] == "60 injections, training came to step 29"
    assert len(told) == 52
    assert told[-1] == "  … and 10 more strikes"


def test_what_holds_an_injector_can_be_copied() -> None:
    """A copy of the model holds the same injector, and is not struck: it is another model."""
    case = models.mlp()
    with Injector(plan("relu*2:0", "zero"), model=case.model) as injector:
        case.model.injector = injector  # type: ignore[assignment]  # as a trainer would
        case.step()
        copied = copy.deepcopy(case.model)
        assert vars(copied)["injector"] is injector
        before = len(injector.injections)
        copied(case.x).sum().backward()
        assert len(injector.injections) == before
        averaged = torch.optim.swa_utils.AveragedModel(case.model)
        case.step()
        averaged.update_parameters(case.model)
        assert len(injector.injections) == before + 1
        with pytest.raises(TypeError):
            pickle.dumps(injector)
    del copied, averaged
    gc.collect()  # no memory was given up twice


def test_an_injector_is_told_in_a_line() -> None:
    """What it is for, how far it came, and how often it struck."""
    case = models.mlp()
    with Injector(plan("relu*2:0", "zero", steps=[0]), model=case.model) as injector:
        assert repr(injector) == "<Injector of Sequential: 1 fault, step -1, 0 injections>"
        case.step()
        assert repr(injector) == "<Injector of Sequential: 1 fault, step 0, 1 injection>"
    assert repr(injector) == "<Injector of Sequential: 1 fault, closed, 1 injection>"
