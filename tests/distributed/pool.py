"""Real processes of a gloo group that run scenarios, and what each of them answers.

    pool = Pool(4)
    answers = pool.run("all_reduce", plan={…})     # one per rank, in order
    pool.close()

One program, `tests.distributed.worker`, imports torch and then forks the processes;
scenarios are functions of `tests.distributed.scenarios`. They meet through a file, speak
over loopback, and are killed where a scenario takes longer than it may, so that nothing
can hang.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, TextIO

__all__ = ["Pool"]

ROOT = Path(__file__).parents[2]
START_S = 90.0
SCENARIO_S = 45.0


class Pool:
    """The processes of one group; started when the first scenario is run.

    Args:
        size: How many processes.
    """

    def __init__(self, size: int) -> None:
        """Start nothing yet."""
        self.size = size
        self._program: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._questions: list[TextIO] = []
        self._answers_of: list[TextIO] = []

    def run(self, scenario: str, **arguments: Any) -> list[Any]:
        """Run a scenario on every rank.

        Returns:
            What it returned on each rank, in the order of ranks.

        Raises:
            AssertionError: It raised on a rank, or took too long.
        """
        if self._program is None:
            self._start()
        line = json.dumps({"scenario": scenario, "arguments": arguments}) + "\n"
        for question in self._questions:
            question.write(line)
            question.flush()
        return self._answers(SCENARIO_S)

    def close(self) -> None:
        """Kill the processes and forget them."""
        if self._program is not None:
            os.killpg(self._program.pid, signal.SIGKILL)  # its own group: it and its forks
            self._program.wait()
        for pipe in (*self._questions, *self._answers_of):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        if self._folder is not None:
            self._folder.cleanup()
        self._program = self._folder = None
        self._questions, self._answers_of = [], []

    def _start(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        loopback = "lo0" if sys.platform == "darwin" else "lo"
        settings = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": loopback}
        theirs: list[int] = []
        for _ in range(self.size):
            (their_in, question), (answer, their_out) = os.pipe(), os.pipe()
            self._questions.append(os.fdopen(question, "w"))
            self._answers_of.append(os.fdopen(answer, "r"))
            theirs += [their_in, their_out]
        meeting = str(Path(self._folder.name) / "meeting")
        self._program = subprocess.Popen(
            [sys.executable, "-m", "tests.distributed.worker", meeting, *map(str, theirs)],
            cwd=ROOT,
            env=os.environ | settings,
            pass_fds=theirs,
            start_new_session=True,
        )
        for descriptor in theirs:
            os.close(descriptor)
        self._answers(START_S)

    def _answers(self, limit_s: float) -> list[Any]:
        """The next answer of every rank; the first error ends them all."""
        answers: dict[int, Any] = {}
        deadline = time.monotonic() + limit_s
        with selectors.DefaultSelector() as selector:
            for rank, pipe in enumerate(self._answers_of):
                selector.register(pipe, selectors.EVENT_READ, rank)
            while len(answers) < self.size:
                ready = selector.select(max(deadline - time.monotonic(), 0))
                for key, _ in ready:
                    line = self._answers_of[key.data].readline()
                    answers[key.data] = json.loads(line) if line else {"error": "it ended"}
                    selector.unregister(key.fileobj)
                self._check(answers, len(ready), limit_s)
        return [answers[rank]["value"] for rank in range(self.size)]

    def _check(self, answers: dict[int, Any], ready: int, limit_s: float) -> None:
        errors = [f"rank {rank}: {a['error']}" for rank, a in answers.items() if "error" in a]
        if not ready:
            missing = sorted(set(range(self.size)) - set(answers))
            errors.append(f"ranks {missing} did not answer within {limit_s} s")
        if errors:
            self.close()
        assert not errors, "\n".join(errors)
