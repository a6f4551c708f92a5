"""One process of a `Pool`: joins the group, runs scenarios, answers in JSON lines."""

from __future__ import annotations

import json
import os
import sys
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist

from tests.distributed import scenarios

TIMEOUT = timedelta(seconds=30)


def main(rank: int, size: int, meeting: str) -> None:
    """Serve until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=size, timeout=TIMEOUT
    )
    print(json.dumps({"value": "ready"}), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            torch.manual_seed(0)
            value = getattr(scenarios, asked["scenario"])(rank, size, **asked["arguments"])
            answer = {"value": value}
        except Exception:  # noqa: BLE001  # the parent fails the test with it
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
