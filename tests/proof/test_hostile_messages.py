"""Whatever a page sends: an answer or a clear error, no hang, nothing of the session lost."""

from __future__ import annotations

import base64
import json
import queue
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fi_notebook.ui.explorer import Explorer
from fi_notebook.ui.messages import LARGEST_REQUEST, REQUESTS, MessageError, parse
from tests.proof.attacked import Target
from tests.ui.bridge import comms

_WAIT_S = 60.0
_WRITES = ("save", "export", "save_sweep")  # to whatever path is asked for: a person's own
_LONG = ("replay", "sweep", "plan_sweep")

_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["relu*1:0", "bitflip", "f1", "all", "__class__", "../../x", "\x00", "0-"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
_kinds = st.sampled_from(sorted(set(REQUESTS) - set(_WRITES) - set(_LONG)))
_fields = st.sampled_from(
    sorted({name for fields in REQUESTS.values() for name in fields} | {"revision", "id", "x"})
)
_messages = st.builds(
    lambda kind, fields: {"kind": kind} | fields,
    _kinds | st.text(max_size=8),
    st.dictionaries(_fields, _json, max_size=6),
)


class Page:
    """What a page hears from a widget that is attacked."""

    def __init__(self, target: Target, explorer: Explorer, waiting: queue.Queue[Any]) -> None:
        """Keep them."""
        self.target, self.explorer, self.waiting = target, explorer, waiting

    def send(self, content: Any) -> None:
        """Deliver a message, as the comm does, and wait until it is dealt with."""
        data = {"method": "custom", "content": content}
        self.explorer.comm.handle_msg({"content": {"data": data}, "buffers": []})
        assert self.explorer.executor.wait(_WAIT_S)
        assert self.explorer.reader.wait(_WAIT_S)

    def heard(self) -> list[dict[str, Any]]:
        """The heads of all whole messages that came."""
        found, block = [], b""
        while not self.waiting.empty():
            content, buffers = self.waiting.get()
            block += base64.b64decode(buffers[0])
            if content["part"] == content["parts"] - 1:
                whole = zlib.decompress(block) if content["deflated"] else block
                found.append(json.loads(whole[: content["head"]]))
                block = b""
        return found

    def answers(self, number: Any) -> list[dict[str, Any]]:
        """The replies and errors among them that answer a request."""
        of_requests = [each for each in self.heard() if each["kind"] in ("reply", "error")]
        return [each for each in of_requests if each["data"]["id"] == number]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """One widget for all messages."""
    target = Target()
    with comms() as waiting:
        explorer = Explorer(target.session)
        yield Page(target, explorer, waiting)
        explorer.close()


def _check(page: Page, content: Any) -> None:
    page.heard()
    page.send(content)
    number = content.get("id") if isinstance(content, dict) else None
    answers = page.answers(number if isinstance(number, int) else 0)
    quiet = isinstance(content, dict) and content.get("kind") == "ping"
    assert answers or quiet, content
    for each in answers:
        if each["kind"] == "error":
            assert each["data"]["text"], content
    page.explorer.session.disarm()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=_messages | _json)
def test_any_message_is_answered_or_refused(page: Page, content: Any) -> None:
    """Kinds, fields and values at random: one answer at least, and an error says something."""
    _check(page, content)


@pytest.mark.soak
@settings(max_examples=5000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=_messages | _json)
def test_very_many_messages_are_answered_or_refused(page: Page, content: Any) -> None:
    """The same, five thousand times."""
    _check(page, content)


@pytest.mark.parametrize(
    "content",
    [
        {"kind": "arm", "id": 3, "site": "x" * (LARGEST_REQUEST + 1), "model": "zero"},
        {
            "kind": "arm",
            "id": 3,
            "site": "relu*1:0",
            "model": "zero",
            "parameters": {"a": [0] * 99999},
        },
        {"kind": "inspect", "id": 3, "row": 10**30},
        {"kind": "inspect", "id": 3, "row": -1},
        {"kind": "disarm", "id": 3, "fault": "f99"},
        {"kind": "enable", "id": 3, "fault": "f99", "on": True},
        {"kind": "replay", "id": 3, "steps": 0},
        {"kind": "replay", "id": 3, "steps": -(10**30)},
        {"kind": "save", "id": 3, "path": "/no/such/folder/plan.json"},
        {"kind": "save", "id": 3, "path": "\x00"},
        {"kind": "export", "id": 3, "path": "/no/such/folder/report.html"},
        {"kind": "trace", "id": 3, "revision": 1},
    ],
)
def test_what_cannot_be_done_is_an_error_and_changes_nothing(
    page: Page, content: dict[str, Any]
) -> None:
    """Huge, of what is not there, out of range: refused by one error; all stays as it was."""
    target = page.target
    before = target.session.plan
    page.heard()
    page.send(content)
    kinds = {each["kind"] for each in page.answers(3)}
    assert kinds == {"error"}
    assert target.session.plan == before


def _nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def test_what_is_nested_too_deeply_is_refused() -> None:
    """A message that would exhaust the stack is no crash."""
    with pytest.raises(MessageError, match="nested"):
        parse(
            {
                "kind": "arm",
                "id": 1,
                "site": "x",
                "model": "zero",
                "parameters": {"a": _nested(99999)},
            }
        )


def test_messages_out_of_order_do_no_harm() -> None:
    """Undo, redo, stop and disarm before anything was armed, in any order, and twice."""
    target = Target()
    with comms() as waiting, target.unharmed():
        explorer = Explorer(target.session)
        page = Page(target, explorer, waiting)
        for kind in ("stop", "redo", "resync", "stop", "redo", "ready", "ready", "stop"):
            page.send({"kind": kind, "id": 5})
            assert [each["kind"] for each in page.answers(5)] == ["reply"]
        explorer.close()
