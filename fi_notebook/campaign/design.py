"""How injections were drawn, and how many equally likely draws they are worth.

    worth([True, False], [Drawn(450.0, "a"), Drawn(50.0, "b")])     1.22
    draws_of([place, place], 4768)                                  one `Drawn` each

A share of rows that stand for unlike numbers of faults has the variance of a stratified draw,
in which each stratum has its own share. Rows of one drawn element are no independent draws:
what varies is the element (the unit). What an interval needs is how many equally likely draws
have that variance (Korn and Graubard, 1998); they are never more than where all strata are alike
(Kish, 1965). Where each fault is tried once at most, the part of them that was tried is known.

Limits: half a hit in one more unit, which the strata share by their weight, keeps those of which
all or none are hits from seeming sure; of few units intervals are rather too wide.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Drawn", "draws_of", "least_worth", "tried_once", "worth"]


@dataclass(frozen=True, slots=True)
class Drawn:
    """How one injection was drawn.

    Attributes:
        weight: For how many faults it stands.
        stratum: In which stratum it was drawn.
        unit: The element that was drawn before; None where the fault itself was drawn.
        made: How many units of its stratum were made; 0 is as many as are looked at.
        size: How many faults its stratum has that are tried once at most; infinity where they
            may come again.
    """

    weight: float = 1.0
    stratum: str = ""
    unit: Hashable = None
    made: int = 0
    size: float = math.inf

    @property
    def left(self) -> float:
        """The part of the variance that is left once so many of its stratum were tried."""
        if self.size == math.inf:
            return 1.0
        return max(self.size - self.made, 0) / max(self.size - 1, 1)

    @property
    def faults(self) -> float:
        """How many faults of its stratum there are for each that was made, itself included."""
        return math.inf if self.size == math.inf else max(self.size / self.made, 1.0)


@dataclass(slots=True)
class _Unit:
    """What was drawn as one: its weight, and the weight of its hits."""

    whole: float = 0.0
    hits: float = 0.0


def worth(hits: Sequence[bool], draws: Sequence[Drawn]) -> float:
    """How many equally likely draws give the share of hits as surely as these do.

    The larger of two variances counts: that of the strata, ``Σ W² p (1 - p) / n``, and what it
    would be if all strata and all rows were alike, ``p (1 - p) Σ w² / (Σ w)²``.

    Args:
        hits: Whether each injection is one.
        draws: How each was drawn.

    Returns:
        As many as there are where all were drawn alike; infinity where all faults were tried.
    """
    whole = math.fsum(draw.weight for draw in draws)
    most = math.fsum(draw.weight**2 * draw.left for draw in draws)
    strata = _strata(hits, draws)
    if len(strata) > 1 or any(draw.unit is not None for draw in draws):
        most = max(most, _of_strata(strata, whole, draws))
    return _draws_of(most, draws)


def least_worth(draws: Sequence[Drawn]) -> float:
    """What planned injections are worth at worst: a unit ends in one way, as often as not."""
    units = (unit for named in _strata([], draws).values() for unit in named.items())
    left = {draw.stratum: draw.left for draw in draws}
    most = math.fsum(unit.whole**2 * left[stratum] for (stratum, _), unit in units)
    return _draws_of(most, draws)


def _draws_of(variance: float, draws: Sequence[Drawn]) -> float:
    """How many equally likely draws have a variance: of what is known infinitely many."""
    whole = math.fsum(draw.weight for draw in draws)
    return whole**2 / variance if variance else math.inf if draws else 0.0


_Key = tuple[str, Hashable]


def _strata(hits: Sequence[bool], draws: Sequence[Drawn]) -> dict[str, dict[_Key, _Unit]]:
    """The units of each stratum; a row that was drawn by itself is one."""
    found: dict[str, dict[_Key, _Unit]] = {}
    for number, draw in enumerate(draws):
        key = (draw.stratum, ("row", number) if draw.unit is None else draw.unit)
        unit = found.setdefault(draw.stratum, {}).setdefault(key, _Unit())
        unit.whole += draw.weight
        unit.hits += draw.weight * bool(hits and hits[number])
    return found


def _of_strata(
    strata: Mapping[str, Mapping[_Key, _Unit]], whole: float, draws: Sequence[Drawn]
) -> float:
    """The variance of the weight of all hits, over that of one draw of their share."""
    units = {name: list(named.values()) for name, named in strata.items()}
    parts = {name: math.fsum(unit.whole for unit in mine) / whole for name, mine in units.items()}
    shares = {name: _share(mine, parts[name]) for name, mine in units.items()}
    share = math.fsum(parts[name] * shares[name] for name in units)
    how = {draw.stratum: draw for draw in draws}
    found = math.fsum(
        how[name].left * _variance(mine, how[name].made, parts[name], (shares[name], share))
        for name, mine in units.items()
    )
    return found / (share * (1 - share))


def _share(units: Sequence[_Unit], part: float) -> float:
    """The share of hits of a stratum, with half a hit in its part of one more unit."""
    more = part * math.fsum(unit.whole for unit in units) / len(units)
    hits, whole = (math.fsum(getattr(unit, name) for unit in units) for name in ("hits", "whole"))
    return (hits + more / 2) / (whole + more)


def _variance(units: Sequence[_Unit], made: int, part: float, shares: tuple[float, float]) -> float:
    """Of what the hits of a stratum are more than the share, with its part of one more unit.

    Which of its units are looked at (those of one layer, say) is chance as well, but for what
    all have in common where all are looked at.
    """
    n, (mine, share) = len(units), shares
    size = math.fsum(unit.whole for unit in units) / n
    more = part * size**2 * ((1 - share) ** 2 + share**2) / 2
    squares = math.fsum((unit.hits - share * unit.whole) ** 2 for unit in units) + more
    common = (size * (mine - share)) ** 2 * n / max(made, n)
    return n * max(squares / (n + part) - common, 0.0)


def draws_of(places: Sequence[Mapping[str, Any]], population: float = math.inf) -> list[Drawn]:
    """How injections were drawn, by what their rows say of the place.

    Args:
        places: The place of each injection; of a stratified campaign they say the stratum and
            its size, of drawn elements the ``unit``.
        population: How many faults there are that are tried once at most; infinity where
            they may come again.
    """
    made = Counter(place.get("stratum") for place in places)
    units: dict[Any, set[Hashable]] = {}
    for number, place in enumerate(places):
        units.setdefault(place.get("stratum"), set()).add(
            _unit(place) if "unit" in place else number
        )
    again = population == math.inf or any("unit" in place for place in places)
    found = []
    for place in places:
        name = place.get("stratum")
        size = population if name is None else place["stratum_size"]
        found.append(
            Drawn(
                weight=1.0 if name is None else size / made[name],
                stratum=str(name or ""),
                unit=_unit(place),
                made=len(units[name]),
                size=math.inf if again else size,
            )
        )
    return found


def tried_once(campaign: Mapping[str, Any]) -> float:
    """How many faults there are that are tried once at most, by what rows say of their campaign.

    Args:
        campaign: What they say; those of an older version do not say it.

    Returns:
        Infinity where that is unknown, or a fault draws and is another one each time.
    """
    return math.inf if campaign.get("draws", True) else float(campaign["population"])


def _unit(place: Mapping[str, Any]) -> Hashable:
    """The element of one site that was drawn, or None."""
    return (place.get("order"), place["unit"]) if "unit" in place else None
