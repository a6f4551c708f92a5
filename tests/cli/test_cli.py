from __future__ import annotations

import subprocess
import sys

import pytest

from fi_notebook import cli


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nowhere.json", "nowhere.py"], "run: there is no script 'nowhere.py'"),
        (
            ["run", "train.py", "injector.json"],
            (
                "run: the plan is 'train.py', the script 'injector.json'; the plan comes first: "
                "fi-notebook run injector.json train.py"
            ),
        ),
        (["trace", "nowhere.fi"], "trace: cannot read 'nowhere.fi' as a trace: there is no such"),
        (["report", "nowhere"], "report: "),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_one_message_and_exit_code_1(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback."""
    assert cli.main(arguments) == 1
    assert f"fi-notebook {message}" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["run"], ["trace", "x", "--by", "y"]])
def test_wrong_arguments_end_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """And show how the command is used."""
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "usage: fi-notebook" in capsys.readouterr().err


def test_arguments_of_the_script_that_stand_before_the_dashes_are_explained(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing runs; only commands that run a script speak of one."""
    for arguments, hint in ((["run", *files], True), (["schema"], False)):
        with pytest.raises(SystemExit):
            cli.main([*arguments, "--epochs", "1"])
        told = capsys.readouterr()
        assert "unrecognized arguments: --epochs 1" in told.err
        assert ("what is for the script stands after --" in told.err) is hint
        assert told.out == ""


def test_every_subcommand_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    """It is the docstring of its function."""
    for name, (function, _) in cli.COMMANDS.items():
        with pytest.raises(SystemExit) as ended:
            cli.main([name, "--help"])
        assert ended.value.code == 0
        assert (function.__doc__ or "").partition("\n")[0] in capsys.readouterr().out


@pytest.mark.parametrize("name", ["fi_notebook", "fi_notebook.cli"])
def test_python_runs_the_package_as_the_command_line(name: str) -> None:
    """``python -m fi_notebook`` is ``fi-notebook``, its exit code included."""
    command = [sys.executable, "-m", name]
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("fi-notebook ")
    assert subprocess.run([*command, "nonsense"], capture_output=True, check=False).returncode == 2
