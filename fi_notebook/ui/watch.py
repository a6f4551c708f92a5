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
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.optim import Optimizer

from fi_notebook.core.steps import Steps
from fi_notebook.core.watched import DRAWN
from fi_notebook.report.snapshot_watched import watched_html
from fi_notebook.report.text_watched import watched
from fi_notebook.session.watching import Replays, of_trace
from fi_notebook.ui.doctor import place
from fi_notebook.ui.shown import ShowsItself
from fi_notebook.watching import Watching

if TYPE_CHECKING:
    from fi_notebook.session import Session
    from fi_notebook.ui.watch_view import WatchView
    from fi_notebook.watching.watching import Sites

__all__ = ["LiveWatch", "SessionWatch", "watch", "watch_session"]

logger = logging.getLogger("fi_notebook")


class LiveWatch(ShowsItself, Watching):
    """A watch that shows itself."""

    def __init__(self, model: nn.Module, sites: Sites, **options: Any) -> None:
        """Show nothing yet; see `fi_notebook.watching.Watching` for the arguments."""
        self._view: WatchView | None = None
        super().__init__(model, sites, **options)
        self.subscribe(self._displays_changed)

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
        self._close_displays()
        if self._view is not None:
            self._view.flush()

    def _live(self) -> WatchView:
        """The widget, with what there is now."""
        self.view.flush()
        return self.view

    def _static(self) -> dict[str, str]:
        """A static result of what is recorded; read in any thread."""
        run, golden = self.thinned(None), self.golden
        statistic = DRAWN if self._view is None else self._view.statistic
        return {
            "text/html": watched_html(run, golden, statistic=statistic),
            "text/plain": watched(run, golden, statistic=statistic),
        }

    def _repr_mimebundle_(self, **_options: Any) -> Mapping[str, Any]:
        """For a front end that is not IPython's."""
        return {**self._static(), **(self._widget() if place().has_page else {})}

    def _ipython_display_(self) -> None:
        """Show it, with a static result that is kept up to date."""
        self._flush()
        super()._ipython_display_()


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
        if golden is not None:
            self._recordings.set_replayed(of_trace(golden, self.choices))

    @property
    def unread(self) -> dict[str, str]:
        """What neither a replay nor the training met, each with the reason."""
        trained = super().unread
        return {what: why for what, why in self._replays.unread.items() if what in trained}

    def close(self) -> None:
        """Look no more."""
        self._replays.close()
        super().close()


def watch(
    model: nn.Module,
    sites: Sites,
    *,
    modules: str | Iterable[str] | None = None,
    phases: str | Iterable[str] = (),
    steps: int | str | Iterable[int] | Steps = "0-",
    golden: Any = (),
    optimizer: Optimizer | Iterable[Optimizer] | None = None,
    micro_batch_per_step: int | None = None,
    start_step: int = 0,
) -> LiveWatch:
    """Watch tensors of a training loop, step by step, live where a page looks.

    A watch of the same tensors in the same steps is closed, as is left when a cell is run again;
    the log says so.

    Args:
        model: The model that is trained.
        sites: What is watched: sites of a trace, or texts such as ``relu*2:0``, ``addmm``,
            ``param:fc.weight``, ``grad:*``, ``state:fc.weight.exp_avg``.
        modules: Module filter, one or several; None is no filter.
        phases: Phases in which outputs are read; empty is all of them.
        steps: In which steps, counted from 0, such as ``"0-:10"``.
        golden: Golden runs to compare with: runs, or other watches.
        optimizer: The optimizer, or several; found when they step if left out.
        micro_batch_per_step: Outermost forwards per step, for gradient accumulation;
            found from when the gradients are cleared if left out.
        start_step: Number of the first step, where training is resumed.

    Returns:
        The watch; a cell that ends with it shows it, and without a screen it only records.

    Raises:
        SiteError: A site that cannot be read, or a module or stored tensor that does not
            exist; names the nearest.
        TypeError: The model is no module, an optimizer or a golden run none.
        ArgumentError: A number that cannot be.
    """
    return LiveWatch(
        model,
        sites,
        modules=modules,
        phases=phases,
        steps=steps,
        golden=golden,
        optimizer=optimizer,
        micro_batch_per_step=micro_batch_per_step,
        start_step=start_step,
    )


def watch_session(session: Session, sites: Sites, **options: Any) -> LiveWatch:
    """Watch tensors of a session's replays, and of a training loop of its model.

    Args:
        session: The session.
        sites: What is watched.
        **options: Further arguments of `watch`.

    Returns:
        The watch, which also hears replays.
    """
    made, golden = SessionWatch(session, sites, **options), session.golden
    for choice in made.choices if golden is not None else ():
        missing = golden.missing(choice.target) if golden and choice.target.kind == "call" else ""
        if missing:
            logger.warning("the golden run has nothing to watch: %s", missing)
    return made
