"""The first form of the config in a real script: what it logs, line for line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.injector.forks import run_scripts

SCRIPT = Path(__file__).parent / "scripts" / "run.py"

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


def _configs() -> dict[str, dict[str, Any]]:
    """The configs of all tests by name, so that they run in one program."""
    block, each, backward = (f"run.py[{_line(m)}]" for m in ("the block", "each layer", "backward"))
    mm = {
        "targets": ["mm"],
        "modules": ["layer.layers.6"],
        "steps": [0],
        "error_type": "light",
        "direction": "backward",
    }
    return {
        "clean": {"modules": [], "steps": [0]},
        "calls": {
            "modules": ["layer", "ababa"],
            "targets": [],
            "steps": [0],
            "direction": "both",
        },
        "micro batches": {"modules": ["layer"], "targets": [], "steps": [1]},
        "line": {
            "targets": ["addmm", "t"],
            "modules": ["layer.layers"],
            "code": [block],
            "steps": [0],
            "error_type": "light",
            "direction": "both",
        },
        "output": {
            "targets": ["addmm*1:0"],
            "modules": ["layer"],
            "code": [f"./{each}"],
            "steps": [0],
            "error_type": "heavy",
            "direction": "forward",
        },
        "its forward": mm | {"code": [each]},
        "its backward": mm | {"code": [backward]},
        "never": {"targets": ["addmm"], "modules": ["layer"], "steps": [7], "error_type": "heavy"},
    }


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What the script prints with each config, without the logger's name."""
    folder = tmp_path_factory.mktemp("seed")
    scripts = []
    for number, config in enumerate(_configs().values()):
        path = folder / f"{number}.json"
        path.write_text(json.dumps(config))
        scripts.append([str(SCRIPT), str(path)])
    done = run_scripts(scripts, folder)
    assert [one.code for one in done] == [0] * len(scripts)
    texts = [one.output.replace("fi_notebook:", "").splitlines() for one in done]
    return dict(zip(_configs(), texts, strict=True))


def test_the_structure_is_logged_and_nothing_else(logs: dict[str, list[str]]) -> None:
    """With empty modules and steps [0] all modules and the phases are logged, no call is."""
    clean = logs["clean"]
    assert clean[:4] == [
        "INFO:current step 0. Restart counting",
        "INFO:starting",
        "INFO:----------module names of the model----------",
        "INFO:act",
    ]
    assert clean[3 : 3 + len(MODULES)] == [f"INFO:{name}" for name in MODULES]
    assert clean[3 + len(MODULES) :][:3] == [
        "INFO:forward start",
        "INFO:forward ended. Expecting to forward loss function",
        "INFO:backward start",
    ]
    assert not [line for line in clean if "*step" in line]


def test_the_calls_of_a_module_are_logged(logs: dict[str, list[str]]) -> None:
    """With modules ["layer", "ababa"] the log is that of the first form, line for line."""
    log = logs["calls"]
    assert log[0] == (
        "ERROR:some of the target modules: ababa do not exist in the model. Check the modules."
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


def test_numbers_run_on_through_the_micro_batches(logs: dict[str, list[str]]) -> None:
    """The second forward's last addmm of the layer is number 11 of the step: 6 + 5."""
    log = logs["micro batches"]
    addmm = [line for line in log if "*addmm*" in line]
    numbers = [1, 2, 3, 4, 5, 7, 8, 9, 10, 11]  # the root's out has 6 and 12
    assert [line.rsplit("*", 1)[1] for line in addmm] == [str(n) for n in numbers]
    assert all("*step1*" in line for line in log if "*step" in line)
    assert "INFO:current step 1. Restart counting" in log


def test_a_line_of_code_is_chosen(logs: dict[str, list[str]]) -> None:
    """With the line of the block, every t and addmm beneath it is struck, as the log says."""
    number = _line("the block")
    log = logs["line"]
    start = log.index("INFO:forward start")
    assert log[start + 1 : start + 7] == [
        f'INFO:Injecting to "{SCRIPT}", line {number}',
        "INFO:layer.layers.0*step0*t*1",
        "INFO:injecting fault to t*1:0",
        "INFO:layer.layers.0*step0*addmm*1",
        "INFO:injecting fault to addmm*1:0",
        "INFO:layer.layers.1*step0*sigmoid*1",
    ]
    assert log[-3:] != logs["clean"][-3:]  # the losses


def test_one_output_of_one_call_is_chosen(logs: dict[str, list[str]]) -> None:
    """With addmm*1:0 only that is struck, and the calls of the line are logged."""
    log = logs["output"]
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


def test_backward_is_chosen_by_the_line_of_its_forward_or_of_backward(
    logs: dict[str, list[str]],
) -> None:
    """The backward mm calls answer to the forward line and to that of loss.backward()."""
    for mark in ("its forward", "its backward"):
        struck = [line for line in logs[mark] if "injecting fault" in line]
        assert struck == [f"INFO:injecting fault to mm*{n}:0" for n in (5, 6, 16, 17)], (
            mark
        )  # 11 a micro batch


def test_what_is_not_chosen_changes_nothing(logs: dict[str, list[str]]) -> None:
    """A run whose fault is due in step 7, which never comes, has the losses of a clean run."""
    log, clean = logs["never"], logs["clean"]
    assert log[:3] == clean[-3:]
    assert log[-1].endswith("step 7 never came: the last one was step 2 (3 steps came)")
