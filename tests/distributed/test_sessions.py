"""Sessions and campaigns of several gloo processes: they run together, or none of them does."""

from __future__ import annotations

import pytest

from tests.distributed.pool import Pool

DRIFTS = "two golden runs differ first at mul*1:0 (loss) at scenarios.py:"


def test_a_step_that_one_rank_cannot_repeat_is_refused_on_all(two: Pool) -> None:
    """Rank 1 names the call, rank 0 names rank 1, and both go on: 1 + 2 = 3."""
    zero, one = two.run("data_parallel_session", steps_before=2, drifts=True)
    assert one["said"].startswith(f"the step is not repeatable: {DRIFTS}")
    assert zero["said"].startswith(f"rank 1's step does not repeat: {DRIFTS}")
    assert [zero["sum"], one["sum"]] == [3.0, 3.0]


@pytest.mark.parametrize("steps_before", [0, 1])
def test_data_parallel_has_to_settle_first(two: Pool, steps_before: int) -> None:
    """Its buckets are made anew in the second step: the calls differ, and the reason is told."""
    for answer in two.run("data_parallel_session", steps_before=steps_before):
        assert answer["said"].startswith(
            "the step is not repeatable: two golden runs differ first at copy_*1:0 (forward) at "
        )
        assert (
            ". DistributedDataParallel settles in its first two steps; make two, then trace. "
            in answer["said"]
        )
        assert answer["sum"] == 3.0


def test_data_parallel_that_has_settled_is_replayed(two: Pool) -> None:
    """Two steps before are enough; what struck rank 1 reaches both."""
    answers = two.run("data_parallel_session", steps_before=2)
    assert [a["said"] for a in answers] == ["changed", "changed"]


def test_a_session_of_one_rank_waits_for_nobody(two: Pool) -> None:
    """Where the step has no collective, the other rank need not be there.

    There is no update, and the gradient is the input: only the loss differs.
    """
    assert two.run("session_of_one") == ["", "masked_exact"]


def test_a_campaign_on_data_parallel_replays_each_fault(two: Pool) -> None:
    """A step with collectives is no tape; it is not broken by the try, and the ranks agree."""
    zero, one = two.run("data_parallel_campaign")
    assert zero == one
    assert zero["ways"] == ["replay"] * 4
    assert zero["why"] == "c10d::allreduce_ moves data between ranks"
    assert zero["sum"] == 3.0
