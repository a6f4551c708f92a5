"""The live view of a campaign: the real widget and page in Chromium, without Jupyter."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from fi_notebook.campaign import Campaign
from fi_notebook.campaign.progress import Progress
from fi_notebook.campaign.results import Results
from fi_notebook.campaign.statistics import Rate
from fi_notebook.ui.campaign_payload import frame, pictures
from tests.campaign import sessions
from tests.tools import modebar
from tests.ui.bridge import bridged, comms

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def _campaign(n: int, **how: Any) -> Campaign:
    return Campaign.of_sites(sessions.inference(), "relu", n=n, seed=1, **how)


@pytest.mark.parametrize("dark", [False, True])
def test_it_is_drawn_while_it_runs_and_when_it_is_done(chromium: Browser, dark: bool) -> None:
    """Progress, rates and pictures of 60 injections, in the page's theme, with text twins."""
    with bridged(chromium, width=900, dark=dark) as bridge:
        campaign = _campaign(60)
        view = campaign.show()
        assert campaign.show() is view
        bridge.show(view)
        root = bridge.page.locator(".fi-board")
        root.get_by_text("nothing was run yet").wait_for()
        campaign.run(chunk=20)
        root.locator(".fi-chip", has_text="done").wait_for()
        root.locator(".fi-figure", has_text="60 injections").first.wait_for()
        assert modebar.buttons(bridge.page) == modebar.LOCAL
        assert root.get_attribute("data-theme") == ("dark" if dark else "light")
        rates = root.locator("table[aria-label='rates of the outcomes'] tbody tr")
        assert rates.count() == len(campaign.results.counts)
        root.locator("summary").first.click()
        assert "masked exact" in root.locator("pre").first.inner_text()
        wide = "() => document.scrollingElement.scrollWidth - innerWidth"
        assert bridge.page.evaluate(wide) <= 0
        view.close()
        assert not bridge.errors, bridge.errors


def test_stop_keeps_what_is_done(chromium: Browser) -> None:
    """A click on Stop while 5,000 injections are made: some are, and their rates are shown."""
    with bridged(chromium) as bridge:
        campaign = _campaign(5000)
        view = campaign.show()
        bridge.show(view)
        run = threading.Thread(target=campaign.run, kwargs={"chunk": 10})
        run.start()
        bridge.page.get_by_role("button", name="Stop").click()
        bridge.page.locator(".fi-chip", has_text="stopped").wait_for(timeout=60_000)
        run.join()
        assert 0 < len(campaign.results) < 5000
        assert (
            f"{len(campaign.results):,} of 5,000" in bridge.page.locator(".fi-board").inner_text()
        )
        view.close()
        assert not bridge.errors, bridge.errors


def test_at_most_ten_updates_a_second_and_never_without_the_last() -> None:
    """Told of every single injection, the page is not; the last frame is the whole campaign."""
    with comms() as waiting:
        campaign = _campaign(150)
        view = campaign.show()
        begun = time.monotonic()
        campaign.run(chunk=1)
        took = time.monotonic() - begun
        view.close()
        found = []
        while not waiting.empty():
            found.append(waiting.get()[0].get("update", {}))
    frames = [json.loads(update["_frame"]) for update in found if "_frame" in update]
    assert len(frames) <= 10 * took + 3
    assert frames[-1]["state"] == "done"
    assert frames[-1]["done"] == 150


def test_a_saved_notebook_tells_how_it_ended() -> None:
    """The static result has the rates and a bar for each layer, and no script."""
    with comms():
        campaign = _campaign(40)
        view = campaign.show()
        campaign.run()
        static = view._static()
        view.close()
    assert "40 of 40" in static["text/plain"]
    html = static["text/html"]
    assert "<script" not in html
    for outcome, count in campaign.results.counts.items():
        assert outcome.replace("_", " ") in html
        assert f"{count} of 40" in html
    assert all(layer in html for layer in set(campaign.results.groups("layer")))


def test_an_interrupted_campaign_keeps_what_is_done() -> None:
    """Ctrl-C in the middle is raised on; what was made before is there, and not running."""
    campaign = _campaign(60)

    def interrupt(progress: Progress) -> None:
        if progress.done >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        campaign.run(chunk=10, on_progress=interrupt)
    assert len(campaign.results) == 20
    assert not campaign.running
    assert frame(campaign)["state"] == "stopped"


def test_the_most_harmful_rows_come_first() -> None:
    """NaN before a changed value, whatever was made first; a page's JSON can hold both. With a
    trace element 5 of 64 × 16 × 8 × 8 has coordinates.
    """
    session = sessions.inference()
    campaign = Campaign.of_sites(
        session,
        "other/relu*2:0",
        faults=[("set", {"value": 50.0}), ("set", {"value": float("nan")})],
        elements={"index": 5},
        strategy="exhaustive",
    )
    assert frame(campaign)["state"] == "not started"
    campaign.run()
    told = json.loads(json.dumps(frame(campaign), allow_nan=False))
    rows = told["rows"]
    assert (told["state"], told["changed"]) == ("done", 2)
    assert [(row["id"], row["outcome"]) for row in rows] == [(2, "nan immediate"), (1, "changed")]
    assert rows[0]["change"].endswith("→ NaN")
    assert {row["elements"] for row in rows} == {"element 5"}
    there = frame(campaign, session.golden)["rows"]
    assert {row["elements"] for row in there} == {"element [0, 0, 0, 5]"}


def test_a_rate_without_an_interval_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends are the rate, 1 of 32; where they are not, they stand."""
    campaign = _campaign(2)
    campaign.run()
    rate = Rate("all", "changed", 1, 32, 1 / 32, 1 / 32, 1 / 32, 32.0)
    told = (rate, replace(rate, low=0.015, high=0.105))
    monkeypatch.setattr(Results, "rates", lambda results: told)
    assert [line[-1] for line in frame(campaign)["rates"]] == ["exact", "1.5% to 10.5%"]


def test_rows_are_ordered_by_how_much_the_loss_changed() -> None:
    """By 0, 0.5 and 2: the last one first, and NaN before all; the losses stand in their rows."""
    campaign = _campaign(4)
    campaign.run()
    outcomes = {2.0: "changed", 2.5: "changed", 4.0: "changed", float("nan"): "nan_immediate"}
    made = [
        replace(row, outcome=outcome, metrics={"golden_loss": 2.0, "loss": loss})
        for row, (loss, outcome) in zip(campaign.results, outcomes.items(), strict=True)
    ]
    told = frame(SimpleNamespace(results=Results(made), progress=None, running=False))  # type: ignore[arg-type]  # all that is asked
    assert [row["loss"] for row in told["rows"]] == ["2 → NaN", "2 → 4", "2 → 2.5", "2 → 2"]


def test_every_picture_has_a_text() -> None:
    """Outcomes, harm by bit, and for several steps the losses; nothing for one site's timeline."""
    campaign = Campaign(sessions.quickstart, n=12, steps=2, seed=1, sites="relu*1:0")
    campaign.run()
    made = pictures(campaign)
    assert set(made["figures"]) == set(made["texts"]) == {"outcomes", "harm", "losses"}
    assert "bit" in made["texts"]["harm"]
    assert "median of the last loss" in made["texts"]["losses"]


@pytest.mark.parametrize("part", ["frame", "pictures"])
def test_what_cannot_be_drawn_is_said_in_the_widget(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The campaign goes on to its end; the frame says what went wrong."""

    def broken(_campaign: object) -> None:
        raise RuntimeError("no ink")

    with comms():
        campaign = _campaign(20)
        view = campaign.show()
        monkeypatch.setattr(f"fi_notebook.ui.campaign_view.{part}", broken)
        assert len(campaign.run(chunk=10)) == 20
        assert json.loads(view._frame)["words"] == "this could not be drawn: no ink"
        monkeypatch.undo()
        view.close()
