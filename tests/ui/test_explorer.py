"""The explorer in a real browser: the page, the widget and the session together."""

from __future__ import annotations

import copy
import json
import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from fi_notebook.core.fault import FaultPlan
from fi_notebook.errors import SessionError
from fi_notebook.session import Session
from fi_notebook.ui.explorer import Explorer, explorer_of
from tests import models
from tests.tools import modebar
from tests.ui.bridge import bridged
from tests.ui.conftest import Open
from tests.ui.pages import arm, choose, replay

if TYPE_CHECKING:
    from playwright.sync_api import Browser


class TestStory:
    """The first story, as a person lives it."""

    def test_the_tree_shows_modules_lines_and_operators(
        self, shown: Open, session: Session
    ) -> None:
        """The three views hold the model's modules, the step's lines, the operators."""
        with shown(session) as bridge:
            page = bridge.page
            assert page.locator(".fi-row").first.inner_text().startswith("▾\nCnn")
            page.get_by_role("button", name="Source lines").click()
            page.locator(".fi-row", has_text="models.py").first.wait_for()
            page.locator(".fi-row", has_text="torch.relu(self.norm1").wait_for()
            page.get_by_role("button", name="Operators").click()
            page.locator(".fi-row", has_text="native_batch_norm_backward").wait_for()
            page.get_by_role("button", name="Timeline").click()
            page.locator(".fi-row", has_text="optimizer").first.wait_for()

    def test_a_flipped_bit_is_seen_as_computed_by_hand(self, shown: Open, session: Session) -> None:
        """Before, after and bits of the struck element, and both losses, are the true ones."""
        golden = session.golden
        assert golden is not None
        before = float(golden.value("relu*2:0")[0, 3, 0, 0])
        bits = struct.unpack("<I", struct.pack("<f", before))[0]
        flipped = bits ^ (1 << 27)
        with shown(session) as bridge:
            arm(bridge.page, "relu*2:0", 27, "0, 3, 0, 0")
            replay(bridge.page)
            row = bridge.page.locator("table[aria-label='changed elements'] tbody tr").inner_text()
            assert f"0x{bits:08x} → 0x{flipped:08x}" in row
            assert "bit 27 (exponent)" in row
            assert "[0, 3, 0, 0]" in row
            run = session.run
            assert run is not None
            loss = bridge.page.locator(".fi-tile", has_text="loss").first
            shown_losses = [
                float(each)
                for each in loss.locator(".fi-num").evaluate_all(
                    "all => all.map((each) => each.title)"
                )
            ]
            assert shown_losses == [run.golden[0].loss, run.faulty[0].loss]

    def test_the_bit_lens_follows_what_is_typed(self, shown: Open, session: Session) -> None:
        """A bit that is clicked and then typed over is the typed one, in the lens too."""
        with shown(session) as bridge:
            page = bridge.page
            page.locator(".fi-search").fill("op:relu")
            page.locator(".fi-row", has_text="relu*2:0").click()
            page.locator(".fi-frame").first.click()
            page.locator("[data-bit='30']").click()
            page.locator("[data-bit='30'][aria-pressed=true]").wait_for()
            page.get_by_label("bit", exact=True).first.fill("27")
            page.locator("[data-bit='27'][aria-pressed=true]").wait_for()
            assert page.locator("[data-bit][aria-pressed=true]").count() == 1

    def test_the_figures_are_drawn_and_plotly_is_sent_once(
        self, shown: Open, session: Session
    ) -> None:
        """Three tabs draw their figures; the library travels once for all of them."""
        with shown(session) as bridge:
            page = bridge.page
            arm(page, "relu*2:0", 27, "0, 0, 0, 0")
            replay(page)
            for tab in ("Tensor diff", "Propagation", "Training"):
                page.get_by_role("tab", name=tab).click()
                page.locator(".fi-plot .main-svg").first.wait_for()
                assert modebar.buttons(page) == modebar.LOCAL
            assert [m["kind"] for m in bridge.sent].count("plotly") == 1
            sizes = [size for _, size in bridge.received]
            assert max(sizes) <= 4 / 3 * 1_000_000 + 4  # base64 of at most one part

    def test_a_click_on_the_propagation_leads_to_the_call(
        self, shown: Open, session: Session
    ) -> None:
        """The point where the error was introduced is the struck site, in tree and card."""
        session.arm("relu*1:0", "scale", factor=3.0)
        with shown(session) as bridge:
            page = bridge.page
            replay(page)
            page.get_by_role("tab", name="Propagation").click()
            page.locator(".fi-plot .main-svg").first.wait_for()
            page.evaluate(
                """() => { const place = document.querySelector('.fi-plot');
                  const trace = place.data.find((each) => each.name?.startsWith('introduced'));
                  place.emit('plotly_click', { points: [{ customdata: trace.customdata[0] ??
                    trace.customdata._inputArray?.[0] }] }); }"""
            )
            page.locator(".fi-title", has_text="relu*1:0").wait_for()
            page.locator(".fi-row[aria-selected=true]", has_text="relu*1:0").wait_for()

    def test_what_did_not_fire_says_why(self, shown: Open, session: Session) -> None:
        """A fault whose call was not made is reported with its reason."""
        with pytest.warns(UserWarning, match="2 were made"):
            session.arm("relu*7", "zero")
        with shown(session) as bridge:
            replay(bridge.page)
            warning = bridge.page.locator(".fi-outcome .fi-warning").inner_text()
            assert "f1 not injected" in warning
            assert "2 were made" in warning

    def test_save_writes_the_plan_that_was_clicked(
        self, shown: Open, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """injector.json holds the clicked fault, and reads back to the same plan."""
        monkeypatch.chdir(tmp_path)
        with shown(session) as bridge:
            arm(bridge.page, "relu*2:0", 30, "0, 3, 1, 1")
            bridge.page.get_by_role("button", name="Save injector.json").click()
            bridge.page.locator(".fi-state", has_text="saved injector.json").wait_for()
            monkeypatch.undo()
        saved = FaultPlan.load(tmp_path / "injector.json")
        assert saved.faults == session.plan.faults
        assert saved.faults[0].elements == {"index": [0, 3, 1, 1]}
        json.loads((tmp_path / "injector.json").read_text())

    def test_nothing_of_the_model_changes(self, shown: Open, session: Session) -> None:
        """Arm and replay by clicks leave every parameter and buffer as it was."""
        before = copy.deepcopy(session.model.state_dict())
        with shown(session) as bridge:
            arm(bridge.page, "relu*1:0", 30, "0, 0, 0, 0")
            replay(bridge.page)
        after = session.model.state_dict()
        assert all(torch.equal(before[name], after[name]) for name in before)


class TestAgreement:
    """The session and the widget always agree."""

    def test_what_python_does_is_shown(self, shown: Open, session: Session) -> None:
        """Arming, switching off, undoing and replaying in Python change the page."""
        with shown(session) as bridge:
            page = bridge.page
            session.arm("relu*1:0", "zero")
            page.locator(".fi-fault", has_text="zero").wait_for()
            session.set_enabled("f1", False)
            page.locator(".fi-fault[data-status=off]").wait_for()
            session.undo()
            page.locator(".fi-fault[data-status=armed]").wait_for()
            session.replay()
            page.locator(".fi-verdict").wait_for()
            page.locator(".fi-fault[data-status=struck]").wait_for()
            earlier = page.locator(".fi-outcome", has_text="earlier plan")
            assert not earlier.count()
            session.disarm()
            session.arm("relu*1:0", "nan")
            page.locator(".fi-fault[data-status=armed]", has_text="nan").wait_for()
            earlier.get_by_text("press Replay").wait_for()
            session.replay()
            page.locator(".fi-verdict", has_text="nan").wait_for()
            assert not earlier.count()
            session.disarm()
            page.locator(".fi-plan", has_text="nothing is armed").wait_for()
            earlier.get_by_text("no fault is armed now").wait_for()

    def test_what_is_clicked_is_the_session(self, shown: Open, session: Session) -> None:
        """Arm, undo, redo and Disarm all are calls of the session."""
        with shown(session) as bridge:
            page = bridge.page
            arm(page, "relu*1:0", 3, "0, 0, 0, 0")
            assert [str(f.target) for f in session.plan] == ["relu*1:0"]
            page.get_by_role("button", name="undo").click()
            page.locator(".fi-plan", has_text="nothing is armed").wait_for()
            assert not len(session.plan)
            page.get_by_role("button", name="redo").click()
            page.locator(".fi-fault").wait_for()
            page.get_by_role("button", name="Disarm all").click()
            page.locator(".fi-plan", has_text="nothing is armed").wait_for()
            assert not len(session.plan)

    def test_a_box_is_solid_only_when_the_kernel_has_confirmed(
        self, shown: Open, session: Session
    ) -> None:
        """A fault that is refused leaves the box empty, and the form says why."""
        with shown(session) as bridge:
            page = bridge.page
            choose(page, "relu*2:0")
            page.get_by_label("bit", exact=True).first.fill("40")
            page.locator(".fi-grid").focus()
            page.keyboard.press("Space")
            page.locator(".fi-state[data-state=failed]", has_text="no bit 40").wait_for()
            page.locator(".fi-problem", has_text="no bit 40").wait_for()
            assert page.locator(".fi-box[data-state=armed]").count() == 0
            assert not len(session.plan)

    def test_two_views_of_one_widget_agree(self, shown: Open, session: Session) -> None:
        """A second view shows the same plan, selection and result."""
        with shown(session) as bridge:
            page = bridge.page
            page.evaluate(
                "() => { const d = document.createElement('div'); "
                "document.body.append(d); return window.fiShow(d); }"
            )
            arm_in_first = page.locator(".fi-explorer").first
            arm_in_first.locator(".fi-search").fill("op:relu")
            arm_in_first.locator(".fi-row", has_text="relu*2:0").locator(".fi-box").click()
            second = page.locator(".fi-explorer").last
            second.locator(".fi-box[data-state=armed]").wait_for()
            second.locator(".fi-title", has_text="relu*2:0").wait_for()

    def test_an_older_session_of_the_model_is_superseded(
        self, chromium: Browser, session: Session
    ) -> None:
        """When a newer session of the same model is explored, the older view says so."""
        with bridged(chromium) as bridge:
            old = Explorer(session)
            bridge.show(old)
            bridge.page.locator(".fi-row").first.wait_for()
            newer = Session(lambda: None, model=session.model)
            new = Explorer(newer)
            bridge.page.locator(".fi-state", has_text="superseded").wait_for()
            assert bridge.page.get_by_role("button", name="Replay").is_disabled()
            assert explorer_of(newer) is new
            with pytest.raises(SessionError, match="superseded"):
                _ = old.session
            again = explorer_of(session)  # the older one takes over in its turn
            assert again is not old
            assert new.superseded
            for explorer in (old, new, again):
                explorer.close()


class TestErrors:
    """Whatever goes wrong is shown in the widget."""

    def test_an_exception_in_the_step_is_shown_and_the_next_replay_is_clean(
        self, shown: Open
    ) -> None:
        """The traceback is in the log; afterwards a replay works."""
        case = models.mlp(seed=1)
        broken: list[bool] = []

        def step() -> Any:
            if broken:
                raise RuntimeError("the data ran out")
            return case.step()

        session = Session(step, model=case.model, optimizer=case.optimizer)
        session.trace()
        with shown(session) as bridge:
            page = bridge.page
            broken.append(True)
            page.get_by_role("button", name="Replay").click()
            page.get_by_role("tab", name="Log").click()
            page.locator(
                ".fi-entry[data-level=error]", has_text="the data ran out"
            ).first.wait_for()
            broken.clear()
            page.locator(".fi-primary:enabled", has_text="Replay").wait_for()
            replay(page)

    def test_an_error_is_shown_with_its_type(self, shown: Open, session: Session) -> None:
        """But for our own, which say all that is to be said; the type alone where that is all."""
        with shown(session) as bridge:
            failed = bridge.page.locator(".fi-state[data-state=failed]")
            for error, text in (
                (ValueError("bad\nthing"), "ValueError: bad"),
                (torch.OutOfMemoryError("full"), "torch.OutOfMemoryError: full"),
                (KeyError(), "KeyError"),
                (SessionError("run it again"), "run it again"),
            ):
                explorer_of(session).fail(error)
                failed.filter(has_text=re.compile(f"^{re.escape(text)}$")).wait_for()

    def test_a_message_that_is_not_understood_is_shown(self, shown: Open, session: Session) -> None:
        """An unknown request ends in an error with its near matches."""
        with shown(session) as bridge:
            bridge.page.evaluate("() => window.fiSend(JSON.stringify({kind: 'replai', id: 99}))")
            bridge.page.get_by_role("tab", name="Log").click()
            bridge.page.locator(".fi-entry", has_text="did you mean 'replay'").wait_for()

    def test_a_kernel_that_is_gone_makes_the_view_read_only(
        self, shown: Open, session: Session
    ) -> None:
        """The state says so and Replay is off; what was shown stays."""
        with shown(session) as bridge:
            page = bridge.page
            page.evaluate("() => window.fiModel.comm_live_update.forEach((hear) => hear())")
            page.locator(".fi-state", has_text="kernel is gone").wait_for()
            assert page.get_by_role("button", name="Replay").is_disabled()
            assert page.locator(".fi-row").count() > 0

    def test_a_channel_that_is_closed_makes_the_view_read_only(
        self, shown: Open, session: Session
    ) -> None:
        """A click that cannot be sent turns the view to "kernel gone"; nothing is unhandled."""
        with shown(session) as bridge:
            page = bridge.page
            choose(page, "relu*2:0")
            page.evaluate("() => { window.fiSend = () => { throw new Error('Cannot send'); }; }")
            choose(page, "relu*1:0")
            page.locator(".fi-state", has_text="kernel is gone").wait_for()
            assert page.get_by_role("button", name="Replay").is_disabled()
            page.locator(".fi-armbar .fi-primary:disabled").wait_for()
            page.get_by_role("tab", name="Log").click()
            page.locator(".fi-entry[data-level=warning]", has_text="Cannot send").wait_for()


class Hostile(nn.Module):
    """A model whose names are markup, very long, right to left and of many scripts."""

    NAMES = ("<img src=x onerror=alert(1)>", "x" * 100_000, "\u202eלבקו", "🔥🔥", "a\nb")

    def __init__(self) -> None:
        super().__init__()
        for name in self.NAMES:
            self.add_module(name, nn.Linear(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.children():
            x = layer(x)
        return x


def test_names_of_a_hostile_model_are_text(shown: Open) -> None:
    """Nothing of a name becomes an element, and no name breaks the page."""
    model = Hostile()
    session = Session(lambda: model(torch.ones(2, 4)).sum().backward(), model=model)
    session.trace()
    with shown(session) as bridge:
        page = bridge.page
        page.locator(".fi-grid").focus()
        page.keyboard.press("ArrowDown")
        page.locator(".fi-row", has_text="<img src=x").first.wait_for()
        page.locator(".fi-search").fill("op:addmm")
        page.locator(".fi-row", has_text="addmm*1:0").click()
        page.locator(".fi-crumbs", has_text="onerror").wait_for()
        assert page.locator(".fi-explorer img").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


class TestKeyboard:
    """The treegrid, without a mouse."""

    def test_arm_replay_and_read_with_the_keyboard_alone(
        self, shown: Open, session: Session
    ) -> None:
        """Search, arrows, Space and the focus order lead from the tree to the result."""
        with shown(session) as bridge:
            page = bridge.page
            page.locator(".fi-grid").focus()
            page.keyboard.press("/")
            page.keyboard.type("op:relu")
            page.locator(".fi-found", has_text="2 of").wait_for()
            page.keyboard.press("ArrowDown")
            for key in ("Home", "End"):
                page.keyboard.press(key)
            page.locator(".fi-title", has_text="relu*2:0").wait_for()
            row = page.locator(".fi-row[aria-selected=true][aria-level='3']", has_text="relu*2:0")
            row.wait_for()
            active = page.locator(".fi-grid").get_attribute("aria-activedescendant")
            assert active == row.get_attribute("id")
            page.get_by_label("bit", exact=True).first.fill("30")
            page.locator(".fi-grid").focus()
            page.keyboard.press("Space")
            page.locator(".fi-box[data-state=armed]").wait_for()
            page.get_by_role("button", name="Replay").focus()
            page.keyboard.press("Enter")
            page.locator(".fi-verdict").wait_for()

    def test_arrows_open_and_shut_branches(self, shown: Open, session: Session) -> None:
        """Right opens, then enters; Left leaves, then shuts; letters jump."""
        with shown(session) as bridge:
            page = bridge.page
            page.locator(".fi-grid").focus()
            page.keyboard.press("ArrowDown")
            page.locator(".fi-row[aria-selected=true]", has_text="Cnn").wait_for()
            page.keyboard.press("ArrowRight")
            page.keyboard.press("ArrowRight")
            page.locator(".fi-row[aria-selected=true][aria-level='2']").wait_for()
            page.keyboard.press("ArrowLeft")
            page.keyboard.press("ArrowLeft")
            page.keyboard.press("ArrowLeft")
            page.locator(".fi-row[aria-selected=true][aria-expanded=false]").wait_for()
            page.keyboard.press("ArrowRight")
            page.keyboard.type("drop")
            page.locator(".fi-row[aria-selected=true]", has_text="drop").wait_for()

    def test_keys_do_not_reach_the_page(self, shown: Open, session: Session) -> None:
        """`d d`, `b` and `x` in the tree are heard by nobody outside; Escape is."""
        with shown(session) as bridge:
            page = bridge.page
            page.evaluate(
                "() => { window.heard = []; document.addEventListener('keydown', "
                "(e) => window.heard.push(e.key)); }"
            )
            page.locator(".fi-grid").focus()
            page.keyboard.press("ArrowDown")
            for key in "ddbx0":
                page.keyboard.press(key)
            page.keyboard.press("Escape")
            assert page.evaluate("window.heard") == ["Escape"]
            assert page.evaluate("document.activeElement === document.body")


@pytest.mark.parametrize("width", [600, 1000, 1600])
@pytest.mark.parametrize("dark", [False, True])
def test_no_width_scrolls_sideways(shown: Open, session: Session, width: int, dark: bool) -> None:
    """The page never scrolls sideways, and what is shown is really on top."""
    with shown(session, width=width, dark=dark) as bridge:
        page = bridge.page
        arm(page, "relu*2:0", 27, "0, 0, 0, 0") if width > 600 else session.arm("relu*2:0", "nan")
        replay(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator(".fi-explorer").get_attribute("data-theme") == (
            "dark" if dark else "light"
        )
        on_top = page.evaluate(
            """() => { const box = document.querySelector('.fi-verdict').getBoundingClientRect();
              const top = document.elementFromPoint(box.x + 9, box.y + 9);
              return top.closest('.fi-verdict') !== null; }"""
        )
        assert on_top


class TestValues:
    """Values of a tensor: array view, bit lens and preview."""

    def test_the_bit_lens_shows_what_a_flip_makes(self, shown: Open, session: Session) -> None:
        """A click on bit 31 shows the sign flip and previews it on the recorded values."""
        golden = session.golden
        assert golden is not None
        value = float(golden.value("relu*2:0")[0, 0, 0, 0])
        with shown(session) as bridge:
            page = bridge.page
            choose(page, "relu*2:0")
            page.get_by_label("elements").select_option("index")
            page.get_by_label("index of the element").fill("0, 0, 0, 0")
            page.locator("[data-bit='31']").click()
            page.locator(".fi-lenshead", has_text="bit 31 (sign)").wait_for()
            titles = page.locator(".fi-lenshead .fi-num").evaluate_all(
                "all => all.map((each) => each.title)"
            )
            assert float(titles[0].split(" ")[0]) == value
            assert float(titles[1]) == -value
            page.locator(".fi-preview", has_text="1 element would change").wait_for()
            assert session.run is None

    def test_an_alert_leads_to_the_call_that_began_it(self, shown: Open) -> None:
        """log(0) in the loss: the alert tile goes to the log, whose inputs are finite."""
        layer = nn.Linear(2, 2)

        def step() -> torch.Tensor:
            loss = torch.log(layer(torch.zeros(1, 2)).relu().sum() * 0)
            loss.backward()
            return loss

        session = Session(step, model=layer)
        session.trace()
        with shown(session) as bridge:
            page = bridge.page
            page.get_by_role("button", name="not finite").click()
            page.locator(".fi-title", has_text="log*1:0").wait_for()
            page.locator(".fi-line[data-marked]", has_text="torch.log(layer").wait_for()
            assert page.locator(".fi-stat[data-bad]").inner_text().startswith("−Inf")


def test_a_page_that_missed_a_message_asks_for_everything(shown: Open, session: Session) -> None:
    """A gap in the sequence numbers ends in a resync, and the page is right again."""
    with shown(session) as bridge:
        bridge.lose_next()
        session.arm("relu*1:0", "zero")
        session.arm("relu*2:0", "zero")
        bridge.page.locator(".fi-fault").nth(1).wait_for()
        assert "resync" in [message["kind"] for message in bridge.sent]


def test_search_counts_as_pandas_does(shown: Open, session: Session) -> None:
    """`op:… phase:…` finds as many sites as the table of the trace has."""
    golden = session.golden
    assert golden is not None
    frame = golden.to_pandas()
    wanted = int(((frame.op == "native_batch_norm_backward") & (frame.phase == "backward")).sum())
    with shown(session) as bridge:
        bridge.page.locator(".fi-search").fill("op:native_batch_norm_backward phase:backward")
        bridge.page.locator(".fi-found", has_text=f"{wanted} of {len(frame)} sites").wait_for()
        bridge.page.locator(".fi-row", has_text="native_batch_norm_backward*1:0").wait_for()
