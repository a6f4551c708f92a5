"""How many draws unlike rows are worth: strata, drawn elements, a good part of all faults."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fi_notebook import Campaign
from fi_notebook.campaign.design import Drawn, draws_of, least_worth, worth
from fi_notebook.campaign.pictures import Pictures
from fi_notebook.campaign.results import Results
from fi_notebook.campaign.statistics import contrasts, rates_of, wilson
from fi_notebook.core.run import HARMLESS, OUTCOMES
from tests.campaign import sessions


def _interval(hits: list[bool], draws: list[Drawn]) -> tuple[float, float]:
    outcomes = ["changed" if hit else "masked_exact" for hit in hits]
    (rate,) = rates_of({"changed": ("changed",)}, ["all"] * len(hits), outcomes, draws)
    return rate.low, rate.high


def test_unlike_strata_are_covered_as_often_as_is_said() -> None:
    """One stratum of 20 % of the faults at one half, twenty of 4 % at 0; 20 injections of each.

    The truth is 0.2 · 0.5 = 0.1. Only the heavy stratum varies, binomially: the interval holds
    0.1 for 5 to 13 hits of 20, with probability 1 - 66,656 / 2^20 = 93.6 %. By Kish's number
    alone, 1000² / (20 · 10² + 400 · 2²) = 277.8, it would for 7 to 13, in 88.5 %.
    """
    draws = [Drawn(200 / 20, "heavy")] * 20
    draws += [Drawn(40 / 20, f"light {n}") for n in range(20) for _ in range(20)]
    held = [
        count
        for count in range(21)
        if (ends := _interval([k < count for k in range(420)], draws))[0] <= 0.1 <= ends[1]
    ]
    assert held == list(range(5, 14))
    assert sum(math.comb(20, k) for k in held) == 2**20 - 66_656
    kish = 1000**2 / (20 * 10**2 + 400 * 2**2)
    alone = [wilson(count / 100 * kish, kish) for count in range(21)]
    assert [count for count, (low, high) in enumerate(alone) if low <= 0.1 <= high] == held[2:]


def test_bits_of_drawn_elements_are_covered_as_8_draws_are() -> None:
    """8 elements of 23 bits, of which all or none do harm, as half of all elements do.

    The interval holds 0.5 for 2 to 6 harmful elements: (2^8 - 2 · 9) / 2^8 = 93.0 %. That of 184
    independent draws would for 4 alone: 70 / 256 = 27.3 %.
    """
    draws = [Drawn(unit=element) for element in range(8) for _ in range(23)]
    ends = [_interval([n < 23 * bad for n in range(184)], draws) for bad in range(9)]
    held = [bad for bad, (low, high) in enumerate(ends) if low <= 0.5 <= high]
    assert held == [2, 3, 4, 5, 6]
    plain = [wilson(23 * bad, 184) for bad in range(9)]
    assert [bad for bad, (low, high) in enumerate(plain) if low <= 0.5 <= high] == [4]


def test_elements_that_end_in_one_way_are_worth_one_draw_each() -> None:
    """8 elements of 23 bits: nothing is known but of 8, if none or all of each do harm."""
    draws = [Drawn(unit=element) for element in range(8) for _ in range(23)]
    assert worth([False] * 184, draws) == pytest.approx(8)
    assert least_worth(draws) == pytest.approx(8)
    half = [number < 92 for number in range(184)]
    assert worth(half, draws) == pytest.approx(8)
    alike = [number % 23 < 10 for number in range(184)]  # 10 bits of each
    assert 8 < worth(alike, draws) <= 184


def test_what_is_drawn_without_replacement_is_worth_more() -> None:
    """278 of 1,000: 278 · 999 / 722 = 384.66 draws; all 1,000 are known, with no width.

    139 hits: Wilson's 45.028 % to 54.972 %, out to whole faults of 1,000 450 to 550.
    """
    draws = draws_of([{}] * 278, 1000)
    assert worth([True] * 278, draws) == pytest.approx(278 * 999 / 722)
    low, high = _interval([n < 139 for n in range(278)], draws)
    ends = wilson(139 * 999 / 722, 278 * 999 / 722)
    assert ends == pytest.approx((0.45028, 0.54972), abs=5e-6)
    assert (low, high) == (0.45, 0.55)  # half of it is 0.05, what the sample size was for
    census = draws_of([{}] * 1000, 1000)
    assert worth([True] * 1000, census) == math.inf
    assert _interval([n < 300 for n in range(1000)], census) == (0.3, 0.3)


@pytest.mark.parametrize(
    ("population", "n", "least"),
    [(10, 5, 97.6), (60, 30, 96.1), (60, 55, 98.4), (200, 100, 95.3), (200, 190, 98.2)],
)
def test_a_good_part_of_all_faults_is_covered_as_often_as_is_said(
    population: int, n: int, least: float
) -> None:
    """Of all draws of n faults, for every number of hits among all, at least 95 % hold the truth.

    C(H, k) C(N - H, n - k) of the C(N, n) have k of H hits.
    """
    draws = draws_of([{}] * n, population)
    ends = [_interval([number < k for number in range(n)], draws) for k in range(n + 1)]
    covered = [
        sum(
            math.comb(hits, k) * math.comb(population - hits, n - k)
            for k, (low, high) in enumerate(ends)
            if k <= hits and low <= hits / population <= high
        )
        for hits in range(population + 1)
    ]
    assert round(100 * min(covered) / math.comb(population, n), 1) == least


@pytest.mark.parametrize("strata", [1, 10])
def test_what_was_not_tried_yet_may_be_a_hit(strata: int) -> None:
    """0 of 180 of 200: at most 1, as C(199, 180) / C(200, 180) = 10 % of all draws would miss.

    In one stratum or ten; 180 of 180 are at least 199.
    """
    places: list[dict[str, Any]] = [
        {"stratum": str(number % strata), "stratum_size": 200 // strata} for number in range(180)
    ]
    draws = draws_of(places if strata > 1 else [{}] * 180, 200)
    assert _interval([False] * 180, draws) == pytest.approx((0.0, 1 / 200))
    assert _interval([True] * 180, draws) == pytest.approx((199 / 200, 1.0))


def test_what_was_tried_is_known() -> None:
    """3 hits of 199 of 200 are 3 or 4 of all; of a group of 10 of 20 tried, in which 1 of 5 hit,
    1 to 6 of 10, since 4 are none.
    """
    assert _interval([n < 3 for n in range(199)], draws_of([{}] * 199, 200)) == (3 / 200, 4 / 200)
    (low, high) = _interval([True] + [False] * 4, draws_of([{}] * 10, 20)[:5])
    assert (low, high) == (1 / 10, 6 / 10)


def test_a_census_differs_for_certain() -> None:
    """300 of all 1,000 against 310 of all 1,000: 1 %, and nothing else."""
    mine, other = (["changed"] * n + ["masked_exact"] * (1000 - n) for n in (300, 310))
    census = draws_of([{}] * 1000, 1000)
    found = {c.outcome: c for c in contrasts(mine, other, OUTCOMES, draws=(census, census))}
    assert found["changed"].low == pytest.approx(0.01)
    assert found["changed"].high == pytest.approx(0.01)
    assert found["changed"].clear


def test_draws_are_read_from_rows() -> None:
    """2 of a stratum of 10, 1 of one of 90; a few elements make units; unknown sizes no end."""
    first, second = {"stratum": "a", "stratum_size": 10}, {"stratum": "b", "stratum_size": 90}
    found = draws_of([first, second, first], 100)
    assert [(d.weight, d.stratum, d.made) for d in found] == [
        (5, "a", 2),
        (90, "b", 1),
        (5, "a", 2),
    ]
    assert [d.left for d in found] == [8 / 9, 1, 8 / 9]
    (unit, again, other) = draws_of([{"order": 3, "unit": n} for n in (7, 7, 8)], 96)
    assert unit == again == Drawn(unit=(3, 7), made=2)
    assert other.unit == (3, 8)
    assert draws_of([{}]) == [Drawn(made=1)]


@pytest.fixture(scope="module")
def swept() -> Campaign:
    """Every bit of 4 of the 768 elements of one site."""
    campaign = Campaign.of_site(sessions.quickstart(), "relu*2:0", elements=4, seed=3)
    campaign.run()
    return campaign


def test_a_sweep_is_of_its_elements(swept: Campaign) -> None:
    """128 rows of 4 units, so each rate is of at least 4 and less than 128 draws."""
    assert len({drawn.unit for drawn in swept.results.draws}) == 4
    assert all(4 - 1e-9 <= rate.worth < 128 for rate in swept.rates() if rate.count < 128)
    worths = [rate.worth for rate in swept.rates("bit")]
    assert worths == pytest.approx([4] * len(worths))  # each row is of another element


def test_all_elements_are_no_drawn_ones() -> None:
    """The loss is one element: its 32 bits are all there is, and the rates are exact."""
    campaign = Campaign.of_site(sessions.quickstart(), "nll_loss_forward*1:0", elements=8)
    assert "Every one of them is tried, so the rates are exact." in str(campaign.dry_run(tried=1))
    assert all(rate.low == rate.rate == rate.high for rate in campaign.run().rates())


@pytest.fixture(scope="module")
def weighed() -> Results:
    """120 injections of unlike weight, over two steps."""
    how: dict[str, Any] = {"strategy": "stratified", "strata": "op", "steps": 2, "seed": 1}
    found = Campaign("tests.campaign.sessions:quickstart", n=120, **how).run()
    assert len(set(found.weights)) > 3
    return found


def _harm(results: Results, by: str) -> dict[str, float]:
    return {rate.group: rate.rate for rate in results.rates(by, of="harm")}


def test_every_picture_agrees_with_the_rates(weighed: Results) -> None:
    """The share of harm by layer and bit, along the step and in the bars is the weighted one."""
    pictures = Pictures(weighed)
    heat, pale = pictures.heat_map().data
    shares_drawn = np.fmax(heat.z, pale.z)  # each cell is in one of them
    weights, bits = np.asarray(weighed.weights), np.asarray(weighed.groups("bit"))
    harm = ~np.isin(weighed.outcomes, HARMLESS)
    layers = np.asarray(weighed.groups("layer"))
    for line, layer in enumerate(dict.fromkeys(heat.y)):
        for bit, share in zip(heat.x, shares_drawn[line], strict=True):
            mine = (layers == layer) & (bits == str(bit))
            if mine.any():
                assert share == pytest.approx(weights[mine & harm].sum() / weights[mine].sum())
                made = [int((mine & harm).sum()), int(mine.sum())]
                assert heat.customdata[line, bit].tolist() == made
    bars = pictures.timeline().data
    drawn = sorted(pair for bar in bars for pair in zip(bar.x, bar.y, strict=True))
    rates = _harm(weighed, "site")
    orders = {row.site: row.place["order"] for row in weighed}
    assert [x for x, _ in drawn] == sorted(orders.values())
    assert [y for _, y in drawn] == pytest.approx(
        [rates[site] for site in sorted(orders, key=lambda site: orders[site])]
    )
    shares = {rate.group: rate.rate for rate in weighed.rates("phase", of="changed")}
    (changed,) = (b for b in pictures.outcomes("phase").data if b.name == "changed")
    told = {name.split(" (")[0]: x for name, x in zip(changed.y, changed.x, strict=True)}
    assert told == pytest.approx(shares)


def test_quantiles_are_weighted() -> None:
    """Of equal weights they are numpy's; where one weighs 98 of 100 the median is its value."""
    from fi_notebook.report.figures.campaign import quantiles

    values = np.asarray([3.0, 1.0, np.nan, 2.0, 10.0])
    at = (0.1, 0.5, 0.9)
    assert quantiles(values, np.ones(5), at) == pytest.approx(np.nanquantile(values, at))
    heavy = quantiles(np.asarray([1.0, 2.0, 3.0]), np.asarray([1.0, 98.0, 1.0]), (0.5,))
    assert heavy == pytest.approx([2.0])
    assert np.isnan(quantiles(np.asarray([np.nan]), np.ones(1), at)).all()
