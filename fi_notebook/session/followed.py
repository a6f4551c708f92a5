"""The part of a session that others follow: who is told of its runs, reads them, stops them.

end = session.subscribe(print)
session.replay()            # state {'state': 'replaying'}, …
end()
"""

from __future__ import annotations

from collections.abc import Callable

from fi_notebook.core.listeners import added
from fi_notebook.engine.intercept import Observer, Watch
from fi_notebook.session.events import Listener
from fi_notebook.session.stage import Stage

__all__ = ["Followed"]


class Followed:
    """What others can follow, and stop."""

    _stage: Stage

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell a listener ``(event, payload)`` of all in `session.events`, until undone.

        Args:
            listener: Called with the event's name and what belongs to it, in the thread of the
                run; one that raises is logged, and the run goes on.

        Returns:
            What ends it.

        Raises:
            TypeError: It cannot be called.
        """
        return self._stage.events.subscribe(listener)

    def read_with(self, make: Callable[[Watch], Observer]) -> Callable[[], None]:
        """Let an observer look at every run but a campaign's, until what is returned is called.

        Args:
            make: Makes the observer of one run from what names its calls.

        Returns:
            What ends it.
        """
        return added(self._stage.readers, make)

    def cancel(self) -> None:
        """Stop the run that goes on or waits for its turn, from any thread; all is put back."""
        self._stage.events.cancel()
