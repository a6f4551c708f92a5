"""Which process this is, without a process group."""

from __future__ import annotations

import pytest

from fi_notebook.engine.world import process_rank, speaker, world_size


def test_without_a_group_the_launcher_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank and size are those of RANK and WORLD_SIZE; of one process alone, 0 and 1."""
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert (process_rank(), world_size()) == (0, 1)
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert (process_rank(), world_size()) == (2, 4)


def test_a_line_names_its_rank_where_there_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process alone says nothing of ranks."""
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert speaker(0) == ""
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert speaker(1) == "rank 1: "
