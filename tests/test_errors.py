from __future__ import annotations

import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import fi_notebook as fi
from fi_notebook import errors
from fi_notebook.core.site import Target
from fi_notebook.core.steps import Steps
from fi_notebook.errors import FiError, did_you_mean, short
from tests import models

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

SETUP = """
import torch
import fi_notebook as fi
net = torch.nn.Linear(2, 2)
def step():
    net(torch.ones(3, 2)).sum().backward()
def failing():
    net(torch.ones(3, 5))
session = fi.Session(step, model=net)
"""


@pytest.mark.parametrize(
    ("name", "choices", "expected"),
    [
        ("relo", ["relu", "mm"], "; did you mean 'relu'?"),
        ("stale", ["state", "stal", "mm"], "; did you mean 'stal' or 'state'?"),
        ("xyz", ["relu", "mm"], "; expected one of 'relu', 'mm'"),
        ("xyz", [], ""),
        ("xyz", [f"module.{n}" for n in range(13)], ""),
        ("relo", ["relu", "relu"], "; did you mean 'relu'?"),
    ],
)
def test_near_matches(name: str, choices: list[str], expected: str) -> None:
    """The nearest names, else a short list of all, else nothing."""
    assert did_you_mean(name, choices) == expected


def test_what_was_given_is_repeated_in_part_where_it_is_long() -> None:
    """The beginning and the end; a number of too many digits for Python by its type."""
    assert short("relu*1") == "'relu*1'"
    assert short("a" * 150 + "b" * 10_000) == f"'{'a' * 150}{'b' * 9} … {'b' * 29}'"
    assert short(10**5000) == "a value of type int"
    with pytest.raises(errors.FaultError) as caught:
        Steps.parse("1," * 100_000)
    assert len(str(caught.value)) < 400


def test_the_errors_are_there_from_the_start() -> None:
    """Without any other name having been used, as in ``except fi.errors.FiError``."""
    code = "import fi_notebook as fi; print(fi.errors.FiError.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "FiError"


CALLS: dict[str, Callable[[fi.Session], object]] = {
    "no tree by 'x'; expected one of 'module', 'source', 'op'": lambda s: s.trace().tree("x"),
    "no phase 'x'; expected one of": lambda s: s.trace().find(phase="x"),
    "no module 'layr'": lambda s: s.trace().find(module="layr"),
    "tolerance is -1; expected": lambda s: fi.compare(s.trace(), s.trace(), tolerance=-1),
    "growth is 0.5; expected": lambda s: fi.compare(s.trace(), s.trace(), growth=0.5),
    "spike is -1; expected a number from 0": lambda _: fi.Tolerance(spike=-1),
    "no place 'x' for NaN": lambda _: fi.Tolerance(nonfinite=("x",)),
    "steps is 0; expected": lambda s: s.replay(steps=0),
    "evaluate is 5; expected": lambda s: s.replay(evaluate=5),  # type: ignore[arg-type]
    "steps is -1; expected": lambda s: s.trials(steps=-1),
    "memory is -1; expected": lambda s: fi.Session(s.replay, model=s.model, memory=-1),
    "start_step is -1; expected": lambda s: fi.watch(s.model, "relu", start_step=-1),
    "micro_batch_per_step is 0": lambda s: fi.watch(s.model, "relu", micro_batch_per_step=0),
    "start_step is -2; expected": lambda s: fi.Injector(s.plan, model=s.model, start_step=-2),
    "rank is -1; expected": lambda s: fi.Injector(s.plan, model=s.model, rank=-1),
    "verbosity is 'x'": lambda s: fi.Injector(s.plan, model=s.model, verbosity="x"),
    "n is 0; expected": lambda s: fi.Campaign.of_sites(s, "relu", n=0),
    "nothing is grouped by 'x'": lambda s: fi.Campaign.of_sites(s, "relu", n=1).rates("x"),
    "the plan holds no fault 'f2'; expected one of 'f1'": lambda s: s.plan["f2"],
    "the plan holds no fault 'f3'; expected one of 'f1'": lambda s: s.disarm("f3"),
    "the plan holds no fault 'f4'; expected one of": lambda s: s.set_enabled("f4", False),
    "the plan holds no fault 'f5'; expected one of": lambda s: s.figures.tensor_diff("f5"),
    "no fault model 'x'": lambda s: s.arm("relu", "x"),
    "probability is 2; expected": lambda s: s.arm("relu", "zero", probability=2),
    "the plan: version: missing": lambda _: fi.FaultPlan.load({"faults": []}),
}
"""Calls that give a value that cannot be, by what they are told."""


@pytest.mark.parametrize("said", CALLS)
def test_a_value_that_cannot_be_is_an_error_of_ours_and_a_value_error(said: str) -> None:
    """Whichever public function it was given to; those of a session are `SessionError`s too."""
    case = models.mlp()
    session = fi.Session(case.step, model=case.model, optimizer=case.optimizer)
    session.arm("relu", "zero")
    if "f5" in said:
        session.replay()
    with pytest.raises(FiError, match=re.escape(said)) as caught:
        CALLS[said](session)
    assert isinstance(caught.value, ValueError)
    ours = re.match("steps|evaluate|memory", said) is not None
    assert isinstance(caught.value, errors.SessionError) == ours
    assert isinstance(caught.value, KeyError) == ("holds no fault" in said)


def test_every_error_is_one_of_ours_and_most_are_value_errors() -> None:
    """A caller may catch `FiError`, or `ValueError` for what a person typed."""
    kinds = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error")]
    assert all(issubclass(kind, FiError) for kind in kinds)
    assert {k.__name__ for k in kinds if not issubclass(k, ValueError)} == {
        "FiError",
        "SessionError",
    }


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("session.arm('mm', 'zerro')", "no fault model 'zerro'; did you mean 'zero'?"),
        ("session.replay(steps=0)", "steps is 0; expected a whole number from 1"),
        (
            "fi.FaultPlan.load({'faults': [{'target': 'mm', 'model': 'zerro'}]})",
            "the plan: version: missing",
        ),
        ("fi.FaultPlan.load('nowhere.json')", "nowhere.json: cannot be read: No such file"),
    ],
)
def test_in_a_notebook_an_error_shows_the_cell_and_the_message_alone(
    interpreter: InteractiveShell, capsys: pytest.CaptureFixture[str], cell: str, message: str
) -> None:
    """Neither our own lines nor those of a library beneath, nor another error before it."""
    interpreter.run_cell(SETUP)
    interpreter.run_cell(cell)
    shown = capsys.readouterr().out
    assert f"----> 1 {cell}" in shown
    assert message in shown.splitlines()[-1]
    assert "fi_notebook" not in shown.replace(cell, "")
    assert "pydantic" not in shown


def test_in_a_notebook_a_failing_step_shows_its_own_frames(
    interpreter: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the line that asked for a trace at once to the step's line that failed."""
    interpreter.run_cell(SETUP)
    interpreter.run_cell("fi.Session(failing, model=net).trace()")
    shown = capsys.readouterr().out
    assert re.search(r"-> \d+     net\(torch\.ones\(3, 5\)\)", shown)
    assert "mat1 and mat2 shapes cannot be multiplied" in shown
    assert "session.py" not in shown
    assert "intercept.py" not in shown


def test_outside_a_notebook_a_traceback_is_whole() -> None:
    """Whoever mends this package sees its lines."""
    with pytest.raises(errors.SiteError) as caught:
        Target.parse("")
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert Path(frames[0].filename).name == "test_errors.py"
    assert Path(frames[-1].filename).name == "site.py"
