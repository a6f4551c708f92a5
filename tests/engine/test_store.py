from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fi_notebook.engine.measure import compare_kept
from fi_notebook.engine.spill import Spill
from fi_notebook.engine.store import SAMPLE, SiteKey, ValueStore, budget_of, sampled

LARGE = torch.arange(3.0 * SAMPLE)  # 768 KiB; every third element is sampled: 256 KiB
SMALL = torch.arange(100.0)  # 400 bytes


def key(n: int) -> SiteKey:
    """The key of ``relu*n:0``."""
    return ("relu", True, n, 0, -1)


def test_whole_while_it_fits() -> None:
    """768 KiB and 400 bytes in 1 MiB."""
    store = ValueStore(1 << 20)
    store.add(key(1), 0, LARGE)
    store.add(key(2), 1, SMALL)
    assert store.used == LARGE.numel() * 4 + 400
    assert store.report()["exact"]


def test_the_largest_gives_way_to_smaller_ones() -> None:
    """Where 400 bytes no longer fit, the 768 KiB become a sample of 65,536 elements."""
    store = ValueStore(LARGE.numel() * 4)
    store.add(key(1), 0, LARGE)
    store.add(key(2), 1, SMALL)
    assert store.used == SAMPLE * 4 + 400
    assert [store.kept[key(n)].exact for n in (1, 2)] == [False, True]
    sample = store.kept[key(1)].sample
    assert sample is not None
    assert sample.tolist() == list(range(0, 3 * SAMPLE, 3))


def test_the_budget_is_never_passed() -> None:
    """Ten tensors of 768 KiB in 1 MiB: four samples of 256 KiB, the others by hash."""
    store = ValueStore(1 << 20)
    for n in range(10):
        store.add(key(n), n, LARGE + n)
        assert store.used <= store.budget
    report = store.report()
    assert (report["whole"], report["sampled"], report["hashed"]) == (0, 4, 6)


def test_some_sites_are_whole_whatever_the_budget() -> None:
    """And counted beside it."""
    store = ValueStore(0, always={key(1)})
    store.add(key(1), 0, LARGE)
    assert (store.used, store.beyond) == (0, LARGE.numel() * 4)
    assert store.kept[key(1)].exact


def test_only_what_was_asked_for() -> None:
    """A store for one site keeps nothing else."""
    store = ValueStore(1 << 20, always={key(1)}, only=True)
    store.add(key(1), 0, SMALL)
    store.add(key(2), 1, SMALL)
    assert list(store.kept) == [key(1)]


@pytest.mark.parametrize(
    ("numel", "size"),
    [
        (SAMPLE, SAMPLE),
        (SAMPLE + 1, SAMPLE // 2 + 1),
        (100_000, 50_000),
        (2 * SAMPLE, SAMPLE),
        (2 * SAMPLE + 1, (2 * SAMPLE + 1) // 3),
    ],
)
def test_a_sample_has_at_most_its_size_at_fixed_places(numel: int, size: int) -> None:
    """All of 65,536 elements, every other one up to twice as many, every third beyond."""
    assert sampled(torch.zeros(numel)).numel() == size


def test_shrinking_frees_memory_whatever_the_size() -> None:
    """Two of 100,000 and one of 90,000 float32 in 800,000 bytes: 50,000 twice and the last."""
    store = ValueStore(800_000)
    for n, numel in enumerate((100_000, 100_000, 90_000)):
        store.add(key(n), n, torch.zeros(numel))
    assert store.used == 2 * 200_000 + 360_000
    assert [store.kept[key(n)].exact for n in range(3)] == [False, False, True]


def test_a_hash_alone_tells_whether_and_a_sample_how_far() -> None:
    """All doubled: relative L2 1 by sample; not measured by hash; equal is exact by either."""
    for budget, expected in ((SAMPLE * 4, 1.0), (0, None)):
        store = ValueStore(budget)
        store.add(key(1), 0, LARGE)
        kept = store.kept[key(1)]
        equal = compare_kept(kept, LARGE.clone())
        assert (equal.equal, equal.exact) == (True, True)
        found = compare_kept(kept, LARGE * 2)
        assert (found.equal, found.exact) == (False, False)
        assert found.numel == LARGE.numel()
        if expected is None:
            assert found.relative_l2 != found.relative_l2  # NaN: left to the statistics
        else:
            assert found.relative_l2 == pytest.approx(expected)
            assert found.changed == LARGE.numel() - 3  # of the sample all but the 0: times 3


def test_every_count_of_a_sample_is_of_the_whole_tensor() -> None:
    """Of 3 * 65,536 elements every third is seen: a third of each kind stands for all of it."""
    golden = torch.ones(3 * SAMPLE)
    faulty = golden.clone()
    faulty[: 3 * 100] = -1.0
    faulty[3 * 100 : 3 * 150] = torch.nan
    faulty[3 * 150 : 3 * 170] = torch.inf
    store = ValueStore(SAMPLE * 4)
    store.add(key(1), 0, golden)
    found = compare_kept(store.kept[key(1)], faulty)
    assert (found.exact, found.numel, found.changed) == (False, 3 * SAMPLE, 3 * 170)
    assert (found.sign_flips, found.new_nan, found.new_inf) == (300, 150, 60)


def test_spilled_tensors_are_exact(tmp_path: Path) -> None:
    """bfloat16 and bool come back bit for bit; complex stays a sample."""
    spill = Spill(tmp_path / "golden.safetensors")
    store = ValueStore(0, spill=spill)
    tensors = [SMALL.bfloat16(), SMALL > 3, SMALL * 1j]
    for n, tensor in enumerate(tensors):
        store.add(key(n), n, tensor)
    spill.finish()
    kept = [store.kept[key(n)] for n in range(3)]
    assert [k.exact for k in kept] == [True, True, False]
    for k, tensor in zip(kept[:2], tensors[:2], strict=True):
        assert k.whole is not None
        assert torch.equal(k.whole, tensor)
    assert store.report()["spilled"] == 200 + 100
    assert compare_kept(kept[0], (SMALL + 1).bfloat16()).exact


def test_auto_is_a_share_of_what_is_free() -> None:
    """Never more than 2 GiB."""
    assert 0 < budget_of("auto") <= 2 << 30
    assert budget_of(7) == 7
