"""The propagation in the page: a scrubber that takes the tree's selection with it."""

from __future__ import annotations

import numpy as np
import pytest

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


@pytest.mark.parametrize("width", [360, 800, 1700])
def test_a_figure_is_seen_when_its_tab_is_chosen(shown: Open, session: Session, width: int) -> None:
    """Its upper edge is in the pane, below the tabs; its title stands above it as text."""
    session.arm("relu*1:0", "scale", factor=3.0)
    with shown(session, width=width, height=700) as bridge:
        page = bridge.page
        session.replay()
        page.locator(".fi-verdict").wait_for()
        page.get_by_role("tab", name="Propagation").click()
        page.locator(".fi-plot .main-svg").first.wait_for()
        pane, plot = (page.locator(of).first.bounding_box() for of in (".fi-result", ".fi-plot"))
        assert pane
        assert plot
        assert pane["y"] < plot["y"] < pane["y"] + pane["height"] / 2
        assert "sites differ first: relu*1:0" in page.locator(".fi-caption").first.inner_text()
        assert page.locator(".gtitle").count() == 0


def test_tabs_of_other_things_have_no_verdict(shown: Open, session: Session) -> None:
    """A sweep and the log are not of the last replay; a new one leaves them for its own tabs."""
    session.arm("relu*1:0", "scale", factor=3.0)
    with shown(session) as bridge:
        page = bridge.page
        session.replay()
        page.locator(".fi-verdict").wait_for()
        for tab, seen in (("Log", False), ("Training", True), ("Sweep", False)):
            page.get_by_role("tab", name=tab).click()
            page.get_by_role("tabpanel", name=tab).wait_for()
            assert page.locator(".fi-outcome").is_visible() is seen
        session.replay()
        page.get_by_role("tabpanel", name="Tensor diff").wait_for()
        assert page.locator(".fi-outcome").is_visible()


def test_an_outcome_is_said_once_for_each_replay(shown: Open, session: Session) -> None:
    """By the one live region that stays; a change of the plan says nothing of it again, nor of
    the count of sites, which is the same.
    """
    with shown(session) as bridge:
        page = bridge.page
        page.locator(".fi-found", has_text="sites").wait_for()
        page.evaluate(
            """() => { window.said = [];
              const live = document.querySelector('.fi-live');
              for (const each of [live, document.querySelector('.fi-found')]) {
                new MutationObserver(() => window.said.push(each.textContent))
                  .observe(each, { childList: true, characterData: true, subtree: true }); } }"""
        )
        session.arm("relu*1:0", "scale", factor=3.0)
        session.replay()
        page.locator(".fi-verdict").wait_for()
        session.disarm("f1")
        page.locator(".fi-outcome", has_text="earlier plan").wait_for()
        said = page.evaluate("window.said")
        assert len(said) == 1
        assert said[0].startswith("changed: f1 struck relu*1:0 in step 0; ")
        assert page.locator(".fi-verdict[role], .fi-outcome [role=status]").count() == 0
