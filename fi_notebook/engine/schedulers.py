"""The learning-rate schedulers of an optimizer, which nobody needs to name.

    schedulers_of([optimizer])    # every scheduler that is attached to it now

torch keeps no reference from an optimizer to its schedulers, so the live objects are
looked through: about a tenth of a second, once per trace.

Limits: what schedules by hand (``group["lr"] = …`` from a counter of one's own) keeps
that counter elsewhere, and has to be given as ``state=``.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

__all__ = ["schedulers_of"]


def schedulers_of(optimizers: Sequence[Optimizer]) -> list[LRScheduler]:
    """Every live scheduler that is attached to one of the optimizers."""
    mine = {id(optimizer) for optimizer in optimizers}
    if not mine:
        return []
    found = [thing for thing in gc.get_objects() if LRScheduler in type(thing).__mro__]
    return [each for each in found if id(getattr(each, "optimizer", None)) in mine]
