"""Which faults of a population a campaign tries, and in which order.

    planned(population, 370, "random", seed=1)
    planned(population, 400, "stratified", seed=1, strata="layer")
    planned(population, None, "exhaustive", seed=1)

Draws come from hashes of (campaign seed, number), so a longer campaign begins with the
shorter one, whatever the strategy. Where every fault is tried, they come in an order of that kind
as well, so that what was made when it is stopped is a sample of all.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping

from fi_notebook.campaign.draws import CampaignError, check_whole, draw, shuffled
from fi_notebook.campaign.population import Point, Population, check_group
from fi_notebook.core.words import counted
from fi_notebook.errors import did_you_mean, short

__all__ = ["STRATEGIES", "check_sample", "grouping", "planned"]

STRATEGIES = ("random", "stratified", "exhaustive")
"""How points are chosen."""


LAYER = "layer"
"""What a stratified campaign is divided by where nothing is said."""


def check_sample(
    strategy: str, strata: str | Mapping[str, int] | None, by: str, n: int | None = None
) -> None:
    """Refuse a sample that can never be; see `planned`.

    Raises:
        CampaignError: There is no such strategy or grouping, a count is no whole number, or
            there are strata and the campaign is not stratified.
    """
    given = strata is not None
    if strategy not in STRATEGIES:
        raise CampaignError(f"no strategy {strategy!r}{did_you_mean(str(strategy), STRATEGIES)}")
    if strata is None:
        strata = LAYER
    elif not isinstance(strata, (str, Mapping)):
        raise CampaignError(
            f"strata is {short(strata)}; expected a grouping such as 'layer', or counts by name"
        )
    check_group(grouping(strata, by))
    if isinstance(strata, Mapping):
        check_whole(0, **{f"strata[{name!r}]": count for name, count in strata.items()})
        if n is not None and strategy == "stratified" and n != sum(strata.values()):
            raise CampaignError(
                f"strata asks for {counted(sum(strata.values()), 'injection')} and n for {n:,}; "
                "leave n out"
            )
    if given and strategy != "stratified":
        raise CampaignError(
            f"strata is for strategy='stratified', not {strategy!r}; give that, or leave strata out"
        )


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
    every = len(population)
    count = every if n is None else n if population.has_no_end else min(n, every)
    if strategy == "exhaustive":
        if n is not None and n < len(population):
            raise CampaignError(
                f"an exhaustive campaign has {len(population):,} injections, n allows {n:,}; "
                "choose fewer sites, or strategy='random'"
            )
        return [population[number] for number in shuffled(every, seed, "exhaustive")]
    if strategy == "random":
        return [population[k] for k in _drawn(population, count, seed, "random")]
    return _stratified(population, count, seed, strata, by)


_FEW = 1 << 12
"""Points that are shuffled and not drawn one by one: most of them may be wanted."""


def _drawn(population: Population, n: int, seed: int, name: str) -> list[int]:
    """Draw points, each once before any comes again; a longer draw begins with a shorter."""
    size, found = len(population), list[int]()
    while len(found) < n:
        again = f"{name}/{len(found) // size}" if found else name
        found += _once(size, min(size, n - len(found)), seed, again)
    return found


def _once(size: int, n: int, seed: int, name: str) -> list[int]:
    if size > _FEW:
        return draw(size, n, seed, name)
    return shuffled(size, seed, name)[:n]


def _stratified(
    population: Population, n: int, seed: int, strata: str | Mapping[str, int], by: str
) -> list[Point]:
    """Draw each stratum by itself, and take turns, so that every beginning is balanced."""
    groups = population.by(grouping(strata, by))
    if isinstance(strata, str):
        most = {name: n if group.has_no_end else len(group) for name, group in groups.items()}
    else:
        most = _asked(groups, strata)
        n = sum(most.values())
    names = _turns(most, n)
    drawn = {
        name: iter(_drawn(groups[name], count, seed, name))
        for name, count in Counter(names).items()
    }
    return [groups[name][next(drawn[name])] for name in names]


def _turns(most: Mapping[str, int], n: int) -> list[str]:
    """Whose turn it is: all in order, again and again; who has no more is passed over."""
    n = min(n, sum(most.values()))
    turns = (name for turn in itertools.count() for name in most if turn < most[name])
    return list(itertools.islice(turns, n))


def _asked(groups: Mapping[str, Population], counts: Mapping[str, int]) -> dict[str, int]:
    for name, count in counts.items():
        if name not in groups:
            raise CampaignError(f"no stratum {name!r}{did_you_mean(name, groups)}")
        if count > len(groups[name]) and not groups[name].has_no_end:
            known = counted(len(groups[name]), "fault")
            raise CampaignError(f"stratum {name!r} has {known}, not {count}")
    return dict(counts)
