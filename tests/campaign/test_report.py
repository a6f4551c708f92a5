"""The report of a campaign: one file, opened in a real browser without any network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fi_notebook.campaign import Campaign
from fi_notebook.core.run import OUTCOMES
from fi_notebook.core.words import spoken
from tests.campaign import sessions
from tests.tools import modebar
from tests.tools.offline import opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    """40 bit flips over two steps."""
    made = Campaign(sessions.quickstart, n=40, steps=2, seed=1)
    made.run()
    return made


@pytest.mark.parametrize("dark", [False, True])
def test_the_file_opens_offline_with_its_pictures_and_tables(
    chromium: Browser, campaign: Campaign, tmp_path: Path, dark: bool
) -> None:
    """Four pictures are drawn in the page's colours, six tables hold the rates."""
    path = campaign.save_html(tmp_path / "campaign.html")
    with opened(chromium, path, dark=dark) as page:
        for number in range(4):
            page.locator(f"#figure{number} .main-svg").first.wait_for()
        assert modebar.buttons(page) == modebar.LOCAL
        assert page.locator("h2").all_inner_texts() == [
            "Rates",
            "By layer",
            "By phase",
            "By operator",
            "By bit field",
            "By fault model",
        ]
        rates = page.locator("table").first.locator("tr").all_inner_texts()[1:]
        assert len(rates) == len(OUTCOMES) + 1  # those that never came, and harm, too
        for outcome, count in campaign.results.counts.items():
            assert any(spoken(outcome) in line and str(count) in line for line in rates)
        words = page.locator("p").all_inner_texts()
        assert any("40 injections on tests.campaign.sessions:quickstart" in each for each in words)
        title = "getComputedStyle(document.querySelector('.gtitle')).fill.match(/[0-9]+/g)"
        assert (int(page.evaluate(title)[0]) > 128) == dark
        wide = "() => document.scrollingElement.scrollWidth - innerWidth"
        assert page.evaluate(wide) <= 0
        page.screenshot(path=tmp_path / "campaign.png", full_page=True)
