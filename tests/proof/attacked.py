"""A session that is attacked, and what must hold afterwards.

target = Target()
with target.unharmed():
    with pytest.raises(BoomError):
        target.session.replay()
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fi_notebook import Session
from tests import models
from tests.proof.courses import differences, state_of
from tests.proof.recipes import Recipe
from tests.tools import leaks

__all__ = ["BoomError", "Target"]


class BoomError(Exception):
    """What goes wrong in an attack, where any error would do."""


class Target:
    """A small model, trained for one step, and a session of it with an armed fault.

    Args:
        maker: Makes the case.
        options: Of the session.
    """

    def __init__(self, maker: Any = models.cnn, **options: Any) -> None:
        """Train, trace, arm and replay once."""
        self.case = maker()
        self.case.step()
        model, optimizer = self.case.model, self.case.optimizer
        self.recipe = Recipe(model, [optimizer], self.case.step, (model,))
        self.session = Session(self.case.step, model=model, optimizer=optimizer, **options)
        self.session.trace()
        self.session.arm("addmm*1:0", "bitflip", bit=30, elements={"index": 0})
        self.bits = self._struck()

    def _struck(self) -> str:
        run = self.session.replay()
        self.session.runs.clear()
        return repr((run.injections[0].elements, run.faulty, run.outcome.name))  # NaN is not NaN

    @contextmanager
    def unharmed(self) -> Iterator[None]:
        """After the block: every bit as before, nothing left on, and the session still works."""
        before, bits = leaks.state(), state_of(self.recipe)
        threads, plan = set(threading.enumerate()), self.session.plan
        yield
        leaks.assert_clean(before, threads)
        assert differences([state_of(self.recipe)], [bits]) == []
        assert self.session.plan == plan
        assert self._struck() == self.bits
