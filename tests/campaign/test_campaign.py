"""Campaigns in this process: plans, rates, stop rule, cancel, sweeps, files."""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fi_notebook import Campaign
from fi_notebook.campaign import CampaignError, Results, Row
from fi_notebook.campaign.again import again, from_file, opened
from fi_notebook.campaign.executors import processes
from fi_notebook.campaign.journal import read_row
from fi_notebook.campaign.pictures import summary
from fi_notebook.campaign.progress import Progress
from fi_notebook.campaign.statistics import wilson
from fi_notebook.cli import main
from fi_notebook.core.run import OUTCOMES
from fi_notebook.core.words import spoken
from fi_notebook.errors import SessionError
from fi_notebook.report.campaign_figures import campaign_figures
from fi_notebook.session import Session
from tests import models
from tests.campaign import sessions
from tests.tools.holder import Holder

QUICKSTART = "tests.campaign.sessions:quickstart"


def _same(one: Results, other: Results) -> bool:
    """Whether two runs have the same rows, but for the time that they took."""
    return repr([row.result for row in one]) == repr([row.result for row in other])


@pytest.fixture(scope="module")
def small() -> Campaign:
    """120 bit flips on the quickstart, run once."""
    campaign = Campaign(QUICKSTART, n=120, seed=1)
    campaign.run()
    return campaign


def test_every_row_holds_its_whole_identity(small: Campaign) -> None:
    """Site, fault, seed, environment, outcome and metrics stand in each row."""
    assert [row.id for row in small.results] == list(range(1, 121))
    for row in small.results:
        assert row.fault["model"] == "bitflip"
        assert set(row.fault["parameters"]) == {"bit"}
        assert {"torch", "python", "machine", "threads", "golden"} <= set(row.environment)
        assert row.campaign["make_session"] == QUICKSTART
        assert row.outcome in OUTCOMES
        assert {"loss", "before", "after", "parameter_distance"} <= set(row.metrics)


def test_a_campaign_is_the_same_each_time(small: Campaign) -> None:
    """The same seed gives the same rows, in other chunks as well."""
    again_ = Campaign(sessions.quickstart, n=120, seed=1)
    assert _same(again_.run(chunk=7), small.results)


def test_a_longer_campaign_begins_with_the_shorter_one(small: Campaign) -> None:
    """The first 120 of 130 injections are those of 120."""
    longer = Campaign(QUICKSTART, n=130, seed=1).run()
    assert repr([r.result for r in longer][:120]) == repr([r.result for r in small.results])


@pytest.mark.draws_nothing
def test_a_campaign_leaves_generators_and_threads_as_they_were() -> None:
    """What it seeds and sets is put back."""
    before = torch.get_num_threads()
    Campaign(QUICKSTART, n=3, seed=1, threads=1).run()
    assert torch.get_num_threads() == before


def test_a_dry_run_says_how_many_how_long_how_wide(small: Campaign) -> None:
    """23.6 million faults; 120 of them give ± 9 %: 1.96 √(0.25 / 120) = 0.0895.

    For ± 5 % it takes 384.15 of them, so 384.
    """
    planned = small.dry_run(tried=3)
    assert planned.population == len(small.population)
    assert planned.margin == pytest.approx(1.96 * math.sqrt(0.25 / 120), rel=1e-3)
    assert planned.needed == 384
    assert planned.seconds > 0
    assert "120 injections" in str(planned)


def test_top_exponent_flips_of_normal_values_are_non_finite_as_often_as_must_be() -> None:
    """P(1 ≤ |x| < 2) = 27.18 % of N(0, 1) lies in the interval of the share."""
    flips = [{"model": "bitflip", "parameters": {"bit": 30}}]
    found = Campaign("tests.campaign.sessions:normal", sites="mul*1:0", faults=flips, n=400).run()
    bad = sum(not math.isfinite(row.metrics["after"]) for row in found)
    low, high = wilson(bad, len(found))
    assert low <= 0.2718 <= high
    assert set(found.groups("bit")) == {"30"}


def test_dead_units_mask_every_fault() -> None:
    """What stays negative before a ReLU is 0 after it: 100 % masked, no less."""
    dead = [[row, unit] for row in range(6) for unit in range(4)]
    low_bits = {"model": "bitflip", "parameters": {"field": "mantissa"}}
    campaign = Campaign(
        "tests.campaign.sessions:dead_units",
        sites="addmm*1:0",
        faults=[low_bits | {"elements": {"index": index}} for index in dead],
        n=200,
    )
    found = campaign.run()
    assert found.counts == {"masked_exact": 200}
    assert found.rates()[0].rate == 1.0
    assert all(row.early for row in found)


def test_planned_strata_are_made_as_planned() -> None:
    """60 over the model's layers: equal shares, each made."""
    campaign = Campaign(QUICKSTART, n=60, strategy="stratified", strata="phase", seed=2)
    found = campaign.run()
    assert Counter(found.groups("phase")) == campaign.strata
    share = 60 // len(campaign.strata)
    assert set(campaign.strata.values()) <= {share, share + 1}


@pytest.mark.parametrize("by", ["site", "layer", "phase", "op", "bit", "field", "model", "step"])
def test_strata_and_rates_have_the_same_groups(by: str) -> None:
    """Each of two sites in two steps, by a model with bits and one without: 8 strata at most."""
    campaign = Campaign(
        sessions.dead_units,
        sites=["addmm*1:0", "relu*1:0"],
        faults=[("bitflip", {"bit": 3}), "zero"],
        n=8,
        strategy="stratified",
        strata=by,
        steps=2,
        at="0-1",
    )
    found = campaign.run()
    assert Counter(found.groups(by)) == campaign.strata
    assert set(campaign.strata) == set(campaign.population.by(by))
    assert by != "bit" or set(campaign.strata) == {"3", "-"}


def test_the_stop_rule_holds_at_a_beginning_of_the_plan(small: Campaign) -> None:
    """It stops at a multiple of 50, wherever the chunks end, and with the same rows."""
    wide = 0.25
    one = Campaign(QUICKSTART, n=120, seed=1).run(stop=wide, chunk=10)
    other = Campaign(QUICKSTART, n=120, seed=1).run(stop=wide, chunk=64)
    assert len(one) == len(other) == 100 or len(one) == len(other) == 50
    assert _same(one, other)
    assert one.width() <= wide
    assert repr([r.result for r in one]) == repr([r.result for r in small.results][: len(one)])


def test_cancel_keeps_what_is_done(tmp_path: Path) -> None:
    """Cancelled after two chunks, run again it makes the rest, and only that."""
    path = tmp_path / "j.jsonl"
    told: list[Progress] = []
    part = Campaign(QUICKSTART, n=60, seed=1).run(
        journal=path, chunk=10, cancel=lambda: len(told) >= 2, on_progress=told.append
    )
    assert len(part) == 20
    assert told[-1].done == 20
    whole = Campaign(QUICKSTART, n=60, seed=1).run(journal=path, chunk=10)
    assert len(path.read_text().splitlines()) == 60
    assert _same(whole, Campaign(QUICKSTART, n=60, seed=1).run())


def test_another_campaign_does_not_write_into_the_journal(tmp_path: Path) -> None:
    """Another seed is another campaign."""
    path = tmp_path / "j.jsonl"
    Campaign(QUICKSTART, n=2, seed=1).run(journal=path)
    with pytest.raises(ValueError, match="another campaign"):
        Campaign(QUICKSTART, n=2, seed=2).run(journal=path)


def test_any_row_is_made_again_alone_bit_for_bit(tmp_path: Path, small: Campaign) -> None:
    """Its outcome, reason and every number are the same, for slices and replays."""
    path = tmp_path / "j.jsonl"
    Campaign(QUICKSTART, n=120, seed=1).run(journal=path)
    for number in (1, 60, 117):
        made, differences = again(read_row(f"{path}:{number}"))
        assert differences == []
        assert repr(made.result) == repr(small.results.rows[number - 1].result)


def test_a_row_opens_in_a_session(small: Campaign) -> None:
    """The session has the fault armed and replayed, with the row's outcome."""
    row = small.results.rows[0]
    session = opened(row)
    assert session.run is not None
    assert session.run.outcome.name == row.outcome
    assert str(session.plan.faults[0].target) == row.site


def test_an_injection_opens_by_its_number(small: Campaign) -> None:
    """A session of its own with that fault; a number that was not made says which were."""
    row = small.results.rows[4]
    session = small.open(5)
    assert session.run is not None
    assert (session.run.outcome.name, session.plan.faults[0].seed) == (row.outcome, row.seed)
    with pytest.raises(CampaignError, match="no injection 121; made were 1 to 120"):
        small.open(121)


def test_an_injection_of_a_sweep_opens_as_it_was_made() -> None:
    """Whatever else is armed, its fault alone is replayed; one undo arms the others again."""
    session = sessions.quickstart()
    session.trace()
    session.arm("relu*1:0", "scale", factor=3.0)  # f1, as a row's fault is called
    session.arm("addmm*1:0", "set", value=math.nan)
    armed = session.plan
    campaign = Campaign.of_site(session, "relu*2:0", elements=1)
    row = next(row for row in campaign.run() if row.outcome == "changed")
    opened_ = campaign.open(row.id)
    assert opened_ is session
    assert session.run is not None
    assert session.run.outcome.name == "changed"
    assert [str(fault.target) for fault in session.plan] == [row.site]
    assert session.undo() == armed


def test_a_site_is_swept_in_the_session_itself() -> None:
    """Every bit of two elements of one site: 2 × 32; the plan stays as it was."""
    session = sessions.quickstart()
    trace = session.trace()
    armed = session.arm("relu*1:0", "bitflip", bit=1, elements={"index": 0})
    found = Campaign.of_site(session, trace.site(trace.row("addmm*1:0")), elements=2, seed=3).run()
    assert len(found) == 64
    assert Counter(found.groups("bit")) == {str(bit): 2 for bit in range(32)}
    assert list(session.plan) == [armed]
    assert session.runs == []


def test_a_subtree_is_swept() -> None:
    """Only sites of the module and below are struck."""
    session = sessions.quickstart()
    found = Campaign.of_subtree(session, "conv2", n=30).run()
    assert set(found.groups("layer")) == {"conv2"}


@pytest.mark.parametrize(
    ("make", "given", "said"),
    [
        (Campaign.of_site, "stepz", "Campaign.of_site takes no 'stepz'; did you mean 'steps'?"),
        (
            Campaign.of_site,
            "strategy",
            "Campaign.of_site takes no 'strategy', which it gives itself",
        ),
        (Campaign.of_sites, "fault", "Campaign.of_sites takes no 'fault'; did you mean 'faults'"),
        (
            Campaign.of_subtree,
            "sites",
            "Campaign.of_subtree takes no 'sites', which it gives itself",
        ),
    ],
)
def test_arguments_that_no_sweep_takes_are_refused(make: Any, given: str, said: str) -> None:
    """By the name of what was called, with the nearest; also those that it gives itself."""
    with pytest.raises(TypeError, match=re.escape(said)):
        make(sessions.inference(), "relu*1:0", **{given: 1})


def test_a_session_of_this_process_cannot_go_elsewhere() -> None:
    """An executor needs a function that other processes can import."""
    campaign = Campaign.of_subtree(sessions.quickstart(), "conv2", n=3)
    with pytest.raises(CampaignError, match="cannot import make_session"):
        campaign.run(lambda: None)  # type: ignore[arg-type, return-value]  # never made


def test_inference_is_judged_by_what_the_step_returns() -> None:
    """Without a loss: changed scores are `changed`, and the changed top classes are counted."""
    found = Campaign("tests.campaign.sessions:inference", n=150, seed=1, sites="relu").run()
    assert set(found.counts) >= {"changed", "masked_exact"}
    assert all("top1_changed" in row.metrics for row in found)
    masked = [row for row in found if row.outcome.startswith("masked")]
    assert all(row.metrics["top1_changed"] == 0 for row in masked)
    assert any(row.metrics["top1_changed"] for row in found)


def test_faults_of_later_steps_have_curves() -> None:
    """Three steps, struck in the second: three losses each, the first one golden."""
    found = Campaign(QUICKSTART, n=20, steps=3, at=1, sites="relu", seed=1).run()
    curves = [row.metrics["losses"] for row in found]
    assert {len(curve) for curve in curves} == {3}
    assert len({curve[0] for curve in curves}) == 1
    assert {row.step for row in found} == {1}


def test_results_become_tables(small: Campaign) -> None:
    """One line per injection; rates have counts, intervals and groups."""
    table = small.to_pandas()
    assert len(table) == 120
    assert {"site", "layer", "bit", "field", "outcome", "loss", "early"} <= set(table.columns)
    by_field = small.results.rates_to_pandas(by="field")
    assert set(by_field["group"]) <= {"sign", "exponent", "mantissa"}
    assert by_field["count"].sum() == 120
    assert "masked exact" in summary(small.results)
    with pytest.raises(ValueError, match="did you mean 'layer'"):
        small.rates(by="layr")


def test_nan_rows_are_kept(small: Campaign) -> None:
    """A row whose loss is NaN is a row like all others."""
    rows = [*small.results.rows[:3]]
    bad = Row(**{**vars(rows[0]), "id": 4, "metrics": {**rows[0].metrics, "loss": math.nan}})
    results = Results((*rows, bad))
    assert len(results.to_pandas()) == 4
    assert results.to_pandas()["loss"].isna().sum() == 1
    assert sum(rate.count for rate in results.rates()) == 4


def test_two_campaigns_are_compared(small: Campaign) -> None:
    """Exponent flips do more harm than mantissa flips; both against all bits."""
    low = Campaign(QUICKSTART, n=120, seed=1, faults=[("bitflip", {"field": "mantissa"})])
    low.run()
    contrast = {c.outcome: c for c in small.compare(low)}
    assert all(c.low <= c.difference <= c.high for c in contrast.values())
    assert "→" in str(contrast["changed"])


def test_figures_and_report_are_made(small: Campaign, tmp_path: Path) -> None:
    """Four pictures, and one file that asks nobody for anything."""
    assert small.figures.heat_map().layout.yaxis.type == "category"  # a layer may be called 0
    heat = small.figures.heat_map().data[0]
    assert np.nansum(heat.customdata[..., 1]) == 120
    made, few = heat.customdata[..., 1], small.figures.heat_map().data[1]
    assert np.array_equal(np.isfinite(heat.z), made >= 5)
    assert np.array_equal(np.isfinite(few.z), (made > 0) & (made < 5))
    assert (heat.opacity, few.opacity) == (1, 0.5)  # a share of so few tells little
    bars = small.figures.outcomes("phase").data
    assert {bar.name for bar in bars} == set(map(spoken, small.results.counts))
    assert {bar.marker.pattern.shape for bar in bars if "nan" in bar.name} <= {"+", "\\"}
    by_bit = small.figures.outcomes("bit")
    bits = [int(name.split()[0]) for name in by_bit.data[0].y]
    assert (bits, by_bit.layout.legend.traceorder) == (sorted(bits), "normal")
    assert len(small.figures.timeline().data) >= 2
    assert "one step" in str(small.figures.losses().to_dict())
    text = small.save_html(tmp_path / "c.html").read_text(encoding="utf-8")
    assert text.count("<script") == 3
    assert "src=" not in text.split("<script>")[0]
    assert "masked exact" in text


def test_a_picture_that_fails_takes_no_other_with_it(
    small: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heat map says why in its text; the bars are there."""

    def broken(_columns: object) -> None:
        raise RuntimeError("no ink")

    monkeypatch.setattr("fi_notebook.report.figures.campaign.heat_map", broken)
    figures, texts = campaign_figures(small.results.columns())
    assert "harm" not in figures
    assert texts["harm"] == "the figure could not be drawn: no ink"
    assert "outcomes" in figures


def test_a_campaign_comes_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`fi-notebook campaign` runs it, `fi-notebook replay` makes a row again; no path stays."""
    plan, journal, path = tmp_path / "plan.json", tmp_path / "j.jsonl", list(sys.path)
    plan.write_text(json.dumps({"make_session": QUICKSTART, "n": 12, "seed": 4, "sites": "relu"}))
    assert main(["campaign", str(plan), "--dry-run"]) == 0
    assert "12 injections" in capsys.readouterr().out
    html = tmp_path / "c.html"
    assert main(["campaign", str(plan), "--journal", str(journal), "--html", str(html)]) == 0
    assert "12 injections on" in capsys.readouterr().out
    assert html.stat().st_size > 1_000_000
    assert main(["replay", f"{journal}:7"]) == 0
    assert "bit for bit" in capsys.readouterr().out
    found = read_row(f"{journal}:7").outcome
    other = "crash" if found != "crash" else "changed"
    journal.write_text(journal.read_text().replace(f'"outcome":"{found}"', f'"outcome":"{other}"'))
    assert main(["replay", f"{journal}:7"]) == 1
    assert sys.path == path


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"make_session": QUICKSTART, "nn": 3}, "did you mean 'n'"),
        ({"n": 3}, "expected a mapping with 'make_session'"),
        ({"make_session": "nowhere:x"}, "cannot import make_session"),
        ({"make_session": "plain"}, "expected text as 'module:function'"),
        ({"make_session": QUICKSTART, "at": 3}, "choose one of them"),
    ],
)
def test_a_file_that_cannot_be_is_refused(given: dict, expected: str, tmp_path: Path) -> None:
    """It says what was given, and what would be valid."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(given))
    with pytest.raises(CampaignError, match=expected):
        from_file(path)


def test_stored_tensors_are_struck_like_a_session_strikes_them(tmp_path: Path) -> None:
    """Each row is a replay in full, with the outcome and loss of that fault armed alone."""
    sites = ["param:conv1.weight", "grad:out.bias"]
    campaign = Campaign(QUICKSTART, sites=sites, n=8, seed=3, strategy="stratified", strata="site")
    rows = list(campaign.run(journal=tmp_path / "run.jsonl"))
    assert {row.way for row in rows} == {"replay"}
    assert {row.site for row in rows} == {"param:conv1.weight", "grad:out.bias"}
    for row in rows:
        run = opened(row).run
        assert run is not None
        assert run.outcome.name == row.outcome
        assert run.faulty[-1].loss == row.metrics["loss"]
    made, differences = again(read_row(f"{tmp_path / 'run.jsonl'}:5"))
    assert (made.outcome, differences) == (rows[4].outcome, [])


def test_a_dropped_call_is_replayed_and_agrees_with_its_session() -> None:
    """What a call model needs is not on a tape."""
    campaign = Campaign(QUICKSTART, sites="relu", faults=["drop"], elements="all", n=2, audit=0)
    rows = campaign.run()
    assert [row.way for row in rows] == ["replay", "replay"]
    for row in rows:
        run = campaign.open(row.id).run
        assert run is not None
        assert (run.outcome.name, run.faulty[0].loss) == (row.outcome, row.metrics["loss"])


def test_a_row_of_a_later_step_is_opened_as_it_was_made() -> None:
    """Momentum makes other calls in step 1 than in step 0; nothing was clicked there."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    data = torch.randn(9, 5, 4)

    def step(i: int) -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = net(data[i]).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    session = Session(step, model=net, optimizer=optimizer)
    how = {"faults": ["negate"], "elements": "all", "n": 1, "steps": 2, "at": 1}
    campaign = Campaign.of_sites(session, ["add_*3:0"], **how)
    (row,) = campaign.run()
    run = campaign.open(1).run
    assert run is not None
    assert run.outcome.name == row.outcome == "silent_drift"


def test_results_are_told_in_a_line(small: Campaign) -> None:
    """Not every row of thousands; a campaign that has planned nothing makes no session for it."""
    assert repr(small) == "<Campaign of bitflip, seed 1: 120 of 120 made>"
    unplanned = Campaign(sessions.quickstart, faults=["bitflip", "zero"])
    assert repr(unplanned) == "<Campaign of bitflip, zero, seed 0: 0 made>"
    assert repr(small.results).startswith("<Results of 120 injections: ")
    sweep = Campaign.of_site(sessions.inference(), "relu*1:0", elements=2)
    assert repr(sweep.population) == "<Population of 64 faults at 1 site>"  # 32 bits of each
    assert len(repr(small.results)) < 300


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n": "5"}, "n is '5'; expected a whole number from 1"),
        ({"n": 0}, "n is 0; expected a whole number from 1"),
        ({"steps": None}, "steps is None; expected a whole number from 1"),
        ({"timeout": -1}, "timeout is -1; expected a number above 0"),
        ({"timeout": "60"}, "timeout is '60'; expected a number above 0"),
        ({"timeout": math.nan}, "timeout is nan; expected a number above 0"),
        ({"strategy": "randm"}, "no strategy 'randm'; did you mean 'random'"),
        ({"strata": "laier"}, "nothing is grouped by 'laier'; did you mean 'layer'"),
        ({"strata": {"conv1": 1}, "by": "fase"}, "nothing is grouped by 'fase'; did you mean 'ph"),
        ({"strata": {"conv1": -1}}, r"strata\['conv1'\] is -1; expected a whole number from 0"),
        ({"elements": -3}, "elements is -3; expected a whole number from 1"),
        ({"elements": 0}, "elements is 0; expected a whole number from 1"),
        ({"elements": True}, "elements is True; expected a whole number from 1"),
        ({"elements": "on"}, "no elements 'on'; did you mean 'one'"),
        ({"faults": []}, r"faults is \[\]; expected names such as"),
        ({"faults": [{"parameters": {}}]}, "cannot read the fault {'parameters': {}}; expected a"),
        ({"faults": [("bitflip", 3)]}, r"cannot read the fault \('bitflip', 3\); expected a name"),
        (
            {"faults": [{"model": "zero", "scope": "storrage"}]},
            "no scope 'storrage'; did you mean 'storage'",
        ),
        ({"faults": [{"model": "zero", "elements": 0}]}, "elements is 0; expected a whole number"),
        ({"steps": "a"}, "steps is 'a'; expected a whole number from 1"),
        ({"seed": "a"}, "seed is 'a'; expected a whole number from 0"),
        ({"faults": 3}, "faults is 3; expected names such as"),
        ({"sites": 3}, "cannot read the sites 3; expected a target"),
        ({"sites": [3]}, "cannot read the sites 3; expected a target"),
        ({"sites": b"relu"}, "cannot read the sites b'relu'; expected a target"),
        ({"sites": []}, "the sites \\[\\] choose nothing; expected a target"),
        ({"sites": {"modul": "conv1"}}, "no 'modul' in sites; did you mean 'module'"),
        ({"strategy": "stratified", "strata": 3}, "strata is 3; expected a grouping"),
    ],
)
def test_what_no_campaign_can_be_is_told_in_words(given: dict[str, Any], said: str) -> None:
    """What was given, and what would do."""
    with pytest.raises(CampaignError, match=said):
        _ = Campaign(QUICKSTART, **given).jobs


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"chunk": -1}, "chunk is -1; expected a whole number from 1"),
        ({"chunk": 0}, "chunk is 0; expected a whole number from 1"),
        ({"stop": -1}, "stop is -1; expected a number above 0 and at most 1"),
        ({"stop": "x"}, "stop is 'x'; expected a number above 0 and at most 1"),
    ],
)
def test_a_run_that_cannot_be_is_told_in_words(given: dict[str, Any], said: str) -> None:
    """What was given, and what would do; nothing is run, and no session made for it."""
    with pytest.raises(CampaignError, match=said):
        Campaign(QUICKSTART, n=3).run(**given)


def test_contributions_to_what_is_no_collective_are_refused() -> None:
    """When the campaign is planned; not in each of its rows."""
    given = [{"model": "zero", "scope": "contribution"}]
    campaign = Campaign(QUICKSTART, sites="relu*1:0", faults=given)
    with pytest.raises(CampaignError, match=r"'relu\*1:0' is none; expected one such as 'c10d::al"):
        _ = campaign.jobs


def test_workers_that_cannot_be_are_told_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the command line and in Python."""
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"make_session": QUICKSTART, "n": 1}))
    assert main(["campaign", str(plan), "--workers", "-1"]) == 1
    assert "workers is -1; expected a whole number from 0" in capsys.readouterr().err
    with pytest.raises(CampaignError, match="workers is 0; expected a whole number from 1"):
        processes(0)


@pytest.mark.parametrize("steps", [0, "a", True])
def test_trials_of_no_step_are_told_in_words(steps: Any) -> None:
    """As a replay of none is."""
    with pytest.raises(SessionError, match=f"steps is {steps!r}; expected a whole number from 1"):
        sessions.quickstart().trials(steps)


@pytest.mark.parametrize("kind", ["bool", "complex"])
def test_results_of_any_dtype_have_rows(kind: str) -> None:
    """Which column is the largest is not asked of what has no order."""
    net = torch.nn.Linear(4, 3)

    def step() -> torch.Tensor:
        with torch.no_grad():
            scores = net(torch.ones(2, 4))
        return scores > 0 if kind == "bool" else torch.complex(scores, scores)

    rows = Campaign(lambda: Session(step, model=net), n=6).run()
    assert len(rows) == 6
    assert not any("top1_changed" in row.metrics for row in rows)


@pytest.mark.parametrize("held", [(True, False, False), (False, True, False)])
def test_a_tensor_that_somebody_holds_makes_no_other_campaign(held: tuple[bool, ...]) -> None:
    """In the golden run, or while the tape is written: one more detach; the rows are the same."""
    found = []
    for holds in (held, ()):
        case, runs = models.mlp(), iter(holds)
        case.optimizer = torch.optim.AdamW(case.model.parameters())

        def step(case: models.Case = case, runs: Iterator[bool] = runs) -> torch.Tensor:
            with Holder("zeros_like" if next(runs, False) else "nothing"):
                return case.step()

        session = Session(step, model=case.model, optimizer=case.optimizer)
        campaign = Campaign.of_site(session, "relu*1:0", elements=1)
        rows = campaign.run()
        found.append([(r.environment["golden"], r.outcome, r.metrics["loss"]) for r in rows])
        if not held[0]:  # else the tape has other rows than the golden run
            assert {row.way for row in rows} == {"slice"}
    assert found[0] == found[1]


def test_a_golden_run_in_which_a_tensor_was_held_is_made_again() -> None:
    """The session is the campaign's own: its slices are those of a golden run like all others."""
    case, runs = models.mlp(), iter((True,))
    case.optimizer = torch.optim.AdamW(case.model.parameters())

    def step() -> torch.Tensor:
        with Holder("zeros_like" if next(runs, False) else "nothing"):
            return case.step()

    def make() -> Session:
        return Session(step, model=case.model, optimizer=case.optimizer)

    rows = Campaign(make, sites="relu*1:0", n=12, audit=0).run()
    assert {row.way for row in rows} == {"slice"}


def test_a_slice_and_its_replay_name_the_same_gradient() -> None:
    """Of ten gradients two are rounding noise, those of biases before BatchNorm, in either way."""
    campaign = Campaign(
        "tests.campaign.sessions:quickstart", sites="relu*2:0", n=6, seed=1, audit=0
    )
    named = re.compile(r"gradients differ, most ([\w.]+)")
    rows = [row for row in campaign.run() if row.way == "slice" and row.outcome == "changed"]
    assert rows
    for row in rows:
        run = campaign.open(row.id).run
        assert run is not None
        (mine,), (theirs,) = (named.findall(each) for each in (row.reason, run.outcome.reason))
        assert mine == theirs
        assert mine not in {"conv1.bias", "conv2.bias"}


def test_a_listener_that_raises_does_not_end_a_campaign(caplog: pytest.LogCaptureFixture) -> None:
    """All 20 injections are made, and it is not running any more; the log has the error."""
    campaign = Campaign.of_sites(sessions.inference(), "relu", n=20, seed=1)

    def broken() -> None:
        raise RuntimeError("no")

    campaign.subscribe(broken)
    assert len(campaign.run(chunk=10)) == 20
    assert not campaign.running
    assert "broken failed" in caplog.text
    with pytest.raises(TypeError, match="listener is None; expected a callable"):
        campaign.subscribe(None)  # type: ignore[arg-type]
