"""The calls that a filter was asked about, for the reason why it chose none of them.

    considered = Considered(watch, modules)
    considered.add(call, fits=False)        # of the operator, whatever the filters say of it
    considered.reason(asked, "in step 0")   # "no call of 'mm' in step 0 is in phase 'forward': …"

Limits: calls are told apart by where they stand; of `_MOST` places and more none is kept but
those that have an overload, phase, module, parameter or line which no kept one has.
"""

from __future__ import annotations

from fi_notebook.core.site import ALL_PARAMETERS, PHASES
from fi_notebook.core.unfit import Asked, Made
from fi_notebook.engine.filters import ModuleFilter
from fi_notebook.engine.intercept import Call, Watch

__all__ = ["Considered"]

_MOST = 1024

_Place = tuple[str, int, int, str, tuple[int, ...]]


class Considered:
    """Where the calls of one operator stood.

    Args:
        watch: What named them.
        modules: The filter of modules.
    """

    def __init__(self, watch: Watch, modules: ModuleFilter) -> None:
        """Start with none."""
        self._watch = watch
        self._modules = modules
        self._places: dict[_Place, None] = {}
        self._values: set[tuple[int, object]] = set()  # of the places, each with its position
        self._fits = False

    def add(self, call: Call, fits: bool) -> None:
        """Take note of where a call stands, and whether all filters fit it."""
        self._fits |= fits
        causes = () if call.cause is None else call.cause.stacks
        stacks = (*causes, call.stack)
        place = (call.overload, call.phase, call.module, call.parameter, stacks)
        if place in self._places:
            return
        if len(self._places) < _MOST or not self._values.issuperset(enumerate(place)):
            self._places[place] = None
            self._values.update(enumerate(place))

    def reason(self, asked: Asked, where: str = "") -> str:
        """Why none of them was chosen, or ``""``.

        Args:
            asked: The filters.
            where: Where they were made, such as ``in step 0``.

        Returns:
            One plain clause; ``""`` where one fits, or there was none.
        """
        if self._fits:
            return ""
        places = list(self._places)  # at once: a training may go on that adds to them
        return asked.unfit([self._made(place) for place in places], where)

    def _made(self, place: _Place) -> Made:
        overload, phase, module, parameter, stacks = place
        frames = (frame for stack in stacks for frame in self._watch.sources.frames(stack))
        within = parameter == ALL_PARAMETERS or self._modules.names(module, parameter)
        path = self._watch.table.infos[module].path
        return Made(overload, PHASES[phase], path, within, tuple(dict.fromkeys(frames)))
