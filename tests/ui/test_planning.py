"""The plan in the page: edited in place, loaded, copied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fi_notebook.core.fault import FaultPlan
from fi_notebook.session import Session
from fi_notebook.ui.explorer import Explorer
from tests import models
from tests.ui.bridge import bridged
from tests.ui.conftest import Open
from tests.ui.pages import ARM, choose

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_a_fault_is_edited_in_place(shown: Open, session: Session) -> None:
    """Its bit and steps are changed in the form: it keeps its name, its place before the other
    fault, its filters and that it is off; one undo takes the change back.
    """
    session.arm("relu*2:0", "bitflip", elements={"index": [0, 3, 1, 2]}, bit=30, phases="forward")
    session.arm("relu*1:0", "zero")
    session.set_enabled("f1", False)
    with shown(session) as bridge:
        page = bridge.page
        page.get_by_role("button", name="edit f1").click()
        page.locator(".fi-title", has_text="relu*2:0").wait_for()
        bit = page.get_by_role("form", name="fault").get_by_label("bit", exact=True)
        assert bit.input_value() == "30"
        assert page.get_by_label("index of the element").input_value() == "0, 3, 1, 2"
        bit.fill("22")
        page.get_by_role("form", name="fault").get_by_label("steps", exact=True).fill("0-2")
        page.get_by_role("button", name="Change f1").click()
        page.locator(".fi-fault", has_text="bit=22").wait_for()
        page.get_by_role("button", name=ARM).wait_for()  # f1 is off, so another may be armed
        changed, other = session.plan
        assert (changed.id, changed.parameters, str(changed.steps)) == ("f1", {"bit": 22}, "0-2")
        assert (changed.elements, changed.phases) == ({"index": [0, 3, 1, 2]}, ("forward",))
        assert not changed.enabled
        assert other.id == "f2"
        session.undo()
        page.locator(".fi-fault", has_text="bit=30").wait_for()


def test_an_edit_that_is_left_changes_nothing(shown: Open, session: Session) -> None:
    """After cancel the form arms a fault of its own again."""
    session.arm("relu*2:0", "zero")
    with shown(session) as bridge:
        page = bridge.page
        page.get_by_role("button", name="edit f1").click()
        page.get_by_role("button", name="cancel").click()
        page.get_by_role("button", name="Armed as f1").wait_for()
        page.get_by_label("seed").fill("1")
        page.get_by_role("button", name=ARM).click()
        page.locator(".fi-fault").nth(1).wait_for()
        assert [fault.id for fault in session.plan] == ["f1", "f2"]


def test_a_plan_is_saved_and_loaded_in_the_page(
    shown: Open, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saved under a name of one's own, disarmed and loaded again it is the same plan; a file
    that is not there is told in the footer.
    """
    monkeypatch.chdir(tmp_path)
    session.arm("relu*2:0", "scale", factor=2.0)
    plan = session.plan
    with shown(session) as bridge:
        page = bridge.page
        page.get_by_label("file of the plan").fill("mine.json")
        page.get_by_role("button", name="Save mine.json").click()
        page.locator(".fi-state", has_text="saved mine.json").wait_for()
        page.get_by_role("button", name="Disarm all").click()
        page.locator(".fi-plan", has_text="nothing is armed").wait_for()
        page.get_by_role("button", name="Load").click()
        page.locator(".fi-fault", has_text="scale").wait_for()
        assert session.plan == plan == FaultPlan.load(tmp_path / "mine.json")
        page.get_by_label("file of the plan").fill("none.json")
        page.get_by_role("button", name="Load").click()
        page.locator(".fi-state[data-state=failed]", has_text="none.json").wait_for()
        page.get_by_role("button", name="why").click()
        page.locator(".fi-entry[data-level=error]", has_text="none.json").wait_for()
        assert session.plan == plan


def test_a_plan_is_copied_as_json(shown: Open, session: Session) -> None:
    """What is copied is what ``injector.json`` would hold."""
    session.arm("relu*2:0", "zero", elements={"row": 1})
    with shown(session) as bridge:
        page = bridge.page
        page.get_by_role("button", name="copy as JSON").click()
        page.get_by_role("tab", name="Log").click()
        entry = page.locator(".fi-entry", has_text="copied")
        entry.wait_for()
        assert json.loads(entry.locator("pre").text_content() or "") == session.plan.to_dict()


def test_a_session_that_was_not_traced_is_traced_from_the_footer(chromium: Browser) -> None:
    """Where there is no trace the button says Trace; pressed, the tree comes and it says Replay."""
    case = models.mlp(seed=1)
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    with bridged(chromium) as bridge:
        explorer, page = Explorer(session), bridge.page
        bridge.show(explorer)
        page.locator(".fi-empty", has_text="press Trace").wait_for()
        page.locator(".fi-outcome", has_text="When the step is traced, arm").wait_for()
        page.get_by_role("button", name="Trace", exact=True).click()
        page.locator(".fi-row").first.wait_for()
        page.get_by_role("button", name="Replay", exact=True).wait_for()
        page.locator(".fi-outcome", has_text="Arm a fault and press Replay").wait_for()
        assert session.golden is not None
        assert session.run is None
        page.locator(".fi-search").fill("re:(")
        page.locator(".fi-found", has_text="cannot read the search").wait_for()
        assert explorer.executor.wait(20)
        explorer.close()
        assert not bridge.errors, bridge.errors


def test_an_edited_fault_comes_back_with_its_site(shown: Open, session: Session) -> None:
    """Another site is looked at in between: its element, bit and model are those of the fault."""
    session.arm("relu*2:0", "bitflip", elements={"index": [0, 3, 1, 2]}, bit=30)
    with shown(session) as bridge:
        page = bridge.page
        page.get_by_role("button", name="edit f1").click()
        page.locator(".fi-armbar", has_text="on element [0, 3, 1, 2]").wait_for()
        choose(page, "addmm*1:0")
        page.locator(".fi-armbar", has_text="on 1 drawn element").wait_for()
        page.get_by_label("fault model").select_option("zero")
        choose(page, "relu*2:0")
        page.locator(
            ".fi-armbar", has_text="bitflip(bit=30 (exponent)) on element [0, 3, 1, 2]"
        ).wait_for()
        page.get_by_role("button", name="Change f1").click()
        page.get_by_role("button", name="Armed as f1").wait_for()
        assert session.plan[0].elements == {"index": [0, 3, 1, 2]}


def test_a_fault_that_is_off_does_not_count_as_armed(shown: Open, session: Session) -> None:
    """Footer and tree say that it is off, as Replay does; a click on the box switches it on."""
    session.arm("relu*2:0", "zero")
    with shown(session) as bridge:
        page = bridge.page
        foot = page.locator(".fi-foot")
        foot.get_by_text("1 fault armed", exact=True).wait_for()
        page.get_by_label("f1 is on").uncheck()
        foot.get_by_text("1 fault, switched off", exact=True).wait_for()
        page.locator(".fi-search").fill("op:relu")
        box = page.locator(".fi-row", has_text="relu*2:0").get_by_role("checkbox")
        assert box.get_attribute("data-state") == "off"
        assert box.get_attribute("aria-checked") == "mixed"
        assert box.get_attribute("title") == "f1, switched off"
        page.get_by_role("button", name="Replay").click()
        page.locator(".fi-verdict", has_text="every fault of the plan is switched off").wait_for()
        session.arm("relu*1:0", "zero")
        foot.get_by_text("1 fault armed, 1 off", exact=True).wait_for()
        box.click()
        foot.get_by_text("2 faults armed", exact=True).wait_for()
        assert session.plan["f1"].enabled


def test_an_error_is_over_when_something_succeeds(
    shown: Open, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blanks are no name, and a file that is no plan is kept: both are told, and a success takes
    the words away; what was saved and loaded is told in the same place and in the log.
    """
    monkeypatch.chdir(tmp_path)
    notes = tmp_path / "notes.json"
    notes.write_text('{"notes": []}')
    session.arm("relu*2:0", "zero")
    with shown(session) as bridge:
        page = bridge.page
        state, name = page.locator(".fi-state"), page.get_by_label("file of the plan")
        for given, said in (
            ("  ", "no file is named"),
            ("notes.json", "is no plan, so it was kept"),
        ):
            name.fill(given)
            page.locator(".fi-foot").get_by_role("button", name="Save").first.click()
            page.locator(".fi-state[data-state=failed]", has_text=said).wait_for()
        assert notes.read_text() == '{"notes": []}'
        for press, said in (
            ("Save mine.json", "saved mine.json"),
            ("Load", "loaded mine.json: 1 fault"),
            ("Save report", "saved fi-report.html"),
        ):
            name.fill("mine.json")
            page.get_by_role("button", name=press, exact=True).click()
            page.locator(".fi-state[data-state=done]", has_text=said).wait_for()
            assert state.inner_text() == said
        page.get_by_role("tab", name="Log").click()
        entry = page.locator(".fi-entry[data-level=info]", has_text="saved mine.json")
        assert entry.locator("pre").text_content() == str((tmp_path / "mine.json").resolve())
        page.locator(".fi-entry[data-level=info]", has_text="saved fi-report.html").wait_for()


def test_the_plan_tells_of_a_trigger_what_is_not_the_default(shown: Open, session: Session) -> None:
    """Chance, limit, micro batches, ranks and filters stand in the line itself."""
    session.arm("relu*2:0", "zero")
    rarely: dict[str, Any] = {"probability": 0.5, "times": 3, "ranks": "0-1", "micro_batches": 0}
    session.arm("relu*1:0", "zero", phases="forward", **rarely)
    with shown(session) as bridge:
        usual, rare = bridge.page.locator(".fi-fault .fi-link").all_inner_texts()
        assert usual == "f1: zero at relu*2:0, step 0"
        assert rare == (
            "f2: zero at relu*1:0, step 0, probability 0.5, at most 3 times, micro batch 0, "
            "ranks 0-1, phases forward"
        )


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("foo:bar", "there is no field foo:; known are op:, phase:"),
        ("phse:forward", "did you mean phase:?"),
        ("effect:amplified", "effects are known after a replay; press Replay first"),
        ("op:nothing", "no site fits the search and the phases"),
    ],
)
def test_a_search_that_finds_nothing_says_why(
    shown: Open, session: Session, query: str, said: str
) -> None:
    """In the place of the tree."""
    with shown(session) as bridge:
        bridge.page.locator(".fi-search").fill(query)
        bridge.page.locator(".fi-tree .fi-empty", has_text=said).wait_for()


def test_edit_goes_to_the_form(shown: Open, session: Session) -> None:
    """The focus is on its model, its line in the plan is marked, and it is spoken; after cancel no
    line is marked.
    """
    session.arm("relu*1:0", "zero")
    session.arm("relu*2:0", "bitflip", elements={"index": [0, 3, 1, 2]}, bit=30)
    with shown(session, width=360) as bridge:
        page = bridge.page
        page.get_by_role("button", name="site", exact=True).click()
        page.get_by_role("button", name="edit f2").click()
        page.locator(".fi-live", has_text="editing f2").wait_for(state="attached")
        page.locator("select:focus").wait_for()
        assert page.locator(":focus").get_attribute("aria-label") == "fault model"
        page.locator(".fi-fault[aria-current=true]", has_text="f2: bitflip").wait_for()
        assert page.locator(".fi-fault[aria-current=true]").count() == 1
        page.get_by_role("button", name="cancel").click()
        page.locator(".fi-fault[aria-current=true]").wait_for(state="detached")


def test_a_change_of_the_plan_is_spoken_and_logged(shown: Open, session: Session) -> None:
    """Switched off and on, disarmed, undone, done again, all disarmed: each in its own words."""
    session.arm("relu*1:0", "zero")
    session.arm("relu*2:0", "zero")
    with shown(session) as bridge:
        page = bridge.page
        for name, said in (
            ("f2 is on", "f2 switched off"),
            ("f2 is on", "f2 switched on"),
            ("disarm f1", "disarmed f1"),
            ("undo", "undone: armed f1"),
            ("redo", "redone: disarmed f1"),
            ("Disarm all", "disarmed f2"),
        ):
            page.get_by_label(name).or_(page.get_by_role("button", name=name)).first.click()
            page.locator(".fi-live").get_by_text(said, exact=True).wait_for(state="attached")
        page.get_by_role("tab", name="Log").click()
        entry = page.locator(".fi-entry summary")
        entry.first.wait_for()
        assert entry.all_inner_texts() == [
            "disarmed f2",
            "disarmed f1",
            "armed f1",
            "disarmed f1",
            "f2 switched on",
            "f2 switched off",
        ]


def test_what_is_pressed_in_the_plan_has_room(shown: Open, session: Session) -> None:
    """At least 24 pixels in each direction; of the checkbox with the margin around it."""
    session.arm("relu*1:0", "zero")
    with shown(session) as bridge:
        pressed = ".fi-fault > .fi-small, .fi-fault > input, .fi-tools > button"
        sizes = bridge.page.locator(pressed).evaluate_all(
            """(all) => all.map((each) => {
              const { width, height } = each.getBoundingClientRect();
              const { margin } = getComputedStyle(each);
              return Math.min(width, height) + 2 * parseFloat(margin); })"""
        )
        assert len(sizes) == 6  # checkbox, edit, ×; undo, redo, copy as JSON
        assert min(sizes) >= 24
