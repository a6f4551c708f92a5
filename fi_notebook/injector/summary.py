"""What became of a plan, in words: what fired, what did not, which steps never came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from fi_notebook.core.fault import Fault, FaultPlan
from fi_notebook.core.injection import Injection, NotInjected
from fi_notebook.core.steps import Steps
from fi_notebook.core.words import among, counted

__all__ = ["missed_steps", "report_lines"]

_SHOWN = 50
"""How many strikes a report names; of more it says how many there are."""


def report_lines(
    injections: Sequence[Injection], missed: Iterable[NotInjected], step: int, begun: bool
) -> list[str]:
    """What struck, step by step, and what did not, with the reason."""
    came = f"training came to step {step}" if begun else "no step was made"
    lines = [f"{counted(len(injections), 'injection')}, {came}"]
    lines += [_line(injection) for injection in injections[:_SHOWN]]
    if len(injections) > _SHOWN:
        lines.append(f"  … and {counted(len(injections) - _SHOWN, 'more strike')}")
    return lines + [f"  {one.fault} was not injected: {one.reason}" for one in missed]


def _line(injection: Injection) -> str:
    size = prod(injection.site.shape)
    what = f"{among(injection.changed, size, 'element')} changed"
    note = f"; {injection.note}" if injection.note else ""
    return f"  step {injection.step}: {injection.fault} struck {injection.site}, {what}{note}"


def missed_steps(plan: FaultPlan, fired: Iterable[Fault], came: int) -> list[str]:
    """The steps that are listed and were not reached, though others were.

    Args:
        plan: The plan; of one without faults the steps that it logs are asked for.
        fired: The faults that fired; the others have their own reason.
        came: The last step of the training.
    """
    listed = {fault.id: fault.steps for fault in fired}
    if plan.log_steps is not None and not len(plan):
        listed["the log"] = plan.log_steps
    found = ((name, steps, _first_after(steps, came)) for name, steps in listed.items())
    return [
        f"{name}: step {first} of its steps {steps} never came: the last one was step {came}"
        for name, steps, first in found
        if first is not None
    ]


def _first_after(steps: Steps, came: int) -> int | None:
    """The first step after the last one made; None where only an open range goes on."""
    found = []
    for first, last, stride in steps.ranges:
        after = first if first > came else first + ((came - first) // stride + 1) * stride
        if (last is None and first > came) or (last is not None and after <= last):
            found.append(after)
    return min(found, default=None)
