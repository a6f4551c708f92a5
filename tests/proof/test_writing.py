"""Files are written whole or not at all, and a full disk or a closed folder is a clear error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
WHOLE = ["plan.json", "step.trace", "report.html", "campaign.html", "spill.safetensors"]
LINES = ["events.jsonl", "run.jsonl"]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits on files are of POSIX")


@pytest.fixture(scope="module")
def found() -> Iterator[dict[str, Any]]:
    """What happened to every file, in a process whose files may not grow."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # of root, and yet open to whom its folders refuse
        job = [sys.executable, "-W", "ignore", "-m", "tests.proof.writers", folder]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            job, check=True, cwd=ROOT, env=environment, capture_output=True, text=True
        )
        yield json.loads(done.stdout)


@pytest.mark.parametrize("name", WHOLE)
def test_a_file_that_does_not_fit_stays_as_it_was(found: dict[str, Any], name: str) -> None:
    """The old file has its old bytes, nothing lies beside it, and the error names the file."""
    full = found[name]["full"]
    assert full["raised"] in ("OSError", "SessionError")
    assert f"{name}'" in full["said"]
    assert "File too large" in full["said"]
    assert full["same"]
    assert full["files"] == [name]


@pytest.mark.parametrize("name", LINES)
def test_lines_that_do_not_fit_leave_whole_lines(found: dict[str, Any], name: str) -> None:
    """What was there is there, what was added is whole lines, and the error names the file."""
    full = found[name]["full"]
    assert full["raised"] == "OSError"
    assert f"{name}'" in full["said"]
    assert "File too large" in full["said"]
    assert full["begins the same"]
    assert full["whole lines"]
    assert full["files"] == [name]


@pytest.mark.parametrize("name", WHOLE + LINES)
def test_a_folder_that_may_not_be_written_is_a_clear_error(
    found: dict[str, Any], name: str
) -> None:
    """The error names the file that was asked for, and nothing is left in the folder."""
    forbidden = found[name]["forbidden"]
    assert forbidden["raised"] in ("PermissionError", "SessionError")
    assert "Permission denied" in forbidden["said"]
    assert f"{name}'" in forbidden["said"]
    assert forbidden["files"] == []
