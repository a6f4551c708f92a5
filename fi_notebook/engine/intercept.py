"""The one dispatch mode: it names every call and hands it to observers.

    forward   layer.0   addmm*3    run.py:83
    backward  layer.0   mm*5       run.py:83, run.py:90   (the line that caused it first)
    optimizer layer.0   mul_*2     run.py:92, parameter layer.0.weight

Tracing and injecting are observers of this mode, ``before(call)`` and
``after(call, result)``, so that they can never disagree about which call is which.

Limits: the mode sees the calls of the thread it is entered on (and autograd's own
threads for it); a compiled function runs eagerly while it is on (``force_eager``).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from fi_notebook.core.site import PHASES, qualified
from fi_notebook.core.valueless import UNWRITTEN
from fi_notebook.engine.lineage import Origin, is_accumulation
from fi_notebook.engine.outputs import schema_of
from fi_notebook.engine.watch import Watch

__all__ = ["FOLDED", "Call", "Interceptor", "Observer", "Watch", "hands_down"]

FORWARD, LOSS, BACKWARD, RECOMPUTE, OPTIMIZER, OTHER = range(6)  # rows of PHASES

FOLDED = UNWRITTEN | frozenset(
    {
        "detach",
        "alias",
        "lift_fresh",
        "profiler::_record_function_enter",
        "profiler::_record_function_enter_new",
        "profiler::_record_function_exit",
        "_local_scalar_dense",
        "is_same_size",
        "set_",
    }
)
"""Calls that are counted but folded away by default: bookkeeping and bare memory."""


class Call:
    """One call while it is being made.

    Attributes:
        func: The operator overload.
        args: Positional arguments.
        kwargs: Keyword arguments.
        op: Operator packet, with its namespace unless that is aten.
        overload: Name of the overload.
        row: Position in the stream of calls, from 0.
        step: Number of the step.
        number: Call number within the step, from 1, per packet.
        counted: Whether it takes a number of the step (else ``other/…``).
        phase: Row of its phase in ``PHASES``.
        module: Row of its module in the module table.
        module_call: Which call of that module, from 1; 0 where there is none.
        ordinal: Which call of this operator inside (phase, module call), from 1.
        stack: Number of its own source stack.
        cause: The call that made the autograd node that runs, or None.
        parameter: Parameter that it works on, ``*``, or ``""``.
        micro_batch: Which outermost forward of the step, from 0; -1 before it.
        ambiguous: Whether its cause may be a call of another thread.
    """

    __slots__ = (
        "ambiguous",
        "args",
        "cause",
        "counted",
        "func",
        "kwargs",
        "micro_batch",
        "module",
        "module_call",
        "number",
        "op",
        "ordinal",
        "overload",
        "parameter",
        "phase",
        "row",
        "stack",
        "step",
    )

    func: Any
    args: Sequence[Any]
    kwargs: dict[str, Any]
    op: str
    overload: str
    row: int
    step: int
    number: int
    counted: bool
    phase: int
    module: int
    module_call: int
    ordinal: int
    stack: int
    cause: Origin | None
    parameter: str
    micro_batch: int
    ambiguous: bool

    def __repr__(self) -> str:
        """Its name in the step, and where it is; not its arguments."""
        name = f"{'' if self.counted else 'other/'}{self.op}*{self.number}"
        return f"<Call {name}: {PHASES[self.phase]}, step {self.step}>"


class Observer(Protocol):
    """What is told of every call."""

    def before(self, call: Call) -> None:
        """The call is about to be made."""

    def after(self, call: Call, result: Any) -> Any:
        """The call was made; what is returned stands in its result's place."""


class _Facts(NamedTuple):
    """What is the same for every call of an operator overload; holds it, so its id stays."""

    func: Any
    op: str
    overload: str
    in_place: bool


class Interceptor(TorchDispatchMode):
    """The dispatch mode that names calls and tells observers.

    Args:
        watch: What names them.
        observers: Who is told, in order; each may replace the result.
    """

    supports_higher_order_operators = True

    def __init__(self, watch: Watch, observers: Sequence[Observer]) -> None:
        """Enter nothing yet."""
        super().__init__()
        self.watch = watch
        self.observers = list(observers)
        self.failure: Exception | None = None  # of an observer, which is no failure of the step
        self.off = False  # whether calls pass through unseen, though the mode is on the stack
        self.row = 0
        self._facts: dict[int, _Facts] = {}

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether the mode belongs to torch itself; ours does not."""
        return False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Whether each call is to be shielded from compilation; `Entered` sees to that."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Name the call, make it, and tell the observers before and after."""
        __tracebackhide__ = True  # of a call that raises, it is no line of anybody's
        if self.off:
            return func(*args, **(kwargs or {}))
        call = self.name(func, args, kwargs or {})
        if torch._C._len_torch_dispatch_stack() == 0:
            self._before(call)
            return self._after(call, func(*call.args, **call.kwargs))
        with _disable_current_modes():  # what observers do is not for other modes to see
            self._before(call)
        result = func(*call.args, **call.kwargs)
        with _disable_current_modes():
            return self._after(call, result)

    def _before(self, call: Call) -> None:
        try:
            for observer in self.observers:
                observer.before(call)
        except Exception as error:
            self.failure = error
            raise

    def _after(self, call: Call, result: Any) -> Any:
        if self.off:  # since this call began
            return result
        try:
            for observer in self.observers:
                result = observer.after(call, result)
        except Exception as error:
            self.failure = error
            raise
        return result

    def name(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Call:
        """Everything that is known of a call before it is made."""
        watch = self.watch
        call = Call()
        call.func, call.args, call.kwargs = func, args, kwargs
        facts = self._facts.get(id(func)) or self._learn(func)
        call.op, call.overload = facts.op, facts.overload
        call.row, self.row = self.row, self.row + 1
        call.step, call.micro_batch = watch.clock.step, watch.clock.micro_batch
        call.stack = watch.sources.capture(3)
        self._place(call)
        key = (call.op, call.counted)
        call.number = watch.numbers[key] = watch.numbers[key] + 1
        inside = (call.phase, call.module, call.module_call, call.op, call.counted)
        call.ordinal = watch.ordinals[inside] = watch.ordinals[inside] + 1
        stacks = (call.stack,) if call.cause is None else (call.stack, *call.cause.stacks)
        place = (call.row, call.op, call.module, call.module_call, stacks, facts.in_place)
        watch.lineage.record(threading.get_ident(), Origin._make(place))
        return call

    def _learn(self, func: Any) -> _Facts:
        """What is the same for every call of an operator; kept by id, as hashing is slow."""
        facts = self._facts[id(func)] = _Facts(func, *_names(func), bool(schema_of(func).written))
        return facts

    def _place(self, call: Call) -> None:
        """Phase, module, cause and parameter of a call."""
        watch = self.watch
        scope, node = watch.scope.top, torch._C._current_autograd_node()
        call.cause, call.ambiguous, call.parameter = None, False, ""
        call.counted = watch.clock.begun if scope is None else scope.counted
        if scope is not None and node is scope.node:
            call.phase = OTHER if not scope.counted else FORWARD if node is None else RECOMPUTE
            if node is None and (watch.sources.asking_for_gradients or _ends_backward()):
                call.phase = BACKWARD
            if call.phase == RECOMPUTE and watch.sources.recomputing:
                self._place_recompute(call, node)
            call.module, call.module_call = scope.module, scope.number
        elif watch.clock.in_optimizer:
            self._place_optimizer(call)
        elif node is not None:
            self._place_backward(call, node)
        elif _ends_backward():
            self._place_end_of_backward(call)
        else:
            self._place_outside(call)

    def _place_optimizer(self, call: Call) -> None:
        call.phase = OPTIMIZER
        self._place_by_parameter(call)

    def _place_by_parameter(self, call: Call) -> None:
        watch = self.watch
        if watch.parameters.stale:
            watch.parameters.refresh(watch.clock.optimizers)
        call.parameter = watch.parameters.of_call(call.args, call.kwargs)
        if not call.parameter and watch.parameters.grown(watch.clock.optimizers):
            watch.parameters.refresh(watch.clock.optimizers)  # state was made since
            call.parameter = watch.parameters.of_call(call.args, call.kwargs)
        owner = watch.parameters.parameters.get(call.parameter)
        call.module, call.module_call = watch.table.owner(owner), 0

    def _place_backward(self, call: Call, node: Any) -> None:
        watch = self.watch
        call.phase = RECOMPUTE if watch.sources.recomputing else BACKWARD
        watch.parameters.stale = watch.after_backward = watch.had_backward = True
        call.cause, call.ambiguous = watch.lineage.cause(threading.get_ident(), node)
        if is_accumulation(node):
            call.parameter = watch.parameters.name(node.variable)
        if call.parameter:
            call.module, call.module_call = watch.table.owner(node.variable), 0
        elif call.cause is None:
            call.module, call.module_call = watch.table.outside, 0
        else:
            of = call.cause
            if call.phase == RECOMPUTE:
                of = self._made_before(call, node, call.cause) or call.cause
            call.module, call.module_call = of.module, of.module_call
        if call.phase == RECOMPUTE and watch.sources.recompute_lines:
            call.cause = None  # its own lines say more
        if call.module == watch.table.outside and watch.clock.done:
            call.phase = OTHER  # another model's, which trains beside this one

    def _made_before(self, call: Call, node: Any, cause: Origin) -> Origin | None:
        """The call of the forward that a recompute outside any module that it entered repeats.

        It was made where the checkpoint was: in a module call around that of the cause.
        """
        sources, stack = self.watch.sources, call.stack
        around = self.watch.scope.enclosing(cause.module, cause.module_call)
        places = [(call.op, *module_call) for module_call in around]

        def same(origin: Origin) -> bool:
            return sources.agree(origin.stack, stack, sources.recompute_lines)

        return self.watch.lineage.made_before(node, cause, places, same)

    def _place_end_of_backward(self, call: Call) -> None:
        """What a backward does when all its nodes have run, as the last scatter of FSDP2."""
        watch = self.watch
        watch.parameters.stale = watch.after_backward = watch.had_backward = True
        call.phase = OTHER if watch.clock.done else BACKWARD
        call.module = watch.table.outside if watch.clock.done else watch.table.root
        call.module_call = 0

    def _place_recompute(self, call: Call, node: Any) -> None:
        """A recompute without a line of its own has those of the call whose node runs."""
        sources = self.watch.sources
        if not sources.recompute_lines:
            call.cause, call.ambiguous = self.watch.lineage.cause(threading.get_ident(), node)

    def _place_outside(self, call: Call) -> None:
        watch = self.watch
        call.module, call.module_call = watch.table.outside, 0
        call.phase = OTHER
        if not watch.clock.begun:
            return
        if watch.clock.done:  # what has a loss of its own by now is another model
            self._place_by_parameter(call)
        elif watch.sources.asking_for_gradients:
            call.phase, call.module = BACKWARD, watch.table.loss
        elif watch.after_forward and (
            not watch.after_backward or watch.lineage.made_node(threading.get_ident())
        ):
            call.phase, call.module = LOSS, watch.table.loss
        else:
            self._place_by_parameter(call)


def hands_down(call: Call, watch: Watch) -> bool:
    """Whether what a call makes of a parameter belongs to it.

    In the optimizer, and outside the model until the update is done: then a copy of the weights,
    or an average of them, is another model.
    """
    return call.phase == OPTIMIZER or (call.phase == OTHER and not watch.clock.done)


def _ends_backward() -> bool:
    """Whether a backward is running; asked where none of its nodes is: at its end."""
    return torch._C._current_graph_task_id() >= 0


@lru_cache(maxsize=8192)
def _names(func: Any) -> tuple[str, str]:
    """Operator packet and overload name."""
    packet = getattr(func, "overloadpacket", None)
    if packet is None:  # a higher-order operator
        return qualified("higher_order", str(func.name() if callable(func.name) else func)), ""
    namespace, _, name = packet._qualified_op_name.partition("::")
    return qualified(namespace, name), func._overloadname
