from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fi_notebook import cli, config
from tests.traces import digits_step

SCRIPT = """
import sys
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)

    def forward(self, x):
        return torch.relu(self.fc(x))

net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    net(torch.ones(4, 3)).sum().backward()
    opt.step()
    opt.zero_grad()
print("arguments:", sys.argv[1:])
"""
PLAN = {
    "version": 2,
    "faults": [
        {"id": "gain", "target": "addmm", "model": "heavy", "steps": "1-2"},
        {"id": "never", "target": "relu*9", "model": "zero"},
    ],
}  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A plan and a training script."""
    (tmp_path / "injector.json").write_text(json.dumps(PLAN))
    (tmp_path / "train.py").write_text(SCRIPT)
    return str(tmp_path / "injector.json"), str(tmp_path / "train.py")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What ``demo --no-lab`` prints in a process of its own, and the report it writes."""
    folder = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        [sys.executable, "-m", "fi_notebook.cli", "demo", "--no-lab"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout, folder / "fi-demo.html"


def test_the_demo_does_the_whole_job(told: tuple[str, Path]) -> None:
    """Trees, the armed fault, before and after with bits, propagation, loss, outcome."""
    output, _ = told
    for wanted in (
        "tree of modules",
        "relu2  ReLU",
        "tree of source lines",
        "in forward",
        "tree of operators",
        "not shown: 43 calls such as detach; section 4 counts their outputs too",
        "f1: bitflip(bit=27 (exponent)) on element [",
        "changed 1 of 65,536 elements",
        "bit 27 (exponent)",
        "introduced",
        "loss golden",
        "gradient norm golden",
        "changed: f1 struck relu*2:0 in step 0",
    ):
        assert wanted in output, wanted


def test_the_demo_writes_a_report_that_opens_offline(told: tuple[str, Path]) -> None:
    """One file; no address of another machine is fetched by it."""
    text = told[1].read_text("utf-8")
    assert text.lower().startswith("<!doctype html>")
    assert "relu*2:0" in text
    assert "<script src=" not in text
    assert '<link rel="stylesheet" href=' not in text


def test_run_strikes_an_unchanged_script(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Steps 1 and 2 are struck, the script's arguments are its own, the rest is told."""
    assert cli.main(["run", *files, "--", "--epochs", "1", "--", "x"]) == 0
    captured = capsys.readouterr()
    assert "arguments: ['--epochs', '1', '--', 'x']" in captured.out
    assert "2 injections, training came to step 2" in captured.out
    assert "never was not injected: " in captured.out
    assert captured.err.splitlines()[:2] == ["INFO:fi_notebook:injecting fault to addmm*1:0"] * 2
    assert all(line.startswith("WARNING") for line in captured.err.splitlines()[2:])


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
        [sys.executable, "-m", "fi_notebook.cli", "run", *files],
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
    Path(files[0]).write_text(json.dumps({**PLAN, "log_steps": 0}))
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


def test_trace_logs_the_calls_of_a_scripts_first_step(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Modules and calls of step 0 and no other; nothing is struck."""
    assert cli.main(["trace", files[1]]) == 0
    captured = capsys.readouterr()
    assert "fc*step0*addmm*1" in captured.err
    assert "step1*" not in captured.err
    assert "injecting" not in captured.err
    assert "arguments: []" in captured.out


@pytest.fixture
def saved(tmp_path: Path) -> str:
    """A saved trace with one output that is not finite."""
    trace = digits_step()
    trace.site_columns["nan"][7] = 3
    trace.save(tmp_path / "step.fi")
    return str(tmp_path / "step.fi")


def test_trace_prints_a_saved_trace(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As a tree in any view, or as a list of sites."""
    assert cli.main(["trace", saved, "--depth", "2"]) == 0
    assert "conv  Conv2d  (+1 below)" in capsys.readouterr().out
    assert cli.main(["trace", saved, "--by", "source"]) == 0
    assert "6 in forward" in capsys.readouterr().out
    assert cli.main(["trace", saved, "--find", "relu"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "relu*1:0  forward  act  run.py:5  float32 (2, 3)",
        "relu*2:0  forward  act  run.py:7  float32 (2, 3)",
    ]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("relo", "the step made no call of 'relo'; did you mean 'relu'?"),
        ("relu*9", "asked for call 9 of relu, 2 were made"),
    ],
)
def test_trace_says_why_it_finds_no_site(
    saved: str, target: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the nearest name, and exit code 1."""
    assert cli.main(["trace", saved, "--find", target]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"fi-notebook trace: {reason}\n"


def test_report_sums_up_a_saved_trace(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Calls by phase, and where the first NaN is: 7 + 1 + 4... calls are 14 in all."""
    assert cli.main(["report", saved]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "14 calls, 18 sites",
        "  forward: 6 calls",
        "  loss: 1 call",
        "  backward: 4 calls",
        "  optimizer: 2 calls",
        "  other: 1 call",
        "1 site holds NaN or Inf",
        "  the first is relu*2:0 (forward, act)",
    ]


def test_schema_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """It is what `config.schema` gives."""
    assert cli.main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == config.schema()


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
    Path(files[1]).write_text(SCRIPT + f"raise {raised}\n")
    with pytest.raises(BaseException, match=r"data|7|1") as caught:
        cli.main(["run", *files])
    assert type(caught.value).__name__ == raised.partition("(")[0]


@pytest.mark.parametrize("text", ["[]", "{", '{"a": 1}'])
def test_events_that_are_none_are_refused(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line is named."""
    (tmp_path / "events.jsonl").write_text(text)
    assert cli.main(["report", str(tmp_path / "events.jsonl")]) == 1
    assert "line 1 is no" in capsys.readouterr().err


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


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """What programs would have been started, from an empty folder."""
    calls: list[list[str]] = []

    def call(command: list[str], **_: Any) -> int:
        calls.append(command)
        return 0

    monkeypatch.setattr(subprocess, "call", call)
    monkeypatch.chdir(tmp_path)
    return calls


def test_lab_opens_the_quickstart_where_it_is(started: list[list[str]], tmp_path: Path) -> None:
    """The notebook where there is one, else the folder."""
    assert cli.main(["lab"]) == 0
    assert started[0][1:3] == ["-m", "jupyterlab"]
    assert str(cli.NOTEBOOK) not in started[0]
    (tmp_path / cli.NOTEBOOK).parent.mkdir()
    (tmp_path / cli.NOTEBOOK).touch()
    cli.main(["lab"])
    assert started[1][-1] == str(cli.NOTEBOOK)


def test_lab_without_jupyterlab_names_the_extra(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is started."""
    find: Callable[[str], None] = lambda name: None  # noqa: E731
    monkeypatch.setattr("importlib.util.find_spec", find)
    assert cli.main(["lab"]) == 1
    assert "pip install 'fi-notebook[lab]'" in capsys.readouterr().err
    assert started == []
