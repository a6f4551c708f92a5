"""Whether a fault chooses a call: target, filters, trigger and anchor, resolved once.

    aim = Aim(fault, watch)
    aim.at(call)            # this call, in this step?
    aim.reason()            # why it never struck: "asked for call 7 of relu, 3 were made"

What a call is was settled before (see `engine.intercept`); nothing here looks at values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fi_notebook import faults
from fi_notebook.core.chosen import takes_late
from fi_notebook.core.fault import Fault
from fi_notebook.core.injection import NotInjected
from fi_notebook.core.match import CodeFilter, module_hint, unwrapped
from fi_notebook.core.site import PHASES, Target
from fi_notebook.core.unfit import Asked
from fi_notebook.core.words import agreed, counted, too_few
from fi_notebook.engine.collectives import is_collective, qualified_operator
from fi_notebook.engine.considered import Considered
from fi_notebook.engine.filters import ModuleFilter
from fi_notebook.engine.intercept import OPTIMIZER, OTHER, Call, Watch
from fi_notebook.engine.operators import uncalled
from fi_notebook.engine.outputs import Output
from fi_notebook.engine.storages import local_part
from fi_notebook.engine.world import world_size

__all__ = ["LATE", "Aim"]

LATE = (
    "made after the update and reads no parameter, so it may be of the next step; ask for it by "
    "its number, or with phases=['other']"
)
"""Why a call that a fault names by its operator alone is passed over."""

_WITHIN = "; those that DTensor makes within its own operators are not seen"
"""Of a collective that was not seen, where the model holds DTensors."""

_UNCOUNTED = "what comes before a step's first training forward takes no such number here"
"""Of ``other/…`` in a training loop, where that is the end of the step before."""


@dataclass
class Aim:
    """One fault, aimed at the calls of one model.

    Attributes:
        fault: The fault.
        watch: What names the calls.
        rank: Rank of this process.
        fired: How many times it fired.
        waiting: How many more times it will, as soon as a call takes what it strikes.
        reached: Highest number that a call of its operator had in a due step.
        first_step: The step at which training begins, or is resumed.
        last_step: The last step that was seen, -1 before the first.
        otherwise: How many calls of its operator took a number where it asks for none, or none.
        stepped: How many optimizers stepped, where it is at a gradient or state.
        refusal: Why it did not fire where it was due, or ``""``.
        elsewhere: Whether it strikes what another rank gives to a collective.
        last_output: The last output of a chosen call that it did not choose, or ``""``.
        op: The operator that it is at; ``c10d::`` may be left out of a target.
        needs: What its fault model needs.
        of_ranks: Whether its fault model is of the ranks of a collective.
    """

    fault: Fault
    watch: Watch
    rank: int = 0
    fired: int = 0
    waiting: int = 0
    reached: int = 0
    first_step: int = 0
    last_step: int = -1
    otherwise: int = 0
    stepped: int = 0
    refusal: str = ""
    elsewhere: bool = False
    last_output: str = ""
    op: str = ""
    needs: tuple[str, ...] = ()
    of_ranks: bool = False
    _where: ModuleFilter = field(init=False, repr=False)
    _phases: frozenset[int] = frozenset(range(len(PHASES)))
    _code: tuple[CodeFilter, ...] = ()
    _stacks: dict[int, bool] = field(default_factory=dict)
    _considered: Considered = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Resolve the filters."""
        fault = self.fault
        self.op = qualified_operator(fault.target.op) if fault.target.kind == "call" else ""
        self.needs = faults.get(fault.model).needs
        self.of_ranks = "collective" in self.needs
        self._where = ModuleFilter(fault.modules, self.watch)
        self._considered = Considered(self.watch, self._where)
        if fault.phases:
            self._phases = frozenset(PHASES.index(phase) for phase in fault.phases)
        self._code = tuple(CodeFilter.parse(text) for text in fault.code)

    @property
    def is_of_this_rank(self) -> bool:
        """Whether its filter of ranks chooses this one."""
        return self.fault.is_for(self.rank)

    @property
    def armed(self) -> bool:
        """Whether it may still fire on this rank."""
        fault = self.fault
        left = fault.times is None or self.fired + self.waiting < fault.times
        return fault.enabled and self.is_of_this_rank and left

    def due(self, step: int) -> bool:
        """Whether it strikes in a step at all."""
        return self.armed and step in self.fault.steps

    def looks(self, step: int) -> bool:
        """Whether it must see a step: it strikes there, or learns what the next one needs."""
        return self.due(step) or self.asks(step) or (self._has_past and self.due(step + 1))

    def asks(self, step: int) -> bool:
        """Whether the ranks of a group ask each other in a step which calls are meant.

        All of them do or none: how often it fired, which may differ, does not matter.
        """
        fault = self.fault
        return fault.model == "wrong_reduction" and fault.enabled and step in fault.steps

    def learns(self, call: Call) -> bool:
        """Whether it must know later what a call gave, or was given."""
        counts = self.fault.target.counted == call.counted
        return self._has_past and counts and not self._outside(call)

    @property
    def _has_past(self) -> bool:
        return "previous" in self.needs or self.fault.model == "stale_buffer"

    def at(self, call: Call) -> bool:
        """Whether it chooses a call; outputs are chosen by `takes`."""
        fault, target = self.fault, self.fault.target
        self.last_step = max(self.last_step, call.step)
        if self.op != call.op or target.counted != call.counted:
            self.otherwise += self.op == call.op
            return False
        if not self.due(max(call.step, 0)):
            return False
        if fault.micro_batches is not None and call.micro_batch not in fault.micro_batches:
            return False
        self.reached = max(self.reached, call.number)
        if target.call not in (None, call.number) or self._is_late(call):
            return False
        return self._in_scope(call) and self._is_overload(call) and self._at_anchor(call)

    def _is_late(self, call: Call) -> bool:
        """Whether a call after the update is not asked for: the next batch, say, or a metric."""
        late = call.phase == OTHER and not call.parameter and self.watch.clock.updated
        if not late or takes_late(self.fault):
            return False
        self.refusal = f"{call.op}*{call.number} was {LATE}"
        return True

    def _outside(self, call: Call) -> str:
        """Which of the fault's filters a call is outside of, or ``""``."""
        if call.phase not in self._phases:
            return "phases"
        if not self._where.chooses(call):
            return "modules"
        return "" if self._at_code(call) else "code"

    def _in_scope(self, call: Call) -> bool:
        outside = self._outside(call)
        if not self.fired:
            self._considered.add(call, not outside and _has_overload(call, self.fault.target))
        if outside and self.fault.target.call is not None:
            where = self.watch.table.infos[call.module].path
            stack = call.stack if call.cause is None else call.cause.stack
            line = [f", on {frame.label}" for frame in self.watch.sources.frames(stack)[:1]]
            self.refusal = (
                f"{call.op}*{call.number} was made in phase {PHASES[call.phase]!r}, module "
                f"{where!r}{''.join(line if outside == 'code' else ())}, which is outside the "
                f"fault's {outside}"
            )
        return not outside

    def _is_overload(self, call: Call) -> bool:
        wanted = self.fault.target.overload
        if _has_overload(call, self.fault.target):
            return True
        if self.fault.target.call is not None:
            self.refusal = f"{call.op}*{call.number} is overload {call.overload!r}, not {wanted!r}"
        return False

    def _at_anchor(self, call: Call) -> bool:
        anchor = self.fault.anchor
        if anchor is None or self.fault.target.call is None:
            return True
        module = self.watch.table.infos[call.module].path
        if call.phase == OPTIMIZER and call.module == self.watch.table.outside:
            module = anchor.module  # whose it is shows after the call: it makes state of nothing
        place = (PHASES[call.phase], module, call.module_call, call.ordinal)
        clicked = (anchor.phase, anchor.module, anchor.module_call, anchor.ordinal)
        if _unwrapped(*place) == _unwrapped(*clicked):
            return True
        why = "the script changed" if call.counted or self.watch.clock.one_step else _UNCOUNTED
        if self.watch.clock.one_step and call.step > 0:
            why = f"step {call.step} makes other calls than step 0"
        self.refusal = (
            f"{why}: {call.op}*{call.number} was clicked as {_place(*clicked)}, "
            f"and is now {_place(*place)}"
        )
        return False

    def _at_code(self, call: Call) -> bool:
        if not self._code:
            return True
        causes = () if call.cause is None else call.cause.stacks
        return any(self._on_line(stack) for stack in (call.stack, *causes))

    def _on_line(self, stack: int) -> bool:
        known = self._stacks.get(stack)
        if known is None:
            frames = self.watch.sources.frames(stack)
            known = self._stacks[stack] = any(line.matches(frames) for line in self._code)
        return known

    def takes(self, call: Call, output: Output) -> bool:
        """Whether it chooses an output of a chosen call."""
        target = self.fault.target
        if target.output in (None, output.output) and target.index in (None, output.index):
            return self._where.chooses_output(call, output)
        index = "" if output.index is None else f"[{output.index}]"
        self.last_output = f"{output.output}{index}"
        return False

    def missed(self) -> NotInjected:
        """The record of a fault that never struck."""
        elsewhere = self.elsewhere or not (self.is_of_this_rank or _is_of_no_rank(self.fault))
        return NotInjected(self.fault.id, self.reason(), elsewhere)

    def reason(self) -> str:
        """Why it never struck, in one plain clause."""
        fault, target = self.fault, self.fault.target
        if not fault.enabled:
            return "it is switched off"
        if fault.ranks is not None and not self.is_of_this_rank:
            wanted = fault.ranks.in_words("rank")
            if _is_of_no_rank(fault):
                return f"it is for {wanted}, and there are {counted(world_size(), 'rank')}"
            return f"it is for {wanted}, this is rank {self.rank}"
        if self.refusal:
            return self.refusal
        if not any(step in fault.steps for step in range(self.first_step, self.last_step + 1)):
            return self._no_step()
        if target.kind in ("grad", "state") and not self.stepped:
            return (
                f"no optimizer of the model stepped in {fault.steps.in_words('step', 'any')}, "
                f"before which {str(target)!r} is struck"
            )
        if target.kind != "call" and not self.reached:
            return f"there was no {str(target)!r} to strike {self._when()}"
        if self.reached == 0:
            return self._no_call()
        if target.call is not None and self.reached < target.call:
            return too_few(target.call, target.op, self.reached)
        if self.last_output:
            return f"asked for {str(target)!r}; the last output of that call is {self.last_output}"
        asked = Asked.of(target, fault.phases, fault.modules, fault.code)
        unfit = self._considered.reason(asked, self._when())
        if unfit or fault.probability < 1:
            return unfit or f"its probability of {fault.probability} never came up"
        return f"no call of {target.op!r} {self._when()} fits {str(target)!r} and its filters"

    def _no_call(self) -> str:
        fault, target = self.fault, self.fault.target
        if self.otherwise and target.counted and self.watch.passed_over:
            made = f"{self.otherwise} {agreed(self.otherwise, 'were')} made"
            return (
                f"no call of {target.op!r} took a number in {fault.steps.in_words('step', 'any')}: "
                f"the model ran {self.watch.passed_over}; {made} as 'other/{target.op}'"
            )
        called = [op for op, counted in self.watch.numbers if counted == target.counted]
        hint = module_hint(str(target), self.watch.table.names) or uncalled(self.op, called)
        unseen = "" if target.counted or self.watch.clock.one_step else f" ({_UNCOUNTED})"
        held = self.watch.parameters.parameters.values()
        within = is_collective(self.op) and any(local_part(each) is not each for each in held)
        return f"no call of {target.op!r} was made {self._when()}{hint}{_WITHIN * within}{unseen}"

    def _when(self) -> str:
        """In which steps and micro batches it was to strike, and how many of these there were."""
        steps = f"in {self.fault.steps.in_words('step', 'any')}"
        chosen, had = self.fault.micro_batches, self.watch.clock.micro_batch + 1
        if chosen is None:
            return steps
        return f"{steps}, {chosen.in_words('micro batch')} (the last step had {had})"

    def _no_step(self) -> str:
        steps, first, last = self.fault.steps, self.first_step, self.last_step
        if not steps.ranges:
            return "its steps are an empty list; expected a number, several, or text such as '0-'"
        asked = steps.in_words("step")
        if steps.last is not None and steps.last < first:
            return f"asked for {asked}, but training was resumed at step {first}"
        if last < first:
            made = self.watch.passed_over
            seen = f"; its forwards were made {made}, which a session can strike" if made else ""
            return f"no step came: the model had no training forward{seen}"
        came = f"{asked} never came: the last one was step {last}"
        if not self.watch.clock.one_step:
            return f"{came} ({counted(last - first + 1, 'step')} came)"
        wanted = min((n for n, *_ in steps.ranges if n > last), default=last) + 1
        return f"{came}; ask for more, as in replay(steps={wanted})"


def _is_of_no_rank(fault: Fault) -> bool:
    """Whether none of several ranks is one that its filter chooses."""
    size = world_size()
    return size > 1 and not any(fault.is_for(rank) for rank in range(size))


def _has_overload(call: Call, target: Target) -> bool:
    return target.overload in (None, call.overload)


def _unwrapped(phase: str, module: str, *numbers: int) -> tuple[str | int, ...]:
    """A place, the same in a model and in what wraps it."""
    return (phase, unwrapped(module), *numbers)


def _place(phase: str, module: str, module_call: int, ordinal: int) -> str:
    return f"number {ordinal} in ({phase}, module {module!r} call {module_call})"
