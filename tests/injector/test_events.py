"""The structured twin of the log: one JSON line per injection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from fi_notebook import Injector
from fi_notebook.engine import world
from tests import models
from tests.injector.helpers import lines, plan


def _events(config: dict[str, Any], path: Path, steps: int = 2) -> list[dict[str, Any]]:
    case = models.mlp()
    with Injector(config, model=case.model, events=path):
        for _ in range(steps):
            case.step()
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_injection_is_one_line(tmp_path: Path) -> None:
    """It holds site, step, module, lines, before, after and the bits of each element."""
    config = plan(
        "relu*2:0", "bitflip", parameters={"bit": 31}, elements={"index": [0, 1]}, steps=[1]
    )
    first, end = _events(config, tmp_path / "events.jsonl")
    assert first["event"] == "injection"
    named = {key: first[key] for key in ("fault", "model", "site", "step", "rank", "phase")}
    assert named == {
        "fault": "f1",
        "model": "bitflip",
        "site": "relu*2:0",
        "step": 1,
        "rank": 0,
        "phase": "forward",
    }
    assert first["module"] == "3"
    assert any(line.startswith("models.py:") for line in first["code"])
    assert first["before"]["shape"] == [4, 3]
    (element,) = first["elements"]
    assert element["index"] == [0, 1]
    assert element["after_bits"] == element["before_bits"] ^ (1 << 31)
    assert end == {"event": "end", "step": 1, "rank": 0, "world_size": 1}


def test_numbers_that_json_has_not_are_text(tmp_path: Path) -> None:
    """NaN and the infinities are written as text, so that every reader reads the file."""
    path = tmp_path / "events.jsonl"
    config = plan("relu*2:0", "nan", elements={"index": [0, 0]}, steps=[0])
    first, _ = _events(config, path, steps=1)
    assert first["elements"][0]["after"] == "nan"
    assert first["after"]["nan"] == 1
    assert "NaN" not in path.read_text()


def test_what_was_not_injected_is_a_line(tmp_path: Path) -> None:
    """The reason stands before the end."""
    missed, end = _events(plan("relu*9:0", steps=[0]), tmp_path / "events.jsonl", steps=1)
    assert missed == {
        "event": "not_injected",
        "fault": "f1",
        "reason": "asked for call 9 of relu, 2 were made",
        "rank": 0,
    }
    assert end["event"] == "end"


def test_a_resumed_run_adds_to_the_file(tmp_path: Path) -> None:
    """Lines of an earlier run stay."""
    path = tmp_path / "events.jsonl"
    _events(plan("relu*1:0", steps=[0]), path)
    assert len(_events(plan("relu*1:0", steps=[0]), path)) == 4


@pytest.mark.parametrize("verbosity", ["quiet", "verbose"])
def test_it_does_not_depend_on_how_much_is_logged(tmp_path: Path, verbosity: str) -> None:
    """Quiet or verbose, the file is the same."""
    config = plan("relu*2:0", "zero", steps=[0]) | {"verbosity": verbosity}
    events = _events(config, tmp_path / "events.jsonl", steps=1)
    assert [event["event"] for event in events] == ["injection", "end"]


def test_every_line_of_a_rank_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In the file, in the log and in the report, where there are several ranks."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    faults = [
        {"id": "f1", "target": "relu*1:0", "model": "zero", "steps": [0]},
        {"id": "f2", "target": "relu*9:0", "model": "zero", "steps": [0]},
    ]
    case, path = models.mlp(), tmp_path / "events.jsonl"
    with (
        Injector(
            {"version": 2, "faults": faults, "verbosity": "quiet"}, model=case.model, events=path
        ) as injector,
        caplog.at_level("INFO", logger="fi_notebook"),
    ):
        case.step()
        injector.close()
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert [event["rank"] for event in events] == [1, 1, 1]
    assert events[-1] == {"event": "end", "step": 0, "rank": 1, "world_size": 2}
    assert lines(caplog) == [
        "rank 1: injecting fault to relu*1:0",
        "rank 1: f2 was not injected: asked for call 9 of relu, 2 were made",
    ]
    assert injector.report().startswith("rank 1: 1 injection, training came to step 0\n")


def test_every_line_of_the_log_but_of_calls_names_its_rank(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Steps, phases, module names and what is unknown; the line of a call is as it always is."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    case = models.mlp()
    config = {"version": 2, "modules": ["0", "lyer"], "log_steps": 0}
    with (
        caplog.at_level("INFO", logger="fi_notebook"),
        Injector(config, model=case.model) as injector,
    ):
        case.step()
    assert injector.step == 0
    told = lines(caplog)
    assert told[0].startswith("rank 1: some of the target modules: lyer")
    assert told[1] == "rank 1: current step 0. Restart counting"
    assert "rank 1: forward start" in told
    others = [line for line in told if not line.startswith("rank 1: ")]
    assert others
    assert all("*step0*" in line for line in others)


def test_a_rank_is_still_named_when_its_group_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Closed after the group of two was destroyed, rank 1 is rank 1 of 2, not rank 0 of 1."""
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setattr(world, "_known", dict(world._known))
    case, path = models.mlp(), tmp_path / "events.jsonl"
    dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
    injector = Injector(plan("relu*9:0", steps=[0]), model=case.model, events=path)
    case.step()
    dist.destroy_process_group()
    with caplog.at_level("WARNING", logger="fi_notebook"):
        injector.close()
    missed, end = (json.loads(line) for line in path.read_text().splitlines())
    assert (missed["event"], missed["rank"]) == ("not_injected", 1)
    assert end == {"event": "end", "step": 0, "rank": 1, "world_size": 2}
    reason = "f1 was not injected: asked for call 9 of relu, 2 were made"
    assert lines(caplog)[-1] == f"rank 1: {reason}"
    assert injector.report().startswith("rank 1: ")
