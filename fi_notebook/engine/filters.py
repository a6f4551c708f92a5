"""Which calls the names in a ``modules`` filter choose: of modules, or of parameters.

    layer            the module and everything below, in every phase
    layer.0.weight   the calls that work on this parameter: its accumulation, its update

A call over a list of parameters (``_foreach_…``, ``_fused_…``) is chosen where one of
them is, and of its outputs only those that belong to a chosen parameter.
"""

from __future__ import annotations

from collections.abc import Sequence

from fi_notebook.core.match import module_matches
from fi_notebook.core.site import ALL_PARAMETERS
from fi_notebook.engine.intercept import Call, Watch
from fi_notebook.engine.outputs import Output
from fi_notebook.engine.storages import tensors_in

__all__ = ["ModuleFilter"]


class ModuleFilter:
    """A filter over modules and parameters, resolved for one model.

    Args:
        patterns: The filter; None chooses everything, an empty one nothing.
        watch: What names the calls.
    """

    def __init__(self, patterns: Sequence[str] | None, watch: Watch) -> None:
        """Find the modules and parameters that the patterns name."""
        self._watch, self._all = watch, patterns is None
        wanted, table = patterns or (), watch.table
        self.rows = frozenset(
            row
            for row, info in enumerate(table.infos)
            if self._all or any(module_matches(pattern, info.names) for pattern in wanted)
        )
        self._parameters = frozenset(
            name
            for name, parameter in watch.parameters.parameters.items()
            if table.owner(parameter) in self.rows
            or any(module_matches(pattern, (name,)) for pattern in wanted)
        )

    def __bool__(self) -> bool:
        """Whether it can choose anything."""
        return bool(self.rows or self._parameters)

    def chooses(self, call: Call) -> bool:
        """Whether it chooses a call, or any output of a call over a list."""
        if self._all or call.module in self.rows:
            return True
        if call.parameter != ALL_PARAMETERS:
            return self.names(call.module, call.parameter)
        of = self._watch.parameters.of
        return any(
            of(t) in self._parameters for t in tensors_in((*call.args, *call.kwargs.values()))
        )

    def names(self, module: int, parameter: str) -> bool:
        """Whether it names the module of a call, or the one parameter that it works on."""
        return self._all or module in self.rows or parameter in self._parameters

    def chooses_output(self, call: Call, output: Output) -> bool:
        """Whether it chooses an output of a call that it chooses."""
        if self._all or call.parameter != ALL_PARAMETERS or output.index is None:
            return True
        name = self._watch.parameters.of_output(call.parameter, call.args, output)
        return name == ALL_PARAMETERS or name in self._parameters
