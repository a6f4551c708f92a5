"""What a file of events comes to, of one process and of several."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fi_notebook.report import text_files


def _told(path: Path, *events: dict[str, Any]) -> list[str]:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return text_files.events(path).splitlines()


def _struck(rank: int, step: int, site: str = "relu*1:0") -> dict[str, Any]:
    named = {"event": "injection", "fault": "f1", "site": site, "step": step, "changed": 3}
    return named | {"rank": rank}


def _end(rank: int, step: int, size: int) -> dict[str, Any]:
    return {"event": "end", "step": step, "rank": rank, "world_size": size}


MISSED = {"event": "not_injected", "fault": "f1", "reason": "it is for rank 0, this is rank 1"}


def test_one_process_is_told_as_one(tmp_path: Path) -> None:
    """No rank is named; a record that goes on after its end was cut off later."""
    events = [_struck(0, 1), _end(0, 4, 1)]
    lines = ["1 injection", "  f1 struck 1 time, in step 1, at relu*1:0: 3 elements changed"]
    assert _told(tmp_path / "e", *events) == [*lines, "training came to step 4"]
    lines = ["2 injections", "  f1 struck 2 times, in steps 1, 5, at relu*1:0: 6 elements changed"]
    assert _told(tmp_path / "e", *events, _struck(0, 5)) == [*lines, "the run was cut off"]


def test_the_first_sites_of_a_fault_are_named(tmp_path: Path) -> None:
    """Three of five, each once, and how many more there are."""
    events = [_struck(0, 1, f"relu*{n}:0") for n in (1, 2, 2, 3, 4, 5)]
    assert _told(tmp_path / "e", *events)[1] == (
        "  f1 struck 6 times, in step 1, at relu*1:0, relu*2:0, relu*3:0 and 2 more: "
        "18 elements changed"
    )


def test_each_rank_is_told_by_itself(tmp_path: Path) -> None:
    """How far it came, what did not fire on it, and where its record has no end."""
    events = [_struck(0, 1), _struck(2, 1), MISSED | {"rank": 1}, _end(1, 4, 4), _end(0, 3, 4)]
    assert _told(tmp_path / "e", *events) == [
        "2 injections, 3 ranks",
        "rank 0: 1 injection",
        "  f1 struck 1 time, in step 1, at relu*1:0: 3 elements changed",
        "  training came to step 3",
        "rank 1: 0 injections",
        "  f1 was not injected: it is for rank 0, this is rank 1",
        "  training came to step 4",
        "rank 2: 1 injection",
        "  f1 struck 1 time, in step 1, at relu*1:0: 3 elements changed",
        "  the run was cut off",
        "no record of rank 3: the run was cut off there",
    ]
