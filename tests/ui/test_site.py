"""The site card in a real browser: pictures, elements by clicking, form, preview, arming."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from fi_notebook.core.fault import Fault
from fi_notebook.session import Session
from tests.ui.conftest import Open
from tests.ui.pages import ARM, choose, replay

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, Position

SITE = "relu*2:0"  # 6 × 8 × 4 × 4


def pictured(page: Page) -> Locator:
    """The pictures of the site's values, read first where they are not kept."""
    page.locator(".fi-array, .fi-values button").first.wait_for()
    read = page.get_by_role("button", name="Read values")
    if read.count():
        read.click()
    page.locator(".fi-mark").first.wait_for(state="attached")  # it has turned to what is drawn
    return page.locator(".fi-frame")


def cell(frame: Locator, row: int, column: int, of: int = 4) -> Position:
    """Where an element of a plane of so many rows and columns is clicked."""
    box = frame.bounding_box()
    assert box is not None
    return {
        "x": (column + 0.5) / of * box["width"],
        "y": (row + 0.5) / of * box["height"],
    }


def stroke(page: Page, frame: Locator, start: tuple[int, int], end: tuple[int, int]) -> None:
    """Drag from one element of a plane to another."""
    frame.scroll_into_view_if_needed()
    box = frame.bounding_box()
    assert box is not None
    for at, act in ((start, page.mouse.down), (end, page.mouse.up)):
        place = cell(frame, *at)
        page.mouse.move(box["x"] + place["x"], box["y"] + place["y"], steps=3)
        act()


def turn_to_first(page: Page) -> Locator:
    """The planes of batch 0, whatever the preview had drawn."""
    frames = pictured(page)
    page.get_by_role("slider", name="axis 0").fill("0")
    page.locator("figcaption[title='[0, 0]']").wait_for()
    return frames


def armed(page: Page, session: Session) -> Fault:
    """Press Arm; the fault that the session then has."""
    page.get_by_role("button", name=ARM).click()
    page.locator(".fi-fault").last.wait_for()
    return session.plan[len(session.plan) - 1]


def test_nothing_is_chosen_before_a_person_chooses(shown: Open, session: Session) -> None:
    """The fault aims at one drawn element; the picture shows which, and the lens waits."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        pictured(page)
        page.locator(".fi-mark[data-kind=drawn]").wait_for()
        assert page.locator("[data-bit]").count() == 0
        page.locator(".fi-values", has_text="Choose an element").wait_for()
        assert (
            page.locator(".fi-armbar").inner_text().startswith("bitflip on 1 drawn element, step 0")
        )


def test_arm_is_in_sight_at_the_usual_height(shown: Open, session: Session) -> None:
    """Without any scrolling, and it is really on top."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        pictured(page)
        arm = page.get_by_role("button", name=ARM)
        on_top = """(button) => { const { x, y, width, height } = button.getBoundingClientRect();
          return document.elementFromPoint(x + width / 2, y + height / 2) === button; }"""
        assert arm.evaluate(on_top)


def test_what_is_previewed_is_what_strikes(shown: Open, session: Session) -> None:
    """Five drawn elements, a drawn bit each: the replay changes just those, to those bits."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        page.get_by_label("seed").fill("11")
        page.get_by_label("how many").fill("5")
        page.locator(".fi-preview", has_text="5 elements would change").wait_for()
        previewed = page.locator("table[aria-label=preview] tbody tr").all_inner_texts()
        assert len(previewed) == 4  # of 5: the first ones
        armed(page, session)
        replay(page)
        struck = page.locator("table[aria-label='changed elements'] tbody tr")
        struck.nth(4).wait_for()
        for shown_before, after in zip(previewed, struck.all_inner_texts(), strict=False):
            assert shown_before.split("\t")[:3] == after.split("\t")[:3]
        page.locator(".fi-mark[data-kind=struck]").first.wait_for(state="attached")


def test_a_click_chooses_an_element_and_a_drag_a_block(shown: Open, session: Session) -> None:
    """The third plane of batch 0, rows 1 to 3, columns 0 to 1; then the element (2, 3) of it."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        frames = turn_to_first(page)
        stroke(page, frames.nth(2), (1, 0), (3, 1))
        page.locator(".fi-armbar", has_text="block of 3 × 2 at [0, 2, 1, 0]").wait_for()
        assert armed(page, session).elements == {"block": {"shape": [3, 2], "at": [0, 2, 1, 0]}}
        page.locator(".fi-preview", has_text="6 elements would change").wait_for()
        frames.nth(2).click(position=cell(frames.nth(2), 2, 3))
        page.locator(".fi-lenshead", has_text="element [0, 2, 2, 3]").wait_for()
        assert page.get_by_label("index of the element").input_value() == "0, 2, 2, 3"
        assert armed(page, session).elements == {"index": [0, 2, 2, 3]}
        page.locator("figcaption[title='[0, 2]']").wait_for()  # a click moves no picture


def test_shift_extends_and_the_left_edge_takes_a_row(shown: Open, session: Session) -> None:
    """From the chosen element to the one under Shift; row 1 of plane 2 is row 9 of the matrix."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        frames = turn_to_first(page)
        frames.nth(2).click(position=cell(frames.nth(2), 0, 1))
        page.locator(".fi-lenshead", has_text="[0, 2, 0, 1]").wait_for()
        frames.nth(2).click(position=cell(frames.nth(2), 3, 2), modifiers=["Shift"])
        page.locator(".fi-armbar", has_text="block of 4 × 2 at [0, 2, 0, 1]").wait_for()
        edge = frames.nth(2).locator(".fi-rowpick")
        edge.click(position={"x": 2, "y": cell(frames.nth(2), 1, 0)["y"]})
        page.locator(".fi-armbar", has_text="row 9").wait_for()  # 0 × 32 + 2 × 4 + 1
        assert armed(page, session).elements == {"row": 9}


def test_elements_are_chosen_by_the_keyboard_too(shown: Open, session: Session) -> None:
    """Arrows choose, Shift spans, R takes the row, PageDown goes to the next plane."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        turn_to_first(page)
        page.locator(".fi-array").focus()
        for key in ("ArrowRight", "ArrowRight", "ArrowDown", "PageDown"):
            page.keyboard.press(key)
        page.locator(".fi-lenshead", has_text="[0, 1, 1, 1]").wait_for()
        page.locator(".fi-array:focus").wait_for()
        page.locator(".fi-live", has_text="[0, 1, 1, 1]").wait_for(state="attached")
        page.keyboard.press("Shift+ArrowDown")
        page.keyboard.press("Shift+ArrowRight")
        page.locator(".fi-armbar", has_text="block of 2 × 2 at [0, 1, 1, 1]").wait_for()
        page.keyboard.press("r")
        page.locator(".fi-armbar", has_text="row 6").wait_for()  # 1 × 4 + 2


def test_bits_are_flipped_by_the_keyboard(shown: Open, session: Session) -> None:
    """One tab stop; arrows go from bit to bit, Enter flips, and the focus stays there."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        frames = pictured(page)
        frames.first.click(position=cell(frames.first, 0, 0))
        page.locator("[data-bit='31']").focus()
        assert page.locator("[data-bit][tabindex='0']").count() == 1
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        page.locator("[data-bit='30'][aria-pressed=true]:focus").wait_for()
        assert (
            page.locator(".fi-armbar")
            .inner_text()
            .startswith("bitflip(bit=30 (exponent)) on element")
        )


def test_the_picture_follows_what_differs_most_after_a_replay(
    shown: Open, session: Session
) -> None:
    """A fault in batch 4 is looked at in batch 4, and marked."""
    session.arm(SITE, "set", elements={"index": [[4, 1, 2, 3], [5, 0, 0, 0]]}, value=50.0)
    with shown(session) as bridge:
        page = bridge.page
        replay(page)
        choose(page, SITE)
        pictured(page)
        values = session.golden.value(SITE) if session.golden else torch.zeros(1)
        most = min([(4, 1, 2, 3), (5, 0, 0, 0)], key=lambda at: float(values[at]))
        page.locator(f"figcaption[title='[{most[0]}, {most[1]}]']").wait_for()
        page.locator(".fi-mark[data-kind=struck]").wait_for()


def test_models_that_cannot_strike_here_are_off_with_the_reason(
    shown: Open, session: Session
) -> None:
    """A collective's faults at a relu; a NaN in a tensor of whole numbers."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        options = page.get_by_label("fault model").locator("option:disabled")
        page.get_by_label("fault model").locator("option[value=drop_rank]:disabled").wait_for(
            state="attached"
        )
        texts = options.all_inner_texts()
        assert "drop_rank – is for collectives; relu is none" in texts
        assert not [text for text in texts if text.startswith(("bitflip", "scale", "stale –"))]
        choose(page, "add_*1:0")
        whole = page.get_by_label("fault model").locator("option[value=nan]:disabled")
        whole.wait_for(state="attached")
        assert "int64 cannot hold nan" in whole.inner_text()


def test_ranks_micro_batches_and_the_rest_are_armed(shown: Open, session: Session) -> None:
    """What is typed under the trigger is the fault's, and its Python line says it."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        page.locator(".fi-more summary", has_text="trigger").click()
        for label, text in (
            ("probability", "0.5"),
            ("times at most", "3"),
            ("micro batches", "0,2-3"),
            ("ranks", "0"),
        ):
            page.get_by_label(label).fill(text)
        page.get_by_label("scope").select_option("storage")
        fault = armed(page, session)
        assert (fault.probability, fault.times, fault.scope) == (0.5, 3, "storage")
        assert (str(fault.micro_batches), str(fault.ranks)) == ("0,2-3", "0")
        line = page.locator(".fi-fault .fi-link").get_attribute("title") or ""
        again = Session(lambda: None, model=session.model)
        exec(line, {"session": again})
        assert again.plan[0].micro_batches == fault.micro_batches
        assert again.plan[0].ranks == fault.ranks
        again.disarm()


@pytest.mark.parametrize(
    ("label", "text", "said"),
    [("bit", "40", "no bit 40"), ("steps", "x", "steps: 'x' cannot be: type 0, or")],
)
def test_a_fault_that_cannot_be_is_refused_before_it_is_armed(
    shown: Open, session: Session, label: str, text: str, said: str
) -> None:
    """The bar says so as soon as it is typed; correcting it takes the words away."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        page.get_by_label(label, exact=True).first.fill(text)
        page.locator(".fi-armbar .fi-problem", has_text=said).wait_for()
        page.get_by_label(label, exact=True).first.fill("3")
        page.locator(".fi-armbar .fi-problem", has_text=said).wait_for(state="detached")


def test_enter_in_the_form_arms(shown: Open, session: Session) -> None:
    """As a form does: the default button is Arm."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        page.get_by_label("seed").fill("5")
        page.keyboard.press("Enter")
        page.locator(".fi-fault").wait_for()
        assert session.plan[0].seed == 5


def test_the_gutter_says_what_it_counts(shown: Open, session: Session) -> None:
    """Its numbers have a heading and a title."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        page.locator(".fi-source", has_text="n× calls").wait_for()
        counted = page.locator(".fi-line[data-marked] .fi-gutter")
        assert counted.get_attribute("title") == "calls made at this line or below it"
        assert counted.inner_text().endswith("×")


def test_what_the_last_replay_did_to_a_site_is_told(shown: Open, session: Session) -> None:
    """Where it struck, and at a site that nothing reached."""
    session.arm(SITE, "set", elements={"index": [4, 1, 2, 3]}, value=50.0)
    with shown(session) as bridge:
        page = bridge.page
        replay(page)
        choose(page, SITE)
        page.locator(".fi-effect", has_text="introduced: 1 element differs").wait_for()
        choose(page, "relu*1:0")
        page.locator(".fi-effect", has_text="equal bit for bit").wait_for()


def test_space_says_what_it_did(shown: Open, session: Session) -> None:
    """Armed, disarmed, or why not, in words that a screen reader speaks."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        page.locator(".fi-grid").focus()
        for said in ("armed f1", "disarmed"):
            page.keyboard.press("Space")
            page.locator(".fi-live", has_text=said).wait_for(state="attached")
        page.get_by_label("elements").select_option("index")
        page.locator(".fi-grid").focus()
        page.keyboard.press("Space")
        page.locator(".fi-live", has_text="no element is chosen").wait_for(state="attached")


def test_every_call_of_an_operator_is_struck_where_that_is_chosen(
    shown: Open, session: Session
) -> None:
    """Both relus are hit by one fault, and the preview is that of the call that is shown."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        page.get_by_label("elements").select_option("all")
        page.get_by_label("fault model").select_option("scale")
        page.get_by_label("factor").fill("2")
        page.locator(".fi-more summary", has_text="trigger").click()
        page.locator("label", has_text="every call of relu").locator("select").select_option(
            "every"
        )
        page.locator(".fi-armbar", has_text="on all elements, every call, step 0").wait_for()
        page.locator(".fi-preview", has_text="elements would change").wait_for()
        assert str(armed(page, session).target) == "relu"
        replay(page)
        run = session.run
        assert run is not None
        assert [str(each.site) for each in run.injections] == ["relu*1:0", "relu*2:0"]


def test_an_edited_fault_is_previewed_by_its_own_draws(shown: Open, session: Session) -> None:
    """The second fault, drawn anew with another seed, strikes what its preview showed."""
    session.arm("relu*1:0", "zero", elements={"count": 1})
    session.arm(SITE, "set", elements={"count": 2}, value=9.0)
    with shown(session) as bridge:
        page = bridge.page
        page.locator(".fi-fault", has_text="f2").get_by_role("button", name="edit").click()
        page.locator(".fi-title", has_text=SITE).wait_for()
        page.get_by_label("seed").fill("21")
        page.get_by_label("how many").fill("3")
        page.locator(".fi-preview", has_text="3 elements would change").wait_for()
        previewed = page.locator("table[aria-label=preview] tbody tr").all_inner_texts()
        page.locator(".fi-armbar .fi-primary").click()
        page.locator(".fi-live", has_text="f2").wait_for(state="attached")
        session.disarm("f1")
        run = session.replay()
        struck = [f"[{', '.join(map(str, each.index))}]" for each in run.injections[0].elements]
        assert [row.split("\t")[0] for row in previewed] == struck


def test_two_widgets_of_one_page_arm_their_own_faults(shown: Open, session: Session) -> None:
    """Their modules are loaded apart, and the button of one submits no form of the other."""
    with shown(session) as bridge:
        page = bridge.page
        source = bridge.page.evaluate("() => document.querySelector('.fi-form').id")
        page.evaluate(
            "() => { const d = document.createElement('div'); "
            "document.body.append(d); return window.fiShow(d); }"
        )
        page.locator(".fi-form").nth(1).wait_for(state="attached")
        ids = page.locator(".fi-form").evaluate_all("all => all.map((each) => each.id)")
        buttons = page.locator(".fi-armbar .fi-primary").evaluate_all(
            "all => all.map((each) => each.form.id)"
        )
        assert len(set(ids)) == 2
        assert buttons == ids
        assert source in ids


def test_the_bits_of_an_element_chosen_by_mouse_come_into_view(
    shown: Open, session: Session
) -> None:
    """They end above the bar that arms, however low the card is; the focus stays where it was."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        frames = pictured(page)
        page.locator(".fi-pane.fi-site").evaluate("pane => { pane.style.height = '330px'; }")
        frames.first.click(position=cell(frames.first, 0, 0))
        page.wait_for_function(
            "() => document.querySelector('.fi-bits')?.getBoundingClientRect().bottom"
            " <= document.querySelector('.fi-armbar').getBoundingClientRect().top"
        )
        assert page.locator(".fi-lens :focus").count() == 0
