"""One row of a journal again: made alone, compared bit for bit, or opened in a session.

    made, differences = again(read_row("journal.jsonl:417"))
    session = opened(read_row("journal.jsonl:417"))     # armed and replayed; .explore()

Limits: a journal of another program version, machine or number of threads may differ in bits.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fi_notebook.campaign.campaign import ARGUMENTS, Campaign
from fi_notebook.campaign.draws import CampaignError
from fi_notebook.campaign.journal import Row
from fi_notebook.campaign.worker import Bench, Job, Settings, loaded
from fi_notebook.core.fault import Fault
from fi_notebook.core.site import Site
from fi_notebook.core.steps import Steps
from fi_notebook.engine.settled import Settled
from fi_notebook.errors import did_you_mean
from fi_notebook.session import FaultWarning, Session
from fi_notebook.session.evaluation import Evaluate

__all__ = ["again", "from_file", "opened"]


def fault_of_row(row: Row) -> Fault:
    """The fault of a row, as it was."""
    fault = row.fault
    return Fault(
        id="f1",
        target=Site.parse(row.site).target,
        model=fault["model"],
        parameters=fault["parameters"],
        elements=fault["elements"],
        steps=Steps.parse(row.step),
        seed=row.seed,
        scope=fault["scope"],
    )


def again(row: Row, *, timeout: float | None = None) -> tuple[Row, list[str]]:
    """Make one injection again, alone.

    Args:
        row: The row.
        timeout: Seconds that it may take; by default those of its campaign.

    Returns:
        The new row, and what of it differs from the old one: nothing, where the
        environment is the same.

    Raises:
        CampaignError: Its session cannot be imported here.
    """
    evaluate = row.campaign.get("evaluate")
    seconds = row.campaign.get("timeout", 60.0) if timeout is None else timeout
    settings = Settings(row.campaign["make_session"], row.campaign, seconds, evaluate=evaluate)
    bench = Bench(settings)
    made = bench.rows([Job(row.id, row.site, row.step, fault_of_row(row), row.place)])[0]
    before, after = (
        json.loads(replace(each, seconds=0.0, planned=0).to_json()) for each in (row, made)
    )
    return made, [
        f"{name}: {before[name]} in the journal, {after[name]} now"
        for name in before
        if before[name] != after[name]
    ]


def opened(
    row: Row,
    make_session: Callable[[], Session] | None = None,
    evaluate: Evaluate | None = None,
) -> Session:
    """A session with the row's fault armed, and no other, and replayed, ready to be explored.

    The session is traced, so one that was there already loses its runs; what was armed in it
    is there again by one `Session.undo`.

    Args:
        row: The row.
        make_session: What makes the session; by default what the row names.
        evaluate: Called with the model after each step; by default what the row names.

    Returns:
        The session; see `Session.explore`.

    Raises:
        CampaignError: Its session cannot be imported here.
    """
    campaign = row.campaign
    with Settled(seed=campaign["seed"], threads=campaign["threads"]):
        session = (make_session or loaded(campaign["make_session"]))()
        session.trace()
        with warnings.catch_warnings():  # what it is of a later step is no news
            warnings.simplefilter("ignore", FaultWarning)
            session.load_plan(replace(session.plan, faults=(fault_of_row(row),)))  # not anchored
        named = campaign.get("evaluate")
        if evaluate is None and named is not None:
            evaluate = loaded(named, "evaluate")
        session.replay(campaign["steps"], evaluate=evaluate)
    return session


def from_file(path: str | Path) -> Campaign:
    """A campaign from a JSON file that holds the arguments of `Campaign`.

    Raises:
        CampaignError: It cannot be read, or holds what a campaign does not take.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise CampaignError(f"{path} is no JSON: {error}") from None
    if not isinstance(found, Mapping) or "make_session" not in found:
        raise CampaignError(f"{path}: expected a mapping with 'make_session' as 'module:function'")
    for name in found:
        if name not in ARGUMENTS:
            raise CampaignError(f"{path}: no {name!r}{did_you_mean(str(name), ARGUMENTS)}")
    given: dict[str, Any] = dict(found)
    return Campaign(given.pop("make_session"), **given)
