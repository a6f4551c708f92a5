"""Running one step under observation, and what is taken from it.

    result = run_step(setup, 0, store=ValueStore(budget))      # golden
    result = run_step(setup, 0, golden=result.kept, plan=plan) # faulty

Nothing is put back here: a session takes a `Snapshot` before and restores it after.
Hooks, the mode, the compiler's stance and the settings of torch are undone in
``finally``, whatever the step raised.
"""

from __future__ import annotations

import inspect
import logging
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils._python_dispatch import _disable_current_modes

from fi_notebook.core.fault import Fault
from fi_notebook.core.injection import Injection, NotInjected
from fi_notebook.core.run import StepRecord
from fi_notebook.engine.compiled import ABOUT_HOOKS
from fi_notebook.engine.entered import Entered
from fi_notebook.engine.inject import Striker
from fi_notebook.engine.intercept import Call, Interceptor, Observer, Watch
from fi_notebook.engine.interrupts import Interrupts
from fi_notebook.engine.losses import loss_of, number_of, total
from fi_notebook.engine.memory import Memory
from fi_notebook.engine.source import SourceStacks
from fi_notebook.engine.stats import euclidean_norm
from fi_notebook.engine.steps import StepClock
from fi_notebook.engine.storages import is_readable, tensors_in
from fi_notebook.engine.store import Kept, SiteKey, ValueStore
from fi_notebook.engine.surroundings import Surroundings
from fi_notebook.engine.tracer import Recorder
from fi_notebook.engine.training_state import TrainingState

__all__ = [
    "Gradients",
    "Setup",
    "StepResult",
    "observed",
    "run_step",
    "takes_step_number",
]

_STEP_NUMBERS = ("i", "n", "it", "step", "number", "iteration", "index", "batch")
"""What people call the number of a step."""

logger = logging.getLogger("fi_notebook")


@dataclass(frozen=True)
class Setup:
    """What a session runs.

    Attributes:
        step: The callable that is one training step.
        model: The model.
        optimizers: Its optimizers, where they are known.
        sources: Source stacks, shared by all runs of the session.
        pass_number: Whether the step takes its number.
        interrupts: What becomes of a Ctrl-C outside the step itself.
        readers: What makes further observers of a run, who only look and come last.
    """

    step: Callable[..., Any]
    model: nn.Module
    optimizers: tuple[Optimizer, ...]
    sources: SourceStacks
    pass_number: bool
    interrupts: Interrupts = field(default_factory=Interrupts)
    readers: list[Callable[[Watch], Observer]] = field(default_factory=list)


@dataclass(eq=False)
class StepResult:
    """What was seen of one run of a step.

    Attributes:
        recorder: The calls as they were written down.
        loss: The loss, or None where none was found.
        summed: Of how many backward calls the loss is the sum; 0 where it was returned.
        returned: Copies of the tensors that a step without a loss returned.
        gradients: Gradients as they were when their optimizer's update began, by parameter.
        state: What training keeps, after the step; None where the step raised.
        injections: Every strike.
        not_injected: Why each fault that never struck did not.
        kept: What was kept of the outputs.
        error: The exception that the step raised, or None.
        forwards: How many outermost training forwards it made.
        remembered: What struck sites held, for the steps to come.
        memory: How much was kept of the outputs, in plain numbers.
    """

    recorder: Recorder
    loss: torch.Tensor | None = None
    summed: int = 0
    returned: tuple[torch.Tensor, ...] = ()
    gradients: dict[str, torch.Tensor] = field(default_factory=dict)
    state: TrainingState | None = None
    injections: tuple[Injection, ...] = ()
    not_injected: tuple[NotInjected, ...] = ()
    kept: Mapping[SiteKey, Kept] = field(default_factory=dict)
    error: Exception | None = None
    forwards: int = 0
    remembered: Memory | None = None
    memory: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def gradient_norm(self) -> float:
        """Euclidean norm of all gradients; asked for when they are all there."""
        return euclidean_norm(list(self.gradients.values()))

    @property
    def shown_loss(self) -> float | None:
        """The loss as a number; None where none was found."""
        return None if self.loss is None else number_of(self.loss)

    def shrink(self, *, parameters: bool) -> None:
        """Let go of what is asked of the compared and the last step only.

        Args:
            parameters: Whether the parameters stay, for the distance of each step.
        """
        kept = self.state.parameters if parameters and self.state is not None else None
        self.state = None if kept is None else TrainingState(kept, {}, {})
        self.gradients, self.kept, self.returned = {}, {}, ()
        self.recorder.forget()

    @_disable_current_modes()  # a person's mode around the session sees the step alone
    def record(self, step: int) -> StepRecord:
        """What the step did to training."""
        loss = self.shown_loss
        return StepRecord(
            step=step,
            loss=math.nan if loss is None else loss,
            gradient_norm=self.gradient_norm,
            parameter_norm=math.nan if self.state is None else self.state.parameter_norm,
        )


def takes_step_number(step: Callable[..., Any]) -> bool:
    """Whether a step callable has a required positional parameter, for its number.

    One that begins as ``def step(i=0)`` is not given it, and a warning says so; ``verbose=0`` is
    no number of a step.

    Raises:
        TypeError: It has several, or one that is not positional.
    """
    try:
        parameters = inspect.signature(step).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    required = [
        p for p in parameters if p.default is inspect.Parameter.empty and p.kind not in variable
    ]
    if len(required) > 1 or any(p.kind is inspect.Parameter.KEYWORD_ONLY for p in required):
        raise TypeError(
            f"step takes {', '.join(p.name for p in required)}; expected a callable that takes "
            "nothing, or the number of the step"
        )
    first = next(iter(parameters), None)
    if not required and first is not None and _counts_steps(first):
        logger.warning(
            "step(%s=0) is not given its number, which would be 0 in every step; "
            "write step(%s) where it is to be",
            *(first.name, first.name),
        )
    return bool(required)


def _counts_steps(parameter: inspect.Parameter) -> bool:
    """Whether a parameter looks like the number of the step, from 0."""
    is_zero = type(parameter.default) is int and parameter.default == 0
    return is_zero and parameter.name in _STEP_NUMBERS


def run_step(
    setup: Setup,
    number: int,
    *,
    plan: Sequence[Fault] = (),
    store: ValueStore | None = None,
    golden: Mapping[SiteKey, Kept] | None = None,
    statistics: bool = True,
    ends: bool = True,
    rank: int = 0,
    progress: Callable[[Call], None] | None = None,
    optimizer_begins: Callable[[Optimizer], None] | None = None,
    fired_before: Mapping[str, int] | None = None,
    remembered: Memory | None = None,
    inference: bool = False,
) -> StepResult:
    """Run one step under observation.

    Args:
        setup: What is run.
        number: Number of the step, from 0.
        plan: Faults to strike with.
        store: Where outputs are kept.
        golden: What was kept of the golden run, to measure against.
        statistics: Whether outputs are summarised.
        ends: Whether gradients, and what training keeps after the step, are copied.
        rank: Rank of this process.
        progress: Called before each call.
        optimizer_begins: Called before each step of an optimizer.
        fired_before: How many times each fault fired in earlier steps of the run.
        remembered: What struck sites held in earlier steps of the run.
        inference: Whether the step is known to have no training forward, so that stored
            tensors are struck before its first one.

    Returns:
        What was seen. An exception of the step is in ``error``; what is no `Exception`
        (a Ctrl-C, a cancelled run) is raised.

    Raises:
        Exception: Whatever an observer or a fault model of a person's own raised.
    """
    __tracebackhide__ = True
    clock = StepClock(setup.model, start_step=number, one_step=True)
    clock.optimizers += setup.optimizers
    watch = Watch(setup.model, clock, setup.sources)
    watch.inference = inference
    recorder = Recorder(watch, store=store, golden=golden, statistics=statistics, progress=progress)
    striker = Striker(plan, watch, rank=rank, keep_tensors=True, memory=remembered)
    striker.count(fired_before or {})
    result = StepResult(recorder, remembered=striker.memory)
    gradients = Gradients(setup.model)
    watch.optimizer_begins += [optimizer_begins] if optimizer_begins else []
    watch.update_begins += [gradients.take_of] if ends else []
    observers: list[Observer] = [striker, recorder] if plan else [recorder]
    observers += [read(watch) for read in setup.readers]
    mode = Interceptor(watch, observers)
    try:
        returned = observed(setup, number, mode)
        with _disable_current_modes():
            _take_loss(result, returned)
            if ends:
                result.returned = () if result.loss is not None else _copies(returned)
                gradients.take_rest(made=watch.had_backward)
            striker.stored.undo()
            if ends:
                result.state = TrainingState.take(setup.model, clock.optimizers)
    except Exception as error:  # noqa: BLE001  # whatever a step raises is its result
        result.error = error
        result.loss = total(recorder.roots.items)
    if mode.failure is not None:  # ours, or of a person's fault: no outcome of the step
        raise mode.failure
    recorder.finish()
    result.gradients = gradients.taken
    result.forwards = clock.micro_batch + 1
    result.injections, result.not_injected = tuple(striker.injections), striker.not_injected()
    result.kept = {} if store is None else store.kept
    return result


def observed(setup: Setup, number: int, mode: Interceptor) -> Any:
    """Run the step with every hook on, and off again whatever happens."""
    __tracebackhide__ = True
    surroundings = Surroundings.take()
    torch.clear_autocast_cache()  # around a session it would carry casts from run to run
    mode.watch.install()
    try:
        entered = Entered(mode)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ABOUT_HOOKS)
                return run_user_step(setup, number)
        finally:
            entered.leave()
    finally:
        mode.watch.remove()
        torch.clear_autocast_cache()
        surroundings.restore()


def run_user_step(setup: Setup, number: int) -> Any:
    """Call the step; source stacks end at this function (see `engine.source`)."""
    __tracebackhide__ = True  # of a step that raises, its own frames tell why
    with setup.interrupts.let_through():
        return setup.step(number) if setup.pass_number else setup.step()


def _take_loss(result: StepResult, returned: Any) -> None:
    """The loss that was returned, else the sum of what backward was called of."""
    loss, roots = loss_of(returned), result.recorder.roots.items
    result.loss = total(roots) if loss is None else loss.clone().reshape(())
    result.summed = len(roots) if loss is None else 0


def _copies(returned: Any) -> tuple[torch.Tensor, ...]:
    """Every tensor that was returned, written out; none where one of them holds no values."""
    found = [_written_out(tensor.detach()) for tensor in tensors_in((returned,))]
    return tuple(found) if all(is_readable(tensor) for tensor in found) else ()


def _written_out(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with strides: of a sparse, quantized or nested tensor its values."""
    if tensor.is_quantized:
        return tensor.dequantize()
    if tensor.is_nested:
        parts = [part.reshape(-1) for part in tensor.unbind()]
        return torch.cat(parts) if parts else torch.zeros(0)
    return tensor.clone() if tensor.layout == torch.strided else tensor.to_dense()


class Gradients:
    """Gradients as they are when the optimizer that owns them is about to read them.

    Args:
        model: The model.
        take: Called with the name and the gradient of each parameter, once.
    """

    def __init__(
        self, model: nn.Module, take: Callable[[str, torch.Tensor], None] | None = None
    ) -> None:
        """Take nothing yet."""
        self._parameters = dict(model.named_parameters())
        self._names = {id(p): name for name, p in self._parameters.items()}
        self._seen: set[str] = set()
        self._keep = self._copy if take is None else take
        self.taken: dict[str, torch.Tensor] = {}

    def take_of(self, optimizer: Optimizer) -> None:
        """Take those of an optimizer whose update begins."""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._take(self._names.get(id(parameter)), parameter)

    def take_rest(self, *, made: bool) -> None:
        """Take those that no optimizer stepped with, if the step made any: else they are older."""
        if not made:
            return
        for name, parameter in self._parameters.items():
            self._take(name, parameter)

    def _take(self, name: str | None, parameter: torch.Tensor) -> None:
        if name is not None and name not in self._seen and parameter.grad is not None:
            self._seen.add(name)
            with _disable_current_modes():  # our copies are no calls of the step
                self._keep(name, parameter.grad)

    def _copy(self, name: str, gradient: torch.Tensor) -> None:
        self.taken[name] = gradient.detach().clone()
