"""Compiled training that a session looks at, and training that is compiled after it.

    compiled_differences(make, "aot_eager")         # [] where nothing differs

Three trainings are compiled with a compiler that counts: one that nobody looks at, one
that is traced and replayed between its steps, and one that was explored before it was
compiled. The runs of the session itself are compared with plain eager training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tests.proof.courses import (
    ARMS,
    Between,
    Make,
    course,
    differences,
    session_of,
)
from tests.proof.recipes import Recipe

__all__ = ["compiled_differences"]


class Counting:
    """A compiler that counts what it compiles, and how often that is run."""

    def __init__(self, backend: str) -> None:
        """Start at none, with nothing that an earlier one compiled."""
        torch._dynamo.reset()
        self._compile: Any = torch._dynamo.lookup_backend(backend)
        self.graphs, self.runs = 0, 0

    def __call__(self, graph: Any, inputs: Any) -> Callable[..., Any]:
        """Compile a graph, as the backend does."""
        self.graphs += 1
        made = self._compile(graph, inputs)

        def run(*arguments: Any) -> Any:
            self.runs += 1
            return made(*arguments)

        return run

    def compile(self, recipe: Recipe) -> None:
        """Compile what the step of a recipe calls."""
        for module in recipe.called:
            module.compile(backend=self)

    @property
    def count(self) -> tuple[int, int]:
        """Graphs and runs so far."""
        return self.graphs, self.runs


def compiled_differences(make: Make, backend: str) -> list[str]:
    """What a session changes in compiled training, or its runs do not share with eager ones.

    Args:
        make: Makes the recipe.
        backend: Name of the compiler.
    """
    try:
        eager, (plain, counts) = course(make, ARMS["plain"]), _compiled(make, backend, None)
        found = []
        for name, before in (("traced when compiled", False), ("compiled when traced", True)):
            seen: list[Any] = []
            states, mine = _compiled(make, backend, _looking(seen, before=before))
            found += [f"{name}, {text}" for text in differences(states, plain)]
            found += [] if mine == counts else [f"{name}, graphs and runs: {mine}, not {counts}"]
            found += [f"{name}, {text}" for text in _unlike_eager(seen[0], eager[0])]
        return found
    finally:
        torch._dynamo.reset()


Look = Callable[[Recipe, "Counting"], Iterator[Between]]


def _compiled(
    make: Make, backend: str, look: Look | None
) -> tuple[list[dict[str, Any]], list[tuple[int, int]]]:
    """The states of a compiled training, and the counts before each step and at the end."""
    compiler, counts = Counting(backend), list[tuple[int, int]]()

    def arm(recipe: Recipe) -> Iterator[Between]:
        if look is None:
            compiler.compile(recipe)
            yield lambda: counts.append(compiler.count)
            return
        with contextmanager(look)(recipe, compiler) as between:

            def looked() -> None:
                between()
                counts.append(compiler.count)

            yield looked

    states = course(make, arm)
    return states, [*counts, compiler.count]


def _looking(seen: list[Any], *, before: bool) -> Look:
    """Trace and replay before each step; the model is compiled before that, or just after."""

    def look(recipe: Recipe, compiler: Counting) -> Iterator[Between]:
        if not before:
            compiler.compile(recipe)

        def between() -> None:
            session = session_of(recipe)
            session.trace()
            seen.append(session._golden)
            assert session.replay().comparison.equal
            if before and len(seen) == 1:
                compiler.compile(recipe)

        yield between

    return look


def _unlike_eager(golden: Any, eager: dict[str, Any]) -> list[str]:
    """What a golden run, of the first step, did otherwise than plain eager training."""
    result = golden.result
    pairs = {"loss": (result.loss, eager["loss"])}
    pairs |= {
        f"gradient of {name}": (gradient, eager[f"update of {name}"])
        for name, gradient in result.gradients.items()
        if f"update of {name}" in eager and not gradient.is_sparse
    }
    pairs |= {n: (t, eager[n]) for n, t in result.state.parameters.items()}
    pairs |= {n: (t, eager[n]) for n, t in result.state.buffers.items()}
    return [f"eager {n}" for n, (a, b) in pairs.items() if not torch.equal(a, b)]
