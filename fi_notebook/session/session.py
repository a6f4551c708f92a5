"""A session: trace one training step, arm faults, replay from the same state, compare.

    session = Session(step, model=net, optimizer=opt)
    trace = session.trace()                         # the golden run
    session.arm("relu*2:0", "bitflip", elements={"index": [0, 3]}, bit=30)
    run = session.replay()                          # golden and faulty, from one snapshot
    print(run.outcome)

Nothing here changes the model, the optimizer, the gradients or a random number
generator: all are put back bit for bit, also after an exception or a Ctrl-C.

Limits: what the step keeps elsewhere (a data iterator, a closure's variables) is not
put back; such a step is not repeatable, and a replay says where that shows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.optim import Optimizer

from fi_notebook.analysis.tolerance import DEFAULT, Tolerance
from fi_notebook.core.fault import Elements, Fault, FaultPlan
from fi_notebook.core.run import Run
from fi_notebook.core.site import Site, Target
from fi_notebook.core.steps import Steps
from fi_notebook.core.trace import Trace
from fi_notebook.engine.replay import Setup, takes_step_number
from fi_notebook.engine.source import SourceStacks
from fi_notebook.engine.store import budget_of
from fi_notebook.errors import SessionError
from fi_notebook.session.events import Events, Listener
from fi_notebook.session.golden import GoldenRun, record_golden
from fi_notebook.session.keeping import Keeping
from fi_notebook.session.planning import PlanBook
from fi_notebook.session.replay import Evaluate, Replay
from fi_notebook.session.stage import Stage

if TYPE_CHECKING:
    from fi_notebook.session.figures import Figures
    from fi_notebook.session.trials import Trials
    from fi_notebook.ui.explorer import Explorer

__all__ = ["Session"]

logger = logging.getLogger("fi_notebook")


class Session:
    """Explores one training step.

    Args:
        step: One step; its number is passed if it has a required positional parameter.
        model: The model that it trains.
        optimizer: Its optimizer, or several; found when they step if left out.
        state: What else a step changes and a replay must put back: schedulers, a
            GradScaler, generators, anything with attributes or ``state_dict``.
        memory: Bytes for the golden outputs that are kept, or ``"auto"``.
        spill: File for golden outputs beyond that, as safetensors; None keeps a sample.
        watch: Sites whose golden outputs are kept whole whatever the memory.
        tolerance: What counts as a difference when an outcome is judged.
        detectors: Parameters of each detector that a replay tries, by name; by default
            every registered one with its own defaults.
        cell_name: Turns a frame's file name into the name of its notebook cell.

    Raises:
        TypeError: An argument is not what it should be; says what it is.
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
        watch: Iterable[Site | str] = (),
        tolerance: Tolerance = DEFAULT,
        detectors: Mapping[str, Mapping[str, Any]] | None = None,
        cell_name: Callable[[str], str | None] | None = None,
    ) -> None:
        """Look at nothing yet; see `trace`."""
        optimizers = _checked(step, model, optimizer)
        setup = Setup(step, model, optimizers, SourceStacks(cell_name), takes_step_number(step))
        self.watched = list(watch)
        path = None if spill is None else Path(spill)
        self._keeping = Keeping(budget_of(memory), memory, path, self.watched)
        self._tolerance = tolerance
        self._detectors = detectors
        self._events = Events()
        self._stage = Stage(setup, state, self._events)
        self._book = PlanBook(self._events)
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
    def plan(self) -> FaultPlan:
        """The armed faults."""
        return self._book.plan

    @property
    def run(self) -> Run | None:
        """The last replay, or None."""
        return self.runs[-1] if self.runs else None

    @property
    def figures(self) -> Figures:
        """Every picture of the widget as a plotly figure, for the last replay."""
        from fi_notebook.session.figures import Figures

        return Figures(self)

    def __repr__(self) -> str:
        """How much was traced and armed."""
        traced = "not traced" if self.golden is None else f"{self.golden.call_count} calls"
        return f"<Session of {type(self.model).__name__}: {traced}, {len(self.plan)} armed>"

    # what it does

    def trace(self) -> Trace:
        """Run the step once as the golden run, and put everything back.

        Raises:
            SessionError: The step made no call or never ran the model, or another run
                of this model is going on.
            Exception: Whatever the step raised; everything is put back first.
        """
        return self._traced().trace

    def _traced(self) -> GoldenRun:
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

        Raises:
            SessionError: The step is not repeatable, or another run is going on.
            SessionCancelled: `cancel` was called.
        """
        if steps < 1:
            raise SessionError(f"steps is {steps}; expected a number from 1")
        golden = self._golden or self._traced()
        with self._stage.running("replaying"):
            job = Replay(
                self._stage, golden, self.plan, self._keeping, self._tolerance, self._detectors
            )
            run = job.run(steps, evaluate)
        self.runs.append(run)
        self._events.tell("run", run=run)
        for missed in run.not_injected:
            logger.warning("%s was not injected: %s", missed.fault, missed.reason)
        return run

    def trials(self, steps: int = 1) -> Trials:
        """Try many faults on one golden run; plan and `runs` stay as they are."""
        from fi_notebook.session.trials import Trials

        golden = self._golden or self._traced()
        return Trials(self._stage, golden, self._keeping, self._tolerance, steps)

    # the plan

    def arm(
        self,
        site: Site | str,
        model: str,
        /,  # so that a fault model's own parameter may be called ``model``
        *,
        elements: Elements = "all",
        steps: int | str | Iterable[int] | Steps = 0,
        seed: int = 0,
        id: str | None = None,  # noqa: A002  # the plan's own word for a fault's name
        modules: Iterable[str] | None = None,
        code: Iterable[str] = (),
        phases: Iterable[str] = (),
        scope: str = "value",
        micro_batches: int | str | Iterable[int] | Steps | None = None,
        probability: float = 1.0,
        times: int | None = None,
        ranks: int | str | Iterable[int] | Steps | None = None,
        **parameters: Any,
    ) -> Fault:
        """Arm a fault; nothing runs until `replay`.

        Args:
            site: A site of the trace, or text such as ``addmm*3:0`` or ``addmm``.
            model: Name of the fault model, such as ``bitflip``.
            elements: Which elements of the tensor.
            steps: In which steps, counted from 0.
            seed: Seed of the fault's own generator.
            id: Name of the fault in the plan; ``f1``, ``f2``, … if left out.
            modules: Module filter; None is no filter.
            code: Source-line filter such as ``run.py[83]``.
            phases: Phases in which it may strike; empty is all of them.
            scope: ``value`` or ``storage`` (a view's base is written).
            micro_batches: In which outermost forwards of a step; None is all.
            probability: Chance of each firing.
            times: How many times it fires at most; None is no limit.
            ranks: On which ranks; None is all.
            **parameters: Parameters of the fault model.

        Returns:
            The fault as it stands in the plan.

        Raises:
            SiteError: The text cannot be read, or a module or phase does not exist.
            FaultError: The model, a parameter or the elements can never be.

        Warns:
            FaultWarning: The golden run made no such call; it may stay ``not_injected``.
        """
        fault = Fault(
            id=self._book.free_id() if id is None else id,
            target=site.target if isinstance(site, Site) else Target.parse(site),
            model=model,
            parameters=parameters,
            elements=elements,
            steps=Steps.parse(steps),
            seed=seed,
            modules=None if modules is None else tuple(modules),
            code=tuple(code),
            phases=tuple(phases),
            scope=scope,
            micro_batches=None if micro_batches is None else Steps.parse(micro_batches),
            probability=probability,
            times=times,
            ranks=None if ranks is None else Steps.parse(ranks),
        )
        return self.add(fault)

    def add(self, fault: Fault) -> Fault:
        """Add a whole fault to the plan, in place of its namesake; see `arm`."""
        return self._book.add(fault, self.model, self.golden)

    def disarm(self, fault: Fault | str | None = None) -> None:
        """Take one fault out of the plan, or all of them.

        Raises:
            SessionError: The plan holds no such fault.
        """
        plan = self.plan
        kept = replace(plan, faults=()) if fault is None else plan.without(self._book.known(fault))
        self._book.put(kept)

    def set_enabled(self, fault: Fault | str, enabled: bool) -> Fault:
        """Switch a fault of the plan on or off; gives it back as it stands.

        Raises:
            SessionError: The plan holds no such fault.
        """
        changed = replace(self.plan[self._book.known(fault)], enabled=enabled)
        self._book.put(self.plan.with_fault(changed))
        return changed

    def load_plan(self, source: FaultPlan | str | Path | dict[str, Any]) -> FaultPlan:
        """Put a whole plan in place of this one, from a plan, a path or a mapping."""
        return self._book.load(source, self.model)

    def undo(self) -> FaultPlan:
        """Take back the last change of the plan, if there is one."""
        return self._book.undo()

    def redo(self) -> FaultPlan:
        """Do again what was taken back last, if there is any."""
        return self._book.redo()

    # faces

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell a listener ``(event, payload)`` of all in `session.events`, until undone."""
        return self._events.subscribe(listener)

    def cancel(self) -> None:
        """Stop the running trace or replay, from any thread; everything is put back."""
        self._events.stop.set()

    def explore(self) -> Explorer:
        """The widget; it and this session always agree.

        Asked again, it is another view of the same widget.
        """
        from fi_notebook.ui.explorer import explorer_of

        return explorer_of(self)

    def save_html(self, path: str | Path) -> Path:
        """Write the whole exploration as one file that opens offline; traces if need be."""
        from fi_notebook.report.export import save_html

        self._golden = self._golden or self._traced()
        return save_html(self, path)


def _checked(step: object, model: object, optimizer: Any) -> tuple[Optimizer, ...]:
    """The optimizers, where all arguments are what they should be."""
    if not callable(step):
        raise TypeError(f"step is {type(step).__name__}; expected a callable that runs one step")
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is {type(model).__name__}; expected a torch.nn.Module")
    if optimizer is None:
        return ()
    optimizers = tuple(optimizer) if isinstance(optimizer, Iterable) else (optimizer,)
    for each in optimizers:
        if not isinstance(each, Optimizer):
            raise TypeError(
                f"optimizer holds {type(each).__name__}; expected torch optimizers "
                "(give schedulers and scalers as state=[…])"
            )
    return optimizers
