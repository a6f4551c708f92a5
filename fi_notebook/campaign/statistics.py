"""Rates with intervals: how many injections, how sure, and how far two campaigns differ.

    sample_size(1_000_000, margin=0.05)        384   (Leveugle et al., 2009)
    wilson(5, 1000)                            (0.0021, 0.0117)
    newcombe(30, 100, 12, 100)                 interval of the difference 0.18

An outcome is a share of 0 / 1 data, so intervals are Wilson's: they never collapse at
0 or 1, and never leave [0, 1]. Where injections stand for unlike numbers of faults (strata), a
share is the weighted one, and its interval is of as many as they are worth (Kish, 1965).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from fi_notebook.errors import ArgumentError

__all__ = [
    "CONFIDENCE",
    "HARM",
    "Contrast",
    "Coverage",
    "Rate",
    "contrasts",
    "margin_of",
    "newcombe",
    "rates",
    "sample_size",
    "wilson",
]

CONFIDENCE = 0.95
"""The confidence of every interval where none is given."""


def _z(confidence: float) -> float:
    """The normal quantile of a two-sided interval."""
    if not 0 < confidence < 1:
        raise ArgumentError(f"confidence is {confidence}; expected a number between 0 and 1")
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _t(confidence: float) -> float:
    """The same with two decimals (1.96), as the published tables of sample sizes have it."""
    return round(_z(confidence), 2)


def sample_size(
    population: int, margin: float = 0.05, *, confidence: float = CONFIDENCE, p: float = 0.5
) -> int:
    """How many injections give an interval of this margin (Leveugle et al., 2009).

    Rounded to the nearest number, as in the published tables: so the margin is met but for
    half an injection (384 of a million give ± 5.0001 %); `margin_of` gives it exactly.

    Args:
        population: How many faults there are to choose from.
        margin: Half the width of the interval, such as 0.05.
        confidence: Confidence of the interval.
        p: The share that is expected; 0.5 asks for most.

    Raises:
        ArgumentError: A number can never be.
    """
    if population < 1 or not 0 < margin < 1 or not 0 < p < 1:
        raise ArgumentError(
            f"population is {population}, margin {margin}, p {p}; expected a population from 1, "
            "and margin and p between 0 and 1"
        )
    spread = _t(confidence) ** 2 * p * (1 - p)
    return max(1, round(population / (1 + margin**2 * (population - 1) / spread)))


def margin_of(
    n: float, population: int, *, confidence: float = CONFIDENCE, p: float = 0.5
) -> float:
    """The margin that n injections give: `sample_size` the other way round."""
    if n >= population:
        return 0.0
    if n < 1:
        return 1.0
    spread = _t(confidence) ** 2 * p * (1 - p)
    return min(1.0, math.sqrt((population / n - 1) * spread / (population - 1)))


def effective(weights: Sequence[float]) -> float:
    """How many equally likely draws some weighted ones are worth (Kish, 1965).

    ``(Σ w)² / Σ w²``: as many as there are where all weigh the same, else fewer. What a
    stratified draw gains where strata are unlike is left out, so intervals are rather too wide.
    """
    squares = math.fsum(weight * weight for weight in weights)
    return math.fsum(weights) ** 2 / squares if squares else 0.0


def wilson(count: float, n: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson's interval of a share.

    Args:
        count: How many of them; need not be whole where they are weighted.
        n: Of how many; of none, nothing is known: (0, 1).
        confidence: Confidence of the interval.

    Raises:
        ArgumentError: There are more of them than there are.
    """
    if not 0 <= count <= n:
        raise ArgumentError(f"{count} of {n} is no share")
    if n == 0:
        return 0.0, 1.0
    z, p = _z(confidence), count / n
    middle = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low = 0.0 if count == 0 else (middle - half) / scale
    high = 1.0 if count == n else (middle + half) / scale
    return low, high


def newcombe(
    count_a: float, n_a: float, count_b: float, n_b: float, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Newcombe's interval of the difference of two shares, a - b (his method 10)."""
    if not (n_a and n_b):
        return -1.0, 1.0
    a, b = count_a / n_a, count_b / n_b
    low_a, high_a = wilson(count_a, n_a, confidence)
    low_b, high_b = wilson(count_b, n_b, confidence)
    low = a - b - math.hypot(a - low_a, high_b - b)
    high = a - b + math.hypot(high_a - a, b - low_b)
    return low, high


@dataclass(frozen=True, slots=True)
class Rate:
    """How often one outcome came, in one group.

    Attributes:
        group: What the rows have in common (a layer, a phase …); ``all`` for all.
        outcome: The outcome.
        count: How many injections ended so.
        n: How many were tested: all that were injected.
        rate: Their share, by weight: ``count / n`` where all weigh the same; NaN of none.
        low: Lower end of Wilson's interval.
        high: Upper end.
        worth: How many equally likely draws the ``n`` are worth; see `effective`.
    """

    group: str
    outcome: str
    count: int
    n: int
    rate: float
    low: float
    high: float
    worth: float


NOT_TESTED = "not_injected"
"""The outcome of an injection that tested nothing: it is counted, and in no denominator."""


def rates(
    groups: Sequence[str],
    outcomes: Sequence[str],
    order: Sequence[str],
    confidence: float = CONFIDENCE,
    weights: Sequence[float] | None = None,
) -> list[Rate]:
    """The rate of every outcome that came, in every group.

    Args:
        groups: The group of each row.
        outcomes: The outcome of each row.
        order: Outcomes in the order in which they are listed.
        confidence: Confidence of the intervals.
        weights: For how many faults each row stands; None where all stand for as many.
    """
    weights = [1.0] * len(outcomes) if weights is None else weights
    rows: dict[str, list[tuple[str, float]]] = {}
    for group, outcome, weight in zip(groups, outcomes, weights, strict=True):
        rows.setdefault(group, []).append((outcome, weight))
    seen = [name for name in order if name in set(outcomes)]
    return [_rate(group, name, mine, confidence) for group, mine in rows.items() for name in seen]


def _rate(group: str, name: str, rows: list[tuple[str, float]], confidence: float) -> Rate:
    tested = [row for row in rows if name == NOT_TESTED or row[0] != NOT_TESTED]
    hits, weights = [outcome == name for outcome, _ in tested], [weight for _, weight in tested]
    return Rate(group, name, *_share(hits, weights, confidence))


def _share(
    hits: Sequence[bool], weights: Sequence[float], confidence: float
) -> tuple[int, int, float, float, float, float]:
    """How many hits of how many, their weighted share with its interval, and what n is worth."""
    count, worth = float(sum(hits)), float(len(hits))
    if len(set(weights)) > 1:
        worth = effective(weights)
        part = math.fsum(w for hit, w in zip(hits, weights, strict=True) if hit)
        count = min(part / math.fsum(weights), 1.0) * worth
    rate = count / worth if worth else math.nan
    return sum(hits), len(hits), rate, *wilson(count, worth, confidence), worth


HARM = "harm"
"""All outcomes that do harm, together."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How often a detector caught what ended in one outcome.

    Attributes:
        detector: Name of the detector.
        outcome: The outcome, or `HARM`.
        caught: How many of these injections it caught.
        n: How many there were of which it is known.
        rate: Their share, by weight: ``caught / n`` where all weigh the same; NaN of none.
        low: Lower end of Wilson's interval.
        high: Upper end.
        worth: How many equally likely draws the ``n`` are worth; see `effective`.
    """

    detector: str
    outcome: str
    caught: int
    n: int
    rate: float
    low: float
    high: float
    worth: float

    @classmethod
    def of(
        cls,
        detector: str,
        outcome: str,
        caught: Mapping[int, bool],
        weights: Sequence[float],
        confidence: float,
    ) -> Coverage:
        """From whether it caught each of these injections, by row, and the weights of all rows."""
        hits, mine = list(caught.values()), [weights[row] for row in caught]
        return cls(detector, outcome, *_share(hits, mine, confidence))


@dataclass(frozen=True, slots=True)
class Contrast:
    """One outcome in two campaigns.

    Attributes:
        outcome: The outcome.
        mine: Its rate in the first campaign.
        other: Its rate in the second.
        difference: Second minus first.
        low: Lower end of Newcombe's interval of the difference.
        high: Upper end.
    """

    outcome: str
    mine: float
    other: float
    difference: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out 0."""
        return not self.low <= 0 <= self.high

    def __str__(self) -> str:
        """One line: ``changed: 31.0 % → 12.0 % (-19.0 %, from -29.8 % to -7.6 %)``."""
        sure = "" if self.clear else "; no clear difference"
        return (
            f"{self.outcome}: {self.mine:.1%} → {self.other:.1%} "
            f"({self.difference:+.1%}, from {self.low:+.1%} to {self.high:+.1%}{sure})"
        )


def contrasts(
    mine: Sequence[str],
    other: Sequence[str],
    order: Sequence[str],
    confidence: float = CONFIDENCE,
    weights: tuple[Sequence[float] | None, Sequence[float] | None] = (None, None),
) -> list[Contrast]:
    """Every outcome that either campaign has, with the interval of the difference."""
    first, second = (
        {r.outcome: r for r in rates(["all"] * len(rows), rows, order, confidence, weight)}
        for rows, weight in zip((mine, other), weights, strict=True)
    )
    found = []
    for name in order:
        if name == NOT_TESTED or (name not in first and name not in second):
            continue
        (a, worth_a), (b, worth_b) = (_known(name, side) for side in (first, second))
        low, high = newcombe(b * worth_b, worth_b, a * worth_a, worth_a, confidence)
        found.append(Contrast(name, a, b, b - a, low, high))
    return found


def _known(name: str, side: Mapping[str, Rate]) -> tuple[float, float]:
    """The rate of an outcome, and of how many draws; NaN of none."""
    worth = next((rate.worth for rate in side.values() if rate.outcome != NOT_TESTED), 0.0)
    known = side[name].rate if name in side else 0.0
    return (known if worth else math.nan), worth
