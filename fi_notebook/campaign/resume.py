"""Whether rows belong together: those of a journal, of workers, and of the plan that goes on.

    check_resumed(path, kept.rows, jobs, bench.environment)
    Company(bench.environment).look(rows)     # warns once of a worker with another golden run

Limits: machines of other kinds may round otherwise, so that golden runs differ in their last
bits; there only a loss or norm that is clearly another one says that the training is.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fi_notebook.campaign.journal import JournalError, Row
from fi_notebook.campaign.worker import Job, fault_of
from fi_notebook.session.repeating import REPEATABLE

__all__ = ["Company", "check_resumed"]

logger = logging.getLogger("fi_notebook")

_NEW_FILE = "give the campaign that goes on another file"


def check_resumed(
    path: str | Path | None,
    rows: Mapping[int, Row],
    jobs: Sequence[Job],
    environment: Mapping[str, Any],
) -> None:
    """Refuse to go on with rows that are none of this campaign.

    Args:
        path: Their journal.
        rows: The rows by number.
        jobs: What is planned.
        environment: What decides here whether bits can be the same.

    Raises:
        JournalError: A row is of another injection than the plan has under its number, or was
            made with another torch, another tolerance or another golden run.
    """
    for job in jobs:
        row = rows.get(job.id)
        if row is None:
            continue
        if _identity(row.site, row.step, row.seed, row.fault) != _identity(
            job.site, job.step, job.fault.seed, fault_of(job.fault)
        ):
            raise JournalError(
                f"injection {job.id} of {path} struck {row.site} in step {row.step} by "
                f"{row.fault}, but this campaign plans {job.fault} in step {job.step}: it has "
                f"other sites, elements or strata; {_NEW_FILE}"
            )
        apart = _apart(row.environment, environment)
        if apart:
            raise JournalError(f"injection {job.id} of {path} was made with {apart}; {_NEW_FILE}")


def _identity(site: str, step: int, seed: int, fault: Mapping[str, Any]) -> str:
    """An injection as text; a journal has lists where a fault has tuples."""
    return json.dumps([site, step, seed, fault], sort_keys=True, default=str)


def _apart(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    """What makes rows of two environments no sample of one campaign, in words, or ``""``."""
    if not theirs:
        return ""  # its worker ended before it could tell
    for name in ("torch", "tolerance", *_WORDS):
        known = name in theirs or name not in _WORDS
        if known and theirs.get(name) != mine.get(name):
            return f"{name} {theirs.get(name)}, and here it is {mine.get(name)}"
    if None in (theirs.get("loss"), mine.get("loss")) and theirs["golden"] != mine["golden"]:
        return "another golden run: the model or its data changed"
    same = all(theirs.get(name) == mine.get(name) for name in _PLACE)
    for name, (said, changed) in _NUMBERS.items():
        before, now = theirs.get(name), mine.get(name)
        if before is None or now is None or _near(before, now, _ROUNDING if same else REPEATABLE):
            continue
        return f"a golden {said} of {before:.8g}, and here it is {now:.8g}: {changed} changed"
    return ""


_PLACE = ("machine", "python", "threads", "deterministic")
"""What rounds alike."""

_ROUNDING = 1e-5
"""How far numbers may be apart, of themselves, that were rounded alike: sums in another order."""

_WORDS = ("optimizer", "detectors")
"""What a journal says of the training in words, if it is not older than that."""

_NUMBERS = {
    "loss": ("loss", "model or data"),
    "gradient_norm": ("gradient norm", "model or data"),
    "update_norm": ("norm of the update", "the optimizer"),
    "parameter_norm": ("norm of the parameters", "the model or its training"),
    "optimizer_state_norm": ("norm of the optimizer's state", "the model or its training"),
    "buffer_norm": ("norm of the buffers", "the model or its training"),
    "last_loss": ("loss of the last step", "data or training"),
    "last_gradient_norm": ("gradient norm of the last step", "data or training"),
    "last_parameter_norm": ("norm of the parameters after the last step", "data or training"),
}
"""What is compared of two golden runs: how it is called, and what a difference means."""


def _near(before: float, now: float, margin: float) -> bool:
    return math.isclose(before, now, rel_tol=margin) or (math.isnan(before) and math.isnan(now))


class Company:
    """Who makes rows of one campaign: warns once where a golden run is not that of this process.

    Args:
        environment: What decides here whether bits can be the same.
    """

    def __init__(self, environment: Mapping[str, Any]) -> None:
        """Have seen nobody yet."""
        self._mine = environment
        self._warned = False

    def look(self, rows: Iterable[Row]) -> None:
        """Look at rows that have come."""
        odd = next((row for row in rows if self._is_odd(row.environment)), None)
        if odd is None or self._warned:
            return
        self._warned = True
        logger.warning(
            "injection %d was made on another golden run than that of this process (loss %s on "
            "%s): rates mix the two; make_session must give the same model and data everywhere",
            odd.id,
            odd.environment.get("loss"),
            odd.environment.get("machine"),
        )

    def _is_odd(self, theirs: Mapping[str, Any]) -> bool:
        golden = self._mine["golden"]
        return theirs.get("golden", golden) != golden or bool(_apart(theirs, self._mine))
