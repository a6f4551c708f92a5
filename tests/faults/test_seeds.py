"""Generators from identity."""

from __future__ import annotations

import hashlib

import torch
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook import faults
from fi_notebook.core.fault import Fault
from fi_notebook.core.site import Site


def draw(*identity: object) -> list[int]:
    """A few draws of the generator of an identity."""
    return torch.randint(1 << 60, (4,), generator=faults.generator(*identity)).tolist()  # type: ignore[arg-type]


@given(st.integers(), st.lists(st.one_of(st.text(), st.integers())))
def test_the_same_identity_draws_the_same(seed: int, identity: list[object]) -> None:
    """In any order of calls."""
    first = draw(seed, *identity)
    draw(seed + 1, "other")
    assert draw(seed, *identity) == first


def test_whatever_differs_draws_differently() -> None:
    """Seed, fault, rank, step, call and output each count, and text is no number."""
    identities = [(0,), (1,), (0, "f1"), (0, "f2"), (0, "f1", 1), (0, "f1", "1"), (0, "f", 1, 1)]
    assert len({tuple(draw(*identity)) for identity in identities}) == len(identities)


def test_these_draws_never_change() -> None:
    """A saved plan strikes the same elements in every version."""
    digest = hashlib.sha256(b'[7, "f1", 0]').digest()
    seed = int.from_bytes(digest[:8], "big") >> 1
    assert faults.generator(7, "f1", 0).initial_seed() == seed == 5911582245396338648


def test_the_identity_of_a_firing_never_changes() -> None:
    """A saved plan strikes the same elements in every version, whoever asks for them."""
    site = Site("mm", 3, 0, 2, overload="default", phase="forward")
    stored = Site("fc.weight", kind="param")
    fault = Fault("f1", site.target, "random")
    assert faults.firing(fault, site, 4) == ("f1", 0, 4, "mm", 3, 0, 2)
    assert faults.firing(fault, site, 4, rank=1, micro_batch=2) == ("f1", 1, 4, "mm", 3, 0, 2)
    assert faults.firing(fault, stored, 4) == ("f1", 0, 4, "param", "fc.weight")
    assert faults.firing(fault, stored, 4, micro_batch=2) == ("f1", 0, 4, "param", "fc.weight", 2)
    together = Fault("f1", site.target, "wrong_reduction")
    assert faults.firing(together, site, 4, rank=1) == ("f1", -1, 4, "mm", 3, 0, 2)


def test_the_global_generator_does_not_move() -> None:
    """Neither by making a generator nor by drawing from it."""
    before = torch.get_rng_state()
    for name in ("bitflip", "random", "random_finite", "noise", "permute", "wrong_address"):
        faults.apply(torch.randn(50, generator=faults.generator(1)), name, {"count": 5}, seed=9)
    faults.apply(torch.zeros(50), "bitflip", seed=9, ber=0.1)
    for elements in ("fraction", 0.5), ("tile", [1, 2]), ("row", "any"), ("run", 3):
        faults.apply(torch.zeros(5, 4), "zero", dict([elements]), seed=9)
    assert torch.equal(torch.get_rng_state(), before)
