"""Sweeps in a real browser: from a site's card to rates, pictures and an armed row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fi_notebook.campaign import Campaign
from fi_notebook.campaign.again import opened
from fi_notebook.campaign.journal import read_row
from fi_notebook.session import Session
from fi_notebook.ui.explorer import explorer_of
from tests.ui.conftest import Open
from tests.ui.pages import choose, index_box

if TYPE_CHECKING:
    from playwright.sync_api import Page


def _open_sweep(page: Page, site: str, count: int, what: str = "") -> None:
    choose(page, site)
    page.locator(".fi-sweep summary").click()
    if what:
        page.get_by_label("what is swept").select_option(label=what)
    page.get_by_label("count of the sweep").fill(str(count))


def _state(page: Page, name: str) -> None:
    page.locator(".fi-campaign .fi-chip", has_text=name).wait_for(timeout=60_000)


def test_a_site_is_swept_from_its_card(shown: Open, session: Session) -> None:
    """An estimate says how many and how long; then 32 bits of 2 elements are flipped, with
    the rates of the same campaign in Python, while plan and runs stay as they were.
    """
    expected = Campaign.of_site(session, "relu*2:0", elements=2).run()
    with shown(session) as bridge:
        page = bridge.page
        _open_sweep(page, "relu*2:0", 2)
        page.get_by_role("button", name="Estimate").click()
        told = page.locator(".fi-sweep .fi-note")
        told.filter(has_text="64 injections of 64 possible faults").wait_for(timeout=60_000)
        assert "s in one process" in told.inner_text()
        # bits of 2 elements are worth 2 draws at worst: 1.96 √(0.25 / 2) = 0.6930
        assert "All are of 2 drawn elements, so the rates among them are exact" in told.inner_text()
        assert "of all elements a rate will be known to within ± 69.30% at" in told.inner_text()
        page.get_by_role("button", name="Start sweep").click()
        _state(page, "done")
        cells = page.locator("table[aria-label='rates of the outcomes'] tbody tr").all()
        shown_rates = {row.locator("td").nth(0).inner_text(): row for row in cells}
        assert set(shown_rates) == {name.replace("_", " ") for name in expected.counts}
        for name, count in expected.counts.items():
            line = shown_rates[name.replace("_", " ")].inner_text()
            assert f"{count} of 64" in line
        page.locator(".fi-campaign .fi-figure", has_text="64 injections").first.wait_for()
        assert not len(session.plan)
        assert session.runs == []


def test_an_injection_of_a_sweep_is_armed_and_replayed(shown: Open, session: Session) -> None:
    """The first row that changed the result is armed; its replay has the row's outcome."""
    with shown(session) as bridge:
        page = bridge.page
        _open_sweep(page, "relu*2:0", 1)
        page.get_by_role("button", name="Start sweep").click()
        _state(page, "done")
        row = page.locator("table[aria-label='Injections that changed the result'] tbody tr").first
        outcome = row.locator("td").last.inner_text()
        row.get_by_role("button", name="arm the fault").click()
        page.locator(".fi-fault", has_text="relu*2:0").wait_for()
        page.get_by_role("button", name="Replay").click()
        page.locator(".fi-verdict", has_text=outcome).wait_for()


def test_a_row_of_a_journal_opens_in_the_explorer(shown: Open, tmp_path: Path) -> None:
    """Its fault is in the plan, its outcome in the result, the struck site in the tree."""
    path = tmp_path / "j.jsonl"
    Campaign("tests.campaign.sessions:quickstart", n=3, seed=1, sites="relu").run(journal=path)
    row = read_row(f"{path}:2")
    with shown(opened(row)) as bridge:
        page = bridge.page
        page.locator(".fi-verdict", has_text=row.outcome.replace("_", " ")).wait_for()
        page.locator(".fi-fault", has_text=row.site).get_by_role("button").first.click()
        page.locator(".fi-title", has_text=row.site).wait_for()


def test_a_module_is_swept_and_stopped(shown: Open, session: Session) -> None:
    """Stop keeps what is done: some of 20,000 injections, with their rates."""
    with shown(session) as bridge:
        page = bridge.page
        _open_sweep(page, "relu*2:0", 20_000, "the whole model")
        page.get_by_role("button", name="Start sweep").click()
        page.locator("table[aria-label='rates of the outcomes']").wait_for(timeout=60_000)
        page.get_by_role("button", name="Stop").click()
        _state(page, "stopped")
        page.locator(".fi-state", has_text="ready").wait_for()
        words = page.locator(".fi-campaign .fi-words .fi-words").inner_text()
        assert "of 20,000" in words


def test_a_sweep_that_cannot_be_says_so(shown: Open, session: Session) -> None:
    """Integers hold no floating-point values: the card shows the reason."""
    with shown(session) as bridge:
        page = bridge.page
        _open_sweep(page, "relu*2:0", 0)
        page.get_by_role("button", name="Start sweep").click()
        page.locator(".fi-sweep .fi-problem", has_text="expected a number from 1").wait_for()


def test_more_elements_than_there_are_are_said_not_to_be(shown: Open, session: Session) -> None:
    """The output of the second ReLU has 6 × 8 × 4 × 4 elements; every one is taken."""
    with shown(session) as bridge:
        page = bridge.page
        _open_sweep(page, "relu*2:0", 99_999_999)
        page.get_by_role("button", name="Estimate").click()
        told = page.locator(".fi-sweep .fi-note", has_text="768 elements: all of them are taken")
        told.filter(has_text="24,576 injections of").wait_for(timeout=60_000)


def test_the_chosen_element_is_swept(shown: Open, session: Session) -> None:
    """Offered where one is chosen: its 32 bits, and no other element; how many is not asked."""
    with shown(session) as bridge:
        page = bridge.page
        index_box(page, "relu*2:0").fill("0, 3, 1, 1")
        page.locator(".fi-sweep summary").click()
        place = page.get_by_label("what is swept")
        place.select_option(label="every bit of element [0, 3, 1, 1]")
        page.get_by_label("count of the sweep").wait_for(state="detached")
        page.get_by_role("button", name="Start sweep").click()
        _state(page, "done")
        sweep = explorer_of(session).sweep
        assert sweep is not None
        rows = list(sweep.campaign.results)
        assert {str(row.fault["elements"]) for row in rows} == {"{'index': [0, 3, 1, 1]}"}
        assert sorted(row.fault["parameters"]["bit"] for row in rows) == list(range(32))
        choose(page, "addmm*1:0")
        assert place.locator("option").all_inner_texts()[0] == "every bit of drawn elements"
        assert not place.locator("option", has_text="of element").count()


def test_a_sweep_takes_the_focus_to_its_tab(shown: Open, session: Session) -> None:
    """Where two panes have room, its button is hidden as it starts: the focus stays in the page."""
    with shown(session, width=1000) as bridge:
        page = bridge.page
        _open_sweep(page, "relu*2:0", 1)
        page.get_by_role("button", name="Start sweep").focus()
        page.keyboard.press("Enter")
        page.locator("[role=tab]:focus", has_text="Sweep").wait_for()
        _state(page, "done")
        assert page.locator("[role=tab]:focus").inner_text() == "Sweep"


def test_a_result_that_hides_the_site_has_its_focus(shown: Open, session: Session) -> None:
    """A replay from Python while the focus is in the form: it goes to the tab that is shown."""
    session.arm("relu*2:0", "zero")
    with shown(session, width=1000) as bridge:
        page = bridge.page
        choose(page, "relu*2:0")
        page.get_by_label("fault model").focus()
        session.replay()
        page.locator("[role=tab]:focus", has_text="Tensor diff").wait_for()
