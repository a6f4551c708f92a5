"""Random numbers that belong to an identity: nothing depends on who draws what when.

    seed_of(campaign=1, injection=417)
    draw(1_000_000, 370, "random")     370 different numbers; a longer draw begins with them
    shuffled(4, "exhaustive")          0 to 3, in an order of their own
    check_whole(n="5")                 CampaignError: n is '5'; expected a whole number from 1

Limits: `draw` is for few of many; `shuffled` takes time and memory for all.
"""

from __future__ import annotations

import hashlib
import math

from fi_notebook.core import whole
from fi_notebook.errors import CampaignError, short

__all__ = [
    "CampaignError",
    "check_above_zero",
    "check_whole",
    "draw",
    "number_of",
    "seed_of",
    "shuffled",
]


def check_whole(least: int = 1, **numbers: object) -> None:
    """Refuse what is no whole number.

    Args:
        least: The smallest that is one.
        **numbers: The numbers by name.

    Raises:
        CampaignError: Names what was given and what was expected.
    """
    for name, value in numbers.items():
        whole.check_whole(name, value, least, CampaignError)


def check_above_zero(most: float = math.inf, **numbers: object) -> None:
    """Refuse what is no number above 0.

    Args:
        most: The largest that is one.
        **numbers: The numbers by name.

    Raises:
        CampaignError: Names what was given and what was expected.
    """
    limit = "" if most == math.inf else f" and at most {most:g}"
    for name, value in numbers.items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not 0 < value <= most:  # type: ignore[operator]  # it is a number
            raise CampaignError(f"{name} is {short(value)}; expected a number above 0{limit}")


def number_of(*identity: object) -> int:
    """A number of 256 bits that belongs to an identity."""
    text = "/".join(map(str, identity))
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")


def seed_of(campaign: int, injection: int) -> int:
    """The seed of an injection's fault: of the campaign's seed and its number alone."""
    return number_of("injection", campaign, injection) & ((1 << 48) - 1)


def draw(population: int, n: int, *identity: object) -> list[int]:
    """Draw n different numbers below ``population``; a longer draw begins with a shorter."""
    seen: dict[int, None] = {}
    attempt = 0
    while len(seen) < min(n, population):
        seen.setdefault(number_of("draw", *identity, attempt) % population)
        attempt += 1
    return list(seen)


def shuffled(population: int, *identity: object) -> list[int]:
    """All numbers below ``population``, in an order that belongs to the identity."""
    return sorted(range(population), key=lambda k: number_of("shuffle", *identity, k))
