"""The tree pane in a real browser: depth, heat, health, alerts, collectives, the focus."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import distributed as dist
from torch import nn

from fi_notebook.session import Session
from tests.ui.conftest import Open
from tests.ui.pages import arm, choose, replay


@pytest.fixture
def alone() -> Iterator[None]:
    """A process group of one rank, without any network."""
    store = torch._C._distributed_c10d.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def broken() -> Session:
    """A step whose loss is the logarithm of zero: the log is the first that is not finite."""
    torch.manual_seed(0)
    layer = nn.Linear(2, 2)

    def step() -> torch.Tensor:
        loss = torch.log(layer(torch.zeros(1, 2)).relu().sum() * 0)
        loss.backward()
        return loss

    session = Session(step, model=layer)
    session.trace()
    return session


def test_the_tree_opens_to_a_depth(shown: Open, session: Session) -> None:
    """Depth 0 leaves the roots, depth 1 their children, and the deepest everything."""
    with shown(session) as bridge:
        page = bridge.page
        depth = page.get_by_label("open the tree to depth")
        depth.select_option("fold all")
        page.locator(".fi-row[aria-level='2']").first.wait_for(state="detached")
        depth.select_option("depth 1")
        page.locator(".fi-row[aria-level='2']").first.wait_for()
        assert page.locator(".fi-row[aria-level='3']").count() == 0
        depth.select_option("open all")
        page.locator(".fi-row[aria-level='3']").first.wait_for()
        assert page.locator(".fi-row[aria-expanded=false]").count() == 0


def test_the_heat_is_any_statistic_and_then_the_relative_l2(shown: Open, session: Session) -> None:
    """The bars tell their statistic exactly; the relative L2 is offered once there was a replay."""
    golden = session.golden
    assert golden is not None
    with shown(session) as bridge:
        page = bridge.page
        heat = page.get_by_label("heat column")
        texts = heat.locator("option").all_inner_texts()
        assert {"std", "norm", "max", "min", "mean", "zeros", "NaN", "+Inf", "−Inf"} < set(texts)
        assert heat.locator("option:disabled").all_inner_texts() == ["relative L2"]
        page.locator(".fi-search").fill("op:relu*2")
        heat.select_option("norm")
        row = page.locator(".fi-row", has_text="relu*2:0")
        row.locator(".fi-heat[title^='norm']").wait_for()
        exact = row.locator(".fi-heat").get_attribute("title") or ""
        norm = golden.stats(golden.row("relu*2:0")).norm
        assert float(exact.removeprefix("norm ")) == pytest.approx(norm, rel=1e-6)
        arm(page, "relu*2:0", 30, "0, 0, 0, 0")
        replay(page)
        row.locator(".fi-heat[title^='relative L2']").wait_for()
        assert heat.input_value() == "error"


def test_alerts_are_told_by_severity_and_lead_to_where_it_began(shown: Open) -> None:
    """log(0): one tile with the total and its parts; its click chooses the log."""
    with shown(broken()) as bridge:
        page = bridge.page
        tile = page.locator(".fi-alert")
        assert "not finite" in tile.inner_text()
        assert tile.locator("[data-severity=critical]").inner_text() == "2 begin here"
        assert tile.locator("[data-severity=high]").inner_text().endswith(" pass it on")
        tile.click()
        page.locator(".fi-title", has_text="log*1:0").wait_for()
        chip = page.locator(".fi-row[aria-selected=true] .fi-chip.fi-bad")
        assert chip.inner_text() == "−Inf 1"
        page.locator(".fi-legend .fi-swatch", has_text="−Inf").wait_for()
        assert page.locator(".fi-legend .fi-scale").count() == 0, "nothing is finite"


def test_what_a_fault_made_not_finite_is_an_alert_of_its_own(shown: Open, session: Session) -> None:
    """After a replay the tile leads from one newly broken output to the next."""
    session.arm("relu*2:0", "nan")
    with shown(session) as bridge:
        page = bridge.page
        assert page.locator(".fi-alert").count() == 0
        replay(page)
        page.get_by_role("button", name="newly not finite").click()
        page.locator(".fi-title", has_text="relu*2:0").wait_for()
        page.get_by_role("button", name="newly not finite").click()
        page.locator(".fi-title", has_text="relu*2:0").wait_for(state="detached")


@pytest.mark.usefixtures("alone")
def test_collectives_carry_a_mark(shown: Open) -> None:
    """In the tree and in the phase strip, whose click searches them."""
    layer = nn.Linear(2, 2)

    def step() -> torch.Tensor:
        loss = layer(torch.ones(1, 2)).sum()
        loss.backward()
        for parameter in layer.parameters():
            dist.all_reduce(parameter.grad)
        return loss

    session = Session(step, model=layer)
    session.trace()
    with shown(session) as bridge:
        page = bridge.page
        page.get_by_role("button", name="collectives 2").click()
        page.locator(".fi-found", has_text="2 of").wait_for()
        page.get_by_role("button", name="Timeline").click()
        marks = page.locator(".fi-row", has_text="allreduce_").get_by_label("collective")
        marks.nth(1).wait_for()


def test_a_control_keeps_the_focus_when_the_tree_is_drawn_anew(
    shown: Open, session: Session
) -> None:
    """View, phase and depth are pressed by the keyboard, again and again, where they stand."""
    with shown(session) as bridge:
        page = bridge.page
        for name in ("Operators", "Modules", "forward", "backward"):
            control = page.get_by_role("button", name=name).first
            control.focus()
            pressed = control.get_attribute("aria-pressed")
            page.keyboard.press("Enter")
            page.locator(f".fi-button:focus:not([aria-pressed='{pressed}'])").wait_for()
            assert name in page.locator(":focus").inner_text()


def test_the_focus_stays_inside_while_a_replay_runs(shown: Open, session: Session) -> None:
    """Replay is disabled while it runs; its keys go nowhere else, and it has them back after."""
    with shown(session) as bridge:
        page = bridge.page
        page.get_by_role("button", name="Replay").focus()
        page.keyboard.press("Enter")
        page.locator(".fi-verdict").wait_for()
        page.locator(".fi-state[data-state=idle]").wait_for()
        page.locator(".fi-primary:focus", has_text="Replay").wait_for()


def test_the_focus_stays_where_a_person_works(shown: Open, session: Session) -> None:
    """On a tab that is chosen, on the box of a fault; of what is gone or disabled on the same of
    the next fault, else on the group around it, and never on what does something else.
    """
    session.arm("relu*1:0", "zero")
    session.arm("relu*2:0", "zero")
    with shown(session) as bridge:
        page = bridge.page
        choose(page, "relu*2:0")
        on = page.get_by_label("f1 is on")
        on.focus()
        page.keyboard.press("Space")
        page.locator(".fi-fault[data-status=off]").wait_for()
        assert page.locator(":focus").get_attribute("aria-label") == "f1 is on"
        page.get_by_label("disarm f1").focus()
        page.keyboard.press("Enter")
        page.get_by_label("disarm f1").wait_for(state="detached")
        page.locator("[aria-label='disarm f2']:focus").wait_for()
        page.keyboard.press("Enter")
        page.locator(".fi-plan:focus").wait_for()
        for _ in range(4):
            session.undo()
        page.locator(".fi-fault:only-child").wait_for()
        page.get_by_role("button", name="undo").focus()
        page.keyboard.press("Enter")
        page.locator(".fi-plan:focus").wait_for()
        reset = page.get_by_role("button", name="Disarm all")
        session.arm("relu*2:0", "zero")
        page.locator(".fi-foot .fi-button:not(:disabled)", has_text="Disarm all").wait_for()
        reset.focus()
        page.keyboard.press("Enter")
        page.locator(".fi-foot:focus").wait_for()


def test_arrows_go_from_tab_to_tab(shown: Open, session: Session) -> None:
    """One tab stop; right and left, round the end, Home and End choose; Enter keeps the focus."""
    with shown(session) as bridge:
        page = bridge.page
        tabs = page.get_by_role("tab")
        assert tabs.evaluate_all("(all) => all.map((each) => each.tabIndex)") == [0, -1, -1, -1, -1]
        tabs.first.focus()
        for key, name in (
            ("ArrowRight", "Propagation"),
            ("End", "Log"),
            ("ArrowRight", "Tensor diff"),
            ("ArrowLeft", "Log"),
            ("Home", "Tensor diff"),
            ("Enter", "Tensor diff"),
        ):
            page.keyboard.press(key)
            page.locator("[role=tab][aria-selected=true]:focus", has_text=name).wait_for()


def test_the_tree_has_heads_and_rows_that_say_what_is_in_them(
    shown: Open, session: Session
) -> None:
    """A screen reader is told the columns, and of a row its name, phase, type and heat once."""
    golden = session.golden
    assert golden is not None
    with shown(session) as bridge:
        page = bridge.page
        page.locator(".fi-search").fill("op:relu*2")
        row = page.locator(".fi-row", has_text="relu*2:0")
        row.wait_for()
        std = golden.stats(golden.row("relu*2:0")).std
        assert (row.get_attribute("aria-label") or "").startswith("relu*2:0, models.py:")
        assert (row.get_attribute("aria-label") or "").endswith(
            f", forward, f32 [6, 8, 4, 4], std {std:.4g}"
        )
        assert row.locator(".fi-twist").get_attribute("aria-hidden") == "true"
        owned = (page.get_by_role("treegrid").get_attribute("aria-owns") or "").split()
        heads = page.locator(f"#{owned[0]} [role=columnheader]")
        assert [each.split()[0] for each in heads.all_inner_texts()[:4]] == [
            "site", "phase", "output", "health",
        ]  # fmt: skip
        assert page.locator(f"#{owned[1]} [role=row]").count() == page.locator(".fi-row").count()
