"""The population and its draws: every point once, planned counts exactly, seeds by identity."""

from __future__ import annotations

from collections import Counter

import pytest

from fi_notebook.campaign.draws import CampaignError, draw, seed_of
from fi_notebook.campaign.places import Places
from fi_notebook.campaign.population import Population
from fi_notebook.campaign.sample import check_sample, planned
from fi_notebook.campaign.specs import FaultSpec
from fi_notebook.core.trace import Trace
from fi_notebook.engine.stored_tensors import stored_sites
from fi_notebook.errors import FaultError, SiteError
from fi_notebook.session import Session
from tests import models
from tests.campaign import sessions


@pytest.fixture(scope="module")
def trace() -> Trace:
    """The golden run of the quickstart."""
    return sessions.quickstart().trace()


def test_the_population_is_bits_times_elements_times_sites(trace: Trace) -> None:
    """relu*1 and relu*2: 64 × (8 + 16) × 8 × 8 elements of 32 bits, in two steps."""
    found = Population.of(Places(trace), sites="relu", steps=(0, 1))
    assert len(found) == 64 * (8 + 16) * 64 * 32 * 2
    first, last = found[0], found[len(found) - 1]
    assert (first.bit, first.element, first.step) == (0, 0, 0)
    assert (last.bit, last.element, last.step) == (31, 64 * 16 * 64 - 1, 1)


def test_without_sites_only_computed_values_are_struck(trace: Trace) -> None:
    """No views, no bookkeeping and no integers stand in the population."""
    ops = {site.op for site in Population.of(Places(trace)).sites}
    assert {"convolution", "relu", "addmm", "mm", "addcdiv_"} <= ops
    assert not ops & {"t", "view", "detach", "empty", "empty_like"}


def test_a_field_is_its_bits(trace: Trace) -> None:
    """The exponent of float32 has 8 bits, from 23."""
    spec = FaultSpec.of(("bitflip", {"field": "exponent"}))
    found = Population.of(Places(trace), sites="addmm*1:0", specs=[spec])
    assert len(found) == 64 * 10 * 8
    assert found[0].bit == 23


def test_drawn_elements_are_few_and_the_same_each_time(trace: Trace) -> None:
    """elements=3: three of each site, whoever draws them."""
    one, two = (
        Population.of(Places(trace), sites="addmm*1:0", elements=3, seed=5) for _ in range(2)
    )
    assert len(one) == 3 * 32
    assert [p.element for p in map(one.__getitem__, range(96))] == [
        p.element for p in map(two.__getitem__, range(96))
    ]


def test_a_random_draw_repeats_nothing_and_grows_by_its_end(trace: Trace) -> None:
    """Without replacement; 50 injections are the first 50 of 100."""
    population = Population.of(Places(trace), sites="relu*2:0")
    some, more = (planned(population, n, "random", 7) for n in (50, 100))
    assert more[:50] == some
    assert len({(p.row, p.bit, p.element) for p in more}) == 100


def test_a_draw_of_everything_is_everything() -> None:
    """All 40 of 40 numbers, each once."""
    assert sorted(draw(40, 40, "x")) == list(range(40))


def test_strata_have_exactly_the_planned_counts(trace: Trace) -> None:
    """100 over 8 bit strata of an exponent: 12 or 13 each; asked-for counts as asked."""
    spec = FaultSpec.of(("bitflip", {"field": "exponent"}))
    population = Population.of(Places(trace), sites="relu*1:0", specs=[spec])
    equal = planned(population, 100, "stratified", 1, strata="bit")
    assert sorted(Counter(p.bit for p in equal).values()) == [12] * 4 + [13] * 4
    asked = planned(population, None, "stratified", 1, strata={"23": 3, "30": 11}, by="bit")
    assert Counter(p.bit for p in asked) == {23: 3, 30: 11}


def test_a_small_stratum_gives_its_rest_to_the_others(trace: Trace) -> None:
    """The loss has 32 points; of 200 over two sites the other one takes 168."""
    population = Population.of(Places(trace), sites=["nll_loss_forward*1:0", "relu*1:0"])
    found = planned(population, 200, "stratified", 1, strata="op")
    counts = Counter(trace.site(p.row).op for p in found)
    assert counts == {"nll_loss_forward": 32, "relu": 168}


def test_an_exhaustive_campaign_makes_every_point_once(trace: Trace) -> None:
    """The loss is one element of 32 bits; they come in an order of the seed's, not that of bits."""
    population = Population.of(Places(trace), sites="nll_loss_forward*1:0")
    bits = [p.bit for p in planned(population, None, "exhaustive", 0)]
    assert sorted(map(int, map(str, bits))) == list(range(32))
    assert bits != sorted(map(int, map(str, bits)))
    assert bits == [p.bit for p in planned(population, None, "exhaustive", 0)]
    assert bits != [p.bit for p in planned(population, None, "exhaustive", 1)]
    with pytest.raises(CampaignError, match="choose fewer sites"):
        planned(population, 31, "exhaustive", 0)


def test_seeds_belong_to_campaign_and_injection_alone() -> None:
    """The same two numbers give the same seed, and another of either another seed."""
    assert seed_of(1, 417) == seed_of(1, 417)
    assert len({seed_of(c, i) for c in range(3) for i in range(100)}) == 300


def test_what_cannot_be_is_refused_with_near_names(trace: Trace) -> None:
    """A strategy, a site, a stratum, a fault model that are not there."""
    population = Population.of(Places(trace), sites="relu*1:0")
    with pytest.raises(CampaignError, match="did you mean 'random'"):
        check_sample("randm", "layer", "layer")
    with pytest.raises(CampaignError, match="made no call of 'rel'"):
        Population.of(Places(trace), sites="rel")
    with pytest.raises(CampaignError, match="no stratum 'relu9'"):
        planned(population, None, "stratified", 0, strata={"relu9": 1}, by="layer")
    with pytest.raises(FaultError, match="bitflip"):
        FaultSpec.of("bitflp")


def test_stored_tensors_are_places_after_those_of_the_trace() -> None:
    """Of Linear(5, 6) and Linear(6, 3): 30 and 18 weights of 32 bits; a glob chooses both."""
    case = models.mlp()
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    places = Places(session.trace(), stored_sites(case.model))
    population = Population.of(places, sites="param:*.weight")
    assert len(population) == (5 * 6 + 6 * 3) * 32
    assert [str(site) for site in population.sites] == ["param:0.weight", "param:2.weight"]
    assert list(population.by("layer")) == ["0", "2"]
    both = Population.of(places, sites=["grad:0.bias", "relu*1:0"])
    assert [str(site) for site in both.sites] == ["relu*1:0", "grad:0.bias"]
    assert len(both) == (6 + 4 * 6) * 32
    with pytest.raises(CampaignError, match=r"no param '0\.wieght'; did you mean '0\.weight'"):
        Population.of(places, sites="param:0.wieght")
    with pytest.raises(CampaignError, match="an optimizer makes its state as it goes"):
        Population.of(places, sites="state:0.weight.exp_avg")
    with pytest.raises(SiteError):
        places.row("param:9.weight")


def test_call_models_are_tried_where_they_can_strike(trace: Trace) -> None:
    """``duplicate`` needs a call that writes an argument: of relu and addcdiv_ the latter alone."""
    places, spec = Places(trace), FaultSpec.of("duplicate")
    found = Population.of(places, sites=["relu", "addcdiv_"], specs=[spec])
    assert {site.op for site in found.sites} == {"addcdiv_"}
    with pytest.raises(CampaignError, match="writes none"):
        Population.of(places, sites="relu", specs=[spec])
