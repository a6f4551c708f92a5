"""Going on with a journal, strata that weigh, and what a stop rule and a dry run may say."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fi_notebook import Campaign
from fi_notebook.campaign import CampaignError, Results, Row, again, worker
from fi_notebook.campaign.design import Drawn, least_worth, worth
from fi_notebook.campaign.journal import JournalError
from fi_notebook.campaign.pictures import Pictures, facts
from fi_notebook.campaign.resume import Company, check_resumed
from fi_notebook.campaign.statistics import rates, wilson
from fi_notebook.core.run import OUTCOMES
from fi_notebook.session import Session
from tests.campaign import sessions

QUICKSTART = "tests.campaign.sessions:quickstart"
SMALL: dict[str, Any] = {"sites": "addmm*1:0", "elements": 4, "seed": 3}  # 4 × 32 possible faults


@pytest.mark.parametrize("strategy", ["random", "stratified"])
def test_a_longer_campaign_goes_on_where_the_shorter_one_ended(
    strategy: str, tmp_path: Path
) -> None:
    """12 injections, then 70 of 128: 70 different faults, the first 12 as they were."""
    journal = tmp_path / "j.jsonl"
    how = SMALL | {"strategy": strategy, "strata": "bit" if strategy == "stratified" else None}
    few = Campaign(QUICKSTART, n=12, **how).run(journal=journal)
    many = Campaign(QUICKSTART, n=70, **how).run(journal=journal)
    assert len({str(row.fault) for row in many}) == 70
    assert [row.fault for row in many][:12] == [row.fault for row in few]
    fresh = Campaign(QUICKSTART, n=70, **how)
    assert [job.site for job in fresh.jobs] == [row.site for row in many]
    assert [job.fault.seed for job in fresh.jobs] == [row.seed for row in many]


def test_a_journal_of_other_injections_is_refused(tmp_path: Path) -> None:
    """Where a row is of another fault than the plan has under its number."""
    journal = tmp_path / "j.jsonl"
    Campaign(QUICKSTART, n=3, **SMALL).run(journal=journal)
    lines = journal.read_text().replace('"bit":', '"bit":3').splitlines()
    journal.write_text("\n".join(lines))
    with pytest.raises(JournalError, match=r"injection \d of .* but this campaign plans"):
        Campaign(QUICKSTART, n=3, **SMALL).run(journal=journal)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("torch", "2.0.1", r"torch 2\.0\.1, and here it is"),
        ("loss", 7.5, r"a golden loss of 7\.5, and here it is"),
        ("tolerance", "other", "tolerance other, and here it is"),
        ("optimizer", "SGD(lr=0.1)", r"optimizer SGD\(lr=0\.1\), and here it is AdamW\(lr=0\.00"),
        ("gradient_norm", 7.5, r"a golden gradient norm of 7\.5, and here it is"),
        ("update_norm", 7.5, r"a golden norm of the update of 7\.5, .*: the optimizer changed"),
        ("parameter_norm", 7.5, r"a golden norm of the parameters of 7\.5, and here it is"),
        ("optimizer_state_norm", 7.5, r"a golden norm of the optimizer's state of 7\.5, and"),
    ],
)
def test_rows_of_another_golden_run_are_refused(
    name: str, value: object, said: str, tmp_path: Path
) -> None:
    """Another torch, tolerance, model or data makes no sample of this campaign."""
    journal = tmp_path / "j.jsonl"
    Campaign(QUICKSTART, n=2, **SMALL).run(journal=journal)
    rows = [json.loads(line) for line in journal.read_text().splitlines()]
    for row in rows:
        row["environment"][name] = value
    journal.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(JournalError, match=said):
        Campaign(QUICKSTART, n=3, **SMALL).run(journal=journal)


def test_rows_beyond_the_plan_are_not_counted(tmp_path: Path) -> None:
    """A journal of 12 has all 5 of a shorter campaign: 5 of 5, and not 12 of 5; it keeps its 12."""
    journal = tmp_path / "j.jsonl"
    Campaign(QUICKSTART, n=12, **SMALL).run(journal=journal)
    campaign = Campaign(QUICKSTART, n=5, **SMALL)
    found = campaign.run(journal=journal)
    assert campaign.progress is not None
    assert (campaign.progress.done, campaign.progress.planned) == (5, 5)
    assert sum(campaign.progress.counts.values()) == 5
    assert (len(found), found.planned, found.made) == (5, 5, "5 injections")
    assert repr(campaign).endswith(": 5 of 5 made>")
    assert Results.load(journal).made == "12 injections"


def test_last_bits_of_another_machine_are_no_other_golden_run() -> None:
    """A loss that is as near as rounding is let through; no loss at all needs the same outputs."""
    campaign = Campaign(QUICKSTART, n=1, **SMALL)
    (row,) = campaign.run()
    here = campaign.bench.environment
    assert here["loss"] is not None
    near = Row(**{**vars(row), "environment": {**here, "loss": here["loss"] * (1 + 1e-6)}})
    check_resumed("j", {1: near}, campaign.jobs, here)
    none = Row(**{**vars(row), "environment": {**here, "loss": None, "golden": "x"}})
    with pytest.raises(JournalError, match="another golden run"):
        check_resumed("j", {1: none}, campaign.jobs, here)
    check_resumed("j", {1: Row(**{**vars(row), "environment": {}})}, campaign.jobs, here)


def test_a_worker_with_another_golden_run_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """Rates would mix the two; crashed rows that know none say nothing."""
    campaign = Campaign(QUICKSTART, n=1, **SMALL)
    (row,) = campaign.run()
    company = Company(campaign.bench.environment)
    with caplog.at_level(logging.WARNING):
        company.look([row, Row(**{**vars(row), "environment": {}})])
        assert not caplog.records
        other = Row(**{**vars(row), "environment": {**row.environment, "golden": "x"}})
        company.look([other])
        company.look([other])
    (said,) = caplog.records
    assert said.getMessage().startswith("injection 1 was made on another golden run")


def test_functions_of_a_script_are_known_by_their_names(tmp_path: Path) -> None:
    """A session and a test of sites that were defined again go on with the journal."""

    def defined() -> tuple[Any, Any]:
        def make_session() -> Any:
            return sessions.quickstart()

        def is_relu(site: Any) -> bool:
            return bool(site.op == "relu")

        return make_session, is_relu

    journal = tmp_path / "j.jsonl"
    for n in (2, 3):
        make_session, is_relu = defined()
        Campaign(make_session, n=n, sites=is_relu).run(journal=journal)
    assert len(Results.load(journal)) == len(journal.read_text().splitlines()) == 3


def _strata(kinds: list[tuple[str, int, str]]) -> Results:
    (like,) = Campaign(QUICKSTART, n=1, sites="addmm*1:0").run()
    return Results(
        tuple(
            Row(
                **{
                    **vars(like),
                    "id": number,
                    "outcome": outcome,
                    "place": {**like.place, "stratum": name, "stratum_size": size},
                }
            )
            for number, (name, size, outcome) in enumerate(kinds, 1)
        )
    )


def test_strata_weigh_as_many_faults_as_they_have() -> None:
    """Of 900 faults half are changed, of 100 all: (450 + 100) / 1000, and not 3 of 4."""
    found = _strata(
        [
            ("a", 900, "changed"),
            ("a", 900, "masked_exact"),
            ("b", 100, "changed"),
            ("b", 100, "changed"),
        ]
    )
    assert found.weights == [450, 450, 50, 50]
    changed = next(rate for rate in found.rates() if rate.outcome == "changed")
    assert (changed.count, changed.n, changed.rate) == (3, 4, 0.55)
    left = (898 / 899, 98 / 99)  # (N - n) / (N - 1): what is not tried yet
    kish = 1000**2 / (2 * 450**2 * left[0] + 2 * 50**2 * left[1])  # (Σ w)² / Σ w²
    assert changed.worth == pytest.approx(kish)
    low, high = wilson(0.55 * kish, kish)
    assert (low, high) == pytest.approx((0.12924, 0.90962), abs=5e-6)
    assert (changed.low, changed.high) == (129 / 1000, 910 / 1000)  # out to whole faults
    contrast = next(c for c in found.compare(found) if c.outcome == "changed")
    assert (contrast.mine, contrast.difference) == (0.55, 0)
    shares = {bar.name: bar.x[0] for bar in Pictures(found).outcomes("all").data}
    assert shares["changed"] == pytest.approx(0.55)


def test_equal_weights_are_none() -> None:
    """Rates and intervals of rows that stand for as many faults each are the plain ones."""
    outcomes = ["changed", "changed", "masked_exact"]
    plain = rates(["all"] * 3, outcomes, OUTCOMES)
    assert rates(["all"] * 3, outcomes, OUTCOMES, draws=[Drawn(7.0)] * 3) == plain
    assert worth([True] * 5, [Drawn(2.0)] * 5) == least_worth([Drawn(2.0)] * 5) == 5
    assert worth([], []) == least_worth([]) == 0


def test_a_stratified_campaign_estimates_what_a_census_finds() -> None:
    """8 elements: of 8 sign, 64 exponent and 184 mantissa bits 8, 36 and 36 are struck."""
    how: dict[str, Any] = {"sites": "relu*1:0", "elements": 8, "seed": 1}
    every = Campaign(QUICKSTART, strategy="exhaustive", **how).run()
    some = Campaign(QUICKSTART, n=80, strategy="stratified", strata="field", **how).run()
    assert sorted(set(some.weights)) == [8 / 8, 64 / 36, 184 / 36]
    assert sum(some.weights) == pytest.approx(len(every))
    truth = {rate.outcome: rate.rate for rate in every.rates()}
    assert len(truth) >= 2
    for rate in some.rates():
        assert rate.low <= truth.get(rate.outcome, 0) <= rate.high


def test_figures_are_drawn_by_whatever_rates_are_grouped() -> None:
    """Model, dtype and step too."""
    found = Campaign(QUICKSTART, n=4, faults=["bitflip", "zero"], **SMALL).run()
    for by in ("model", "dtype", "step", "bit", "site", "all"):
        assert Pictures(found).outcomes(by).data


def test_a_stop_rule_is_for_draws() -> None:
    """The beginning of an exhaustive plan is its first sites, and no sample."""
    with pytest.raises(CampaignError, match="stop is for campaigns that draw"):
        Campaign(QUICKSTART, strategy="exhaustive", **SMALL).run(stop=0.2)


def test_faults_that_draw_are_tried_as_often_as_is_asked() -> None:
    """4 elements of one site, 10 random values: each element twice before any comes again."""
    campaign = Campaign(QUICKSTART, n=10, faults=["random_finite"], **SMALL)
    assert len(campaign.population) == 4
    elements = [job.fault.elements["index"] for job in campaign.jobs]  # type: ignore[index]  # one each
    assert sorted(elements[:8]) == sorted([*set(elements)] * 2)
    assert len({job.fault.seed for job in campaign.jobs}) == 10
    said = str(campaign.dry_run(tried=1))
    assert "exact" not in said
    assert "They are of 4 drawn elements; of all elements a rate" in said
    worst = 10**2 / (3**2 + 3**2 + 2**2 + 2**2)  # if all values of an element end alike
    assert math.isclose(campaign.dry_run(tried=1).worth, worst)


def test_n_beyond_what_there_is_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """4 × 32 faults that draw nothing are tried once each, and the person is told."""
    with caplog.at_level(logging.WARNING):
        campaign = Campaign(QUICKSTART, n=200, **SMALL)
        assert len(campaign.jobs) == 128
    assert "only 128 possible faults" in caplog.text
    assert "exact" in str(campaign.dry_run(tried=1))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"steps": 2, "at": [0, 9]}, "2 steps are replayed"),
        ({"steps": 2, "at": "0-5"}, "2 steps are replayed"),
        (
            {"n": 10, "strategy": "stratified", "strata": {"conv1": 3}},
            "strata asks for 3 injections and n for 10",
        ),
    ],
)
def test_what_would_be_altered_in_silence_is_refused(given: dict[str, Any], said: str) -> None:
    """Steps that are not replayed, and two numbers of injections."""
    with pytest.raises(CampaignError, match=said):
        Campaign(QUICKSTART, **given)


def test_what_all_injections_share_is_in_the_time_of_none() -> None:
    """The golden step is run again, to know its noise, before the first injection begins."""
    bench = Campaign(QUICKSTART, n=1, **SMALL).bench
    assert bench.trials._golden.noise is None
    assert bench.rows([]) == []
    assert bench.trials._golden.noise is not None


def test_a_worker_takes_the_settings_of_each_run() -> None:
    """The same campaign with another timeout and audit, on a bench that is kept."""
    settings = Campaign(QUICKSTART, n=1, **SMALL).bench.settings
    try:
        for given in (settings, replace(settings, timeout=7.0, audit=3)):
            worker.run_chunk(given, [])
            (bench,) = worker._benches.values()
            assert bench.settings == given
    finally:
        worker._benches.clear()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"lr": 1e-9}, r"optimizer SGD\(lr=0\.1, .*, and here it is SGD\(lr=1e-09, "),
        (
            {"scale": 1.0005},
            r"a golden loss of [\d.]+, and here it is [\d.]+: model or data changed",
        ),
        ({"detectors": {"loss_spike": {"factor": 1.5}}}, r"detectors all, and here it is {'loss_s"),
    ],
)
def test_a_training_that_changed_is_no_more_the_same(
    changed: dict[str, Any], said: str, tmp_path: Path
) -> None:
    """A learning rate, weights by 0.05 %, a detector: what the first step's loss need not tell."""

    def make(lr: float = 0.1, scale: float = 1.0, detectors: Any = None) -> Session:
        made = sessions.small(lambda model, data: model(data).square().sum())
        optimizer = torch.optim.SGD(made.model.parameters(), lr=lr)
        with torch.no_grad():
            for parameter in made.model.parameters():
                parameter.mul_(scale)
        data = torch.ones(5, 4)

        def step() -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = made.model(data).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        return Session(step, model=made.model, optimizer=optimizer, detectors=detectors)

    journal = tmp_path / "j.jsonl"
    how: dict[str, Any] = {"full": "detectors" in changed}

    def go_on(n: int, **given: Any) -> None:
        def make_session() -> Session:
            return make(**given)

        Campaign(make_session, n=n, **how).run(journal=journal)

    go_on(2)
    go_on(3)
    with pytest.raises(JournalError, match=said):
        go_on(4, **changed)


def test_rounding_is_let_through_as_far_as_machines_round_alike() -> None:
    """A norm that is 1e-4 apart is another training here, and rounding on another machine."""
    campaign = Campaign(QUICKSTART, n=1, **SMALL)
    (row,) = campaign.run()
    here = campaign.bench.environment
    norm = here["gradient_norm"]
    assert norm is not None
    far = here | {"gradient_norm": norm * (1 + 1e-4)}
    with pytest.raises(JournalError, match="a golden gradient norm of"):
        check_resumed("j", {1: replace(row, environment=far)}, campaign.jobs, here)
    elsewhere = replace(row, environment=far | {"machine": "another"})
    check_resumed("j", {1: elsewhere}, campaign.jobs, here)
    known = ("optimizer", "gradient_norm", "update_norm", "parameter_norm")
    old = {name: value for name, value in here.items() if name not in known}
    check_resumed("j", {1: replace(row, environment=old)}, campaign.jobs, here)


def test_a_stop_that_was_not_reached_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """20 injections never give an interval 1 % wide."""
    with caplog.at_level(logging.WARNING):
        made = Campaign(QUICKSTART, n=20, sites="relu").run(stop=0.01)
    said = f"after 20 injections the widest interval is {made.width():.3g} wide, not 0.01: raise n"
    assert said in caplog.text


def test_a_row_says_what_it_is_part_of(tmp_path: Path) -> None:
    """Version, population, strategy, faults and timeout; and how many were planned."""
    journal = tmp_path / "j.jsonl"
    how: dict[str, Any] = {"strategy": "exhaustive", "timeout": 7.0, **SMALL}
    made: list[int] = []
    part = Campaign(QUICKSTART, **how).run(
        journal=journal, chunk=10, cancel=lambda: bool(made), on_progress=lambda _: made.append(1)
    )
    assert repr(part).startswith("<Results of 10 of 128 injections: ")
    found = Results.load(journal)
    assert (len(found), found.planned) == (10, 128)
    said = found.rows[0].campaign
    told = {
        name: said[name] for name in ("population", "strategy", "faults", "timeout", "elements")
    }
    assert told == {
        "population": 128,
        "strategy": "exhaustive",
        "faults": ["bitflip"],
        "timeout": 7.0,
        "elements": 4,
    }
    assert facts(found)[0].startswith("10 of 128 injections on tests.campaign.sessions:quickstart")
    assert facts(found)[1].startswith("Chosen from 128 possible faults (bitflip): exhaustive, by")


def test_an_injection_has_the_time_of_its_campaign_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """77 s in the journal; 60 s where an older one does not say; and what is asked for."""
    given: list[float] = []

    def bench(settings: worker.Settings) -> worker.Bench:
        given.append(settings.timeout)
        return worker.Bench(settings)

    (row,) = Campaign(QUICKSTART, n=1, timeout=77, **SMALL).run()
    monkeypatch.setattr(again, "Bench", bench)
    assert again.again(row)[1] == []
    old = {name: value for name, value in row.campaign.items() if name != "timeout"}
    again.again(replace(row, campaign=old))
    again.again(row, timeout=5)
    assert given == [77, 60, 5]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"strata": "phase"}, "strata is for strategy='stratified', not 'random'; give that, or"),
        ({"strata": {"conv1": 3}}, "strata is for strategy='stratified', not 'random'"),
        ({"faults": ["bitflip", "bitflip"]}, "faults has bitflip twice"),
        ({"faults": [("scale", {"factor": 2})] * 2}, r"faults has scale\(factor=2\) twice"),
    ],
)
def test_what_would_count_otherwise_than_it_reads_is_refused(
    given: dict[str, Any], said: str
) -> None:
    """Strata of what is not divided, and a fault that would count twice."""
    with pytest.raises(CampaignError, match=said):
        Campaign(QUICKSTART, **given)
