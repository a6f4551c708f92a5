"""The quickstart's step by plain PyTorch: the values that the explorer must show.

    plain = PlainStep(path)
    golden = plain.run()
    faulty = plain.run(flip=(element, 27))     # in the output of the second relu

Each run executes the notebook's own cells anew, so that it begins from the same state.
The fault is written into the storage of the second ``torch.relu``'s output, which is
also what autograd has saved. Nothing of fi_notebook is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from tests.tools import notebooks

__all__ = ["PlainRun", "PlainStep"]

STRUCK_CALL = 2
"""Which call of ``torch.relu`` is struck."""


@dataclass(frozen=True)
class PlainRun:
    """What one run of the step came to.

    Attributes:
        loss: The loss.
        gradient_norm: Norm of all gradients as the optimizer found them.
        struck: Output of the second relu, after the flip if there was one.
        weights: All parameters after the step, in one tensor.
        names: The notebook's names after the step.
    """

    loss: float
    gradient_norm: float
    struck: Tensor
    weights: Tensor
    names: dict[str, Any]


class PlainStep:
    """The cells of the quickstart up to the explored step."""

    def __init__(self, path: Path) -> None:
        """Read the cells."""
        sources = [c.source for c in notebooks.read(path).cells if c.cell_type == "code"]
        magic = next(i for i, text in enumerate(sources) if text.startswith("%%fi_explore"))
        self.setup = [text for text in sources[:magic] if not text.startswith("%")]
        self.step = sources[magic].partition("\n")[2]

    def prepare(self) -> dict[str, Any]:
        """The notebook's names as they are before the step."""
        names: dict[str, Any] = {}
        for source in self.setup:
            exec(source, names)
        return names

    def run(self, flip: tuple[tuple[int, ...], int] | None = None) -> PlainRun:
        """Run the step once, from the start, with one bit flipped if that is asked for."""
        names = self.prepare()
        outputs: list[Tensor] = []
        norms: list[float] = []
        relu = torch.relu

        def watched(x: Tensor) -> Tensor:
            output = relu(x)
            outputs.append(output.data)  # the storage that autograd saved, unversioned
            if flip and len(outputs) == STRUCK_CALL:
                element, bit = flip
                outputs[-1].view(torch.int32)[element] ^= 1 << bit
            return output

        def at_step(optimizer: Any, *_: Any) -> None:
            gradients = [p.grad for group in optimizer.param_groups for p in group["params"]]
            norms.append(torch.cat([g.flatten().double() for g in gradients]).norm().item())

        handle = names["opt"].register_step_pre_hook(at_step)
        with mock.patch.object(torch, "relu", watched):
            exec(self.step, names)
        handle.remove()
        weights = torch.cat([p.detach().flatten() for p in names["net"].parameters()])
        return PlainRun(
            names["loss"].item(), norms[0], outputs[STRUCK_CALL - 1].clone(), weights, names
        )
