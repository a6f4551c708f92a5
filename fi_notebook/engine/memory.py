"""What sites held before, for the fault models that put old values in place of new ones.

The value before is that of the same site in an earlier step, where one was seen, else
that of the operator's previous call.

Limits: one tensor is kept for each site that a fault names, and one for each output of
an operator that a fault chooses by name alone.
"""

from __future__ import annotations

import torch

from fi_notebook.engine.intercept import Call
from fi_notebook.engine.outputs import Output

__all__ = ["Memory"]


class Memory:
    """The last values of the sites that some faults choose."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self._latest: dict[tuple[str, str, int, int | None], torch.Tensor] = {}
        self._sites: dict[tuple[str, str, int, int, int | None], torch.Tensor] = {}

    def keep(self, fault: str, call: Call, output: Output, *, numbered: bool) -> None:
        """Remember a copy of what a site holds now.

        Args:
            fault: Id of the fault that will ask.
            call: The call.
            output: The output; its tensor is copied.
            numbered: Whether the fault chooses this call by its number.
        """
        copy = output.tensor.detach().clone()
        self._latest[fault, call.op, output.output, output.index] = copy
        if numbered:
            self._sites[fault, call.op, call.number, output.output, output.index] = copy

    def before(self, fault: str, call: Call, output: Output) -> torch.Tensor | None:
        """What the site held before, or None where nothing was seen."""
        site = (fault, call.op, call.number, output.output, output.index)
        if site in self._sites:
            return self._sites[site]
        return self._latest.get((fault, call.op, output.output, output.index))
