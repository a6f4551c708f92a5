"""Where something is shown: its live view, and beside it a static result kept up to date.

    shown = Shown(view=widget_bundle, static=lambda: {"text/html": …, "text/plain": …})
    shown.changed()         # from any thread; now and then, and when a cell ends

`ShowsItself` is what an object has that is shown when a cell ends with it, several times
maybe: the last three displays are kept up to date, older ones are closed.

In JupyterLab and Notebook the static result is an output of its own below the live view,
hidden by the style sheet while that is there. A notebook that is opened with another
kernel cannot draw the view, and shows the result instead, as does nbconvert.

A static result is made anew every two seconds at most, and less often where that takes more
than a tenth of the time.

Limits: a page that was loaded anew is not told of later results of cells that it did not
run; it has the live view meanwhile, and the next run of the cell saves the result.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from fi_notebook.errors import SessionError
from fi_notebook.ui.doctor import NOTEBOOK, place
from fi_notebook.ui.executor import Coalescer
from fi_notebook.ui.shells import has_kernel, publish, running_shell

__all__ = ["Shown", "ShowsItself", "drawing"]

logger = logging.getLogger("fi_notebook")

_EVERY = 2.0  # seconds between two static results
_MOST = 3  # displays of one object that are kept up to date
_LINE = (
    "<p class='fi-quiet'>Static result of fi_notebook: run the cell again for the live view.</p>"
)

Bundle = Mapping[str, Any]


class Shown:
    """One display of something.

    Args:
        view: Gives the widget's part of an output; not asked where no page looks.
        static: Gives the static result as ``text/html`` and ``text/plain``.
    """

    def __init__(self, view: Callable[[], Bundle], static: Callable[[], Bundle]) -> None:
        """Show it, here and now."""
        self._shell, here = running_shell(), place()
        self._static = static
        self._name = uuid.uuid4().hex
        self._updates = Coalescer(self._draw, interval=_EVERY, sparing=True)
        self._view: Bundle = view() if here.has_page else {}
        if here.name == NOTEBOOK and self._view:
            publish(self._shell, self._view, uuid.uuid4().hex)
            self._view = {}
        self._publish(update=False)
        if has_kernel(self._shell):
            self._shell.events.register("post_run_cell", self.flush)

    def changed(self) -> None:
        """There is more to show."""
        if has_kernel(self._shell):
            self._updates.put("static", True)

    def flush(self, _result: Any = None) -> None:
        """Show now what is still to be shown."""
        self._updates.flush()

    def close(self) -> None:
        """Show what is still to be shown, and change no more."""
        self.flush()
        if has_kernel(self._shell) and self.flush in self._shell.events.callbacks["post_run_cell"]:
            self._shell.events.unregister("post_run_cell", self.flush)

    def _draw(self, _updates: Any) -> None:
        self._publish(update=True)

    def _publish(self, *, update: bool) -> None:
        static = dict(self._static())
        if has_kernel(self._shell):
            static["text/html"] = static["text/html"].replace(
                '<div class="fi-snapshot">', f'<div class="fi-snapshot">{_LINE}', 1
            )
        publish(self._shell, {**static, **self._view}, self._name, update=update)


def drawing(widget: Any, draw: Callable[[], None]) -> Callable[[Any], None]:
    """What a `Coalescer` calls to draw a widget; an error is logged, and shown in its frame.

    Args:
        widget: The widget, whose ``_frame`` is what it shows, as JSON.
        draw: Draws it, or a part of it.

    Returns:
        What is to be called; it raises nothing, for that would end in the person's training.
    """

    def drawn(_updates: Any) -> None:
        try:
            draw()
        except Exception as error:
            logger.exception("a widget could not be drawn")
            last = {"state": "not drawn", **json.loads(widget._frame)}  # noqa: SLF001 - see Args
            last["words"] = f"this could not be drawn: {error}"
            widget._frame = json.dumps(last)  # noqa: SLF001

    return drawn


class ShowsItself:
    """A mixin: its displays, each with the live view and a static result."""

    _displays: tuple[Shown, ...] = ()
    _displays_end = False

    def __str__(self) -> str:
        """Its static result as text where no page can show it, as ``print`` in a script."""
        with suppress(SessionError):  # closed, or superseded: it is an object like others
            if not place().has_page:
                return str(self._static()["text/plain"])
        return super().__repr__()

    def _ipython_display_(self) -> None:
        """Show it, with a static result that is kept up to date."""
        displays = *self._displays, Shown(self._widget, self._static)
        self._displays = displays[-_MOST:]
        for dropped in displays if self._displays_end else displays[:-_MOST]:
            dropped.close()

    def _displays_changed(self) -> None:
        """There is more to show, wherever it is shown."""
        for shown in self._displays:
            shown.changed()

    def _close_displays(self) -> None:
        """Keep no display up to date from now on, those that are still to come neither."""
        self._displays_end = True
        for shown in self._displays:
            shown.close()

    def _live(self) -> Any:
        """The widget: this object itself, where it is one."""
        return self

    def _widget(self) -> Bundle:
        """The widget's part of an output."""
        from anywidget import AnyWidget

        bundle = AnyWidget._repr_mimebundle_(self._live())
        return {} if bundle is None else bundle[0]

    def _static(self) -> Bundle:
        """A static result, for a page that has no widgets, or no kernel; read in any thread."""
        raise NotImplementedError
