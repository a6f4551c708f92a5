"""The training curves in the page, while a replay runs and after it."""

from __future__ import annotations

from fi_notebook.session import Session
from tests import models
from tests.ui.conftest import Open, traced

_POINTS = "() => document.querySelector('.fi-plot')?.data?.[0]?.x?.length ?? 0"


def test_curves_grow_while_a_replay_runs(shown: Open, session: Session) -> None:
    """Training is shown by itself; the golden curve has more and more steps until Stop, with the
    numbers in the table.
    """
    session.arm("relu*2:0", "scale", factor=2.0)
    with shown(session) as bridge:
        page = bridge.page
        page.set_default_timeout(60_000)
        page.locator(".fi-foot").get_by_label("steps", exact=True).fill("100000")
        page.get_by_role("button", name="Replay", exact=True).click()
        page.locator("[role=tab][aria-selected=true]", has_text="Training").wait_for()
        page.wait_for_function(f"() => ({_POINTS})() >= 2")
        before = page.evaluate(_POINTS)
        page.wait_for_function(f"(before) => ({_POINTS})() > before", arg=before)
        table = page.get_by_role("table", name="golden → faulty, by step")
        assert table.locator("tbody tr").count() >= before
        page.get_by_role("button", name="Stop", exact=True).click()
        page.locator(".fi-state", has_text="cancelled").wait_for()
        assert session.run is None


def test_a_norm_after_clipping_is_said_to_be_that(shown: Open) -> None:
    """A step that clips says so at the gradient norm; one that does not says nothing."""
    for case, name in (
        (models.cnn(seed=3), "gradient norm, clipped"),
        (models.mlp(seed=1), "gradient norm"),
    ):
        session = traced(case)
        session.replay()
        with shown(session) as bridge:
            tile = bridge.page.locator(".fi-tile .fi-key", has_text="gradient norm")
            assert tile.all_inner_texts() == [name]


def test_a_stopped_replay_leaves_the_result_before_it(shown: Open, session: Session) -> None:
    """While one runs the verdict is called that of the run before; after Stop the last result's
    own curves are back.
    """
    session.arm("relu*2:0", "scale", factor=2.0)
    session.replay(steps=3)
    with shown(session) as bridge:
        page = bridge.page
        page.get_by_role("tab", name="Training").click()
        final = page.locator(".fi-figure", has_text="training: ")
        final.wait_for()
        assert page.locator(".fi-tile .fi-key", has_text="step 0").count() == 4
        page.locator(".fi-foot").get_by_label("steps", exact=True).fill("100000")
        page.get_by_role("button", name="Replay", exact=True).click()
        page.locator(".fi-figure", has_text="training so far").wait_for()
        page.get_by_text("This is the result of the run before.").wait_for()
        page.get_by_role("button", name="Stop", exact=True).click()
        page.locator(".fi-state", has_text="cancelled").wait_for()
        final.wait_for()
        assert page.get_by_text("This is the result of the run before.").count() == 0
