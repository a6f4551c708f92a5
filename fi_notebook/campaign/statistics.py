"""Rates with intervals: how many injections, how sure, and how far two campaigns differ.

    sample_size(1_000_000, margin=0.05)        384   (Leveugle et al., 2009)
    wilson(5, 1000)                            (0.0021, 0.0117)
    newcombe(30, 100, 12, 100)                 interval of the difference 0.18

An outcome is a share of 0 / 1 data, so intervals are Wilson's: they never collapse at
0 or 1, and never leave [0, 1]. Where injections were not all drawn alike (strata, drawn elements,
a good part of all faults), a share is the weighted one, and its interval is of as many draws as
they are worth (see `design`), out to the next whole numbers of faults: so near a census it holds
what the few that are left allow. Where every fault was tried it has no width.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from fi_notebook.campaign.design import Drawn, worth
from fi_notebook.errors import ArgumentError

__all__ = [
    "CONFIDENCE",
    "HARM",
    "Contrast",
    "Coverage",
    "Rate",
    "contrasts",
    "margin_of",
    "margin_of_worth",
    "newcombe",
    "rates",
    "rates_of",
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
    return margin_of_worth(n * (population - 1) / (population - n), confidence=confidence, p=p)


def margin_of_worth(worth: float, *, confidence: float = CONFIDENCE, p: float = 0.5) -> float:
    """The margin of as many equally likely draws, each of which may come again."""
    return min(1.0, _t(confidence) * math.sqrt(p * (1 - p) / worth)) if worth else 1.0


_Interval = tuple[float, float]


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
    sides = ((count_a, n_a), (count_b, n_b))
    return _newcombe(*((count / n, *wilson(count, n, confidence)) for count, n in sides))


def _newcombe(mine: tuple[float, float, float], other: tuple[float, float, float]) -> _Interval:
    """From two shares, each with its own interval."""
    (a, low_a, high_a), (b, low_b, high_b) = mine, other
    low = a - b - math.hypot(a - low_a, high_b - b)
    high = a - b + math.hypot(high_a - a, b - low_b)
    return low, high


@dataclass(frozen=True, slots=True)
class Rate:
    """How often one outcome came, in one group.

    Attributes:
        group: What the rows have in common (a layer, a phase …); ``all`` for all.
        outcome: The outcome, or a name of several.
        count: How many injections ended so.
        n: How many were tested: all that were injected.
        rate: Their share, by weight: ``count / n`` where all weigh the same; NaN of none.
        low: Lower end of Wilson's interval.
        high: Upper end.
        worth: How many equally likely draws the ``n`` are worth; see `design.worth`.
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
    draws: Sequence[Drawn] | None = None,
) -> list[Rate]:
    """The rate of every outcome that came, in every group.

    Args:
        groups: The group of each row.
        outcomes: The outcome of each row.
        order: Outcomes in the order in which they are listed.
        confidence: Confidence of the intervals.
        draws: How each row was drawn; None where all were drawn alike.
    """
    seen = {name: {name} for name in order if name in set(outcomes)}
    return rates_of(seen, groups, outcomes, draws, confidence)


def rates_of(
    kinds: Mapping[str, Container[str]],
    groups: Sequence[str],
    outcomes: Sequence[str],
    draws: Sequence[Drawn] | None = None,
    confidence: float = CONFIDENCE,
) -> list[Rate]:
    """The rate of several outcomes together, in every group, whether they came or not.

    Args:
        kinds: Which outcomes, by the name that they have together.
        groups: The group of each row.
        outcomes: The outcome of each row.
        draws: How each row was drawn; None where all were drawn alike.
        confidence: Confidence of the intervals.
    """
    draws = [Drawn()] * len(outcomes) if draws is None else draws
    rows: dict[str, list[tuple[str, Drawn]]] = {}
    for group, outcome, drawn in zip(groups, outcomes, draws, strict=True):
        rows.setdefault(group, []).append((outcome, drawn))
    return [
        Rate(group, name, *_rate(kind, mine, confidence))
        for group, mine in rows.items()
        for name, kind in kinds.items()
    ]


def _rate(kind: Container[str], rows: list[tuple[str, Drawn]], confidence: float) -> _Share:
    """Of what was injected; of what was not, of all."""
    tested = [row for row in rows if NOT_TESTED in kind or row[0] != NOT_TESTED]
    hits, draws = [outcome in kind for outcome, _ in tested], [drawn for _, drawn in tested]
    return _share(hits, draws, confidence)


_Share = tuple[int, int, float, float, float, float]


def _share(hits: Sequence[bool], draws: Sequence[Drawn], confidence: float) -> _Share:
    """How many hits of how many, their weighted share with its interval, and what n is worth."""
    n = worth(hits, draws)
    part = math.fsum(d.weight for hit, d in zip(hits, draws, strict=True) if hit)
    rate = min(part / math.fsum(d.weight for d in draws), 1.0) if draws else math.nan
    ends = _interval(rate, n, confidence)
    low, high = ends if n == math.inf else _whole(ends, hits, draws)
    return sum(hits), len(hits), rate, low, high, n


def _interval(rate: float, n: float, confidence: float) -> _Interval:
    """Wilson's interval of a share of as many draws; of a share that is known it has no width."""
    if n == math.inf:
        return rate, rate
    return wilson(min(rate * n, n), n, confidence) if n else (0.0, 1.0)


def _whole(ends: _Interval, hits: Sequence[bool], draws: Sequence[Drawn]) -> _Interval:
    """An interval out to whole numbers of faults, where each is tried once at most.

    As many as were hits are hits, and as many as were none are none, for certain.
    """
    faults = round(math.fsum(draw.faults for draw in draws), 6)
    if not 0 < faults < math.inf:
        return ends
    seen = sum(hits)
    least = max(math.floor(ends[0] * faults), seen)
    most = min(math.ceil(ends[1] * faults), faults - (len(hits) - seen))
    return least / faults, most / faults


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
        worth: How many equally likely draws the ``n`` are worth; see `design.worth`.
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
        draws: Sequence[Drawn],
        confidence: float,
    ) -> Coverage:
        """From whether it caught each of these injections, by row, and how all rows were drawn."""
        hits, mine = list(caught.values()), [draws[row] for row in caught]
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
    draws: tuple[Sequence[Drawn] | None, Sequence[Drawn] | None] = (None, None),
) -> list[Contrast]:
    """Every outcome that either campaign has, with the interval of the difference."""
    both = dict.fromkeys((*mine, *other))
    seen = [name for name in order if name in both and name != NOT_TESTED]
    sides = ((mine, draws[0]), (other, draws[1]))
    first, second = ([_known(name, *side, confidence) for name in seen] for side in sides)
    found = []
    for name, a, b in zip(seen, first, second, strict=True):
        known = not (math.isnan(a.rate) or math.isnan(b.rate))
        ends = ((side.rate, side.low, side.high) for side in (b, a))
        low, high = _newcombe(*ends) if known else (-1.0, 1.0)
        found.append(Contrast(name, a.rate, b.rate, b.rate - a.rate, low, high))
    return found


def _known(
    name: str, outcomes: Sequence[str], draws: Sequence[Drawn] | None, confidence: float
) -> Rate:
    """The rate of one outcome in all rows; of none it is NaN."""
    draws = [Drawn()] * len(outcomes) if draws is None else draws
    rows = list(zip(outcomes, draws, strict=True))
    return Rate("all", name, *_rate({name}, rows, confidence))
