"""A session: trace one training step, arm faults, replay from the same state, compare.

    trace → arm → replay → compare

`session` is what a person (or the widget) talks to; `stage` runs the step and puts
everything back; `golden` and `replay` are the runs; `planning` keeps the faults;
`events` tells who listens.
"""

from fi_notebook.session.events import SessionCancelled
from fi_notebook.session.planning import FaultWarning
from fi_notebook.session.session import Session

__all__ = ["FaultWarning", "Session", "SessionCancelled"]
