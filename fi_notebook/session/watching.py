"""Reading chosen tensors in the runs of a session.

    replays = Replays(session, choices, add=watching.add)
    session.replay(steps=20)        # golden steps are read, then faulty ones
    replays.close()

Only what came to its end counts: the run that finds the noise is read and let go of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fi_notebook.core.lookup import find_rows
from fi_notebook.core.stats import STATISTICS
from fi_notebook.core.trace import Trace
from fi_notebook.core.watched import Series, WatchedRun
from fi_notebook.engine.intercept import Watch
from fi_notebook.engine.reading import Choice, Reader

if TYPE_CHECKING:
    from fi_notebook.session.session import Session

__all__ = ["Replays", "of_trace"]


class Replays:
    """Reads the runs of a session.

    Args:
        session: The session.
        choices: What is read.
        add: Told of run, step and readings, whether another run begins (``anew``), and whether
            this is the last step of a golden one (``golden``).
    """

    def __init__(
        self, session: Session, choices: Sequence[Choice], add: Callable[..., None]
    ) -> None:
        """Look at every run from now on."""
        self._choices, self._add = choices, add
        self._reader: Reader | None = None
        self._anew = False
        self._ends = (session.read_with(self._read_with), session.subscribe(self._heard))

    @property
    def unread(self) -> dict[str, str]:
        """What the last run did not meet, each with the reason."""
        if self._reader is None:
            return {str(choice.target): "nothing was replayed yet" for choice in self._choices}
        return self._reader.unread

    def close(self) -> None:
        """Look no more; may be called any number of times."""
        for end in self._ends:
            end()

    def _read_with(self, watch: Watch) -> Reader:
        self._reader = Reader(watch, self._choices)
        self._reader.begin(reads=True)
        return self._reader

    def _heard(self, event: str, payload: Mapping[str, Any]) -> None:
        if event == "state" and payload["state"] == "replaying":
            self._anew = True
        elif event == "trace":
            self._take("golden", 0, anew=True, golden=True)
        elif event == "step":
            run, step = payload["run"], payload["record"].step
            last = step == payload["steps"] - 1
            self._take(run, step, anew=self._anew, golden=last and run == "golden")
            self._anew = False

    def _take(self, run: str, step: int, *, anew: bool, golden: bool) -> None:
        if self._reader is not None:
            self._add(run, step, self._reader.take(), anew=anew, golden=golden)


def of_trace(trace: Trace, choices: Sequence[Choice]) -> WatchedRun:
    """The golden step of a trace, as if it had been watched."""
    series = {str(one.site): one for choice in choices for one in _of_choice(trace, choice)}
    return WatchedRun("golden", series)


def _of_choice(trace: Trace, choice: Choice) -> Iterator[Series]:
    if choice.target.kind != "call":
        return
    rows = find_rows(trace, choice.target, modules=choice.modules, phases=choice.phases or None)
    for row in rows.tolist():
        values = [[float(trace.site_columns[name][row]) for name in STATISTICS]]
        yield Series(trace.site(row), np.zeros(1, dtype=np.int64), np.asarray(values))
