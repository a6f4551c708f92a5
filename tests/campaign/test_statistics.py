"""Sample sizes and intervals are those of the literature."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook.campaign.statistics import (
    contrasts,
    margin_of,
    newcombe,
    rates,
    sample_size,
    wilson,
)
from fi_notebook.core.run import OUTCOMES


@pytest.mark.parametrize(
    ("population", "margin", "n"),
    [
        (1_000, 0.05, 278),
        (10_000, 0.05, 370),
        (10_000, 0.01, 4_899),
        (1_000_000, 0.05, 384),
        (1_000_000, 0.01, 9_513),
        (10**9, 0.05, 384),
        (1, 0.05, 1),
    ],
)
def test_sample_sizes_are_leveugles(population: int, margin: float, n: int) -> None:
    """The formula of Leveugle et al. for p = 0.5 and 95 %: 277.7, 369.98, 4899.25, 384.01, 9512.7,
    384.16 and 1, each to the nearest number, as in the published tables.

    N / (1 + e² (N - 1) / (1.96² · 0.25)), such as 1e6 / (1 + 0.0025 · 999,999 / 0.9604).
    """
    assert sample_size(population, margin) == n


@given(st.integers(2, 10**9), st.floats(0.001, 0.5))
def test_a_sample_of_that_size_keeps_its_margin(population: int, margin: float) -> None:
    """There and back, for any population: but for half an injection, what was asked for."""
    n = sample_size(population, margin)
    assert 1 <= n <= population
    assert margin_of(n + 0.5, population) <= margin * (1 + 1e-9)
    assert margin_of(n - 0.5, population) >= margin * (1 - 1e-9)


@pytest.mark.parametrize(
    ("count", "n", "low", "high"),
    [(0, 100, 0.0, 0.0370), (5, 1000, 0.0021, 0.0117), (192, 384, 0.4502, 0.5498)],
)
def test_intervals_are_wilsons(count: int, n: int, low: float, high: float) -> None:
    """Wilson at 95 %; at 0 it does not collapse."""
    assert wilson(count, n) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(0, 500), st.integers(1, 500))
def test_an_interval_holds_its_rate_and_stays_a_share(count: int, n: int) -> None:
    """0 ≤ low ≤ count / n ≤ high ≤ 1, and the mirror image has the mirrored interval."""
    count = min(count, n)
    low, high = wilson(count, n)
    assert 0 <= low <= count / n <= high <= 1
    assert wilson(n - count, n) == pytest.approx((1 - high, 1 - low))


def test_a_difference_has_newcombes_interval() -> None:
    """56/70 - 48/80 = 0.2 with [0.0524, 0.3339] (Newcombe 1998, method 10)."""
    assert newcombe(56, 70, 48, 80) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_not_injected_is_counted_and_in_no_denominator() -> None:
    """2 changed, 1 masked, 1 inactive, 1 not injected: rates are of 4, that of the last of 5."""
    outcomes = ["changed", "changed", "masked_exact", "inactive", "not_injected"]
    found = {rate.outcome: rate for rate in rates(["all"] * 5, outcomes, OUTCOMES)}
    assert (found["changed"].count, found["changed"].n, found["changed"].rate) == (2, 4, 0.5)
    assert (found["inactive"].rate, found["masked_exact"].rate) == (0.25, 0.25)
    assert (found["not_injected"].n, found["not_injected"].rate) == (5, 0.2)


def test_a_group_of_which_nothing_was_injected_has_no_rate() -> None:
    """0 of 0: the rate is NaN and the interval says nothing."""
    found = rates(["a", "b"], ["not_injected", "changed"], OUTCOMES)
    rate = next(r for r in found if (r.group, r.outcome) == ("a", "changed"))
    assert math.isnan(rate.rate)
    assert (rate.low, rate.high) == (0.0, 1.0)


def test_two_campaigns_are_compared_with_an_interval() -> None:
    """80 of 100 against 20 of 100: -60 %, which leaves out 0; equal ones do not."""
    before = ["changed"] * 80 + ["masked_exact"] * 20
    after = ["changed"] * 20 + ["masked_exact"] * 80
    changed, masked = sorted(contrasts(before, after, OUTCOMES), key=lambda c: c.outcome)
    assert changed.difference == pytest.approx(-0.6)
    assert changed.clear
    assert masked.difference == pytest.approx(0.6)
    assert not contrasts(before, before, OUTCOMES)[0].clear


@pytest.mark.parametrize(("population", "margin"), [(0, 0.05), (10, 0.0), (10, 1.0)])
def test_what_can_never_be_is_refused(population: int, margin: float) -> None:
    """No population, no margin."""
    with pytest.raises(ValueError, match="expected a population"):
        sample_size(population, margin)
