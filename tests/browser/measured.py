"""What the browser tests measured, as one table after the run.

    measured("first rows", 213.0, "ms", limit=1500)      # fails at 1500 and above

    numbers of the explorer            measured    limit
    test_open … first rows               213 ms  1500 ms

A time is taken inside the page with ``performance.now``, so that the way between the test
and the browser is not in it. A machine that others use as well is slow for reasons that are
not ours: a time may be as many times its limit as a plain loop takes longer by the clock
than by the processor, and the table says how many times that was.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

__all__ = ["TIMES", "Measured", "lines", "slowness"]

TIMES = ("ms", "s")
"""Units of what a slow machine makes longer."""

_LOOP_S = 0.2


@dataclass(frozen=True, slots=True)
class Measured:
    """One number that a test measured.

    Attributes:
        test: Name of the test.
        what: What was measured.
        value: How much.
        unit: Its unit.
        limit: What it must stay below, or None where it is only told.
        slowed: How many times slower than alone the machine was.
    """

    test: str
    what: str
    value: float
    unit: str
    limit: float | None = None
    slowed: float = 1.0

    @property
    def kept(self) -> bool:
        """Whether it is below its limit."""
        return self.limit is None or self.value < self.limit * self.slowed


def slowness() -> float:
    """How many times longer than alone this machine takes for a plain loop; 1 where alone."""
    wall, processor = time.perf_counter(), time.process_time()
    while time.process_time() - processor < _LOOP_S:
        pass
    return max(1.0, (time.perf_counter() - wall) / _LOOP_S)


def lines(numbers: Iterable[Measured]) -> Iterator[str]:
    """The table, a line for each number."""
    for each in numbers:
        limit = "" if each.limit is None else f"below {each.limit:g} {each.unit}"
        where = f"{each.test.removeprefix('test_')}: {each.what}"
        slowed = "" if each.slowed == 1 else f", machine {each.slowed:.1f} times slowed"
        yield f"{where:<92} {each.value:>9.4g} {each.unit:<8} {limit}{slowed}"
