"""What the page says and offers in a real browser, by the state that session and kernel are in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fi_notebook.session import Session
from fi_notebook.ui.explorer import Explorer, explorer_of
from tests import models
from tests.ui.bridge import bridged
from tests.ui.conftest import Open
from tests.ui.pages import choose

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_GONE = "() => window.fiModel.comm_live_update.forEach((hear) => hear())"
_PRESSED = ".fi-switch .fi-button[aria-pressed=true]"


def test_a_first_trace_is_told_while_it_runs(chromium: Browser) -> None:
    """The tree does not ask for Trace meanwhile, nor the result for a fault."""
    case = models.mlp(seed=1)
    session = Session(case.step, model=case.model)
    with bridged(chromium) as bridge:
        explorer = Explorer(session)
        bridge.show(explorer)
        bridge.page.locator(".fi-tree .fi-empty", has_text="press Trace").wait_for()
        assert bridge.page.get_by_role("button", name="Save report").is_disabled()
        explorer.announce("tracing")
        bridge.page.locator(".fi-tree .fi-empty", has_text="tracing …").wait_for()
        bridge.page.locator(".fi-outcome", has_text="tracing …").wait_for()
        explorer.close()


def test_a_form_without_a_kernel_is_off_and_says_why(shown: Open, session: Session) -> None:
    """Nothing can be typed, switched, armed or disarmed; values that were not read are missing."""
    session.arm("relu*2:0", "nan")
    with shown(session) as bridge:
        page = bridge.page
        choose(page, "relu*2:0")
        page.evaluate(_GONE)
        page.locator(".fi-form .fi-warning", has_text="nothing can be armed: the kernel").wait_for()
        controls = page.locator(".fi-fields, .fi-armbar .fi-primary, .fi-fault .fi-small")
        assert controls.evaluate_all("(all) => all.every((each) => each.matches(':disabled'))")
        choose(page, "relu*1:0")
        page.locator(".fi-values .fi-empty", has_text="no values: the kernel is gone").wait_for()


def test_the_switch_of_panes_always_has_one_chosen(shown: Open, session: Session) -> None:
    """Where the tree stands beside another pane it is that one; where it is alone, the tree."""
    with shown(session, width=1000) as bridge:
        page = bridge.page
        page.locator(_PRESSED, has_text="site").wait_for()
        page.set_viewport_size({"width": 600, "height": 700})
        page.locator(_PRESSED, has_text="tree").wait_for()
        page.get_by_role("button", name="result", exact=True).click()
        page.locator(_PRESSED, has_text="result").wait_for()
        assert page.locator(_PRESSED).count() == 1


def test_what_is_counted_is_what_is_shown(shown: Open, session: Session) -> None:
    """The phases without what is folded away make the sites that are found, and with it all."""
    with shown(session) as bridge:
        page = bridge.page
        phases = page.locator(".fi-toggle[data-phase]")

        def counted() -> int:
            return sum(int(text.split()[-1]) for text in phases.all_inner_texts())

        shown_, everything = counted(), explorer_of(session).session.golden
        assert everything is not None
        folded = page.locator(".fi-toggle", has_text="folded")
        page.locator(".fi-found", has_text=f"{shown_} of {len(everything)} sites").wait_for()
        assert shown_ + int(folded.inner_text().split()[-1]) == len(everything)
        folded.click()
        page.locator(".fi-found", has_text=f"{len(everything)} of").wait_for()
        assert counted() == len(everything)


def test_a_search_that_cannot_be_read_is_told_in_full(shown: Open, session: Session) -> None:
    """In red, within 400 px; when it is emptied, the chosen site stands in the tree again."""
    with shown(session, width=400) as bridge:
        page = bridge.page
        choose(page, "relu*2:0")
        page.get_by_role("button", name="tree", exact=True).click()
        page.locator(".fi-search").fill("re:" + "(a+)+" * 20)
        found = page.locator(".fi-found[data-bad]", has_text="cannot read the search")
        found.wait_for()
        assert found.evaluate("(told) => told.scrollWidth <= told.clientWidth")
        page.locator(".fi-search").fill("")
        page.locator(".fi-row", has_text="relu*2:0").wait_for()


def test_only_complex_numbers_have_parts(shown: Open, session: Session) -> None:
    """At a float32 the form does not ask for real or imaginary."""
    with shown(session) as bridge:
        choose(bridge.page, "relu*2:0")
        bridge.page.get_by_label("ber (bit error rate)").wait_for()
        assert not bridge.page.get_by_label("part", exact=True).count()
