"""Which faults of a population a campaign tries, and in which order.

    planned(population, 370, "random", seed=1)
    planned(population, 400, "stratified", seed=1, strata="layer")
    planned(population, None, "exhaustive", seed=1)

Draws come from hashes of (campaign seed, number), so a longer random campaign begins
with the shorter one.
"""

from __future__ import annotations

from collections.abc import Mapping

from fi_notebook.campaign.draws import CampaignError, check_whole, draw, number_of
from fi_notebook.campaign.population import Point, Population, check_group
from fi_notebook.core.words import counted
from fi_notebook.errors import did_you_mean, short

__all__ = ["STRATEGIES", "check_sample", "grouping", "planned"]

STRATEGIES = ("random", "stratified", "exhaustive")
"""How points are chosen."""


def check_sample(strategy: str, strata: str | Mapping[str, int], by: str) -> None:
    """Refuse a sample that can never be; see `planned`.

    Raises:
        CampaignError: There is no such strategy or grouping, or a count is no whole number.
    """
    if strategy not in STRATEGIES:
        raise CampaignError(f"no strategy {strategy!r}{did_you_mean(str(strategy), STRATEGIES)}")
    if not isinstance(strata, (str, Mapping)):
        raise CampaignError(
            f"strata is {short(strata)}; expected a grouping such as 'layer', or counts by name"
        )
    check_group(grouping(strata, by))
    if isinstance(strata, Mapping):
        check_whole(0, **{f"strata[{name!r}]": count for name, count in strata.items()})


def grouping(strata: str | Mapping[str, int], by: str) -> str:
    """What the strata are groups of: they say it themselves, or are counts by name."""
    return strata if isinstance(strata, str) else by


def planned(
    population: Population,
    n: int | None,
    strategy: str,
    seed: int,
    *,
    strata: str | Mapping[str, int] = "layer",
    by: str = "layer",
) -> list[Point]:
    """The points of a campaign in order; injection 1 is the first.

    Args:
        population: What there is.
        n: How many, or None for all (exhaustive).
        strategy: One of `STRATEGIES`; `check_sample` refuses others.
        seed: Seed of the campaign.
        strata: What a stratified campaign is divided by, or the counts themselves.
        by: What the names of such counts are of.

    Raises:
        CampaignError: There is no such stratum, or a stratum has not so many.
    """
    count = len(population) if n is None else min(n, len(population))
    if strategy == "exhaustive":
        if n is not None and n < len(population):
            raise CampaignError(
                f"an exhaustive campaign has {len(population):,} injections, n allows {n:,}; "
                "choose fewer sites, or strategy='random'"
            )
        return [population[number] for number in range(count)]
    if strategy == "random":
        return [population[k] for k in _drawn(population, count, seed, "random")]
    return _stratified(population, count, seed, strata, by)


def _drawn(population: Population, n: int, seed: int, name: str) -> list[int]:
    """Draw points; of a small population most are drawn, so it is shuffled instead."""
    size = len(population)
    if n * 2 < size:
        return draw(size, n, seed, name)
    return sorted(range(size), key=lambda k: number_of("shuffle", seed, name, k))[:n]


def _stratified(
    population: Population, n: int, seed: int, strata: str | Mapping[str, int], by: str
) -> list[Point]:
    """Draw each stratum by itself, and take turns, so that every beginning is balanced."""
    groups = population.by(grouping(strata, by))
    counts = _shares(groups, n) if isinstance(strata, str) else _asked(groups, strata)
    drawn = [
        [groups[name][k] for k in _drawn(groups[name], count, seed, name)]
        for name, count in counts.items()
    ]
    turns = range(max(map(len, drawn), default=0))
    return [points[turn] for turn in turns for points in drawn if turn < len(points)]


def _shares(groups: Mapping[str, Population], n: int) -> dict[str, int]:
    """Equal shares; what a small stratum cannot take goes to the others."""
    counts = dict.fromkeys(groups, 0)
    left = n
    while left:
        open_groups = [name for name in groups if counts[name] < len(groups[name])]
        share, more = divmod(left, len(open_groups))
        for place, name in enumerate(open_groups):
            taken = min(share + (place < more), len(groups[name]) - counts[name])
            counts[name] += taken
            left -= taken
    return counts


def _asked(groups: Mapping[str, Population], counts: Mapping[str, int]) -> dict[str, int]:
    for name, count in counts.items():
        if name not in groups:
            raise CampaignError(f"no stratum {name!r}{did_you_mean(name, groups)}")
        if count > len(groups[name]):
            known = counted(len(groups[name]), "fault")
            raise CampaignError(f"stratum {name!r} has {known}, not {count}")
    return dict(counts)
