"""What an injector may be given, checked before anything is attached.

check_arguments(rank="2", …)    # ArgumentError: rank is '2'; expected a whole number from 0
Progress.of({"next_step": 3, "fired": {"f1": 2}}, {"f1"})
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from torch import nn

from fi_notebook.config.forms import VERBOSITIES
from fi_notebook.core.whole import check_whole, is_whole
from fi_notebook.errors import ArgumentError, did_you_mean

__all__ = ["Progress", "check_arguments"]

logger = logging.getLogger("fi_notebook")


def check_arguments(
    *,
    model: Any,
    micro_batch_per_step: Any,
    start_step: Any,
    rank: Any,
    events: Any,
    verbosity: Any,
) -> None:
    """Refuse what an injector cannot be given.

    Raises:
        TypeError: Something of a wrong type; says what it is.
        ArgumentError: A number or word that cannot be.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is {type(model).__name__}; expected a torch.nn.Module")
    if micro_batch_per_step is not None:
        check_whole("micro_batch_per_step", micro_batch_per_step, 1)
    check_whole("start_step", start_step, 0)
    if rank is not None:
        check_whole("rank", rank, 0)
    if not isinstance(events, (str, os.PathLike, type(None))):
        raise TypeError(f"events is {type(events).__name__}; expected a path, or None")
    if verbosity is not None and verbosity not in VERBOSITIES:
        hint = did_you_mean(str(verbosity), VERBOSITIES)
        raise ArgumentError(f"verbosity is {verbosity!r}; expected one of {VERBOSITIES}{hint}")


class Progress(NamedTuple):
    """How far a training came.

    Attributes:
        next_step: The step that comes next.
        fired: How often each fault fired.
    """

    next_step: int
    fired: Mapping[str, int]

    @classmethod
    def of(cls, state: Any, known: Iterable[str]) -> Progress:
        """Read what `Injector.state_dict` gave; faults that are not known are warned of.

        Raises:
            ArgumentError: It is something else; says what was expected.
        """
        what = "expected what Injector.state_dict() gave, with 'next_step' and 'fired'; "
        if not isinstance(state, Mapping):
            raise ArgumentError(f"{what}got {type(state).__name__}")
        if not {"next_step", "fired"} <= state.keys():
            raise ArgumentError(f"{what}got {sorted(map(str, state))}")
        step, fired = state["next_step"], state["fired"]
        if not is_whole(step, 0):
            raise ArgumentError(f"{what}next_step is {step!r}, not a whole number from 0")
        if not isinstance(fired, Mapping):
            raise ArgumentError(f"{what}fired is {fired!r}, not a mapping")
        for fault, times in fired.items():
            if not isinstance(fault, str) or not is_whole(times, 0):
                raise ArgumentError(
                    f"{what}fired has {fault!r}: {times!r}; each is a fault's id and a whole "
                    "number from 0"
                )
        known = sorted(known)
        for fault in sorted(set(fired) - set(known)):
            hint = did_you_mean(fault, known)
            logger.warning("the state tells of fault %r, which the plan lacks%s", fault, hint)
        return cls(step, fired)
