"""The first form of the config in a real script: what it logs, line for line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parent / "scripts" / "run.py"
ROOT = Path(__file__).parents[2]

MODULES = [
    "act",
    "layer",
    "layer.layers",
    *(f"layer.layers.{number}" for number in range(7)),
    "layer.out",
    "out",
]


def _line(mark: str) -> int:
    """Number of the line of the script that ends with a comment."""
    lines = SCRIPT.read_text().splitlines()
    return next(n for n, line in enumerate(lines, start=1) if line.endswith(f"# {mark}"))


def _run(folder: Path, **config: Any) -> list[str]:
    """What the script prints, without the logger's name."""
    plan = folder / "injector.json"
    plan.write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(plan)],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    return [line.replace("fi_notebook:", "") for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The log of a run in which nothing is chosen: structure only."""
    return _run(tmp_path_factory.mktemp("clean"), modules=[], steps=[0])


def test_the_structure_is_logged_and_nothing_else(clean: list[str]) -> None:
    """With empty modules and steps [0] the names of all modules are logged, no call is."""
    assert clean[:4] == [
        "INFO:current step 0. Restart counting",
        "INFO:starting",
        "INFO:----------module names of the model----------",
        "INFO:act",
    ]
    assert clean[3 : 3 + len(MODULES)] == [f"INFO:{name}" for name in MODULES]
    assert not [line for line in clean if "*step" in line]


def test_the_calls_of_a_module_are_logged(tmp_path: Path) -> None:
    """With modules ["layer", "ababa"] the log is that of the first form, line for line."""
    log = _run(tmp_path, modules=["layer", "ababa"], targets=[], steps=[0], direction="both")
    assert log[0].startswith(
        "ERROR:some of the target modules: ababa do not exist in the model. Check the modules"
    )
    start = log.index("INFO:layer.layers.5*step0*sigmoid*3")
    assert log[start : start + 19] == [
        "INFO:layer.layers.5*step0*sigmoid*3",
        "INFO:layer.layers.6*step0*t*4",
        "INFO:layer.layers.6*step0*addmm*4",
        "INFO:layer.out*step0*t*5",
        "INFO:layer.out*step0*addmm*5",
        "INFO:forward ended. Expecting to forward loss function",
        "INFO:loss function*step0*nll_loss_forward*1",
        "INFO:output is tuple, types are Tensor|Tensor",
        "INFO:loss function*step0*nll_loss_backward*1",
        "INFO:backward start",
        "INFO:layer.out*step0*t*11",
        "INFO:layer.out*step0*mm*3",
        "INFO:layer.out*step0*t*12",
        "INFO:layer.out*step0*mm*4",
        "INFO:layer.out*step0*t*13",
        "INFO:layer.out*step0*sum*2",
        "INFO:layer.out*step0*t*14",
        "INFO:layer.layers.6*step0*t*15",
        "INFO:layer.layers.6*step0*mm*5",
    ]


def test_numbers_run_on_through_the_micro_batches(tmp_path: Path) -> None:
    """The second forward's last addmm of the layer is number 11 of the step: 6 + 5."""
    log = _run(tmp_path, modules=["layer"], targets=[], steps=[1])
    addmm = [line for line in log if "*addmm*" in line]
    numbers = [1, 2, 3, 4, 5, 7, 8, 9, 10, 11]  # the root's out has 6 and 12
    assert [line.rsplit("*", 1)[1] for line in addmm] == [str(n) for n in numbers]
    assert all("*step1*" in line for line in log if "*step" in line)
    assert "INFO:current step 1. Restart counting" in log


def test_a_line_of_code_is_chosen(tmp_path: Path, clean: list[str]) -> None:
    """With the line of the block, every t and addmm beneath it is struck, as the log says."""
    number = _line("the block")
    log = _run(
        tmp_path,
        targets=["addmm", "t"],
        modules=["layer.layers"],
        code=[f"run.py[{number}]"],
        steps=[0],
        error_type="light",
        direction="both",
    )
    start = log.index("INFO:forward start")
    assert log[start + 1 : start + 7] == [
        f'INFO:Injecting to "{SCRIPT}", line {number}',
        "INFO:layer.layers.0*step0*t*1",
        "INFO:injecting fault to t*1:0",
        "INFO:layer.layers.0*step0*addmm*1",
        "INFO:injecting fault to addmm*1:0",
        "INFO:layer.layers.1*step0*sigmoid*1",
    ]
    assert log[-3:] != clean[-3:]  # the losses


def test_one_output_of_one_call_is_chosen(tmp_path: Path) -> None:
    """With addmm*1:0 only that is struck, and the calls of the line are logged."""
    log = _run(
        tmp_path,
        targets=["addmm*1:0"],
        modules=["layer"],
        code=[f"./run.py[{_line('each layer')}]"],
        steps=[0],
        error_type="heavy",
        direction="forward",
    )
    start = log.index("INFO:layer.layers.0*step0*t*1")
    assert log[start : start + 6] == [
        "INFO:layer.layers.0*step0*t*1",
        "INFO:layer.layers.0*step0*addmm*1",
        "INFO:injecting fault to addmm*1:0",
        "INFO:layer.layers.1*step0*sigmoid*1",
        "INFO:layer.layers.2*step0*t*2",
        "INFO:layer.layers.2*step0*addmm*2",
    ]
    assert sum("injecting fault" in line for line in log) == 1


def test_backward_is_chosen_by_the_line_of_its_forward_or_of_backward(tmp_path: Path) -> None:
    """The backward mm calls answer to the forward line and to that of loss.backward()."""
    for mark in ("each layer", "backward"):
        log = _run(
            tmp_path,
            targets=["mm"],
            modules=["layer.layers.6"],
            code=[f"run.py[{_line(mark)}]"],
            steps=[0],
            error_type="light",
            direction="backward",
        )
        struck = [line for line in log if "injecting fault" in line]
        assert struck == [f"INFO:injecting fault to mm*{n}:0" for n in (5, 6, 16, 17)], (
            mark
        )  # 11 a micro batch


def test_what_is_not_chosen_changes_nothing(tmp_path: Path, clean: list[str]) -> None:
    """A run whose fault is due in step 7, which never comes, has the losses of a clean run."""
    log = _run(tmp_path, targets=["addmm"], modules=["layer"], steps=[7], error_type="heavy")
    assert log[:3] == clean[-3:]
    assert log[-1].endswith("step 7 never came: the last one was step 2")
