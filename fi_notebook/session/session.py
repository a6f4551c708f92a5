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
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
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
from fi_notebook.engine import arming
from fi_notebook.engine.replay import Setup, run_step, takes_step_number
from fi_notebook.engine.snapshot import Snapshot
from fi_notebook.engine.source import SourceStacks
from fi_notebook.engine.store import SiteKey, ValueStore, default_budget
from fi_notebook.errors import SessionError, did_you_mean
from fi_notebook.session.events import Cancelled, Events, Listener, Progress, SessionCancelled
from fi_notebook.session.exclusive import exclusive
from fi_notebook.session.golden import GoldenRun, record_golden
from fi_notebook.session.replay import Evaluate, Replay

if TYPE_CHECKING:
    from fi_notebook.session.figures import Figures
    from fi_notebook.ui.explorer import Explorer

__all__ = ["FaultWarning", "Session"]

logger = logging.getLogger("fi_notebook")


class FaultWarning(UserWarning):
    """A fault was armed that the golden run gives no occasion to fire."""


class Session:
    """Explores one training step.

    Args:
        step: The callable that is one step; its number is passed if it has a required
            positional parameter. It may return the loss.
        model: The model that it trains.
        optimizer: Its optimizer, or several; found when they step if left out.
        state: What else a step changes and a replay must put back: schedulers, a
            GradScaler, generators, anything with attributes or ``state_dict``.
        memory: Bytes for the golden outputs that are kept, or ``"auto"``.
        tolerance: What counts as a difference when an outcome is judged.
        cell_name: Turns a frame's file name into the name of its notebook cell.

    Raises:
        TypeError: The step is not callable or the model no module.
    """

    def __init__(
        self,
        step: Callable[..., Any],
        *,
        model: nn.Module,
        optimizer: Optimizer | Iterable[Optimizer] | None = None,
        state: Sequence[Any] = (),
        memory: int | str = "auto",
        tolerance: Tolerance = DEFAULT,
        cell_name: Callable[[str], str | None] | None = None,
    ) -> None:
        """Look at nothing yet; see `trace`."""
        optimizers = _optimizers(optimizer)
        _check_arguments(step, model, optimizers)
        self._setup = Setup(
            step, model, optimizers, SourceStacks(cell_name), takes_step_number(step)
        )
        self._state = list(state)
        self._budget = default_budget() if memory == "auto" else int(memory)
        self._tolerance = tolerance
        self._events = Events()
        self._golden: GoldenRun | None = None
        self._plan = FaultPlan()
        self._done: list[FaultPlan] = []
        self._undone: list[FaultPlan] = []
        self.runs: list[Run] = []

    # what there is

    @property
    def model(self) -> nn.Module:
        """The model."""
        return self._setup.model

    @property
    def golden(self) -> Trace | None:
        """The trace of the golden run, or None before there is one."""
        return None if self._golden is None else self._golden.trace

    @property
    def plan(self) -> FaultPlan:
        """The armed faults."""
        return self._plan

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
        """Model, how much was traced, what is armed."""
        traced = "not traced" if self.golden is None else f"{self.golden.call_count} calls"
        return f"<Session of {type(self.model).__name__}: {traced}, {len(self._plan)} armed>"

    # what it does

    def trace(self) -> Trace:
        """Run the step once as the golden run, and put everything back.

        Raises:
            SessionError: The step made no call or never ran the model, or another run
                of this model is going on.
            Exception: Whatever the step raised; everything is put back first.
        """
        with self._running("tracing") as snapshot:
            self._golden = record_golden(
                self._setup,
                snapshot,
                budget=self._budget,
                progress=Progress(self._events, "golden", 1, 0, self._setup.interrupts),
                values=self._value,
            )
            self.runs.clear()
        self._events.tell("trace", trace=self._golden.trace)
        return self._golden.trace

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
        golden = self._golden if self._golden is not None else self._traced()
        with self._running("replaying"):
            job = Replay(
                self._setup, golden, self._plan, self._events, self._budget, self._tolerance
            )
            run = job.run(steps, evaluate)
        self.runs.append(run)
        self._events.tell("run", run=run)
        for missed in run.not_injected:
            logger.warning("%s was not injected: %s", missed.fault, missed.reason)
        return run

    def _traced(self) -> GoldenRun:
        self.trace()
        assert self._golden is not None  # trace() set it or raised
        return self._golden

    @contextmanager
    def _running(self, state: str) -> Iterator[Snapshot]:
        """Hold the model, and put everything back when the block is left, however."""
        with self._setup.interrupts, exclusive(self.model):
            self._events.stop.clear()
            self._events.tell("state", state=state)
            snapshot = Snapshot.take([self.model, *self._setup.optimizers, *self._state])
            try:
                yield snapshot
            except Cancelled:
                raise SessionCancelled("cancelled; everything is as it was before") from None
            except Exception as error:
                self._events.tell("error", error=str(error), traceback=traceback.format_exc())
                raise
            finally:
                snapshot.restore()
                self._events.tell("state", state="idle")

    def _value(self, site: Site) -> Any:
        """The golden tensor of a site: the one that was kept, else from a run up to it."""
        golden = self._golden
        if golden is None:
            raise LookupError("the session was closed")
        index = -1 if site.index is None else site.index
        key: SiteKey = (site.op, site.counted, site.call, site.output, index)
        kept = golden.result.kept.get(key)
        if kept is None or kept.whole is None:
            store = ValueStore(0, always={key})
            with self._running("tracing"):
                golden.snapshot.restore()
                run_step(self._setup, 0, store=store, statistics=False)
            kept = store.kept.get(key)
        if kept is None or kept.whole is None:
            raise LookupError(f"{site} holds no values that can be read")
        return kept.whole.clone()

    # the plan

    def arm(
        self,
        site: Site | str,
        model: str,
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
            id=self._free_id() if id is None else id,
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
        arming.check_filters(fault, self.model)
        if self.golden is not None:
            warning = arming.check_fault(fault, self.golden)
            if warning:
                warnings.warn(f"{fault.id}: {warning}", FaultWarning, stacklevel=3)
            if fault.anchor is None:
                fault = replace(fault, anchor=arming.anchored(fault, self.golden))
        self._change(self._plan.with_fault(fault))
        return fault

    def disarm(self, fault: Fault | str | None = None) -> None:
        """Take one fault out of the plan, or all of them.

        Raises:
            SessionError: The plan holds no such fault.
        """
        if fault is None:
            self._change(replace(self._plan, faults=()))
            return
        self._change(self._plan.without(self._known(fault)))

    def set_enabled(self, fault: Fault | str, enabled: bool) -> Fault:  # a switch
        """Switch a fault of the plan on or off; gives it back as it stands.

        Raises:
            SessionError: The plan holds no such fault.
        """
        changed = replace(self._plan[self._known(fault)], enabled=enabled)
        self._change(self._plan.with_fault(changed))
        return changed

    def load_plan(self, source: FaultPlan | str | Path | dict[str, Any]) -> FaultPlan:
        """Put a whole plan in place of this one, from a plan, a path or a mapping."""
        plan = source if isinstance(source, FaultPlan) else FaultPlan.load(source)
        for fault in plan:
            arming.check_filters(fault, self.model)
        self._change(plan)
        return plan

    def undo(self) -> FaultPlan:
        """Take back the last change of the plan, if there is one."""
        return self._step_back(self._done, self._undone)

    def redo(self) -> FaultPlan:
        """Do again what was taken back last, if there is any."""
        return self._step_back(self._undone, self._done)

    def _step_back(self, source: list[FaultPlan], target: list[FaultPlan]) -> FaultPlan:
        if source:
            target.append(self._plan)
            self._plan = source.pop()
            self._events.tell("plan", plan=self._plan)
        return self._plan

    def _change(self, plan: FaultPlan) -> None:
        self._done.append(self._plan)
        self._undone.clear()
        self._plan = plan
        self._events.tell("plan", plan=plan)

    def _known(self, fault: Fault | str) -> str:
        name = fault.id if isinstance(fault, Fault) else fault
        ids = [known.id for known in self._plan]
        if name not in ids:
            raise SessionError(f"no fault {name!r} is armed{did_you_mean(name, ids)}")
        return name

    def _free_id(self) -> str:
        taken = {fault.id for fault in self._plan}
        return next(f"f{n}" for n in range(1, len(taken) + 2) if f"f{n}" not in taken)

    # faces

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell a listener ``(event, payload)`` of what the session does.

        Returns:
            Call it to be told no more; see `fi_notebook.session.events` for the events.
        """
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
        """Write the whole exploration as one file that opens offline.

        Raises:
            SessionError: Nothing was traced yet.
        """
        from fi_notebook.report.export import save_html

        if self.golden is None:
            raise SessionError("nothing was traced yet; call trace() first")
        return save_html(self, path)


def _optimizers(optimizer: Optimizer | Iterable[Optimizer] | None) -> tuple[Optimizer, ...]:
    if optimizer is None:
        return ()
    return (optimizer,) if isinstance(optimizer, Optimizer) else tuple(optimizer)


def _check_arguments(step: object, model: object, optimizers: Sequence[object]) -> None:
    if not callable(step):
        raise TypeError(f"step is {type(step).__name__}; expected a callable that runs one step")
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is {type(model).__name__}; expected a torch.nn.Module")
    for optimizer in optimizers:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(
                f"optimizer holds {type(optimizer).__name__}; expected torch optimizers "
                "(give schedulers and scalers as state=[…])"
            )
