from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fi_notebook import cli


def test_run_strikes_an_unchanged_script(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Steps 1 and 2 are struck, the script's arguments are its own, the rest is told."""
    assert cli.main(["run", *files, "--", "--epochs", "1", "--", "x"]) == 0
    captured = capsys.readouterr()
    assert "arguments: ['--epochs', '1', '--', 'x']" in captured.out
    assert "2 injections, training came to step 2" in captured.out
    assert "never was not injected: " in captured.out
    first, *told = captured.err.splitlines()
    assert first == "INFO:fi_notebook:the model is Net"
    assert told[:2] == ["INFO:fi_notebook:injecting fault to addmm*1:0"] * 2
    assert all(line.startswith("WARNING") for line in told[2:])


def test_a_resumed_script_is_told_its_first_step(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its three steps are 1, 2 and 3: the plan's steps 1 and 2 are the first two."""
    assert cli.main(["run", *files, "--start-step", "1"]) == 0
    told = capsys.readouterr().out
    assert "2 injections, training came to step 3" in told
    assert "step 1: gain struck addmm*1:0" in told


def test_a_script_is_told_how_many_forwards_make_a_step(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Two of its three: one whole step and half of another, so step 1 comes and step 2 does not."""
    assert cli.main(["run", *files, "--micro-batch-per-step", "2"]) == 0
    told = capsys.readouterr().out
    assert "1 injection, training came to step 1" in told
    assert "step 2 of its steps 1-2 never came: the last one was step 1" in told


@pytest.mark.parametrize(
    ("level", "expected"),
    [("INFO", ["root:injecting fault to addmm*1:0"] * 2), ("ERROR", [])],
)
def test_run_says_nothing_twice(files: tuple[str, str], level: str, expected: list[str]) -> None:
    """What a script shows of the log, as it asked, is not shown again; else it is."""
    script = Path(files[1])
    asked = "import logging\nlogging.basicConfig(format='root:%(message)s', force=True)\n"
    asked += f"logging.getLogger().handlers[0].setLevel({level!r})\n"
    script.write_text(asked + script.read_text())
    done = subprocess.run(
        [sys.executable, "-m", "fi_notebook", "run", *files],
        capture_output=True,
        text=True,
        check=True,
    )
    told = [line for line in done.stderr.splitlines() if "injecting" in line]
    assert told == (expected or ["INFO:fi_notebook:injecting fault to addmm*1:0"] * 2)


@pytest.mark.parametrize(("more", "shown"), [((), False), (("-v",), True), (("-vv",), True)])
def test_run_shows_the_calls_where_it_is_asked_for_more(
    files: tuple[str, str], more: tuple[str, ...], shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """With -v the calls of the listed steps, with -vv their shapes as well."""
    assert cli.main(["run", *files, *more]) == 0
    told = capsys.readouterr().err
    assert ("fc*step1*addmm*1" in told) is shown
    assert ("torch.float32 (4, 2)" in told) is (more == ("-vv",))


def test_run_with_a_plan_that_is_for_its_log_shows_the_log(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan with log_steps is not silenced; one without faults has nothing else to say."""
    Path(files[0]).write_text(
        json.dumps({**json.loads(Path(files[0]).read_text()), "log_steps": 0})
    )
    assert cli.main(["run", *files]) == 0
    assert "fc*step0*addmm*1" in capsys.readouterr().err


def test_run_writes_events_that_report_sums_up(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """4 × 2 outputs are scaled in each of two steps: 16 elements."""
    events = tmp_path / "events.jsonl"
    assert cli.main(["run", *files, "--model", "Net", "--events", str(events)]) == 0
    capsys.readouterr()
    assert cli.main(["report", str(events)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 injections"
    assert lines[1] == "  gain struck 2 times, in steps 1, 2, at addmm*1:0: 16 elements changed"
    assert lines[2].startswith("  never was not injected: ")
    assert lines[3] == "training came to step 2"


def test_run_names_the_nearest_script_and_the_folder_that_is_missing(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything runs."""
    assert cli.main(["run", files[0], str(tmp_path / "trian.py")]) == 1
    assert "trian.py'; did you mean 'train.py'?" in capsys.readouterr().err
    assert cli.main(["run", *files, "--events", str(tmp_path / "no" / "events.jsonl")]) == 1
    captured = capsys.readouterr()
    assert "there is no folder for the events" in captured.err
    assert captured.out == ""


def test_a_misspelt_model_ends_the_script_before_it_trains(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """One message, no traceback; the script did not come to its end."""
    assert cli.main(["run", *files, "--model", "Nett"]) == 1
    captured = capsys.readouterr()
    assert "fi-notebook run: there is no class 'Nett' of a module; did you mean" in captured.err
    assert "'Net'" in captured.err
    assert captured.out == ""


def test_a_plan_that_cannot_be_read_fails_before_the_script_runs(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The place in the file is named, and the script printed nothing."""
    Path(files[0]).write_text('{"version": 2, "fault": []}')
    assert cli.main(["run", *files]) == 1
    captured = capsys.readouterr()
    assert "injector.json: fault: unknown key; did you mean 'faults'?" in captured.err
    assert captured.out == ""


FITS = {"id": "fits", "target": "relu", "model": "zero"}


@pytest.mark.parametrize("wrong", [{"modules": ["fcc"]}, {"target": "param:fc.wieght"}], ids=str)
def test_a_plan_that_cannot_strike_the_model_ends_with_1(
    files: tuple[str, str], wrong: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """After the training; not where another of its faults can strike."""
    for others, code in (([], 1), ([FITS | {"enabled": False}], 1), ([FITS], 0)):
        Path(files[0]).write_text(
            json.dumps({"version": 2, "faults": [FITS | {"id": "lost"} | wrong, *others]})
        )
        assert cli.main(["run", *files]) == code
        captured = capsys.readouterr()
        assert "arguments: []" in captured.out
        assert "lost was not injected: " in captured.out
        assert ("fi-notebook run: no fault of the plan can strike" in captured.err) is (code == 1)


@pytest.mark.parametrize("raised", ["FileNotFoundError('data')", "SystemExit(7)", "KeyError(1)"])
def test_the_scripts_own_errors_are_its_own(files: tuple[str, str], raised: str) -> None:
    """They are not made a message of fi-notebook, and exit codes are kept."""
    with Path(files[1]).open("a") as script:
        script.write(f"raise {raised}\n")
    with pytest.raises(BaseException, match=r"data|7|1") as caught:
        cli.main(["run", *files])
    assert type(caught.value).__name__ == raised.partition("(")[0]


CANNOT = {"version": 2, "faults": [FITS | {"modules": ["fcc"]}]}


@pytest.mark.parametrize("code", ["", "0"])
def test_a_script_that_exits_with_0_has_come_to_its_end(
    files: tuple[str, str], code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report is made, and the exit code is that of the plan."""
    with Path(files[1]).open("a") as script:
        script.write(f"sys.exit({code})\n")
    assert cli.main(["run", *files]) == 0
    assert "2 injections, training came to step 2" in capsys.readouterr().out
    Path(files[0]).write_text(json.dumps(CANNOT))
    assert cli.main(["run", *files]) == 1
    assert "no fault of the plan can strike" in capsys.readouterr().err


def test_an_exit_code_of_the_script_is_kept(files: tuple[str, str]) -> None:
    """It says more than that no fault can strike."""
    Path(files[0]).write_text(json.dumps(CANNOT))
    with Path(files[1]).open("a") as script:
        script.write("sys.exit(7)\n")
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", *files])
    assert ended.value.code == 7


@pytest.fixture
def package(
    files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The plan; the script in a package of the current folder, which imports relatively."""
    folder = tmp_path / "fi_trained"
    folder.mkdir()
    head, line, tail = Path(files[1]).read_text().partition("net = Net()\n")
    (folder / "__init__.py").touch()
    (folder / "nets.py").write_text(head)
    told = "print(__name__, __package__, sys.argv[0] == __file__, sys.path[0])\n"
    (folder / "train.py").write_text(
        f"import sys, torch\nfrom .nets import Net\n{line}{tail}{told}"
    )
    (folder / "__main__.py").write_text("from . import train\n")
    (folder / "raises.py").write_text("import no_such_package\n")
    monkeypatch.chdir(tmp_path)
    yield files[0]
    for name in [name for name in sys.modules if name.partition(".")[0] == folder.name]:
        del sys.modules[name]


@pytest.mark.parametrize("flag", ["-m", "--module"])
def test_a_module_runs_as_by_python(
    package: str, flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its relative import, name, arguments and path are those of python -m, and are put back."""
    argv, path, main = list(sys.argv), list(sys.path), sys.modules["__main__"]
    assert cli.main(["run", package, flag, "fi_trained.train", "--", "--epochs", "1"]) == 0
    told = capsys.readouterr().out
    assert "arguments: ['--epochs', '1']" in told
    assert f"__main__ fi_trained True {tmp_path}" in told
    assert "2 injections, training came to step 2" in told
    assert (sys.argv, sys.path, sys.modules["__main__"]) == (argv, path, main)


@pytest.mark.parametrize("command", ["run", "trace"])
def test_a_package_runs_by_its_main(
    package: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And ``trace`` takes a module as well."""
    given = [package] if command == "run" else []
    assert cli.main([command, *given, "fi_trained", "-m"]) == 0
    told = capsys.readouterr()
    assert ("2 injections" in told.out) is (command == "run")
    assert ("fc*step0*addmm*1" in told.err) is (command == "trace")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fi_trained.trian", "there is no module 'fi_trained.trian' in "),
        ("fi_traind.train", "there is no module 'fi_traind.train' in "),
        ("json", "there is no module 'json.__main__' in "),
        ("fi_trained/train.py", "'fi_trained/train.py' is a path; leave out -m, or give"),
    ],
)
def test_a_module_that_cannot_be_run_is_named(
    package: str, name: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything runs, with exit code 1 and no traceback."""
    assert cli.main(["run", package, "-m", name]) == 1
    assert f"fi-notebook run: {message}" in capsys.readouterr().err


def test_what_a_module_does_not_find_is_its_own_error(package: str) -> None:
    """With its traceback."""
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        cli.main(["run", package, "-m", "fi_trained.raises"])
