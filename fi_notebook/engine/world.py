"""Which process of a distributed training this is, and how many there are.

    process_rank()   2      as torch.distributed says, else the variable RANK, else 0
    world_size()     4      as torch.distributed says, else the variable WORLD_SIZE, else 1
    speaker(2)       "rank 2: ", and nothing where there is one process alone

Asked anew each time: a group may be made after a model or a session was.
"""

from __future__ import annotations

import os

import torch

__all__ = ["process_rank", "speaker", "world_size"]


def process_rank() -> int:
    """Rank of this process among all.

    Returns:
        A number from 0.
    """
    if _has_group():
        return torch.distributed.get_rank()
    return int(os.environ.get("RANK", "0"))


def world_size() -> int:
    """How many processes train together.

    Returns:
        A number from 1.
    """
    if _has_group():
        return torch.distributed.get_world_size()
    return int(os.environ.get("WORLD_SIZE", "1"))


def speaker(rank: int) -> str:
    """Who says a line, where several processes write to one log.

    Args:
        rank: Rank of this process.

    Returns:
        The beginning of the line.
    """
    return f"rank {rank}: " if world_size() > 1 else ""


def _has_group() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
