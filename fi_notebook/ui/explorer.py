"""The explorer: the widget that shows a session and does what the person clicks.

    session.explore()        the widget; running it again gives another view of the same one

The widget holds no data of its own: what it shows is the session's, what is clicked is a
public call of the session, and every change of the session, wherever it was made, is
shown. Handlers only check and enqueue; replays run on the worker (``ui/executor.py``).

Requests come by a second, tiny comm on which nothing is published but a receipt, from the
callback itself: while a cell runs, ipykernel delivers only by a comm that last published
from such a callback. The page's first pings make it so.

Limits: one widget per session; an older session of the same model is shown as superseded.
"""

from __future__ import annotations

import threading
import time
import traceback
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import anywidget
import ipywidgets
import traitlets

from fi_notebook import assets
from fi_notebook.errors import SessionError
from fi_notebook.report.snapshot import snapshot_html, snapshot_text
from fi_notebook.ui import handlers, publish
from fi_notebook.ui.executor import Coalescer, Executor
from fi_notebook.ui.messages import Message, Request, encode, parse
from fi_notebook.ui.shown import ShowsItself

if TYPE_CHECKING:
    from fi_notebook.session import Session
    from fi_notebook.ui.sweeps import Sweep

__all__ = ["Explorer", "explorer_of"]

_EXPLORERS: weakref.WeakSet[Explorer] = weakref.WeakSet()


class Explorer(ShowsItself, anywidget.AnyWidget):
    """The widget of one session."""

    _esm = assets.packed()
    _css = assets.style()
    _key = traitlets.Unicode().tag(sync=True)
    _control = traitlets.Unicode().tag(sync=True)
    _ends: tuple[Callable[[], None], ...] = ()
    __repr__ = ShowsItself.__str__

    def __init__(self, session: Session) -> None:
        """Show a session.

        Args:
            session: The session; the widget and it always agree.
        """
        self.control = ipywidgets.Widget()
        super().__init__(_key=uuid.uuid4().hex, _control=self.control.model_id)
        self._session: Session | None = session
        self.superseded = False
        self.state = "idle"
        self.announced: Mapping[str, Any] = {"state": "idle", "note": "", "progress": None}
        self._begun = time.monotonic()
        self.values: dict[int, Any] = {}
        self.sweep: Sweep | None = None
        self._quiet = False
        self.executor = Executor(cancel=self._cancel)
        self.reader = Executor(shell=False)
        self.awaited: set[int] = set()
        self._sequence = 0
        self._sending = threading.RLock()
        self._updates = Coalescer(self._send_updates)
        self._training: dict[str, list[Any]] = {"golden": [], "faulty": []}
        self.on_msg(self._receive)
        self.control.on_msg(self._receive_on_control)
        self._ends = (
            session.subscribe(self._heard),
            self.executor.close,
            self.reader.close,
            self.control.close,
        )
        _supersede_older(self)
        _EXPLORERS.add(self)

    @property
    def session(self) -> Session:
        """The session that is shown.

        Raises:
            SessionError: The widget was closed, or a newer session has taken over.
        """
        if self._session is None:
            raise SessionError("this explorer is closed or superseded; call session.explore()")
        return self._session

    def shows(self, session: Session) -> bool:
        """Whether it is this session's live widget."""
        return self._session is session

    def tell(self, message: Message) -> None:
        """Send a message to the page, in order, from any thread."""
        with self._sending:
            self._sequence += 1
            for content, buffer in encode(message, self._sequence):
                self.send(content, buffers=[buffer])

    def reply(self, request: Request, data: Any = None) -> None:
        """Answer a request."""
        self.tell(Message("reply", {"id": request.id, "data": data}))
        self.awaited.discard(request.id)

    def fail(self, error: BaseException, request_id: int = 0) -> None:
        """Show an error in the widget, with its traceback."""
        text = "".join(traceback.format_exception(error))
        told = _with_type(str(error), text)
        self.tell(Message("error", {"id": request_id, "text": told, "traceback": text}))
        self.awaited.discard(request_id)

    def announce(
        self, state: str, note: str = "", progress: Mapping[str, Any] | None = None
    ) -> None:
        """Show what is going on; at most ten times a second."""
        self.announced = {"state": state, "note": note, "progress": progress}
        self._updates.put("state", self.announced)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Show nothing of what the session says of its runs while the block lasts."""
        self._quiet = True
        try:
            yield
        finally:
            self._quiet = False

    def show_everything(self) -> None:
        """Send the whole state, as to a page that has just been opened."""
        for message in publish.everything(self):
            self.tell(message)

    def supersede(self) -> None:
        """Say that a newer session has taken over, and let go of this one.

        The view stays as it is, read-only; what the session holds can be freed.
        """
        self.superseded = True
        self.tell(publish.hello(self))
        self._let_go()

    def close(self) -> None:
        """Let go of the session and of the page."""
        self._let_go()
        super().close()

    def _let_go(self) -> None:
        self._close_displays()
        for end in self._ends:
            end()
        self._ends = ()
        self.values = {}
        self.sweep = None
        self._session = None

    def _cancel(self) -> None:
        """Stop the run that goes on; a sweep stops by itself, and keeps what is made."""
        sweeping = self.sweep is not None and self.sweep.campaign.running
        if self._session is not None and not sweeping:
            self._session.cancel()

    def _receive_on_control(self, control: Any, content: object, buffers: object) -> None:
        """Give a receipt at once, then do what is asked."""
        control.send("received")
        self._receive(self, content, buffers)

    def _receive(self, _widget: Any, content: object, _buffers: object) -> None:
        """Check a message of the page and do what it asks; whatever goes wrong is shown."""
        number = content.get("id") if isinstance(content, dict) else None
        try:
            handlers.handle(self, parse(content))
        except Exception as error:  # noqa: BLE001 - an exception in a callback would vanish
            self.fail(error, number if isinstance(number, int) else 0)

    def _heard(self, event: str, payload: Mapping[str, Any]) -> None:
        """Show what the session says, in whatever thread it says it."""
        if event == "state" and self.executor.stopping:
            self._cancel()  # Stop came between two runs of one job
        if self._quiet and event not in ("trace", "plan"):
            return
        try:
            self._show(event, payload)
            if event in ("trace", "plan", "run"):
                self._displays_changed()
        except Exception as error:  # noqa: BLE001 - a picture must not break a replay
            self.fail(error)

    def _show(self, event: str, payload: Mapping[str, Any]) -> None:
        if event == "progress":
            progress = publish.progress(payload, time.monotonic() - self._begun)
            self.announce(self.state, progress=progress)
        elif event == "step":
            self._training[payload["run"]].append(payload["record"])
            self._updates.put("steps", partial(publish.steps, self._training))
        elif event == "state":
            self._show_state(payload["state"])
        elif event == "trace":
            self.values.clear()
            self.tell(publish.trace(payload["trace"]))
            for message in publish.run(None):  # the last one was of another trace
                self.tell(message)
        elif event == "plan":
            self.tell(publish.plan(self))
        elif event == "run":
            for message in publish.run(payload["run"]):
                self.tell(message)
        elif event == "error":
            trace = payload.get("traceback", "")
            text = _with_type(payload["error"], trace)
            self.tell(Message("error", {"id": 0, "text": text, "traceback": trace}))

    def _show_state(self, state: str) -> None:
        self.state = state
        self._begun = time.monotonic()
        if state != "idle":
            self._training = {"golden": [], "faulty": []}
        self.announce(state)
        if state == "idle":
            self._updates.flush()

    def _send_updates(self, updates: Mapping[str, Any]) -> None:
        for kind, data in updates.items():
            self.tell(Message(kind, data() if callable(data) else data))

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """The widget; beside it a static snapshot for where no widget can be shown."""
        bundle = super()._repr_mimebundle_(**options)
        if bundle is None:
            return None
        data, metadata = bundle
        return {**data, **self._static()}, metadata

    def _static(self) -> dict[str, str]:
        """A static result of the session; for a page that has no widgets, or no kernel."""
        session = self.session
        shown = session.golden, session.plan, session.run
        return {"text/html": snapshot_html(*shown), "text/plain": snapshot_text(*shown)}


def explorer_of(session: Session) -> Explorer:
    """The widget of a session, made at the first call."""
    for explorer in list(_EXPLORERS):
        if explorer.shows(session):
            return explorer
    return Explorer(session)


def _supersede_older(new: Explorer) -> None:
    """Mark the widgets of older sessions of the same model."""
    for old in list(_EXPLORERS):
        session = old._session  # noqa: SLF001 - a function of this module
        if session is None or old.shows(new.session):
            continue
        if session.model is new.session.model:
            old.supersede()


def _with_type(text: str, trace: str) -> str:
    """What an error says, after its type; our own errors say all that is to be said.

    Args:
        text: The error's message.
        trace: Its traceback.
    """
    first, *_ = text.splitlines() or [""]
    lines = (line for line in reversed(trace.splitlines()) if line.endswith(first) and line.strip())
    named = next(lines, "")
    ours = named.startswith("fi_notebook.") or not named
    return text if ours else named.removesuffix(first) + text
