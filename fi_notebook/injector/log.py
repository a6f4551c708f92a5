"""What an injector says while it trains, in the seed's words.

    current step 0. Restart counting
    forward start
    layer.layers.6*step0*addmm*4
    forward ended. Expecting to forward loss function
    loss function*step0*nll_loss_forward*1
    output is tuple, types are Tensor|Tensor
    loss function*step0*nll_loss_backward*1
    backward start

Calls in the plan's modules, lines and phases are logged in the steps that it lists;
calls of the loss function always. Ignored operators are counted and not logged. Everything goes
to the logger ``fi_notebook``, which the package never configures. Where there are several ranks,
all lines but those of calls begin with ``rank 1: ``.
"""

from __future__ import annotations

import logging
from typing import Any

from fi_notebook.core.fault import FaultPlan
from fi_notebook.core.match import CodeFilter
from fi_notebook.core.site import ALL_PARAMETERS, PHASES, Frame, module_text
from fi_notebook.engine.filters import ModuleFilter
from fi_notebook.engine.intercept import FOLDED, Call, Watch
from fi_notebook.engine.outputs import outputs

__all__ = ["DEFAULT_IGNORED", "CallLog"]

logger = logging.getLogger("fi_notebook")

DEFAULT_IGNORED = FOLDED | {
    "_unsafe_view",
    "arange",
    "as_strided",
    "clone",
    "expand",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "slice",
    "split",
    "unsqueeze",
    "squeeze",
    "view",
    "zeros",
    "zeros_like",
}
"""Operators that are not logged unless a target names them: bookkeeping, views of the
same values, and factories."""

_ANNOUNCED = {
    "forward": "forward start",
    "loss": "forward ended. Expecting to forward loss function",
    "backward": "backward start",
    "recompute": "recompute start",
    "optimizer": "optimizer start",
}


class CallLog:
    """The observer that logs calls in scope.

    Args:
        plan: What the plan says of logging.
        watch: What names the calls.
        verbosity: ``quiet`` (injections only), ``normal``, or ``verbose`` (with shapes
            and source lines).
    """

    def __init__(self, plan: FaultPlan, watch: Watch, verbosity: str) -> None:
        """Resolve modules, lines and steps."""
        self._plan = plan
        self._watch = watch
        self._quiet = verbosity == "quiet"
        self._verbose = verbosity == "verbose"
        self._modules = ModuleFilter(self._patterns(), watch)
        self._phases = frozenset(PHASES.index(phase) for phase in plan.phases or PHASES)
        self._code = tuple(CodeFilter.parse(text) for text in plan.code)
        named = {fault.target.op for fault in plan}
        ignored = DEFAULT_IGNORED if plan.ignore is None else frozenset(plan.ignore)
        self._ignored = ignored - named
        self._silent = True
        self._told_structure = False
        self._phase = ""
        self._told: set[Frame] = set()
        self._stacks: dict[int, Frame | None] = {}
        self._who = ""

    def lists(self, step: int) -> bool:
        """Whether the calls of a step are logged."""
        steps = self._plan.log_steps
        return steps is not None and step in steps

    def begin_step(self, step: int, *, listed: bool, who: str = "") -> None:
        """A step begins; its calls are logged if the plan lists it.

        Args:
            step: Its number.
            listed: Whether the plan lists it.
            who: What the lines between those of calls begin with; see `engine.world.speaker`.
        """
        self._who = who
        self._phase = ""
        self._told.clear()
        self._silent = self._quiet or not listed
        if self._silent:
            return
        self._say("current step %d. Restart counting", step)
        if not self._told_structure:
            self._told_structure = True
            self._say("starting")
            self._say("----------module names of the model----------")
            for name in sorted(filter(None, self._watch.table.names)):
                self._say("%s", name)

    def before(self, call: Call) -> None:
        """Announce a new phase, before the first of its calls."""
        if self._silent or not call.counted:
            return
        phase, of_loss = PHASES[call.phase], call.module == self._watch.table.loss
        if phase in (self._phase, "other") or (call.phase not in self._phases and not of_loss):
            return
        if phase == "backward" and of_loss:
            return  # the loss function's own; the model's backward begins after it
        self._phase = phase
        self._say("%s", _ANNOUNCED[phase])

    def after(self, call: Call, result: Any) -> Any:
        """Log a call that is in scope."""
        if self._silent or not call.counted or call.op in self._ignored or not self._modules:
            return result
        line = self._line_of(call)
        if call.module != self._watch.table.loss and not self._is_in_scope(call, line):
            return result
        if line is not None and line not in self._told:
            self._told.add(line)
            self._say('Injecting to "%s", line %d', line.file, line.line)
        logger.info("%s*step%d*%s*%d", self._name(call), call.step, call.op, call.number)
        self._describe(call, result)
        return result

    def _say(self, text: str, *values: object) -> None:
        logger.info("%s%s", self._who, text % values)

    def _is_in_scope(self, call: Call, line: Frame | None) -> bool:
        if call.phase not in self._phases or (self._code and line is None):
            return False
        return self._modules.chooses(call)

    def _describe(self, call: Call, result: Any) -> None:
        if isinstance(result, (tuple, list)) and len(result) > 1:
            kinds = "|".join(type(item).__name__ for item in result)
            logger.info("output is %s, types are %s", type(result).__name__, kinds)
        if self._verbose:
            found = outputs(call.func, call.args, call.kwargs, result)
            shapes = ", ".join(f"{o.tensor.dtype} {tuple(o.tensor.shape)}" for o in found)
            frames = self._watch.sources.frames(
                call.stack if call.cause is None else call.cause.stack
            )
            logger.info("  %s at %s", shapes, frames[0].label if frames else "no source line")

    def _name(self, call: Call) -> str:
        if call.parameter == ALL_PARAMETERS:
            return "(several parameters)"
        if call.parameter and PHASES[call.phase] == "optimizer":
            return call.parameter
        return module_text(self._watch.table.infos[call.module].path)

    def _line_of(self, call: Call) -> Frame | None:
        """The line of the plan that a call comes from, or None."""
        if not self._code:
            return None
        causes = () if call.cause is None else call.cause.stacks
        return next(filter(None, map(self._line_of_stack, (call.stack, *causes))), None)

    def _line_of_stack(self, stack: int) -> Frame | None:
        if stack not in self._stacks:
            frames = self._watch.sources.frames(stack)
            found = (frame for frame in frames if any(c.matches((frame,)) for c in self._code))
            self._stacks[stack] = next(found, None)
        return self._stacks[stack]

    def _patterns(self) -> tuple[str, ...] | None:
        """Module filters of the log: the plan's own, else those of its faults."""
        if self._plan.modules is not None:
            return self._plan.modules
        filters = [fault.modules for fault in self._plan]
        if not filters or None in filters:
            return None
        return tuple(pattern for modules in filters for pattern in modules or ())
