"""One way to subscribe, to tell, and to end it."""

from __future__ import annotations

import logging
from functools import partial

import pytest

from fi_notebook.core.listeners import Listeners


def _hear(heard: list[tuple[int, str]], number: int, said: str) -> None:
    heard.append((number, said))


def test_who_subscribes_is_told_until_it_ends() -> None:
    """In the order in which they came; to end twice is to end once."""
    listeners, heard = Listeners[str](), list[tuple[int, str]]()
    ends = [listeners.subscribe(partial(_hear, heard, n)) for n in (1, 2)]
    listeners.tell("a")
    ends[0]()
    ends[0]()
    listeners.tell("b")
    assert heard == [(1, "a"), (2, "a"), (2, "b")]


def test_one_that_raises_is_logged_and_takes_nobody_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The others are told, and the log names it and has its traceback."""
    listeners, heard = Listeners[[]](), []

    def broken() -> None:
        raise RuntimeError("no")

    listeners.subscribe(broken)
    listeners.subscribe(lambda: heard.append(1))
    with caplog.at_level(logging.ERROR, logger="fi_notebook"):
        listeners.tell()
    assert heard == [1]
    (record,) = caplog.records
    assert record.getMessage().endswith("broken failed")
    assert record.exc_info is not None


def test_what_cannot_be_called_is_refused() -> None:
    """It says what was given, and with what a listener is called."""
    with pytest.raises(TypeError, match=r"listener is 3; expected a callable \(event, payload\)"):
        Listeners[str, str]("event, payload").subscribe(3)  # type: ignore[arg-type]
