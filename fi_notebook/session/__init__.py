"""A session: trace one training step, arm faults, replay from the same state, compare.

    trace → arm → replay → compare

`session` is the state machine that a person (or the widget) talks to; `golden` and
`replay` are what it does; `events` tells who listens.
"""

from fi_notebook.session.events import SessionCancelled
from fi_notebook.session.session import FaultWarning, Session

__all__ = ["FaultWarning", "Session", "SessionCancelled"]
