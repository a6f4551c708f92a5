"""What a person holds of a watch: golden runs, the current run, tables and pictures.

    watch = Watching(net, ["relu*2:0", "grad:fc.weight"])
    train(net)                      # the loop as it was
    watch.keep_as_golden()          # steps are counted from the first one again
    train(other_data)
    print(watch.text())             # where it is not finite, where it leaves the golden run
    watch.to_pandas(); watch.figure("norm"); watch.close()

Limits: every read step is kept, 72 bytes a site; thin a long training with ``steps=``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from torch import nn
from torch.optim import Optimizer

from fi_notebook.analysis.watched import alerts
from fi_notebook.core.fault import texts
from fi_notebook.core.frames import pandas
from fi_notebook.core.listeners import Listeners
from fi_notebook.core.site import Site, Target
from fi_notebook.core.stats import STATISTICS
from fi_notebook.core.steps import Steps
from fi_notebook.core.watched import DRAWN, Alert, WatchedRun
from fi_notebook.core.whole import check_whole
from fi_notebook.engine.arguments import optimizers_of
from fi_notebook.engine.reading import Choice, Reading
from fi_notebook.errors import SessionError, SiteError
from fi_notebook.watching.recording import Recordings
from fi_notebook.watching.training import Training

if TYPE_CHECKING:
    import pandas as pd

    from fi_notebook.report.figures import Figure

__all__ = ["Watching", "choices_of"]

logger = logging.getLogger("fi_notebook")

Sites = Site | str | Iterable[Site | str]

_open: WeakSet[Watching] = WeakSet()  # registry: a cell that is run again ends its last watch


class Watching:
    """Statistics of chosen tensors in a person's own training loop, step by step.

    A watch of the same kind, of the same tensors of the model in the same steps, is closed, as is
    left when a cell is run again; the log says so.

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

    Raises:
        SiteError: A site that cannot be read, or a module or stored tensor that does not
            exist; names the nearest.
        TypeError: The model is no module, an optimizer or a golden run none.
        ArgumentError: A number that cannot be.
    """

    def __init__(
        self,
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
    ) -> None:
        """Attach to the training; nothing of the model itself is changed."""
        if not isinstance(model, nn.Module):
            raise TypeError(f"model is {type(model).__name__}; expected a torch.nn.Module")
        check_whole("start_step", start_step, 0)
        if micro_batch_per_step is not None:
            check_whole("micro_batch_per_step", micro_batch_per_step, 1)
        self.model = model
        self.choices = choices_of(sites, modules=modules, phases=phases)
        self.steps = Steps.parse(steps)
        self._recordings = Recordings(_runs_of(golden))
        self._listeners: Listeners[[]] = Listeners()
        self._training = Training(
            model,
            self.choices,
            self.steps,
            lambda step, found: self.add("training", step, found),
            optimizers=optimizers_of(optimizer),
            micro_batch_per_step=micro_batch_per_step,
            start_step=start_step,
        )
        self._end_older()

    def _end_older(self) -> None:
        """End a watch of the same kind, tensors and steps: its cell was run again."""
        for other in list(_open):
            alike = type(other) is type(self) and other.model is self.model
            if alike and (other.choices, other.steps) == (self.choices, self.steps):
                logger.info("%s is closed: another one of the same tensors began", repr(other))
                other.close()
        _open.add(self)

    # what was seen

    @property
    def golden(self) -> tuple[WatchedRun, ...]:
        """The golden runs, whose range is the golden band."""
        return self._recordings.golden

    @property
    def current(self) -> WatchedRun:
        """The run that is going on, or was the last."""
        self._flush()
        return self._recordings.current()

    def thinned(self, most: int | None) -> WatchedRun:
        """The current run in at most so many steps, for a picture; from any thread."""
        return self._recordings.current(most)

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """Where the current run began to hold NaN or Inf."""
        return alerts(self.current)

    @property
    def step(self) -> int:
        """The step of the training that is being made, -1 before the first."""
        return self._training.step

    @property
    def unread(self) -> dict[str, str]:
        """What was to be watched and was never met, each with the reason."""
        return self._training.reader.unread

    @property
    def notes(self) -> tuple[str, ...]:
        """What was not read, and why."""
        return tuple(self._training.reader.notes.values())

    @property
    def closed(self) -> bool:
        """Whether it is detached from the training."""
        return self._training.closed

    def to_pandas(self) -> pd.DataFrame:
        """One row per run, site and step, golden runs first.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        pd = pandas()
        goldens, current = self.golden, self.current
        numbers = [f" {n}" for n in range(1, len(goldens) + 1)] if len(goldens) > 1 else [""]
        named = [(f"golden{n}", run) for n, run in zip(numbers, goldens)]
        frames = [
            pd.DataFrame({"run": name, "step": series.steps, "site": site})
            .assign(phase=series.site.phase, module=series.site.module, dtype=series.site.dtype)
            .assign(**{statistic: series.statistic(statistic) for statistic in STATISTICS})
            for name, run in (*named, (current.name, current))
            for site, series in run.series.items()
        ]
        columns = ["run", "step", "site", "phase", "module", "dtype", *STATISTICS]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)

    def figure(self, statistic: str = DRAWN, *, dark: bool = False) -> Figure:
        """The current run over the golden band, one row per site."""
        from fi_notebook.report import figures

        return figures.watched(self.current, self.golden, statistic=statistic, dark=dark)

    def text(self, statistic: str = DRAWN) -> str:
        """The same in words and numbers."""
        from fi_notebook.report.text_watched import watched

        lines = [watched(self.current, self.golden, statistic=statistic)]
        lines += [f"{what} was not read: {reason}" for what, reason in self.unread.items()]
        return "\n".join((*lines, *self.notes))

    # what a person does

    def keep_as_golden(self) -> WatchedRun:
        """Make a golden run of what was recorded, and count the steps from the first again.

        Asked several times, the golden runs make a band.

        Raises:
            SessionError: Nothing was recorded yet.
        """
        self._training.restart()
        if not self._recordings.current(1).series:
            raise SessionError("nothing was recorded yet; train first, then keep it as golden")
        kept = self._recordings.keep_as_golden()
        self._listeners.tell()
        return kept

    def close(self) -> None:
        """Detach from the training; what was recorded stays. May be called again."""
        self._training.close()
        _open.discard(self)
        self._listeners.tell()

    def __enter__(self) -> Watching:  # noqa: PYI034  (Self is newer than Python 3.10)
        """The watch itself; it is closed when the block is left."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close, whatever the block raised."""
        self.close()

    def __repr__(self) -> str:
        """What is watched, and how far it came."""
        targets = ", ".join(str(choice.target) for choice in self.choices)
        state = "closed" if self.closed else f"step {self.step}"
        return f"<{type(self).__name__} of {type(self.model).__name__}: {targets}; {state}>"

    # who draws

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Tell a listener, in the training's thread, that there is more; undone by a call.

        One that raises is logged; the training goes on.

        Raises:
            TypeError: It cannot be called.
        """
        return self._listeners.subscribe(listener)

    def add(
        self,
        run: str,
        step: int,
        found: Sequence[Reading],
        *,
        anew: bool = False,
        golden: bool = False,
    ) -> None:
        """Record what was read in a step of a run; see `Recordings.add`."""
        self._recordings.add(run, step, found, anew=anew, golden=golden)
        self._listeners.tell()

    def _flush(self) -> None:
        if not self.closed:
            self._training.flush()


def choices_of(
    sites: Sites, *, modules: str | Iterable[str] | None, phases: str | Iterable[str]
) -> tuple[Choice, ...]:
    """What is to be read, from sites and texts.

    Raises:
        SiteError: A text that cannot be read, or none at all.
    """
    given = [sites] if isinstance(sites, (Site, str)) else sites
    if not isinstance(given, Iterable):
        raise SiteError(
            f"sites is {sites!r}; expected a site, a text such as 'relu*2:0', or several"
        )
    targets = [site.target if isinstance(site, Site) else Target.parse(site) for site in given]
    if not targets:
        raise SiteError("sites is empty; expected at least one, such as 'relu*2:0'")
    within = None if modules is None else texts(modules, "modules")
    in_phases = texts(phases, "phases")
    return tuple(Choice(target, within, in_phases) for target in dict.fromkeys(targets))


def _runs_of(golden: Any) -> list[WatchedRun]:
    """Golden runs, from runs and watches."""
    several = golden if isinstance(golden, (list, tuple)) else (golden,)
    found = []
    for one in several:
        run = one.current if isinstance(one, Watching) else one
        if not isinstance(run, WatchedRun):
            raise TypeError(
                f"golden holds {type(run).__name__}; expected what keep_as_golden() gave, "
                "or a watch"
            )
        found.append(run)
    return found
