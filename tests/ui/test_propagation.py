"""The propagation in the page: a scrubber that takes the tree's selection with it."""

from __future__ import annotations

import numpy as np

from fi_notebook.session import Session
from tests.ui.conftest import Open


def test_the_scrubber_and_the_tree_go_together(shown: Open, session: Session) -> None:
    """Arrow keys and buttons go through the sites that differ, in execution order; tree, site
    and mark go along; a call that is chosen in the tree moves the scrubber.
    """
    session.arm("relu*1:0", "scale", factor=3.0)
    run = session.replay()
    columns = run.comparison.columns
    differ = [int(row) for row in columns["golden"][np.flatnonzero(columns["effect"])]]
    sites = [str(run.comparison.golden.site(row)) for row in differ]
    assert sites[0] == "relu*1:0"
    with shown(session) as bridge:
        page = bridge.page
        page.get_by_role("tab", name="Propagation").click()
        page.locator(".fi-plot .main-svg").first.wait_for()
        slider = page.get_by_role("slider", name="sites that differ or mask")
        text = page.locator(".fi-scrubtext")
        masks = sum(
            run.comparison.effect(int(row)) == "masked" for row in range(len(run.comparison))
        )
        counts = f"({len(sites) - masks} that differ, {masks} that mask the error)"
        assert len(run.comparison.diverged) == len(sites) - masks
        assert text.inner_text().startswith(f"1 of {len(sites)} {counts}: relu*1:0 · introduced")
        slider.focus()
        for n in (1, 2):
            page.keyboard.press("ArrowRight")
            page.locator(".fi-row[aria-selected=true]", has_text=sites[n]).wait_for()
            page.locator(".fi-title", has_text=sites[n]).wait_for()
            assert slider.get_attribute("aria-valuetext") == text.inner_text()
            assert slider.evaluate("(it) => document.activeElement === it")
        page.keyboard.press("End")
        page.locator(".fi-title", has_text=sites[-1]).wait_for()
        page.get_by_role("button", name="previous site that differs or masks").click()
        page.locator(".fi-title", has_text=sites[-2]).wait_for()
        page.wait_for_function(
            "(x) => document.querySelector('.fi-plot').layout.shapes.at(-1).x0 === x",
            arg=int(np.flatnonzero(columns["effect"])[-2]) + 1,
        )
        page.locator(".fi-search").fill("op:relu")
        page.locator(".fi-row", has_text="relu*2:0").click()
        page.wait_for_function(
            "(text) => document.querySelector('.fi-scrubtext').textContent.includes(text)",
            arg="relu*2:0",
        )
        assert slider.input_value() == str(sites.index("relu*2:0"))
