"""Random numbers that belong to an identity: nothing depends on who draws what when.

seed_of(campaign=1, injection=417)
draw(1_000_000, 370, "random")      370 different numbers; a longer draw begins with them
"""

from __future__ import annotations

import hashlib

from fi_notebook.errors import FiError

__all__ = ["CampaignError", "draw", "number_of", "seed_of"]


class CampaignError(FiError, ValueError):
    """A campaign that cannot be: no site, no fault, no importable session."""


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
