"""A live watch of a training loop: `fi.watch`, drawn where a page looks.

    watch = fi.watch(net, ["relu*2:0", "grad:fc.weight"])
    watch                           # the live view; without a screen it only records
    train(net)
    print(watch.text())

What records is in ``fi_notebook.watching``; here is what shows it, on every rung of the
ladder of `doctor`: the live view, a static result made anew when a cell has ended, or text.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import nn

from fi_notebook.report.snapshot_watched import watched_html
from fi_notebook.session.watching import Replays, of_trace
from fi_notebook.ui.doctor import place
from fi_notebook.ui.shells import has_kernel, publish, running_shell
from fi_notebook.watching import Watching

if TYPE_CHECKING:
    from fi_notebook.session import Session
    from fi_notebook.ui.watch_view import WatchView
    from fi_notebook.watching.watching import Sites

__all__ = ["LiveWatch", "SessionWatch", "watch", "watch_session"]

logger = logging.getLogger("fi_notebook")


class LiveWatch(Watching):
    """A watch that shows itself."""

    def __init__(self, model: nn.Module, sites: Sites, **options: Any) -> None:
        """Show nothing yet; see `fi_notebook.watching.Watching` for the arguments."""
        self._shown: list[_Shown] = []
        self._view: WatchView | None = None
        super().__init__(model, sites, **options)

    @property
    def view(self) -> WatchView:
        """The widget, made when it is first asked for."""
        if self._view is None:
            from fi_notebook.ui.watch_view import WatchView

            self._view = WatchView(self)
        return self._view

    def close(self) -> None:
        """Detach from the training, and show the last step."""
        super().close()
        for shown in self._shown:
            shown.refresh()

    def bundle(self, *, widget: bool) -> dict[str, Any]:
        """What stands in an output: text, a static result, and the widget if that is asked."""
        statistic = self._view.statistic if self._view is not None else "norm"
        data: dict[str, Any] = {}
        if widget:
            self.view.flush()
            data |= (self.view._repr_mimebundle_() or ({}, {}))[0]
        html = watched_html(self.current, self.golden, statistic=statistic)
        return data | {"text/html": html, "text/plain": self.text(statistic)}

    def _repr_mimebundle_(self, **_options: Any) -> Mapping[str, Any]:
        """For a front end that is not IPython's."""
        return self.bundle(widget=place().has_page)

    def _ipython_display_(self) -> None:
        """Show it in an output that is made anew when a cell has ended."""
        self._shown.append(_Shown(self, running_shell(), widget=place().has_page))


class _Shown:
    """One output that shows a watch."""

    def __init__(self, shown: LiveWatch, shell: Any, *, widget: bool) -> None:
        self._watch, self._shell, self._widget = shown, shell, widget
        self._name = uuid.uuid4().hex
        self._step = self._came()
        publish(shell, shown.bundle(widget=widget), self._name)
        if has_kernel(shell):
            shell.events.register("post_run_cell", self._cell_ended)

    def refresh(self) -> None:
        """Put what is there now in its place, where there is more than was shown."""
        if self._came() != self._step and has_kernel(self._shell):
            self._step = self._came()
            publish(self._shell, self._watch.bundle(widget=self._widget), self._name, update=True)

    def _came(self) -> tuple[Any, ...]:
        run = self._watch.current
        return len(self._watch.golden), run.name, run.last_step, len(run.series)

    def _cell_ended(self, _result: Any = None) -> None:
        self.refresh()
        if self._watch.closed:
            self._shell.events.unregister("post_run_cell", self._cell_ended)


class SessionWatch(LiveWatch):
    """A watch that sees the replays of a session as well.

    Args:
        session: The session.
        sites: What is watched.
        **options: Further arguments of `LiveWatch`.
    """

    def __init__(self, session: Session, sites: Sites, **options: Any) -> None:
        """Look at every run of the session from now on."""
        super().__init__(session.model, sites, **options)
        self._replays = Replays(session, self.choices, self.add)
        golden = session.golden
        if golden is not None and not self.golden:
            self._recordings.add_golden(of_trace(golden, self.choices))

    @property
    def unread(self) -> dict[str, str]:
        """What neither a replay nor the training met, each with the reason."""
        trained = super().unread
        return {what: why for what, why in self._replays.unread.items() if what in trained}

    def close(self) -> None:
        """Look no more."""
        self._replays.close()
        super().close()


def watch(model: nn.Module, sites: Sites, **options: Any) -> LiveWatch:
    """Watch tensors of a training loop, step by step, live where a page looks.

    Args:
        model: The model that is trained.
        sites: What is watched: sites of a trace, or texts such as ``relu*2:0``, ``addmm``,
            ``param:fc.weight``, ``grad:*``, ``state:fc.weight.exp_avg``.
        **options: ``modules``, ``phases``, ``steps``, ``golden``, ``optimizer``,
            ``micro_batch_per_step``, ``start_step``; see `fi_notebook.watching.Watching`.

    Raises:
        SiteError: A site that cannot be read, or a module or stored tensor that does not
            exist; names the nearest.
        TypeError: The model is no module, an optimizer or a golden run none.
        ValueError: A number that cannot be.
    """
    return LiveWatch(model, sites, **options)


def watch_session(session: Session, sites: Sites, **options: Any) -> LiveWatch:
    """Watch tensors of a session's replays, and of a training loop of its model."""
    made, golden = SessionWatch(session, sites, **options), session.golden
    for choice in made.choices if golden is not None else ():
        missing = golden.missing(choice.target) if golden and choice.target.kind == "call" else ""
        if missing:
            logger.warning("the golden run has nothing to watch: %s", missing)
    return made
