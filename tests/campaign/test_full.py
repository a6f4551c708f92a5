"""Campaigns that replay every injection in full: detectors, mechanisms, metrics of one's own."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fi_notebook import Campaign
from fi_notebook.analysis import detectors
from fi_notebook.analysis.mechanisms import deaths
from fi_notebook.campaign import CampaignError, Results, Row
from fi_notebook.campaign.again import again, from_file, opened
from fi_notebook.campaign.executors import processes
from fi_notebook.campaign.journal import JournalError, read_row
from fi_notebook.campaign.pictures import summary
from fi_notebook.campaign.statistics import wilson
from fi_notebook.cli import main
from fi_notebook.demo import make_demo
from tests.campaign import sessions

QUICKSTART = "tests.campaign.sessions:quickstart"
ACCURACY = "tests.campaign.sessions:accuracy"


@pytest.fixture(scope="module")
def full() -> Campaign:
    """16 bit flips on the quickstart, each replayed in full."""
    campaign = Campaign(QUICKSTART, n=16, seed=1, full=True)
    campaign.run()
    return campaign


def test_a_full_campaign_ends_as_the_sliced_one_does(full: Campaign) -> None:
    """The same faults, outcomes and losses; only the way is another."""
    sliced = Campaign(QUICKSTART, n=16, seed=1).run()
    assert {row.way for row in full.results} == {"replay"}
    for mine, theirs in zip(full.results, sliced, strict=True):
        assert (mine.site, mine.fault, mine.seed) == (theirs.site, theirs.fault, theirs.seed)
        assert mine.outcome == theirs.outcome
        assert repr(mine.metrics["loss"]) == repr(theirs.metrics["loss"])
        assert theirs.detections is None
        assert theirs.mechanisms is None
        assert theirs.detected_by == []


@dataclass
class Constant:
    """Says one number of every model; as a dataclass it has no hash."""

    value: float

    def __call__(self, _model: object) -> float:
        """The number."""
        return self.value


def test_evaluate_may_be_an_object_without_a_hash() -> None:
    """Its number is the metric of both injections, after two steps each."""
    session = sessions.quickstart()
    found = Campaign.of_subtree(session, "", n=2, seed=1, steps=2, evaluate=Constant(0.5)).run()
    assert [row.metrics["evaluated_metric"] for row in found] == [0.5, 0.5]


def test_a_row_says_what_its_session_says(full: Campaign) -> None:
    """Detectors with their first alarm, and of what the error died, are those of the opened row."""
    some = {row.outcome: row for row in full.results}.values()
    assert len(some) >= 2
    for row in some:
        run = full.open(row.id).run
        assert run is not None
        assert row.detected_by == list(run.outcome.detected_by)
        assert row.detections is not None
        for found in run.detections:
            first = row.detections[found.name]
            told = None if first is None else (first["step"], first["site"])
            alarm = found.first
            assert told == (None if alarm is None else (alarm.step, alarm.site))
        assert row.mechanisms == Counter(death.mechanism for death in deaths(run.comparison))


def test_a_full_row_is_kept_and_made_again(tmp_path: Path) -> None:
    """What its journal holds is what was found, and what is found again."""
    journal = tmp_path / "j.jsonl"
    campaign = Campaign(QUICKSTART, n=4, seed=2, sites="relu", evaluate=ACCURACY)
    found = campaign.run(journal=journal)
    assert repr(Results.load(journal).rows) == repr(found.rows)
    assert again(read_row(f"{journal}:3"))[1] == []
    run = opened(read_row(f"{journal}:3")).run
    assert run is not None
    assert run.faulty[-1].metrics["accuracy"] == found.rows[2].metrics["evaluated_accuracy"]
    with pytest.raises(JournalError, match="another campaign"):
        Campaign(QUICKSTART, n=4, seed=2, sites="relu").run(journal=journal)


def test_a_metric_of_ones_own_is_in_every_row() -> None:
    """The accuracy after two golden steps is that of the same two steps in plain torch."""
    demo = make_demo()
    for _ in range(2):
        demo.step()
    plain = sessions.accuracy(demo.model)["accuracy"]
    found = Campaign(QUICKSTART, n=6, seed=1, steps=2, evaluate=sessions.accuracy).run()
    golden = {row.metrics["golden_evaluated_accuracy"] for row in found}
    assert golden == {plain}
    assert {"evaluated_accuracy", "detected_by"} <= set(found.to_pandas().columns)


def test_other_processes_evaluate_too() -> None:
    """Rows of two processes are those of this one."""
    here = Campaign(QUICKSTART, n=4, seed=3, evaluate=ACCURACY).run()
    with processes(2) as pool:
        there = Campaign(QUICKSTART, n=4, seed=3, evaluate=ACCURACY).run(pool, chunk=2)
    assert repr([row.result for row in here]) == repr([row.result for row in there])


def test_what_other_processes_cannot_import_is_told() -> None:
    """A local function can be evaluated here only; something else never."""
    local = Campaign(QUICKSTART, n=2, evaluate=lambda _model: 1.0)
    with processes(1) as pool, pytest.raises(CampaignError, match="cannot import evaluate"):
        local.run(pool)
    assert {row.metrics["evaluated_metric"] for row in local.run()} == {1.0}
    with pytest.raises(CampaignError, match="evaluate is int; expected a function that takes"):
        Campaign(QUICKSTART, evaluate=3)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(CampaignError, match=r"cannot import evaluate .*sessions:no"):
        Campaign(QUICKSTART, evaluate="tests.campaign.sessions:no")


def _row(full: Campaign, number: int, outcome: str, said: Any) -> Row:
    like = full.results.rows[0]
    return Row(**{**vars(like), "id": number, "outcome": outcome, "detections": said})


def test_coverage_counts_what_was_tried(full: Campaign) -> None:
    """Of 5 harmful rows one detector failed in one, one row was not tried: 2 of 3 are caught."""
    alarm = {"step": 0, "site": ""}
    rows = (
        _row(full, 1, "changed", {"guard": alarm}),
        _row(full, 2, "changed", {"guard": None}),
        _row(full, 3, "nan_immediate", {"guard": alarm}),
        _row(full, 4, "changed", {"guard": {"error": "ValueError: no"}}),
        _row(full, 5, "crash", None),
        _row(full, 6, "masked_exact", {"guard": None}),
        _row(full, 7, "not_injected", {"guard": None}),
    )
    found = {c.outcome: (c.caught, c.n) for c in Results(rows).coverage()}
    assert found == {
        "harm": (2, 3),
        "nan_immediate": (1, 1),
        "masked_exact": (0, 1),
        "changed": (1, 2),
        "crash": (0, 0),
    }
    harm = Results(rows).coverage()[0]
    there = len(full.population)
    share = (there - 1) / (there - len(rows))  # what was tried of all faults is known
    assert harm.detector == "guard"
    low, high = wilson(2 * share, 3 * share)
    faults = 3 / len(rows) * there  # such as were tried, among all
    ends = (math.floor(low * faults) / faults, math.ceil(high * faults) / faults)
    assert (harm.low, harm.high) == pytest.approx(ends, rel=1e-12)
    none = next(c for c in Results(rows).coverage() if c.outcome == "crash")
    assert math.isnan(none.rate)
    assert Results(rows[4:5]).coverage() == []


def test_a_detector_that_raises_is_told_in_the_row() -> None:
    """It catches nothing, and is in no denominator."""

    @detectors.register("broken")
    def broken(_observed: detectors.Observed) -> list:
        raise RuntimeError("no")

    try:
        found = Campaign(QUICKSTART, n=2, seed=1, full=True).run()
    finally:
        detectors.unregister("broken")
    for row in found:
        assert row.detections is not None
        assert row.detections["broken"] == {"error": "RuntimeError: no"}
    assert {c.n for c in found.coverage() if c.detector == "broken"} == {0}


def test_summary_report_and_command_line_tell_what_detectors_caught(
    full: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where it is known; a sliced campaign says nothing of it."""
    assert "nan_guard" in summary(full.results)
    assert "nan_guard" in full.save_html(tmp_path / "f.html").read_text(encoding="utf-8")
    plan = tmp_path / "plan.json"
    given = {"make_session": QUICKSTART, "n": 3, "seed": 4, "evaluate": ACCURACY}
    plan.write_text(json.dumps(given))
    assert from_file(plan).run().rows[0].metrics["evaluated_accuracy"] >= 0
    assert main(["campaign", str(plan)]) == 0
    assert "nan_guard" in capsys.readouterr().out
