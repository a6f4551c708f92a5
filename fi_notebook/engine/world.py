"""Which process of a distributed training this is, and how many there are.

    process_rank()   2      as torch.distributed says, else the variable RANK
    world_size()     4      as torch.distributed says, else the variable WORLD_SIZE
    speaker(2)       "rank 2: ", and nothing where there is one process alone

Asked anew each time: a group may be made after a model or a session was. Where neither says
anything, it is as the last group said that was there when it was asked: what is told at the end
of a process often comes after its group is gone. Else it is 0 of 1.
"""

from __future__ import annotations

import os

import torch

__all__ = ["process_rank", "speaker", "world_size"]

_known = {"RANK": 0, "WORLD_SIZE": 1}  # registry: what the last group of this process said


def process_rank() -> int:
    """Rank of this process among all.

    Returns:
        A number from 0.
    """
    return _asked("RANK")


def world_size() -> int:
    """How many processes train together.

    Returns:
        A number from 1.
    """
    return _asked("WORLD_SIZE")


def speaker(rank: int) -> str:
    """Who says a line, where several processes write to one log.

    Args:
        rank: Rank of this process.

    Returns:
        The beginning of the line.
    """
    return f"rank {rank}: " if world_size() > 1 else ""


def _asked(name: str) -> int:
    if not _has_group():
        return int(os.environ.get(name, _known[name]))
    _known["RANK"] = torch.distributed.get_rank()
    _known["WORLD_SIZE"] = torch.distributed.get_world_size()
    return _known[name]


def _has_group() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
