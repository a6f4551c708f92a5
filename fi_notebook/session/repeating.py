"""Whether a step repeats: golden against golden, and what to say where it does not.

    check_repeats(stage, golden, noise)     refuses a step that does not, on any rank
    unrepeatable(stage, golden, why)        the error that says so, and what to do

Limits: `DistributedDataParallel` is seen in the session's model only, not around it.
"""

from __future__ import annotations

from torch import nn

from fi_notebook.analysis.incidental import is_incidental
from fi_notebook.core.run import Comparison
from fi_notebook.core.valueless import is_bare
from fi_notebook.errors import SessionError
from fi_notebook.session.golden import GoldenRun
from fi_notebook.session.left import left_behind
from fi_notebook.session.stage import Stage
from fi_notebook.session.together import heard

__all__ = ["REPEATABLE", "check_repeats", "unrepeatable"]

REPEATABLE = 1e-3
"""Relative L2 up to which golden against golden is noise; beyond, the step does not repeat."""

_ADVICE = (
    "Something that it uses is not put back: if a data iterator advanced, make the step take its "
    "number (def step(i): …) and index the data by it; give what else the step changes as "
    "state=[…]: another model (a teacher, a moving average), schedulers, scalers, generators, "
    "and so an input on which a gradient stays, state=[x]"
)

_SETTLES = "DistributedDataParallel settles in its first two steps; make two, then trace. Else: "


def check_repeats(stage: Stage, golden: GoldenRun, noise: Comparison) -> None:
    """Refuse a step of which two golden runs differ, on any rank.

    Args:
        stage: What is run.
        golden: The golden run.
        noise: The golden run against itself.

    Raises:
        SessionError: Names the first call that differs, or the rank whose step it is.
    """
    differs = _first_difference(noise)
    told = heard(golden, differs)
    if differs:
        settles = noise.structural and _is_data_parallel(stage.setup.model)
        raise unrepeatable(stage, golden, differs, first=_SETTLES if settles else "")
    for rank, why in enumerate(told):
        if why:
            raise SessionError(f"rank {rank}'s step does not repeat: {why}; see what it says")


def unrepeatable(
    stage: Stage,
    golden: GoldenRun,
    what: str,
    cause: Exception | None = None,
    *,
    first: str = "",
) -> SessionError:
    """The error of a step that does not repeat.

    Args:
        stage: What is run.
        golden: The golden run.
        what: What differs.
        cause: What the step raised, if it did.
        first: What to do first, where that is known.

    Returns:
        The error, to be raised.
    """
    advice = left_behind(stage.setup.step, golden.snapshot) or _ADVICE
    error = SessionError(f"the step is not repeatable: {what}. {first}{advice}")
    error.__cause__ = cause
    return error


def _first_difference(noise: Comparison) -> str:
    """Where two golden runs differ beyond noise, in words, or ``""``.

    A call that gives memory as it finds it is named where nothing else differs.
    """
    rows = noise.diverged
    pairs = [(noise.golden, noise.columns["golden"]), (noise.faulty, noise.columns["faulty"])]
    passing = [is_incidental(trace, column[rows]) for trace, column in pairs]
    rows = rows[~(passing[0] | passing[1])]
    bare = [is_bare(trace, column[rows]) for trace, column in pairs]
    telling = rows[~(bare[0] | bare[1])]
    rows = telling if len(telling) else rows
    if not len(rows):
        return ""
    first = int(rows[0])
    far = not noise.columns["relative_l2"][first] <= REPEATABLE
    if noise.structural or far:
        site = noise.site(first)
        where = f" at {site.code[0].label}" if site.code else ""
        return f"two golden runs differ first at {site} ({site.phase}){where}"
    return ""


def _is_data_parallel(model: nn.Module) -> bool:
    """Whether a model is, or holds, one whose gradients torch reduces in buckets."""
    kind = nn.parallel.DistributedDataParallel
    return any(isinstance(module, kind) for module in model.modules())
