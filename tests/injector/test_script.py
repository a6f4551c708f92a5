"""Scripts in which no line was changed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fi_notebook.engine import attached
from fi_notebook.errors import SessionError
from fi_notebook.injector import run_script
from tests.injector.forks import run_scripts
from tests.injector.helpers import plan, sites
from tests.tools import leaks

SCRIPT = Path(__file__).parent / "scripts" / "plain.py"
PARTED = SCRIPT.with_name("parts.py")
PARTS = ("enc.0", "dec.0")


def test_the_first_root_module_that_trains_is_the_model(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The teacher trains first; its steps 0 to 2 are counted and step 1 is struck."""
    injector = run_script(_written(plan("addmm*1:0", "zero", steps=[1])), SCRIPT, ["3"])
    assert sites(injector) == [("addmm*1:0", 1)]
    assert injector.injections[0].site.module == "fc"
    losses = dict(line.rsplit(" ", 1) for line in capsys.readouterr().out.splitlines())
    assert losses["Teacher 1"] == "0.000000"  # addmm is its output
    assert float(losses["Student 1"]) > 0


def test_the_model_may_be_chosen_by_its_class(capsys: pytest.CaptureFixture[str]) -> None:
    """With model="Student" the second one is in scope, from its step 0."""
    config = _written(plan("relu*1:0", "zero", steps=[0]))
    injector = run_script(config, SCRIPT, ["2"], model="Student")
    assert sites(injector) == [("relu*1:0", 0)]
    assert injector.step == 1


@pytest.mark.parametrize("model", [None, "Coder"])
def test_a_model_whose_parts_are_called_is_found_by_them(
    model: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Its optimizer steps both parts: names begin at it, and one step has one forward of each."""
    faults = [plan("addmm", "zero", steps=[1], modules=[name])["faults"][0] for name in PARTS]
    named = [fault | {"id": f"f{n}"} for n, fault in enumerate(faults)]
    with caplog.at_level("INFO", "fi_notebook"):
        injector = run_script({"version": 2, "faults": named}, PARTED, model=model)
    assert sites(injector) == [("addmm*1:0", 1), ("addmm*2:0", 1)]
    assert injector.step == 2
    assert caplog.messages[0] == "the model is Coder"


def test_arguments_and_path_are_the_scripts_own() -> None:
    """sys.argv and sys.path are those of python SCRIPT ARGS, and are put back."""
    argv, path, before = list(sys.argv), list(sys.path), leaks.state()
    run_script(_written(plan("addmm", steps=[0])), SCRIPT, ["1"])
    assert (sys.argv, sys.path) == (argv, path)
    leaks.assert_clean(before)


def test_a_class_that_never_trains_is_reported() -> None:
    """The error names the classes that did train."""
    config = _written(plan("addmm"))
    with pytest.raises(
        SessionError, match=r"no module of class 'Bilinear', nor a part of one, made .*Student"
    ):
        run_script(config, SCRIPT, ["1"], model="Bilinear")


def test_a_class_that_does_not_exist_ends_the_script_before_it_trains(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """At the first training forward, with the nearest; not one step was made."""
    config = _written(plan("addmm"))
    with pytest.raises(SessionError, match=r"no class 'Studnt' of a module; did you mean 'Student"):
        run_script(config, SCRIPT, ["3"], model="Studnt")
    assert capsys.readouterr().out == ""


def test_a_script_that_trained_nothing_leaves_nothing_attached(tmp_path: Path) -> None:
    """The error, which holds the run's frames, included."""
    script = tmp_path / "idle.py"
    script.write_text("import sys; sys.path.append('elsewhere')")
    before, argv, path = set(attached._attached), list(sys.argv), list(sys.path)
    with pytest.raises(SessionError, match="no module trained at all") as error:
        run_script(_written(plan("addmm*1:0", "zero")), script)
    assert error.tb is not None
    assert (set(attached._attached), sys.argv, sys.path) == (before, argv, path)


def test_a_bad_plan_is_found_before_the_script_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of the script has run when the config is refused."""
    with pytest.raises(ValueError, match="unknown key"):
        run_script(_written({"targets": ["addmm"], "stepps": [1]}), SCRIPT, ["1"])
    assert capsys.readouterr().out == ""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _written(config: dict[str, object]) -> Path:
    path = Path("injector.json")
    path.write_text(json.dumps(config))
    return path


def test_the_command_line(tmp_path: Path) -> None:
    """``fi-notebook run PLAN SCRIPT -- ARGS`` trains, strikes, and ends with the report."""
    plan_file = _written(plan("addmm*1:0", "zero", steps=[1]))
    command = str(SCRIPT.parent / "command.py")
    rest = [str(plan_file), str(SCRIPT), "--", "2"]
    scripts = [[command, "run", *rest], [command, "run", "--model", "Student", *rest]]
    teacher, student = run_scripts(scripts, tmp_path)
    assert (teacher.code, student.code) == (0, 0)
    assert "addmm*1:0" in teacher.output
    assert "Teacher 1 0.000000" in teacher.output  # addmm is its output
    assert "Teacher 1 0.000000" not in student.output
    assert "addmm*1:0" in student.output
