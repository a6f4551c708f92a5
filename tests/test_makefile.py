"""What the targets of the Makefile would do, without doing it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAKE = shutil.which("make") or "make"


def _commands(target: str) -> list[str]:
    """The commands of a target in a checkout where nothing is installed.

    Without what a make that runs this test handed on: its flags, its depth, its arguments.
    """
    handed_on = ("MAKEFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "MFLAGS", "ARGS")
    told = subprocess.run(
        [MAKE, "--dry-run", "--always-make", "--no-print-directory", target],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in handed_on},
        capture_output=True,
        text=True,
        check=True,
    )
    return told.stdout.splitlines()


def test_the_demo_installs_what_it_shows_and_says_so() -> None:
    """What the notebooks need; no tools of tests or lint, and pip is not silent."""
    commands = _commands("demo")
    installs = [command for command in commands if " install " in command]
    assert installs[-1].endswith('--editable ".[lab]"')
    assert not any("--quiet" in command for command in installs)
    assert commands[-2].endswith("fi-notebook demo --no-lab")
    assert "notebooks/01_quickstart.ipynb" in commands[-1]


def test_one_extra_brings_what_the_notebooks_import() -> None:
    """JupyterLab, pandas for their tables and scikit-learn for their digits."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lab = text.partition("\nlab = [")[2].partition("\n]\n")[0]
    assert all(f'"{name}>=' in lab for name in ("jupyterlab", "pandas", "scikit-learn"))


def test_the_tests_install_everything() -> None:
    """All extras, so that no test is left out."""
    assert any("teach,campaign,test,lint" in command for command in _commands("test"))
