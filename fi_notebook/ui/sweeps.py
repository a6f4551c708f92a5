"""A sweep from the explorer: a campaign on the session itself, from a click on a site's card.

    plan(explorer, request)     how many, how long, how wide: a dry run
    run(explorer, request)      the campaign, with rates and pictures while it runs
    arm(explorer, request)      the fault of one of its injections

Both step the model and so run on the explorer's executor, in this process: a session of
a notebook cannot be made anew elsewhere. What the session says of its own runs meanwhile
is not shown; its plan and its runs stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fi_notebook.campaign import Campaign
from fi_notebook.errors import SessionError
from fi_notebook.ui.campaign_payload import frame, pictures
from fi_notebook.ui.executor import Coalescer
from fi_notebook.ui.messages import Message, Request

if TYPE_CHECKING:
    from fi_notebook.ui.explorer import Explorer

__all__ = ["Sweep", "arm", "plan", "run"]

_CHUNK = 10  # injections between two looks at whether Stop was pressed
_TRIED = 8  # injections that a dry run makes


class Sweep:
    """A campaign that the page is shown while it runs.

    Args:
        explorer: Where it is shown.
        campaign: The campaign.
    """

    def __init__(self, explorer: Explorer, campaign: Campaign) -> None:
        """Show nothing yet."""
        self._explorer = explorer
        self.campaign = campaign
        self._golden = explorer.session.golden  # that of the sweep, should it be traced again
        self._updates = Coalescer(self._show, sparing=True)
        campaign.subscribe(self._changed)

    def messages(self) -> Iterator[Message]:
        """All that a page needs that has just been opened."""
        yield Message("sweep", frame(self.campaign, self._golden))
        yield Message("sweep_pictures", pictures(self.campaign))

    def _changed(self) -> None:
        progress = self.campaign.progress
        if self.campaign.running and progress is not None:
            told = {"done": progress.done, "total": progress.planned, "text": str(progress)}
            self._explorer.announce("sweeping", progress=told)
        self._updates.put("sweep", True)
        if not self.campaign.running:
            self._updates.flush()

    def _show(self, _updates: Any) -> None:
        try:
            for message in self.messages():
                self._explorer.tell(message)
        except Exception as error:  # noqa: BLE001 - a picture must not break a sweep
            self._explorer.fail(error)


def plan(explorer: Explorer, request: Request) -> dict[str, Any]:
    """Say how many injections a sweep has, how long they take, how wide the intervals are."""
    campaign, code = _campaign(explorer, request)
    explorer.announce("planning a sweep")
    with explorer.quiet():
        dry = campaign.dry_run(_TRIED)
    explorer.announce("idle")
    return {"text": f"{_fewer(request, dry.n)}{dry}", "code": code}


def run(explorer: Explorer, request: Request) -> dict[str, Any]:
    """Make the injections of a sweep; what was done stays when Stop is pressed."""
    campaign, code = _campaign(explorer, request)
    explorer.sweep = Sweep(explorer, campaign)
    explorer.announce("sweeping", "the golden run is written on a tape")
    with explorer.quiet():
        campaign.run(chunk=_CHUNK, cancel=lambda: explorer.executor.stopping)
    explorer.announce("idle")
    planned = campaign.progress.planned if campaign.progress else request.fields["count"]
    return {"code": code, "note": _fewer(request, planned)}


def _fewer(request: Request, planned: int) -> str:
    """That a module has fewer faults than were asked for; the page knows the size of a site."""
    asked = request.fields["count"]
    if request.fields.get("site") or planned >= asked:
        return ""
    return f"There are {planned:,} faults to choose from, not {asked:,}: all of them are taken. "


def arm(explorer: Explorer, request: Request) -> str:
    """Arm the fault of one injection of the last sweep, as it was."""
    number = request.fields["number"]
    made = {} if explorer.sweep is None else {r.id: r for r in explorer.sweep.campaign.results}
    if number not in made:
        raise SessionError(f"the last sweep made no injection {number}")
    row, fault = made[number], made[number].fault
    given = {"elements": fault["elements"], "scope": fault["scope"]}
    armed = explorer.session.arm(
        row.site, fault["model"], steps=row.step, seed=row.seed, **given, **fault["parameters"]
    )
    return armed.id


def _campaign(explorer: Explorer, request: Request) -> tuple[Campaign, str]:
    """The campaign that a request describes, and the line that makes it."""
    fields, session = request.fields, explorer.session
    count = fields["count"]
    if count < 1:
        raise SessionError(f"count is {count}; expected a number from 1")
    if fields.get("site"):
        site, chosen = fields["site"], fields.get("element")
        elements = count if chosen is None else {"index": chosen}
        line = f"fi.Campaign.of_site(session, {site!r}, elements={elements!r})"
        return Campaign.of_site(session, site, elements=elements), line
    module = fields.get("module", "")
    line = f"fi.Campaign.of_subtree(session, {module!r}, n={count})"
    return Campaign.of_subtree(session, module, n=count), line
