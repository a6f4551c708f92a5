from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fi_notebook import cli, config
from tests.traces import digits_step


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


@pytest.mark.parametrize("asked", [["--find", "relu*1"], ["--by", "op"], ["--depth", "1"]])
def test_what_chooses_from_a_saved_trace_is_refused_for_a_script(
    files: tuple[str, str], asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing runs."""
    assert cli.main(["trace", files[1], *asked]) == 1
    captured = capsys.readouterr()
    assert f"{asked[0]} chooses from a saved trace, and " in captured.err
    assert captured.out == ""


@pytest.fixture
def saved(tmp_path: Path) -> str:
    """A saved trace with two outputs that are not finite."""
    trace = digits_step()
    trace.site_columns["nan"][7] = 3
    trace.site_columns["neginf"][[1, 7]] = 1
    trace.save(tmp_path / "step.fi")
    return str(tmp_path / "step.fi")


def test_trace_prints_a_saved_trace(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As a tree in any view, or as a list of sites."""
    assert cli.main(["trace", saved, "--depth", "2"]) == 0
    assert "conv  Conv2d  (+1 below)" in capsys.readouterr().out
    assert cli.main(["trace", saved, "--depth", "0"]) == 0
    assert capsys.readouterr().out.strip() == "step  (+3 below)  14 calls"
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


def test_compare_says_where_two_traces_first_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As diff does, it ends with 0 where nothing differs, and with 1 where something does."""
    trace, golden, faulty = digits_step(), str(tmp_path / "golden.fi"), str(tmp_path / "faulty.fi")
    trace.save(golden)
    trace.site_columns["nan"][7] = 3
    trace.save(faulty)
    assert cli.main(["compare", golden, golden]) == 0
    assert "0 of 18 sites differ; every site is bit-equal" in capsys.readouterr().out
    assert cli.main(["compare", golden, faulty]) == 1
    told = capsys.readouterr().out
    assert "the traces first differ at relu*2:0" in told
    assert "1 of 18 sites differs" in told


def test_compare_says_what_is_no_trace(
    saved: str, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """With the name of the file, and another exit code than that of a difference would be."""
    assert cli.main(["compare", saved, files[1]]) == 1
    assert "cannot read" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_error(saved: str) -> None:
    """As with ``| head -1``: what is written goes nowhere, and nothing is said."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "fi_notebook", "trace", saved],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


def test_report_sums_up_a_saved_trace(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Calls by phase, 14 in all, and where the first NaN and the first Inf of either sign is."""
    assert cli.main(["report", saved]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "14 calls, 18 sites",
        "  forward: 6 calls",
        "  loss: 1 call",
        "  backward: 4 calls",
        "  optimizer: 2 calls",
        "  other: 1 call",
        "2 sites hold NaN or Inf",
        "  NaN: 1 site, the first is relu*2:0 (forward, act, run.py:7)",
        "  -Inf: 2 sites, the first is native_batch_norm*1:0 (forward, norm, run.py:4)",
    ]


@pytest.mark.parametrize("text", ["[]", "{", '{"a": 1}'])
def test_events_that_are_none_are_refused(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line is named."""
    (tmp_path / "events.jsonl").write_text(text)
    assert cli.main(["report", str(tmp_path / "events.jsonl")]) == 1
    assert "line 1 is no" in capsys.readouterr().err


def test_schema_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """It is what `config.schema` gives."""
    assert cli.main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == config.schema()
