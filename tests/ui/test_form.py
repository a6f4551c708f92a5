"""The fault form in a real browser: what is typed is what is armed, or it is refused and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from fi_notebook.session import Session
from fi_notebook.ui import publish
from fi_notebook.ui.explorer import explorer_of
from tests.ui.conftest import Open
from tests.ui.pages import ARM, arm, choose, index_box, press_arm, replay

if TYPE_CHECKING:
    from playwright.sync_api import Page

SITE = "relu*2:0"  # 6 × 8 × 4 × 4
LARGE = 2**53 + 1  # the first whole number that float64 does not hold


def open_trigger(page: Page) -> None:
    """Show the rarer parts of the trigger."""
    page.locator(".fi-more summary", has_text="trigger").click()


def wrong(page: Page) -> list[str]:
    """What the fields say is wrong with what stands in them."""
    return [text for text in page.locator(".fi-wrong").all_inner_texts() if text]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("999,0,0,0", "dimension 0 is 0 to 5, or negative from the end"),
        ("abc", "type 4 indices such as 0, 0, 0, 0, or a flat index from 0 to 767"),
        ("0,3", "type 4 indices such as 0, 0, 0, 0, or a flat index from 0 to 767"),
        ("768", "the flat index is 0 to 767, or negative from the end"),
        ("", ""),
    ],
)
def test_an_index_that_is_none_arms_nothing(
    shown: Open, session: Session, text: str, said: str
) -> None:
    """The element that was chosen before is not struck: Arm is off, its reason at the field."""
    with shown(session) as bridge:
        page = bridge.page
        box = index_box(page, SITE)
        box.fill("0, 3, 1, 2")
        page.locator(".fi-armbar", has_text="on element [0, 3, 1, 2]").wait_for()
        box.fill(text)
        page.locator(".fi-armbar .fi-primary:disabled").wait_for()
        page.locator(".fi-armbar", has_text="one element, not yet chosen").wait_for()
        told = f"index: '{text}' cannot be: {said}" if said else "no element is chosen"
        page.locator(".fi-armbar .fi-problem", has_text=told).wait_for()
        assert wrong(page) == ([f"'{text}' cannot be: {said}"] if said else [])
        assert box.get_attribute("aria-invalid") == ("true" if said else "false")
        page.locator(".fi-lenshead").wait_for(state="detached")
        page.keyboard.press("Enter")
        box.fill("[0, 3, 1, 3]")
        press_arm(page)
        (fault,) = session.plan
        assert fault.elements == {"index": [0, 3, 1, 3]}


@pytest.mark.parametrize(
    ("text", "index"),
    [("[0, 3, 1, 2]", [0, 3, 1, 2]), ("5", [0, 0, 1, 1]), ("-1, 0, 0, -4", [5, 0, 0, 0])],
)
def test_an_index_is_typed_as_in_python(
    shown: Open, session: Session, text: str, index: list[int]
) -> None:
    """In brackets, flat or from the end; the text stays as it was typed, and the bits are its."""
    with shown(session) as bridge:
        page = bridge.page
        box = index_box(page, SITE)
        box.press_sequentially(text)
        page.locator(".fi-armbar", has_text=f"on element {index}").wait_for()
        assert box.input_value() == text
        assert not wrong(page)
        press_arm(page)
        assert session.plan[0].elements == {"index": index}


@pytest.mark.parametrize("text", ["", "[]", "0"])
def test_a_scalar_has_one_element(shown: Open, session: Session, text: str) -> None:
    """It is chosen at once, and by any of its indices; the placeholder is whole."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, "nll_loss_forward*1:0")
        page.get_by_label("elements").select_option("index")
        box = page.get_by_label("index of the element")
        assert box.get_attribute("placeholder") == "[]"
        box.fill("0, 0")
        page.locator(".fi-wrong", has_text="a scalar has one element").wait_for()
        box.fill(text)
        page.locator(".fi-armbar", has_text="on element []").wait_for()
        press_arm(page)
        assert session.plan[0].elements == {"index": []}


def test_a_trigger_that_cannot_be_is_told_at_its_fields(shown: Open, session: Session) -> None:
    """Each box says what was given and what to type; nothing is armed by button, Enter or Space."""
    given = {
        "steps": "5-2",
        "seed": "abc",
        "probability": "50%",
        "times at most": "0",
        "micro batches": "x",
        "ranks": "all",
    }
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        open_trigger(page)
        form = page.get_by_role("form", name="fault")
        for label, text in given.items():
            form.get_by_label(label, exact=True).fill(text)
        page.locator(".fi-wrong", has_text="'all' cannot be").wait_for()
        said = wrong(page)
        assert [text.split(" cannot be: ")[0] for text in said] == [
            f"'{t}'" for t in given.values()
        ]
        assert all("type " in text for text in said)
        assert page.locator(".fi-armbar .fi-primary").is_disabled()
        form.get_by_label("seed", exact=True).press("Enter")
        page.locator(".fi-grid").focus()
        page.keyboard.press("Space")
        page.locator(".fi-state[data-state=failed]", has_text="steps: '5-2' cannot be").wait_for()
        assert not len(session.plan)
        right = {"seed": "7", "probability": "0.5", "times at most": "2"}
        for label in given:
            form.get_by_label(label, exact=True).fill(right.get(label, ""))
        press_arm(page)
        (fault,) = session.plan
        assert (fault.seed, fault.probability, fault.times) == (7, 0.5, 2)
        page.locator(".fi-state[data-state=failed]").wait_for(state="detached")


def test_large_whole_numbers_are_kept_to_the_last_digit(shown: Open, session: Session) -> None:
    """A seed, a limit and a value of 2**53 + 1 are armed, edited and changed as they are."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, "add_*1:0")  # an int64
        page.get_by_label("fault model").select_option("set")
        page.locator(".fi-problem[data-kind=missing]", has_text="value: type a number").wait_for()
        page.get_by_label("value", exact=True).fill(str(LARGE))
        page.get_by_label("seed").fill(str(LARGE))
        open_trigger(page)
        page.get_by_label("times at most").fill(str(LARGE))
        press_arm(page)
        (armed,) = session.plan
        assert (armed.seed, armed.times, armed.parameters) == (LARGE, LARGE, {"value": LARGE})
        page.get_by_role("button", name="edit f1").click()
        page.get_by_role("button", name="Change f1").click()
        page.get_by_role("button", name="Armed as f1").wait_for()
        assert session.plan[0] == armed


def test_a_slice_of_one_number(shown: Open, session: Session) -> None:
    """The last picture of the batch: 8 × 4 × 4 elements."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        page.get_by_label("fault model").select_option("zero")
        page.get_by_label("elements").select_option("slice")
        page.get_by_label("slice", exact=True).fill("-1")
        page.locator(".fi-armbar", has_text="zero on slice -1").wait_for()
        press_arm(page)
        assert session.plan[0].elements == {"slice": "-1"}


def test_the_preview_stays_with_the_fault_that_was_armed(shown: Open, session: Session) -> None:
    """After Arm it is still that of f1, which strikes it; another seed is that of f1 changed."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        page.locator(".fi-preview", has_text="preview of f1, not armed yet: 1 element").wait_for()
        rows = page.locator("table[aria-label=preview] tbody tr")
        before = rows.all_inner_texts()
        page.get_by_role("button", name=ARM).click()
        page.locator(".fi-preview", has_text="preview of f1, as armed: 1 element").wait_for()
        assert rows.all_inner_texts() == before
        replay(page)
        assert session.run is not None
        ((struck,),) = (each.elements for each in session.run.injections)
        assert before[0].startswith(str(list(struck.index)))
        page.get_by_label("seed").fill("3")
        page.locator(".fi-preview", has_text="preview of f1, as changed").wait_for()
        page.get_by_label("seed").fill("0")
        page.locator(".fi-preview", has_text="preview of f1, as armed").wait_for()


def test_arm_names_its_site_where_the_tree_chose_a_module(shown: Open, session: Session) -> None:
    """A click on a module leaves the card: the button says so, and the site's row is marked."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        page.locator(".fi-row[aria-level='2']").first.click()
        page.locator(".fi-row[aria-selected=true][aria-level='2']").wait_for()
        page.locator(".fi-row[aria-current=true]", has_text=SITE).wait_for()
        page.get_by_role("button", name=f"Arm at {SITE}", exact=True).click()
        page.locator(".fi-fault").wait_for()
        assert str(session.plan[0].target) == SITE


def test_what_is_selected_in_a_box_stays_so_when_the_form_is_drawn_anew(
    shown: Open, session: Session
) -> None:
    """Typing goes over it, however late it comes: 7 in place of 0, not 07."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, "relu*2:0")
        seed = page.get_by_label("seed", exact=True)
        page.locator(".fi-array").wait_for()
        seed.focus()
        page.keyboard.press("ControlOrMeta+a")
        before = seed.element_handle()
        explorer = explorer_of(session)
        explorer.tell(publish.hello(explorer))
        page.wait_for_function("(box) => !box.isConnected", arg=before)
        page.keyboard.insert_text("7")
        assert seed.input_value() == "7"


def test_the_same_fault_is_not_armed_twice(shown: Open, session: Session) -> None:
    """After Arm the bar says as what; another bit changes that fault, and a second one is asked
    for by name. What is done is spoken; nothing more is armed by the keyboard either.
    """
    with shown(session) as bridge:
        page = bridge.page
        arm(page, SITE, 27, "0, 3, 1, 2")
        armed = page.get_by_role("button", name="Armed as f1")
        armed.wait_for()
        assert armed.is_disabled()
        bit = page.get_by_role("form", name="fault").get_by_label("bit", exact=True)
        bit.press("Enter")
        bit.fill("26")
        page.get_by_role("button", name="Change f1").wait_for()
        bit.press("Enter")
        page.locator(".fi-live", has_text="changed f1").wait_for(state="attached")
        armed.wait_for()
        assert [(each.id, each.parameters) for each in session.plan] == [("f1", {"bit": 26})]
        bit.fill("25")
        page.get_by_role("button", name="Arm another").click()
        page.locator(".fi-live", has_text="armed f2").wait_for(state="attached")
        page.get_by_role("button", name="Armed as f2").wait_for()
        bit.fill("26")
        armed.wait_for()
        assert [each.parameters for each in session.plan] == [{"bit": 26}, {"bit": 25}]
        page.get_by_label("f1 is on").uncheck()
        page.get_by_role("button", name="Change f2").wait_for()


def test_what_the_preview_refuses_cannot_be_armed(shown: Open, session: Session) -> None:
    """Arm is off while the words are there, and on again when they are gone."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        bit = page.get_by_role("form", name="fault").get_by_label("bit", exact=True)
        bit.fill("40")
        page.locator(".fi-armbar .fi-problem", has_text="no bit 40").wait_for()
        page.locator(".fi-armbar .fi-primary:disabled").wait_for()
        bit.fill("3")
        press_arm(page)
        assert session.plan[0].parameters == {"bit": 3}


@pytest.mark.parametrize(
    ("model", "needs", "field"),
    [
        ("stuck_at_0", "give either bit or field", "bit"),
        ("clamp", "give low, high or both", "low"),
        ("round_to", "give either format or mantissa", "mantissa (bits)"),
    ],
)
def test_one_of_several_fields_is_asked_for(
    shown: Open, session: Session, model: str, needs: str, field: str
) -> None:
    """As what is missing, not as an error, and Arm is off until one is given."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        page.get_by_label("fault model").select_option(model)
        page.locator(".fi-problem[data-kind=missing]", has_text=needs).wait_for()
        assert page.locator(".fi-armbar .fi-primary").is_disabled()
        page.get_by_role("form", name="fault").get_by_label(field, exact=True).fill("3")
        press_arm(page)
        assert session.plan[0].parameters == {field.removesuffix(" (bits)"): 3}


def test_a_tensor_without_elements_is_said_to_have_none(shown: Open) -> None:
    """In plain words, with Arm off: 0 × 3 zeros."""
    net = nn.Linear(3, 1)

    def step() -> torch.Tensor:
        torch.zeros(0, 3).mul(2)
        loss = net(torch.ones(1, 3)).sum()
        loss.backward()
        return loss

    session = Session(step, model=net)
    session.trace()
    with shown(session) as bridge:
        page = bridge.page
        choose(page, "mul*1:0")
        told = page.locator(".fi-problem[data-kind=missing]")
        told.wait_for()
        assert told.inner_text() == "the tensor has no element, so that no fault can strike it"
        assert page.locator(".fi-armbar .fi-primary").is_disabled()


def test_what_is_typed_for_a_selection_has_its_own_name(shown: Open, session: Session) -> None:
    """How many of drawn elements, the share of a fraction, the rows of rows."""
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        for selection, label in (("count", "how many"), ("fraction", "share"), ("row", "rows")):
            page.get_by_label("elements").select_option(selection)
            page.get_by_label(label, exact=True).wait_for()


def test_hints_are_told_without_a_mouse(shown: Open, session: Session) -> None:
    """A control describes itself, by what is wrong with it where something is; the source of a
    model opens by the keyboard.
    """
    with shown(session) as bridge:
        page = bridge.page
        choose(page, SITE)
        seed = page.get_by_label("seed", exact=True)
        assert seed.get_attribute("aria-description") == "seed of the fault's own draws"
        assert seed.get_attribute("aria-describedby") is None
        seed.fill("x")
        wrong = page.locator(".fi-wrong", has_text="'x' cannot be")
        wrong.wait_for()
        assert seed.get_attribute("aria-describedby") == wrong.get_attribute("id")
        source = page.locator(".fi-cite")
        source.locator("summary").focus()
        page.keyboard.press("Enter")
        page.locator(".fi-cite[open]").wait_for()
        assert len(source.inner_text()) > len("source")
