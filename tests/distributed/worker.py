"""The processes of a `Pool`: each joins the group, runs scenarios, answers in JSON lines."""

from __future__ import annotations

import json
import os
import sys
import traceback
from datetime import timedelta

import torch
import torch._dynamo  # slow to import, and each process would need it
import torch.distributed as dist

from tests.distributed import scenarios

TIMEOUT = timedelta(seconds=30)


def main(meeting: str, pipes: list[int]) -> None:
    """Fork one process for each pair of pipes, and wait for them all."""
    pairs = list(zip(pipes[::2], pipes[1::2], strict=True))
    for rank, pair in enumerate(pairs):
        if not os.fork():
            for other in set(pipes) - set(pair):
                os.close(other)
            serve(rank, len(pairs), meeting, *pair)
            os._exit(0)
    for pipe in pipes:
        os.close(pipe)
    for _ in pairs:
        os.wait()


def serve(rank: int, size: int, meeting: str, asked_in: int, answers_out: int) -> None:
    """Serve until the input ends."""
    os.dup2(2, 1)  # what a library prints is no answer
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=size, timeout=TIMEOUT
    )
    with os.fdopen(asked_in) as questions, os.fdopen(answers_out, "w") as answers:
        print(json.dumps({"value": "ready"}), file=answers, flush=True)
        for line in questions:
            asked = json.loads(line)
            try:
                torch.manual_seed(0)
                value = getattr(scenarios, asked["scenario"])(rank, size, **asked["arguments"])
                answer = {"value": value}
            except Exception:  # noqa: BLE001  # the parent fails the test with it
                answer = {"error": traceback.format_exc()}
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], [int(number) for number in sys.argv[2:]])
