"""What results say: rates of several outcomes, by bit, format and fault."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fi_notebook import Campaign
from fi_notebook.campaign import Results, Row
from fi_notebook.campaign.pictures import Pictures
from fi_notebook.campaign.statistics import wilson
from fi_notebook.core.run import OUTCOMES
from fi_notebook.core.words import spoken
from fi_notebook.report.campaign_figures import campaign_figures
from tests.campaign.test_journal import ROW


def _rows(kinds: list[tuple[str, str, int]]) -> Results:
    return Results(
        tuple(
            Row(
                **{
                    **vars(replace(ROW, id=number, outcome=outcome)),
                    "place": {"dtype": dtype, "bit": bit, "layer": "a", "order": 1},
                }
            )
            for number, (outcome, dtype, bit) in enumerate(kinds, 1)
        )
    )


def test_several_outcomes_have_one_rate_together() -> None:
    """Of 10: 2 crashes, 3 NaN and 1 changed do harm, 4 are masked; no two come at once."""
    ends = ["crash"] * 2 + ["nan_immediate"] * 2 + ["nan_delayed", "changed"]
    ends += ["masked_exact"] * 3 + ["masked_tolerance"]
    found = _rows([(end, "float32", 3) for end in ends])
    rates = {rate.outcome: rate for rate in found.rates(of=["harm", "masked", "nan", "crash"])}
    counts = {name: (rate.count, rate.n) for name, rate in rates.items()}
    assert counts == {"harm": (6, 10), "masked": (4, 10), "nan": (3, 10), "crash": (2, 10)}
    assert (rates["nan"].low, rates["nan"].high) == pytest.approx(wilson(3, 10))
    assert found.rates(of="harm") == [rates["harm"]]
    every = found.rates(of=["harm", "every"])
    assert [rate.outcome for rate in every] == ["harm", *OUTCOMES]
    with pytest.raises(ValueError, match="no outcome 'harms'; did you mean 'harm'"):
        found.rates(of="harms")


def test_an_outcome_that_never_came_has_an_upper_end() -> None:
    """0 of 100: [0, 0.0370], where every outcome is asked for."""
    found = _rows([("changed", "float32", 3)] * 100)
    assert [rate.outcome for rate in found.rates()] == ["changed"]
    assert [rate.outcome for rate in found.rates(of="every")] == list(OUTCOMES)
    (crash,) = found.rates(of="crash")
    assert (crash.count, crash.low) == (0, 0.0)
    assert crash.high == pytest.approx(0.0370, abs=5e-5)
    every = found.rates(of="every").to_pandas()
    assert every.equals(found.rates_to_pandas(of="every"))
    table = every.set_index("outcome")
    assert list(table.index) == list(OUTCOMES)
    assert table.loc["crash", "high"] == crash.high
    assert table.loc["changed", "worth"] == 100


def test_a_table_of_no_rates_has_columns() -> None:
    """Eight of them, and no line."""
    table = Results(()).rates().to_pandas()
    names = ["group", "outcome", "count", "n", "rate", "low", "high", "worth"]
    assert (list(table.columns), len(table)) == (names, 0)


def test_a_loaded_journal_has_pictures_and_a_report(tmp_path: Path) -> None:
    """As a campaign has; nothing runs for them."""
    journal = tmp_path / "j.jsonl"
    journal.write_text(ROW.to_json() + "\n")
    found = Results.load(journal)
    assert found.figures.outcomes().data[0].name == spoken(ROW.outcome)
    assert "1 injection" in found.save_html(tmp_path / "c.html").read_text(encoding="utf-8")


def test_bits_are_in_order_and_of_one_format() -> None:
    """Bit 14 of bfloat16 is its top exponent bit, that of float32 in the mantissa."""
    one = _rows([("changed", "float32", bit) for bit in (9, 30, 10)])
    assert [rate.group for rate in one.rates("bit")] == ["9", "10", "30"]
    assert [bar.split(" (")[0] for bar in Pictures(one).outcomes("bit").data[0].y] == [
        "9",
        "10",
        "30",
    ]
    two = _rows(
        [
            ("masked_exact", "float32", 14),
            ("changed", "bfloat16", 14),
            ("masked_exact", "float32", 2),
        ]
    )
    harm = {rate.group: rate.rate for rate in two.rates("bit", of="harm")}
    assert list(harm.items()) == [("bfloat16:14", 1.0), ("float32:2", 0.0), ("float32:14", 0.0)]
    _, heat = Pictures(two).heat_map().data  # the pale cells, of fewer than 5 injections
    names = [f"bfloat16:{n}" for n in range(15)] + [f"float32:{n}" for n in range(15)]
    assert list(heat.x) == names
    assert heat.z[0][14] == 1.0
    assert heat.z[0][29] == 0.0
    _, texts = campaign_figures(two.columns())
    assert texts["harm"].splitlines() == [
        "bit bfloat16:14: 1 of 1 injection",
        "bit float32:14: 0 of 1 injection",
        "bit float32:2: 0 of 1 injection",
    ]


def test_a_model_with_two_parameters_is_two_faults() -> None:
    """By model they are one group, by fault two."""
    faults = [("scale", {"factor": 1.0}), ("scale", {"factor": 1e6})]
    campaign = Campaign(
        "tests.campaign.sessions:quickstart", sites="relu*1:0", faults=faults, n=12, seed=1
    )
    found = campaign.run()
    assert {rate.group for rate in found.rates("model")} == {"scale"}
    ends = {rate.group: rate.rate for rate in found.rates("fault", of="inactive")}
    assert set(ends) == {"scale(factor=1.0)", "scale(factor=1000000.0)"}
    assert ends["scale(factor=1.0)"] == 1.0
