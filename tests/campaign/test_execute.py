"""How many injections a task has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fi_notebook.campaign.execute import Here, Tasks
from fi_notebook.campaign.worker import Bench, Job
from fi_notebook.core.fault import Fault
from fi_notebook.core.site import Target
from tests.campaign.test_journal import ROW


@pytest.mark.parametrize(
    ("seconds", "soon", "sizes"),
    [
        (0.2, True, [1, 5, 5, 1]),  # 1 s / 0.2 s
        (7.0, True, [1] * 12),
        (0.0, True, [1, 8, 3]),  # no more than may be
        (7.0, False, [8, 4]),  # as many as were asked for
    ],
)
def test_a_task_takes_about_a_second(
    seconds: float, soon: bool, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """12 injections, 8 at a time at most, so that Ctrl-C loses no more than a second of them."""

    def rows(_self: Bench, jobs: Sequence[Job]) -> list[Any]:
        return [replace(ROW, id=job.id, seconds=seconds) for job in jobs]

    monkeypatch.setattr(Bench, "rows", rows)
    bench = object.__new__(Bench)
    fault = Fault(id="f1", target=Target.parse("relu*1:0"), model="zero")
    jobs = [Job(number, "relu*1:0", 0, fault) for number in range(1, 13)]
    made = Here(bench).rows(Tasks(jobs, 8, soon=soon), stop=lambda: False)
    assert [len(some) for some in made] == sizes
