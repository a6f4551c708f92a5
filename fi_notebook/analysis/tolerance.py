"""How large a difference must be to count: arguments with defaults that are shown.

>>> for part in str(Tolerance()).split("; "):
...     print(part)
relative 1e-05
loss within 5 %
spike 50 % within 2 steps
final loss over the last 25 % of the steps
metric 1 %
noise floor times 4
NaN or Inf in loss, gradients, parameters
"""

from __future__ import annotations

from dataclasses import dataclass

from fi_notebook.analysis.words import four_digits, percent
from fi_notebook.errors import ArgumentError, did_you_mean

__all__ = ["DEFAULT", "PLACES", "Tolerance"]

PLACES = ("loss", "gradients", "parameters", "buffers", "optimizer_state", "calls")
"""Where a new NaN or Inf may be looked for."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What counts as a difference when an outcome is judged.

    The noise floor (golden against golden) raises ``relative`` and ``loss`` where it is
    higher.

    Attributes:
        relative: Largest relative difference (of the loss, or in L2 of a tensor) that
            still counts as masked.
        loss: Over several steps, share by which the faulty loss may exceed the golden
            one and still be within noise.
        spike: Share of the golden loss by which the loss must rise to have a spike.
        sudden: In how many steps a spike must rise; slower growth is none.
        final: Share of the steps from the strike on, from the end, whose mean is the final loss.
        metric: Share by which a metric of ``evaluate`` may be worse.
        lower_is_better: Metrics with any of these words in their name get better as
            they fall; all others get better as they grow.
        noise: How many times the difference of golden from golden still counts as noise.
        nonfinite: The NaN policy: a new NaN or Inf in which of `PLACES` counts as
            ``nan_immediate`` or ``nan_delayed``.
    """

    relative: float = 1e-5
    loss: float = 0.05
    spike: float = 0.5
    sudden: int = 2
    final: float = 0.25
    metric: float = 0.01
    noise: float = 4.0
    lower_is_better: tuple[str, ...] = ("loss", "error", "perplexity", "ppl", "mse", "mae")
    nonfinite: tuple[str, ...] = ("loss", "gradients", "parameters")

    def __post_init__(self) -> None:
        """Refuse what can never be.

        Raises:
            ArgumentError: A number is negative or NaN, or a place of ``nonfinite`` unknown.
        """
        for name in ("relative", "loss", "spike", "sudden", "final", "metric", "noise"):
            if not getattr(self, name) >= 0:
                raise ArgumentError(f"{name} is {getattr(self, name)!r}; expected a number from 0")
        for place in self.nonfinite:
            if place not in PLACES:
                raise ArgumentError(f"no place {place!r} for NaN{did_you_mean(place, PLACES)}")

    def __str__(self) -> str:
        """Every number that a judgement used, in one line."""
        return (
            f"relative {four_digits(self.relative)}; loss within {percent(self.loss)}; "
            f"spike {percent(self.spike)} within {self.sudden} steps; "
            f"final loss over the last {percent(self.final)} of the steps; "
            f"metric {percent(self.metric)}; noise floor times {four_digits(self.noise)}; "
            f"NaN or Inf in {', '.join(self.nonfinite)}"
        )


DEFAULT = Tolerance()
"""The tolerance that is used where none is given."""
