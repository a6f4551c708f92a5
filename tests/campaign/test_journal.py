"""The journal: rows come back as they were, torn lines are passed over, nothing doubles."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook.campaign.journal import Journal, JournalError, Row, read_row
from fi_notebook.campaign.results import Results

ROW = Row(
    id=1,
    campaign={"key": "k", "make_session": "a:b", "seed": 1},
    site="relu*2:0",
    fault={"model": "bitflip", "parameters": {"bit": 3}, "elements": {"index": 5}},
    seed=7,
    step=0,
    environment={"torch": "2"},
    outcome="changed",
    reason="it changed",
    metrics={"loss": math.nan, "before": math.inf, "after": -math.inf, "n": 3, "losses": [1.5]},
)


@given(st.floats(), st.text())
def test_a_row_comes_back_as_it_was(value: float, text: str) -> None:
    """Numbers bit for bit, NaN and infinities included, and any text."""
    row = replace(ROW, reason=text, metrics={"x": value})
    line = row.to_json()
    assert "\n" not in line
    assert repr(Row.from_json(line)) == repr(row)


def test_a_torn_line_is_passed_over_and_ended(tmp_path: Path) -> None:
    """Cut anywhere, the last row is made again, and all others are kept."""
    path = tmp_path / "j.jsonl"
    lines = "".join(f"{replace(ROW, id=n).to_json()}\n" for n in (1, 2, 3)).encode()
    second = lines.index(b"\n", lines.index(b"\n") + 1) + 1
    for cut in (second + 1, len(lines) - 20, len(lines) - 2):
        path.write_bytes(lines[:cut])
        journal = Journal(path, "k")
        assert sorted(journal.rows) == [1, 2]
        assert journal.torn == 1
        journal.append([replace(ROW, id=3)])
        assert sorted(Journal(path, "k").rows) == [1, 2, 3]


def test_a_row_is_written_once(tmp_path: Path) -> None:
    """A number that is there already is neither written nor replaced."""
    journal = Journal(tmp_path / "j.jsonl", "k")
    assert len(journal.append([ROW, replace(ROW, id=2)])) == 2
    assert journal.append([replace(ROW, outcome="crash")]) == []
    assert len((tmp_path / "j.jsonl").read_text().splitlines()) == 2


def test_the_journal_of_another_campaign_is_refused(tmp_path: Path) -> None:
    """Another key: another session, seed, sites or faults."""
    Journal(tmp_path / "j.jsonl", "k").append([ROW])
    with pytest.raises(JournalError, match="another campaign"):
        Journal(tmp_path / "j.jsonl", "other")


def test_what_is_no_journal_of_one_campaign_is_refused(tmp_path: Path) -> None:
    """A text, an empty file, rows of two campaigns: by whoever reads rows, and what each is."""
    text, empty, both = (tmp_path / name for name in ("README.md", "empty.jsonl", "both.jsonl"))
    text.write_text("# A title\n\nNo row.\n")
    empty.touch()
    Journal(both, "k").append([ROW])
    with both.open("a") as file:
        file.write(f"{replace(ROW, campaign={'key': 'l'}).to_json()}\n")
    for path, said in (
        (text, "README.md is no journal: none of its lines is a row"),
        (empty, "empty.jsonl has no row of a campaign; expected a journal of one that ran"),
        (both, r"both.jsonl has rows of 2 campaigns \(k, l\)"),
    ):
        with pytest.raises(JournalError, match=said):
            Results.load(path)
        with pytest.raises(JournalError, match=said):
            read_row(f"{path}:1")


def test_a_campaign_writes_into_nothing_but_a_journal(tmp_path: Path) -> None:
    """A text stays as it is; an empty file, or one with a torn row alone, is a journal."""
    path = tmp_path / "j.jsonl"
    path.write_text("# A title\n")
    with pytest.raises(JournalError, match="is no journal"):
        Journal(path, "k")
    assert path.read_text() == "# A title\n"
    for begun in ("", ROW.to_json()[:40], '{"i'):
        path.write_text(begun)
        Journal(path, "k").append([ROW])
        assert list(Journal(path, "k").rows) == [1]


def test_a_row_is_found_by_its_number(tmp_path: Path) -> None:
    """``file:2`` is injection 2; what is not there says what is."""
    path = tmp_path / "j.jsonl"
    Journal(path, "k").append([ROW, replace(ROW, id=2)])
    assert read_row(f"{path}:2").id == 2
    with pytest.raises(JournalError, match="2 rows, from 1 to 2"):
        read_row(f"{path}:9")
    with pytest.raises(JournalError, match="expected text such as"):
        read_row(str(path))
    with pytest.raises(JournalError, match="there is no journal"):
        read_row(f"{tmp_path / 'none.jsonl'}:1")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"id": "6"}, "id is '6'; expected a whole number"),
        ({"id": 0}, "id is 0; expected a number from 1"),
        ({"id": -1}, "id is -1; expected a number from 1"),
        ({"id": True}, "id is True; expected a whole number"),
        ({"id": 10**9, "planned": 60}, "id is 1000000000; expected a number from 1 to 60"),
        ({"campaign": None}, "campaign is None; expected a mapping"),
        ({"environment": None}, "environment is None; expected a mapping"),
        ({"metrics": None}, "metrics is None; expected a mapping"),
        ({"outcome": "chanegd"}, "no outcome 'chanegd'; did you mean 'changed'"),
        ({"outcome": None}, "outcome is None; expected text"),
    ],
)
def test_a_row_that_no_campaign_made_is_refused(
    given: dict[str, Any], said: str, tmp_path: Path
) -> None:
    """By whoever reads it, with its place in the file; it is in no count."""
    path = tmp_path / "j.jsonl"
    odd = json.dumps(json.loads(replace(ROW, id=2).to_json()) | given)
    path.write_text(f"{ROW.to_json()}\n{odd}\n")
    with pytest.raises(JournalError, match=rf"row 2 of .*j.jsonl is none of a campaign: {said}"):
        Results.load(path)
    with pytest.raises(JournalError, match=said):
        Journal(path, "k")


def test_lines_that_cannot_be_read_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """20 of 21 lines of garbage are told; a whole journal has no warning."""
    path = tmp_path / "j.jsonl"
    path.write_text(f"{ROW.to_json()}\n")
    with caplog.at_level(logging.WARNING):
        assert len(Results.load(path)) == 1
        assert not caplog.records
        path.write_text(f"{ROW.to_json()}\n" + "garbage\n" * 20)
        assert len(Results.load(path)) == 1
    assert f"20 lines of {path} could not be read and were passed over" in caplog.text
