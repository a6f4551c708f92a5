from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fi_notebook import cli
from fi_notebook.cli.tour import NOTEBOOK


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
    assert str(NOTEBOOK) not in started[0]
    (tmp_path / NOTEBOOK).parent.mkdir()
    (tmp_path / NOTEBOOK).touch()
    cli.main(["lab"])
    assert started[1][-1] == str(NOTEBOOK)


def test_lab_without_jupyterlab_names_the_extra(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is started."""
    find: Callable[[str], None] = lambda name: None  # noqa: E731
    monkeypatch.setattr("importlib.util.find_spec", find)
    assert cli.main(["lab"]) == 1
    assert "pip install 'fi-notebook[lab]'" in capsys.readouterr().err
    assert started == []
