"""A campaign's live view in a real JupyterLab, while the cell that runs it is busy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.page import LabPage

pytestmark = pytest.mark.browser

MAKE = """import sys
sys.path.insert(0, ROOT)
import fi_notebook as fi
from tests.campaign import sessions
campaign = fi.Campaign(sessions.quickstart, n=20_000, seed=1)
campaign.show()"""
RUN = "len(campaign.run(chunk=10))"


def test_it_moves_while_the_cell_runs_and_stop_keeps_what_is_done(
    show: Callable[..., LabPage],
) -> None:
    """Pictures come before the cell has ended; Stop is heard; the saved output has the rates."""
    root = repr(str(Path(__file__).parents[2]))
    lab = show(MAKE.replace("ROOT", root), RUN)
    lab.run_cell(0)
    board = lab.page.locator(".fi-board")
    board.get_by_text("nothing was run yet").wait_for()
    lab.start_cell(1)
    board.locator(".fi-chip", has_text="running").wait_for(timeout=60_000)
    board.locator(".fi-plot .main-svg").first.wait_for(timeout=60_000)
    board.get_by_role("button", name="Stop").click()
    board.locator(".fi-chip", has_text="stopped").wait_for(timeout=60_000)
    lab.finish_cell()
    lab.assert_ran()
    made = int(lab.output_text(1))
    assert 0 < made < 20_000
    assert f"{made:,} of 20,000" in board.inner_text()
    saved = json.dumps(lab.cells[0]["outputs"])
    assert f"{made:,} of 20,000" in saved
    lab.assert_quiet()
