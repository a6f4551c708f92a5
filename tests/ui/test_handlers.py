"""Requests and their answers, with a comm and without a page."""

from __future__ import annotations

import base64
import json
import queue
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from fi_notebook.core.fault import FaultPlan
from fi_notebook.core.run import StepRecord
from fi_notebook.report.payload import plan_payload
from fi_notebook.session import Session
from fi_notebook.ui import publish
from fi_notebook.ui.executor import Executor
from fi_notebook.ui.explorer import Explorer, explorer_of
from tests import models
from tests.ui.bridge import comms
from tests.ui.conftest import traced
from tests.ui.shells import Shell


class Page:
    """What a page would hear from one widget."""

    def __init__(self, explorer: Explorer, waiting: queue.Queue[Any]) -> None:
        self.explorer = explorer
        self.waiting = waiting
        self.sequence: list[int] = []

    def ask(self, kind: str, number: int = 1, **fields: Any) -> None:
        """Make a request, as the comm delivers it."""
        content = {"kind": kind, "id": number, **fields}
        self.explorer.comm.handle_msg(
            {"content": {"data": {"method": "custom", "content": content}}, "buffers": []}
        )

    def answer(self, number: int = 1) -> dict[str, Any]:
        """The reply or error that answers a request; other messages go by."""
        while True:
            message = self.next()
            if message["kind"] in ("reply", "error") and message["data"]["id"] == number:
                return message

    def next(self) -> dict[str, Any]:
        """The next whole message."""
        parts = [self.waiting.get(timeout=20)]
        parts += [self.waiting.get(timeout=20) for _ in range(parts[0][0]["parts"] - 1)]
        content = parts[0][0]
        block = b"".join(base64.b64decode(buffers[0]) for _, buffers in parts)
        whole = zlib.decompress(block) if content["deflated"] else block
        self.sequence.append(content["seq"])
        message: dict[str, Any] = json.loads(whole[: content["head"]])
        return message

    def kinds(self) -> list[str]:
        """Kinds of all messages that have come."""
        found = []
        while not self.waiting.empty():
            found.append(self.next()["kind"])
        return found


@contextmanager
def opened_page(session: Session) -> Iterator[Page]:
    """A widget and what its page hears."""
    with comms() as waiting:
        explorer = Explorer(session)
        yield Page(explorer, waiting)
        assert explorer.executor.wait(20)
        assert explorer.reader.wait(20)
        explorer.close()


@pytest.fixture
def page(session: Session) -> Iterator[Page]:
    """The page of the small CNN's session."""
    with opened_page(session) as opened:
        yield opened


def test_a_page_that_opens_is_told_everything(page: Page, session: Session) -> None:
    """Fault models, trace, plan, run and figures, state; in order, numbered from 1."""
    session.arm("relu*2:0", "zero")
    session.replay()
    page.kinds()
    page.ask("ready")
    told = page.kinds()
    assert told == ["hello", "trace", "plan", "run", "figures", "state", "reply"]
    assert page.sequence == list(range(1, len(page.sequence) + 1))


def test_arming_is_the_call_of_the_session(page: Page, session: Session) -> None:
    """The reply names the fault, and the plan is told."""
    page.ask(
        "arm",
        site="relu*2:0",
        model="bitflip",
        parameters={"bit": 3},
        elements={"index": [0, 0, 0, 0]},
        steps="0-2",
        seed=4,
    )
    assert page.answer()["data"]["data"] == "f1"
    (fault,) = session.plan
    assert (fault.model, fault.parameters, str(fault.steps), fault.seed) == (
        "bitflip",
        {"bit": 3},
        "0-2",
        4,
    )


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"kind": "arm", "site": "relu", "model": "bitflop", "parameters": {}}, "bitflip"),
        ({"kind": "disarm", "fault": "f9"}, "no fault 'f9'"),
        ({"kind": "inspect", "row": 10**6}, "no site row 1000000"),
        ({"kind": "enable", "fault": "f1", "on": True}, "no fault 'f1'"),
        ({"kind": "save", "path": "no/such/folder/x.json"}, "folder"),
    ],
)
def test_what_cannot_be_done_is_answered_with_an_error(
    page: Page, request_: dict[str, Any], said: str
) -> None:
    """The text says what is wrong, the traceback is beside it, nothing has changed."""
    page.ask(request_.pop("kind"), 5, **request_)
    error = page.answer(5)
    assert error["kind"] == "error"
    assert said in error["data"]["text"]
    assert "Traceback" in error["data"]["traceback"]
    assert not len(page.explorer.session.plan)


def test_values_are_shown_around_an_element_once_read(page: Page, session: Session) -> None:
    """Reading runs the golden step once more; then the element has its bits."""
    golden = session.golden
    assert golden is not None
    row = golden.row("relu*2:0")
    page.ask("record", 2, row=row)
    assert page.answer(2)["kind"] == "reply"
    page.ask("inspect", 3, row=row, view={"element": [0, 3, 1, 99]})
    found = page.answer(3)["data"]["data"]
    assert found["element"]["index"] == [0, 3, 1, 3]  # brought inside 6 × 8 × 4 × 4
    assert found["element"]["value"] == float(golden.value("relu*2:0")[0, 3, 1, 3])
    assert found["values"]["shape"] == [6, 8, 4, 4]
    assert found["stats"]["zeros"] == golden.stats(row).zeros


def test_a_preview_runs_nothing(page: Page, session: Session) -> None:
    """Without the values the fault is only checked; a bit that is not there is refused."""
    assert session.golden is not None
    row = session.golden.row("relu*2:0")
    fault = {"site": "relu*2:0", "row": row, "model": "bitflip", "elements": "all"}
    page.ask("preview", 2, parameters={"bit": 31}, **fault)
    assert page.answer(2)["kind"] == "reply"
    page.ask("preview", 3, parameters={"bit": 99}, **fault)
    assert "99" in page.answer(3)["data"]["text"]
    assert session.run is None


@pytest.mark.filterwarnings("ignore::fi_notebook.session.FaultWarning")
@pytest.mark.parametrize("steps", [0, "0-", "0-3", "3"])
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"model": "bitflip", "parameters": {"bit": 40}, "elements": "all"}, "has no bit 40"),
        ({"model": "zero", "parameters": {}, "elements": {"row": 400}}, "row 400 of "),
    ],
)
def test_the_form_does_not_arm_what_a_session_only_warns_of(
    page: Page, session: Session, how: dict[str, Any], said: str, steps: str | int
) -> None:
    """A row or bit that the site in sight has not is refused at its field, and stays unarmed."""
    assert session.golden is not None
    fault = {"site": "relu*2:0", "steps": steps, **how}
    in_sight = {"row": session.golden.row("relu*2:0")}
    for number, (kind, more) in enumerate((("preview", in_sight), ("arm", {})), start=2):
        page.ask(kind, number, **fault, **more)
        answer = page.answer(number)
        assert answer["kind"] == "error"
        assert said in answer["data"]["text"]
    assert len(session.plan) == 0


def test_save_and_export_write_files(page: Page, session: Session, tmp_path: Path) -> None:
    """injector.json reads back to the plan; the report is one HTML file."""
    session.arm("relu*2:0", "zero")
    page.ask("save", 2, path=str(tmp_path / "injector.json"))
    assert page.answer(2)["kind"] == "reply"
    assert FaultPlan.load(tmp_path / "injector.json") == session.plan
    page.ask("export", 3, path=str(tmp_path / "report.html"))
    assert page.answer(3)["kind"] == "reply"
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("held", ["", "[]", "{}", '{"version": 2, "notes": 1}', "not JSON", "\0"])
def test_what_is_no_plan_is_never_replaced(
    page: Page, session: Session, tmp_path: Path, held: str
) -> None:
    """A file of that name stays as it is, and the error says what to do; Python itself may."""
    session.arm("relu*2:0", "zero")
    path = tmp_path / "mine.json"
    path.write_text(held)
    page.ask("save", 2, path=str(path))
    error = page.answer(2)
    assert error["kind"] == "error"
    assert error["data"]["text"] == (
        f"{path} is there already and is no plan, so it was kept; type another name, or "
        "delete it first"
    )
    assert path.read_text() == held
    session.plan.save(path)
    assert FaultPlan.load(path) == session.plan


def test_a_plan_is_replaced_by_the_plan(page: Page, session: Session, tmp_path: Path) -> None:
    """One of either form, and one that cannot be loaded here; the reply says where it is."""
    session.arm("relu*2:0", "zero")
    path = tmp_path / "mine.json"
    for held in ({"version": 2, "faults": []}, {"targets": ["mm"], "error_type": "mine"}):
        path.write_text(json.dumps(held))
        page.ask("save", 2, path=f" {path} ")
        assert page.answer(2)["data"]["data"] == {"path": str(path), "whole": str(path.resolve())}
        assert FaultPlan.load(path) == session.plan


@pytest.mark.parametrize("kind", ["save", "load", "export"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "no file is named; type a name such as"),
        ("  \t", "no file is named"),
        (".", "a folder"),
        ("x/", "a folder"),
    ],
)
def test_a_name_that_is_none_is_told(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, name: str, said: str
) -> None:
    """Blanks alone and folders are no names of files; nothing is written."""
    monkeypatch.chdir(tmp_path)
    page.ask(kind, 2, path=name)
    error = page.answer(2)
    assert error["kind"] == "error"
    assert said in error["data"]["text"]
    assert not list(tmp_path.iterdir())


def test_whole_numbers_that_come_as_text_are_exact(page: Page, session: Session) -> None:
    """A page holds 53 bits only: what is longer is sent as text, and told as text."""
    large = 2**53 + 1
    fields = {"seed": str(large), "times": str(large), "elements": "all"}
    page.ask("arm", 2, site="add_*1:0", model="set", parameters={"value": str(large)}, **fields)
    assert page.answer(2)["kind"] == "reply"
    (fault,) = session.plan
    assert (fault.seed, fault.times, fault.parameters) == (large, large, {"value": large})
    (told,) = plan_payload(session.plan)
    assert (told["seed"], told["times"], told["parameters"]) == (
        str(large),
        str(large),
        {"value": str(large)},
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"seed": "abc"}, "seed is 'abc'; expected a whole number from 0 below 2**63"),
        ({"seed": "9" * 25}, "expected a whole number from 0 below 2**63"),
        ({"times": "0"}, "times is 0; expected a whole number from 1"),
        ({"parameters": {"value": "12x"}}, "value='12x' cannot be"),
    ],
)
def test_text_that_is_no_number_is_refused(
    page: Page, session: Session, fields: dict[str, Any], said: str
) -> None:
    """By preview and arm alike, and nothing is armed."""
    request = {"site": "add_*1:0", "model": "set", "parameters": {"value": 1}} | fields
    page.ask("arm", 2, **request)
    assert said in page.answer(2)["data"]["text"]
    assert not len(session.plan)


def test_a_preview_says_whose_it_is(page: Page, session: Session) -> None:
    """The next fault's, or that of the one that is named."""
    assert session.golden is not None
    fault = {"site": "relu*2:0", "row": session.golden.row("relu*2:0"), "model": "zero"}
    session.arm("relu*2:0", "zero")
    page.ask("preview", 2, parameters={}, **fault)
    assert page.answer(2)["data"]["data"]["fault"] == "f2"
    page.ask("preview", 3, parameters={}, fault="f1", **fault)
    assert page.answer(3)["data"]["data"]["fault"] == "f1"


def test_stop_ends_a_long_replay_and_restores(page: Page, session: Session) -> None:
    """A replay of very many steps ends soon after Stop; the state says so."""
    before = {name: each.clone() for name, each in session.model.state_dict().items()}
    page.ask("replay", 2, steps=100_000)
    while page.next()["kind"] != "steps":  # until some steps have been made
        pass
    page.ask("stop", 3)
    assert page.answer(2)["kind"] == "reply"
    assert page.explorer.executor.wait(20)
    assert all((before[n] == each).all() for n, each in session.model.state_dict().items())
    assert session.run is None


def test_stop_between_the_runs_of_one_request_is_not_lost() -> None:
    """A replay traces first; Stop comes when the trace is done, and nothing is replayed."""
    case = models.cnn(seed=3)
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    with opened_page(session) as page:
        end = session.subscribe(lambda event, _: page.ask("stop", 3) if event == "trace" else None)
        page.ask("replay", 2)
        assert page.answer(2)["kind"] == "reply"
        assert session.golden is not None
        assert session.run is None
        end()
        page.ask("replay", 4)  # Stop was of that request alone
        assert page.answer(4)["kind"] == "reply"
        assert session.run is not None


@pytest.mark.parametrize("kind", ["sweep", "plan_sweep"])
def test_stop_ends_a_sweep_whose_tape_is_written(kind: str) -> None:
    """The step is run once for the tape, and stopped in it; no injection is made."""
    case, stopped = models.cnn(seed=3), list[int]()

    def step() -> Any:
        if session.golden is not None:
            stopped.append(1)
            page.ask("stop", 3)
        return case.step()

    session = Session(step, model=case.model, optimizer=case.optimizer)
    session.trace()
    with opened_page(session) as page:
        page.ask(kind, 2, module="", count=500)
        assert page.answer(2)["kind"] == "reply"
        assert page.explorer.executor.wait(20)
        assert stopped == [1]
        assert page.explorer.announced["note"] == "cancelled; everything is as it was before"
        sweep = page.explorer.sweep
        assert sweep is None or not len(sweep.campaign.results)


def test_stop_ends_a_sweep_of_slices_and_keeps_what_is_made(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stop comes when two tasks of ten injections each are done: there are 20 of 500."""
    announce = page.explorer.announce

    def told(state: str, note: str = "", progress: Any = None) -> None:
        announce(state, note, progress)
        if progress is not None and progress["done"] == 20:
            page.ask("stop", 3)

    monkeypatch.setattr(page.explorer, "announce", told)
    page.ask("sweep", 2, module="", count=500)
    assert page.answer(2)["kind"] == "reply"
    sweep = page.explorer.sweep
    assert sweep is not None
    assert len(sweep.campaign.results) == 20


def test_a_report_of_nothing_is_refused_and_steps_nothing(tmp_path: Path) -> None:
    """It is saved beside a running cell, where the model must not be stepped."""
    case, steps = models.cnn(seed=3), list[int]()

    def step() -> Any:
        steps.append(1)
        return case.step()

    session = Session(step, model=case.model)
    with opened_page(session) as page:
        page.ask("export", 2, path=str(tmp_path / "report.html"))
        said = page.answer(2)["data"]["text"]
        assert said == "there is no trace to be saved yet; press Trace first"
    assert steps == []
    assert not list(tmp_path.iterdir())


def test_a_trace_takes_the_last_run_off_the_page(page: Page, session: Session) -> None:
    """Its verdict and rows are of the trace before; a page that opens later has none either."""
    session.arm("relu*2:0", "zero")
    session.replay()
    page.kinds()
    session.trace()
    page.ask("ready", 2)
    told = [page.next() for _ in range(page.explorer._sequence - page.sequence[-1])]
    kinds = [each["kind"] for each in told if each["kind"] != "state"]
    assert kinds == ["trace", "run", "hello", "trace", "plan", "run", "reply"]
    assert [each["data"] for each in told if each["kind"] == "run"] == [None, None]


def test_a_page_that_opens_is_told_what_goes_on_and_what_is_awaited(page: Page) -> None:
    """A replay waits for a cell: its state, with the cell's name, and its request's number."""
    shell = Shell()
    page.explorer.executor = Executor(shell=shell)
    shell.begin()
    page.ask("replay", 2)
    page.ask("ready", 3)
    states = list[Any]()
    while (message := page.next())["kind"] != "reply":
        states += [message["data"]] if message["kind"] == "state" else []
    waiting = {"state": "queued", "note": "the running cell is running", "progress": None}
    assert states[-1] == waiting
    assert message["data"] == {"id": 3, "data": [2]}
    shell.end(1)
    page.answer(2)
    assert page.explorer.executor.wait(20)
    page.ask("ready", 4)
    assert page.answer(4)["data"]["data"] == []


def test_more_steps_than_anybody_waits_for_are_refused(page: Page) -> None:
    """At once, and with what to do instead."""
    page.ask("replay", 2, steps=100_001)
    assert "100,001 steps are more than the explorer replays" in page.answer(2)["data"]["text"]


@pytest.mark.parametrize("kind", ["replay", "trace"])
def test_a_step_that_exits_is_an_error_and_the_next_request_is_done(kind: str) -> None:
    """`sys.exit` in a step ends the request, not the worker."""
    case, leaving = models.cnn(seed=3), [False]

    def step() -> Any:
        if leaving[0]:
            sys.exit("no more data")
        return case.step()

    session = Session(step, model=case.model, optimizer=case.optimizer)
    session.trace()
    session.arm("relu*2:0", "zero")
    with opened_page(session) as page:
        leaving[0] = True
        page.ask(kind, 1)
        answer = page.answer(1)
        assert (answer["kind"], answer["data"]["text"]) == ("error", "SystemExit: no more data")
        leaving[0] = False
        page.ask(kind, 2)
        assert page.answer(2)["kind"] == "reply"


def test_stop_drops_what_waits(page: Page) -> None:
    """A replay that had not begun is answered, and never begins."""
    release = threading.Event()

    def wait() -> None:
        release.wait(20)

    page.explorer.executor.submit(wait)
    page.ask("replay", 2)
    page.ask("stop", 3)
    assert "before it began" in page.answer(2)["data"]["text"]
    release.set()
    assert page.explorer.executor.wait(20)
    assert page.explorer.session.run is None


def test_a_replay_waits_for_the_running_cell(page: Page, session: Session) -> None:
    """The state names the cell; the replay begins when the cell has ended."""
    shell = Shell()
    page.explorer.executor = Executor(shell=shell)
    shell.end(6)
    shell.begin()
    page.ask("replay", 2)
    message = page.next()
    assert message["kind"] == "state"
    assert message["data"]["state"] == "queued"
    assert message["data"]["note"] == "In [7] is running"
    assert session.run is None
    shell.end(7)
    assert page.answer(2)["kind"] == "reply"
    assert session.run is not None


def test_progress_says_what_is_left() -> None:
    """Half of the golden run of two runs is a quarter: 10 s gone, 30 s left."""
    event = {"run": "golden", "step": 0, "steps": 1, "call": 50, "calls": 100, "phase": "forward"}
    shown = publish.progress(event, seconds=10)
    assert shown["done"] / shown["total"] == 0.25
    assert shown["text"] == "golden step 1 of 1, forward, 30 s left"
    shown = publish.progress(event, seconds=60)
    assert shown["text"] == "golden step 1 of 1, forward, 3 min left"


def test_a_long_training_is_thinned() -> None:
    """Of 100,000 steps a few hundred travel, the last among them."""
    records = [StepRecord(n, 1.0, 1.0, 1.0) for n in range(100_000)]
    shown = publish.steps({"golden": records, "faulty": records[:3]})
    assert len(shown["golden"]) <= publish.MOST_STEPS + 1
    assert shown["golden"][-1]["step"] == 99_999
    assert [each["step"] for each in shown["faulty"]] == [0, 1, 2]


def test_a_session_has_one_widget() -> None:
    """Exploring again gives the same widget, so that old views cost nothing."""
    with comms():
        session = traced(models.mlp(seed=1))
        first = explorer_of(session)
        assert explorer_of(session) is first
        first.close()
        second = explorer_of(session)
        assert second is not first
        second.close()


def test_the_widget_carries_a_snapshot(page: Page, session: Session) -> None:
    """HTML and text stand beside the widget in the bundle."""
    session.arm("relu*2:0", "zero")
    session.replay()
    data, _ = page.explorer._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert "relu*2:0" in data["text/html"]
    assert "fi_notebook explorer" in data["text/plain"]


def test_a_request_by_the_control_comm_has_a_receipt(page: Page) -> None:
    """Something is published on the control comm from its own callback, then the answer."""
    control = page.explorer.control
    with mock.patch.object(control, "send") as send:
        data = {"method": "custom", "content": {"kind": "ping", "id": 8}}
        control.comm.handle_msg({"content": {"data": data}, "buffers": []})
    send.assert_called_once_with("received")
    assert page.answer(8)["kind"] == "reply"
