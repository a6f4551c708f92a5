"""Ctrl-C at any moment of a trace or a replay, tried in a process of its own.

A moment is told by `sys.setprofile`; what earlier tests made of the interpreter (frames
evaluated by Dynamo) must not meet it. The tests themselves are in `interrupting.py`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_FILE = Path(__file__).with_name("interrupting.py")


def _try(test: str, root: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{_FILE}::{test}"]
    tried = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert "1 passed" in tried.stdout


@pytest.mark.parametrize(
    "test",
    [
        "test_a_ctrl_c_at_some_moments",
        "test_a_ctrl_c_at_the_very_beginning_and_end",
        "test_a_second_ctrl_c_while_everything_is_put_back",
    ],
)
def test_a_ctrl_c_puts_every_bit_back(test: str, pytestconfig: pytest.Config) -> None:
    """Early, late, anywhere between, and a second time while everything is put back."""
    _try(test, pytestconfig.rootpath)


@pytest.mark.soak
@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_a_ctrl_c_at_many_moments(model: str, pytestconfig: pytest.Config) -> None:
    """250 moments, drawn at random, of a trace and of a replay."""
    _try(f"test_a_ctrl_c_at_many_moments[{model}]", pytestconfig.rootpath)
