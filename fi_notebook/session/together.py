"""What the ranks of a step tell each other, so that all of them run again, or none.

    heard(golden, "x differs")     ["", "x differs"] on both of two ranks

A rank that goes on alone waits for ever in the first collective of its step.

Limits: ranks ask each other only where their golden run had a collective of all ranks: a
session that one rank opened alone asks nobody. A rank whose step raises does not answer.
"""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import _disable_current_modes

from fi_notebook.engine.world import world_size
from fi_notebook.session.golden import GoldenRun

__all__ = ["heard"]


def heard(golden: GoldenRun, said: str) -> list[str]:
    """What each rank says; a collective of all ranks, where the golden run had one.

    Args:
        golden: The golden run.
        said: What this rank says.

    Returns:
        The texts in the order of ranks; that of this rank alone where there are no others.
    """
    if not golden.result.recorder.met_all or world_size() == 1:
        return [said]
    told = [""] * world_size()
    with _disable_current_modes():
        torch.distributed.all_gather_object(told, said)
    return told
