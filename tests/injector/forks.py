"""Scripts run as programs of their own, though torch is imported once for all of them.

    first, second = run_scripts([["train.py", "injector.json"], ["train.py", "other.json"]])
    first.output, first.code

One program imports what all of them need and forks a process for each script, which
runs it as ``python SCRIPT ARGUMENTS`` would, its end included.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["Finished", "run_scripts"]

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 100


class Finished(NamedTuple):
    """What a script wrote to both its outputs, and its exit code."""

    output: str
    code: int


def run_scripts(scripts: Sequence[Sequence[str]], folder: Path) -> list[Finished]:
    """Run scripts one after the other in a folder; each is its path and its arguments."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.injector.forks"],
        input=json.dumps([list(map(str, script)) for script in scripts]),
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    return [Finished(*one) for one in json.loads(done.stdout)]


def _forked(script: list[str]) -> tuple[str, int]:
    with tempfile.TemporaryFile("w+") as file:
        process = os.fork()
        if not process:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            os._exit(_run(script))
        _, status = os.waitpid(process, 0)
        file.seek(0)
        return file.read(), os.waitstatus_to_exitcode(status)


def _run(script: list[str]) -> int:
    sys.argv, code = script, 0
    try:
        runpy.run_path(script[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  # as the interpreter does with what is not caught
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _main() -> None:
    import torch._dynamo  # noqa: F401  (what the scripts have in common, and is slow to import)

    import fi_notebook.injector  # noqa: F401

    print(json.dumps([_forked(script) for script in json.load(sys.stdin)]))


if __name__ == "__main__":
    _main()
