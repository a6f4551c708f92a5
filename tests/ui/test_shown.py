"""The static result beside a live view: which outputs are made, and when they are made anew."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fi_notebook.campaign import Campaign
from fi_notebook.ui import doctor, shown
from fi_notebook.ui.explorer import Explorer
from fi_notebook.ui.shown import Shown
from fi_notebook.ui.watch import watch
from tests import models
from tests.campaign import sessions
from tests.ui.bridge import comms
from tests.ui.conftest import traced
from tests.ui.shells import Shell

VIEW = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "text/plain": "view"}


class KernelShell(Shell):
    """A shell of a kernel, which keeps what was published."""

    def __init__(self, *, page: bool) -> None:
        """Nothing was published yet."""
        super().__init__()
        self.kernel = SimpleNamespace()
        self.user_ns: dict[str, Any] = {}
        self.display_pub = self
        self.callbacks = self.heard
        self.published: list[tuple[set[str], str, bool]] = []
        self._metadata = {"cellId": "1"} if page else {}

    def get_parent(self) -> dict[str, Any]:
        """What came with the cell."""
        return {"metadata": self._metadata}

    def publish(
        self, data: dict[str, Any], metadata: Any, *, transient: dict[str, str], update: bool
    ) -> None:
        """Keep the kinds of an output, its text, and whether it takes another's place."""
        self.published.append((set(data), data["text/plain"], update))


class Result:
    """What is shown; its text counts how often it was asked for."""

    asked = 0

    def static(self) -> dict[str, str]:
        """The static result."""
        self.asked += 1
        page = f'<div class="fi-snapshot"><p>{self.asked}</p></div>'
        return {"text/html": page, "text/plain": f"result {self.asked}"}


def kernel(monkeypatch: pytest.MonkeyPatch, *, page: bool) -> KernelShell:
    """Such a shell, which is the running one."""
    shell = KernelShell(page=page)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.delenv("VSCODE_PID", raising=False)
    for module in (doctor, shown):
        monkeypatch.setattr(module, "running_shell", lambda: shell)
    return shell


def opened(monkeypatch: pytest.MonkeyPatch, *, page: bool) -> tuple[KernelShell, Shown]:
    """A display in such a shell."""
    shell = kernel(monkeypatch, page=page)
    return shell, Shown(lambda: VIEW, Result().static)


def test_a_page_has_the_view_and_below_it_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two outputs, so that the second can change without the first being drawn anew."""
    shell, display = opened(monkeypatch, page=True)
    assert shell.published == [
        (set(VIEW), "view", False),
        ({"text/html", "text/plain"}, "result 1", False),
    ]
    display.close()


def test_without_a_page_there_is_the_result_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No widget is asked for."""
    shell, display = opened(monkeypatch, page=False)
    assert shell.published == [({"text/html", "text/plain"}, "result 1", False)]
    display.close()


def test_changes_are_gathered_until_the_cell_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred changes in a cell: the first at once, the last when it has ended; then none."""
    shell, display = opened(monkeypatch, page=False)
    for _ in range(100):
        display.changed()
    shell.end(1)
    assert [(text, update) for _, text, update in shell.published] == [
        ("result 1", False),
        ("result 2", True),
        ("result 3", True),
    ]
    shell.end(2)
    assert len(shell.published) == 3
    display.close()


def test_a_result_that_takes_long_is_made_for_a_tenth_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two in turn take 3 s, so the next is made 10 * 3 = 30 s after the second began, not 2 s."""
    now, result = [100.0], Result()

    def static() -> dict[str, str]:
        now[0] += 3.0
        return result.static()

    shell = kernel(monkeypatch, page=False)
    display = Shown(lambda: VIEW, static)
    monkeypatch.setattr("fi_notebook.ui.executor.time.monotonic", lambda: now[0])
    now[0] = 200.0
    for at, made in ((200.0, 2), (203.0, 3), (232.0, 3), (233.0, 4)):
        now[0] = at
        display.changed()
        assert len(shell.published) == made
    display.close()


def test_a_closed_one_lets_go_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last change is shown, and no cell is heard any more; closing twice is no error."""
    shell, display = opened(monkeypatch, page=False)
    display.changed()
    display.changed()
    display.close()
    display.close()
    assert [text for _, text, _ in shell.published] == ["result 1", "result 2", "result 3"]
    assert shell.heard["post_run_cell"] == []


def explorer() -> Any:
    """The explorer of a traced session."""
    return Explorer(traced())


def campaign() -> Any:
    """The view of a campaign that was not run."""
    return Campaign.of_sites(sessions.inference(), "relu", n=4).show()


def training() -> Any:
    """A watch of a model that is not trained."""
    return watch(models.cnn().model, ["relu*1:0"])


@pytest.mark.parametrize("make", [explorer, campaign, training])
def test_what_shows_itself_keeps_three_displays_up_to_date(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any]
) -> None:
    """Of ten displays seven are closed; when it is closed no cell is heard any more."""
    shell = kernel(monkeypatch, page=True)
    with comms():
        shows = make()
        for _ in range(10):
            shows._ipython_display_()
        assert len(shell.heard["post_run_cell"]) == 3
        assert len(shell.published) == 20
        shows.close()
    assert shell.heard["post_run_cell"] == []


def test_what_is_closed_is_shown_as_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that ended is shown again, and hears no cell for that."""
    shell = kernel(monkeypatch, page=True)
    with comms():
        ended = training()
        ended.close()
        ended._ipython_display_()
    assert len(shell.published) == 2
    assert shell.heard["post_run_cell"] == []


@pytest.mark.parametrize(
    ("make", "begins"),
    [
        (explorer, "fi_notebook explorer\n"),
        (campaign, "nothing was run yet"),
        (training, "nothing was read yet"),
    ],
)
def test_print_shows_the_text_where_no_page_can_show_more(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any], begins: str
) -> None:
    """In a script its static result; in a notebook, and once it is closed, one line."""
    with comms():
        monkeypatch.setattr(doctor, "running_shell", lambda: None)
        shows = make()
        assert str(shows).startswith(begins)
        kernel(monkeypatch, page=True)
        assert str(shows).startswith("<")
        shows.close()
        monkeypatch.setattr(doctor, "running_shell", lambda: None)
        assert str(shows)


@pytest.mark.parametrize("make", [explorer, campaign])
def test_a_prompt_shows_what_print_does(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any]
) -> None:
    """A view is nothing but what it shows."""
    monkeypatch.setattr(doctor, "running_shell", lambda: None)
    with comms():
        shows = make()
        assert repr(shows) == str(shows)
        shows.close()
