"""A session: trace one training step, arm faults, replay from the same state, compare.

    session = Session(step, model=net, optimizer=opt)
    trace = session.trace()                         # the golden run
    session.arm("relu*2:0", "bitflip", elements={"index": [0, 3]}, bit=30)
    run = session.replay()                          # golden and faulty, from one snapshot
    print(run.outcome)

Nothing here changes the model, the optimizer, the gradients or a random number
generator: all are put back bit for bit, also after an exception or a Ctrl-C. An `Injector`
that is open meanwhile sees nothing of it, and goes on exactly where it was.

Limits: what the step keeps elsewhere (a data iterator, a closure's variables) is not
put back; such a step is not repeatable, and a replay says where that shows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from fi_notebook.analysis.tolerance import DEFAULT, Tolerance
from fi_notebook.core.listeners import added
from fi_notebook.core.run import Run
from fi_notebook.core.site import Site
from fi_notebook.core.trace import Trace
from fi_notebook.core.whole import check_whole
from fi_notebook.core.words import counted
from fi_notebook.engine.arguments import optimizers_of
from fi_notebook.engine.intercept import Observer, Watch
from fi_notebook.engine.replay import Setup, takes_step_number
from fi_notebook.engine.source import SourceStacks
from fi_notebook.engine.store import budget_of
from fi_notebook.engine.world import speaker
from fi_notebook.errors import SessionArgumentError
from fi_notebook.session.evaluation import Evaluate, check_evaluate
from fi_notebook.session.events import Events, Listener
from fi_notebook.session.golden import GoldenRun, record_golden
from fi_notebook.session.keeping import Keeping
from fi_notebook.session.planned import Planned
from fi_notebook.session.planning import PlanBook
from fi_notebook.session.replay import Replay
from fi_notebook.session.stage import Stage

if TYPE_CHECKING:
    from fi_notebook.session.figures import Figures
    from fi_notebook.session.trials import Trials
    from fi_notebook.ui.explorer import Explorer
    from fi_notebook.ui.watch import LiveWatch
    from fi_notebook.watching.watching import Sites

__all__ = ["MOST_RUNS", "Session"]

logger = logging.getLogger("fi_notebook")

MOST_RUNS = 10
"""How many replays a session keeps: each holds a row of numbers for every site."""


class Session(Planned):
    """Explores one training step.

    Args:
        step: One step; its number is passed if it has a required positional parameter.
        model: The model that it trains.
        optimizer: Its optimizer, or several; found when they step if left out.
        state: What else a step changes and a replay must put back: schedulers, a
            GradScaler, generators, anything with attributes or ``state_dict``.
        memory: Bytes for the golden outputs that are kept, or ``"auto"``.
        spill: File for golden outputs beyond that, as safetensors; None keeps a sample.
        keep: Sites whose golden outputs are kept whole whatever the memory.
        tolerance: What counts as a difference when an outcome is judged.
        detectors: Parameters of each detector that a replay tries, by name; by default
            every registered one with its own defaults.
        cell_name: Turns a frame's file name into the name of its notebook cell.

    Attributes:
        keep: The sites of ``keep``; more may be added.
        runs: The last `MOST_RUNS` replays; hold on to what ``replay`` gives to keep others.

    Raises:
        TypeError: An argument is not what it should be; says what it is.
        SessionArgumentError: ``memory`` is no number of bytes, or an optimizer is of another
            model.
    """

    def __init__(
        self,
        step: Callable[..., Any],
        *,
        model: nn.Module,
        optimizer: Optimizer | Iterable[Optimizer] | None = None,
        state: Sequence[Any] = (),
        memory: int | str = "auto",
        spill: str | Path | None = None,
        keep: Iterable[Site | str] = (),
        tolerance: Tolerance = DEFAULT,
        detectors: Mapping[str, Mapping[str, Any]] | None = None,
        cell_name: Callable[[str], str | None] | None = None,
    ) -> None:
        """Look at nothing yet; see `trace`."""
        optimizers = _checked(step, model, optimizer)
        setup = Setup(step, model, optimizers, SourceStacks(cell_name), takes_step_number(step))
        self.keep = list(keep)
        path = None if spill is None else Path(spill)
        self._keeping = Keeping(budget_of(memory), memory, path, self.keep)
        if not isinstance(tolerance, Tolerance):
            kind = type(tolerance).__name__
            raise TypeError(f"tolerance is a {kind}; expected fi.Tolerance(relative=1e-5, …)")
        self._tolerance = tolerance
        self._detectors = detectors
        self._events = Events()
        self._stage = Stage(setup, state, self._events)
        super().__init__(PlanBook(self._events))
        self._golden: GoldenRun | None = None
        self.runs: list[Run] = []

    # what there is

    @property
    def model(self) -> nn.Module:
        """The model."""
        return self._stage.setup.model

    @property
    def golden(self) -> Trace | None:
        """The trace of the golden run, or None before there is one."""
        return None if self._golden is None else self._golden.trace

    @property
    def run(self) -> Run | None:
        """The last replay, or None."""
        return self.runs[-1] if self.runs else None

    @property
    def figures(self) -> Figures:
        """The pictures of the widget as plotly figures, for the last replay."""
        from fi_notebook.session.figures import Figures

        return Figures(self)

    def __repr__(self) -> str:
        """How much was traced and armed."""
        traced = "not traced" if self.golden is None else counted(self.golden.call_count, "call")
        return f"<Session of {type(self.model).__name__}: {traced}, {len(self.plan)} armed>"

    def kept(self, site: Site | str) -> torch.Tensor | None:
        """The golden tensor of a site where it was kept; runs nothing, None if it was not.

        Args:
            site: The site, or its text such as ``relu*2:0``.

        Returns:
            The golden tensor, in its own shape, dtype and device, or None.

        Raises:
            SiteError: The text is no site.
        """
        golden = self._golden
        wanted = Site.parse(site) if isinstance(site, str) else site
        return None if golden is None else golden.kept(wanted)

    # what it does

    def trace(self) -> Trace:
        """Run the step once as the golden run, and put everything back.

        Returns:
            The golden run's trace; `session.golden` from now on.

        Raises:
            SessionError: The step made no call or never ran the model, or another run
                of this model is going on.
            Exception: Whatever the step raised; everything is put back first.
        """
        __tracebackhide__ = True  # of a step that raises, its own frames tell why
        return self._traced().trace

    def _traced(self) -> GoldenRun:
        __tracebackhide__ = True
        with self._stage.running("tracing") as snapshot:
            golden = record_golden(self._stage, snapshot, self._keeping)
        self._golden = golden
        self.runs.clear()
        self._events.tell("trace", trace=golden.trace)
        return golden

    def replay(self, steps: int = 1, evaluate: Evaluate | None = None) -> Run:
        """Run golden and faulty from the golden run's snapshot, and compare.

        Args:
            steps: How many steps.
            evaluate: Called with the model after each step of both runs; its metrics
                (a mapping, or one number) are compared.

        Returns:
            The run: injections, comparison, outcome; `session.run` from now on.

        Raises:
            SessionArgumentError: ``steps`` or ``evaluate`` is not what it should be.
            SessionError: The step is not repeatable, or another run is going on.
            SessionCancelled: `cancel` was called.
        """
        check_whole("steps", steps, 1, SessionArgumentError)
        if evaluate is not None:
            check_evaluate(evaluate, self.model)
        golden = self._golden or self._traced()
        with self._stage.running("replaying", golden.snapshot):
            job = Replay(
                self._stage, golden, self.plan, self._keeping, self._tolerance, self._detectors
            )
            run = job.run(steps, evaluate)
        self.runs.append(run)
        del self.runs[:-MOST_RUNS]
        self._events.tell("run", run=run)
        for missed in run.not_injected:
            if not missed.elsewhere:
                who = speaker(job.rank)
                logger.warning("%s%s was not injected: %s", who, missed.fault, missed.reason)
        return run

    def trials(
        self, steps: int = 1, *, full: bool = False, evaluate: Evaluate | None = None
    ) -> Trials:
        """Try many faults on one golden run; plan and `runs` stay as they are.

        Args:
            steps: How many steps each trial replays.
            full: Whether every fault is replayed in full, so that detectors are tried on it.
            evaluate: Called with the model after each step of a full replay.

        Returns:
            What tries faults; see `fi_notebook.session.trials`.

        Raises:
            SessionArgumentError: ``steps`` or ``evaluate`` is not what it should be.
            SessionError: Another run is going on.
        """
        from fi_notebook.session.trials import Trials

        check_whole("steps", steps, 1, SessionArgumentError)
        if evaluate is not None:
            check_evaluate(evaluate, self.model)
        return Trials(
            self._stage,
            self._golden or self._traced(),
            self._keeping,
            self._tolerance,
            steps,
            detectors=self._detectors,
            full=full,
            evaluate=evaluate,
        )

    # faces

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell a listener ``(event, payload)`` of all in `session.events`, until undone.

        Args:
            listener: Called with the event's name and what belongs to it, in the thread of the
                run; one that raises is logged, and the run goes on.

        Returns:
            What ends it.

        Raises:
            TypeError: It cannot be called.
        """
        return self._events.subscribe(listener)

    def read_with(self, make: Callable[[Watch], Observer]) -> Callable[[], None]:
        """Let an observer look at every run from now on; call what is returned to end it.

        Args:
            make: Makes the observer of one run from what names its calls.

        Returns:
            What ends it.
        """
        return added(self._stage.setup.readers, make)

    def cancel(self) -> None:
        """Stop the run that goes on or waits for its turn, from any thread; all is put back."""
        self._events.cancel()

    def explore(self) -> Explorer:
        """The widget; it and this session always agree.

        Asked again, it is another view of the same widget.

        Returns:
            The widget; a snapshot of it is what a page without a kernel shows.
        """
        from fi_notebook.ui.explorer import explorer_of

        return explorer_of(self)

    def watch(self, sites: Sites, **options: Any) -> LiveWatch:
        """Watch tensors, step by step, in every replay and in a training loop of the model.

        The golden run of a replay is the golden band, the faulty one the current run.

        Args:
            sites: What is watched: sites of the trace, or texts such as ``relu*2:0``.
            **options: Further arguments of `fi_notebook.watch`.

        Returns:
            The watch; its figure is shown live.

        Raises:
            SiteError: A site that cannot be read or does not exist; names the nearest.
        """
        from fi_notebook.ui.watch import watch_session

        return watch_session(self, sites, **options)

    def save_html(self, path: str | Path) -> Path:
        """Write the whole exploration as one file that opens offline; traces if need be.

        Args:
            path: The file; one that is there is replaced.

        Returns:
            The path of the file.

        Raises:
            OSError: It cannot be written there.
        """
        from fi_notebook.report.export import save_html

        self._golden = self._golden or self._traced()
        return save_html(self, path)


def _checked(step: object, model: object, optimizer: Any) -> tuple[Optimizer, ...]:
    """The optimizers, where all arguments are what they should be."""
    if not callable(step):
        raise TypeError(f"step is {type(step).__name__}; expected a callable that runs one step")
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is {type(model).__name__}; expected a torch.nn.Module")
    optimizers = optimizers_of(optimizer, " (give schedulers and scalers as state=[…])")
    for each in optimizers:
        _check_owned(each, model)
    return optimizers


def _check_owned(optimizer: Optimizer, model: nn.Module) -> None:
    """Refuse an optimizer of another model, as is left when a model is made anew."""
    mine = {id(parameter) for parameter in model.parameters()}
    held = [p for group in optimizer.param_groups for p in group["params"]]
    if mine and not any(id(parameter) in mine for parameter in held):
        raise SessionArgumentError(
            f"{type(optimizer).__name__} holds no parameter of the model "
            f"({type(model).__name__}); if the model was made anew, make the optimizer anew too"
        )
