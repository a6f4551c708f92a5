"""Generators whose draws depend on what a fault *is*, never on what was drawn before.

    identity = firing(fault, site, step, rank=rank)
    generator(fault.seed, *identity)

gives the same numbers in any order of calls and in any process, and leaves the
global generators alone. Draws of different devices differ, as torch's do.
"""

from __future__ import annotations

import hashlib
import json

import torch

from fi_notebook.core.fault import Fault
from fi_notebook.core.match import unwrapped
from fi_notebook.core.site import Site

__all__ = ["comes_up", "firing", "generator"]


def firing(
    fault: Fault, site: Site, step: int, *, rank: int = 0, micro_batch: int = 0
) -> tuple[object, ...]:
    """What tells a firing from every other: the identity that seeds its draws.

    Args:
        fault: The fault.
        site: Where it strikes; only what identifies it counts, and no wrapper of the model.
        step: The step, from 0.
        rank: Rank of this process; of a fault that all ranks make together none counts.
        micro_batch: Root forward of the step, from 0; counts for stored tensors alone, since a
            call has a number of its own.

    Returns:
        What `generator` and `comes_up` take.
    """
    who = (fault.id, -1 if fault.model == "wrong_reduction" else rank, step)
    if site.kind == "call":
        return (*who, site.op, site.call, site.output, site.index)
    return (*who, site.kind, unwrapped(site.op), *([micro_batch] if micro_batch > 0 else []))


def generator(seed: int, *identity: object, device: torch.device | str = "cpu") -> torch.Generator:
    """A new generator, seeded by a hash of the seed and the identity.

    Args:
        seed: Seed of the fault.
        *identity: What tells this strike from every other: text, numbers.
        device: Device of the tensor that is struck.

    Returns:
        A generator on that device; the global ones are not drawn from.
    """
    text = json.dumps([seed, *identity], default=str)
    digest = hashlib.sha256(text.encode()).digest()
    made = torch.Generator(device=device)
    made.manual_seed(int.from_bytes(digest[:8], "big") >> 1)
    return made


def comes_up(probability: float, seed: int, *identity: object) -> bool:
    """Draw whether a fault with a probability strikes at one place.

    Args:
        probability: How often it strikes, 0 to 1.
        seed: Seed of the fault.
        *identity: What tells this strike from every other, as for `generator`.

    Returns:
        Whether it strikes; the same for the same seed and identity.
    """
    if probability >= 1:
        return True
    draws = generator(seed, *identity, "trigger")
    return float(torch.rand((), generator=draws, dtype=torch.float32, device="cpu")) < probability
