"""Point-to-point calls are never waited on: nothing hangs, and what arrives is struck."""

from __future__ import annotations

from typing import Any

import pytest

from tests.distributed.pool import Pool


def _plan(target: str, **parts: Any) -> dict[str, Any]:
    fault = {"target": target, "model": "scale", "parameters": {"factor": 10}, **parts}
    return {"version": 2, "faults": [{"id": "f1"} | fault], "verbosity": "quiet"}


@pytest.mark.parametrize("batched", [False, True], ids=["single", "batched"])
def test_what_arrives_is_struck_when_it_is_first_read(four: Pool, batched: bool) -> None:
    """Each rank gets its neighbour's number twice, and rank 2's first half is 10 times 2."""
    answers = four.run("ring", plan=_plan("c10d::recv_*1", ranks=[2]), batched=batched)
    assert [a["got"] for a in answers] == [[4, 4], [1, 1], [20, 2], [3, 3]]
    assert answers[2]["struck"] == [["c10d::recv_*1:0[0]", 0, "in place", 1]]


def test_the_second_buffer_is_told_from_the_first(four: Pool) -> None:
    """Both halves are of one storage; a fault at the second call strikes the second half."""
    answers = four.run("ring", plan=_plan("c10d::recv_*2", ranks="0-"), batched=False)
    assert [a["got"] for a in answers] == [[4, 40], [1, 10], [2, 20], [3, 30]]


@pytest.mark.parametrize("batched", [False, True], ids=["single", "batched"])
def test_what_is_sent_goes_wrong_and_the_sender_keeps_its_own(four: Pool, batched: bool) -> None:
    """Rank 1 sends 10 times 2 to rank 2 at first, then 2; its tensor stays 2."""
    answers = four.run("ring", plan=_plan("c10d::send*1", ranks=[1]), batched=batched)
    assert [a["got"] for a in answers] == [[4, 4], [1, 1], [20, 2], [3, 3]]
    assert answers[1]["sent"] == [2]


def test_a_blocking_receive_is_struck_when_it_is_read(two: Pool) -> None:
    """Rank 0 receives 2 and reads 20."""
    answers = two.run("collective", plan=_plan("c10d::recv_", ranks=[0]), op="c10d::recv_")
    assert [a["got"] for a in answers] == [[20], [2]]


def test_a_receive_from_anybody(two: Pool) -> None:
    """The same of a receive that names no source."""
    op = "c10d::recv_any_source_"
    answers = two.run("collective", plan=_plan(op, ranks=[0]), op=op)
    assert [a["got"] for a in answers] == [[20], [2]]


def test_a_coalescing_group_is_not_waited_on(two: Pool) -> None:
    """Inside a group rank 1's copies of 2 and 20 are struck when they are read, not before."""
    answers = two.run("coalesced", plan=_plan("c10d::broadcast_", ranks=[1]))
    assert [a["before"] for a in answers] == [[2, 20], [2, 20]]
    assert [a["got"] for a in answers] == [[2, 20], [20, 200]]


def test_a_buffer_that_nothing_reads_is_reported(two: Pool) -> None:
    """Rank 1 never reads what a coalesced call gave before the training ends."""
    answers = two.run("unread", plan=_plan("c10d::recv_", ranks=[0]))
    reason = "c10d::recv_*1 is struck when a call first takes its buffer, and none did"
    assert answers[0]["missed"] == {"f1": reason}
    assert answers[0]["got"] == [2]


@pytest.mark.parametrize(
    ("how", "got"),
    [
        ("send", ([50, 70], [50, 70])),
        ("all_reduce", ([51, 71], [51, 71])),  # rank 0 gives 1 and 1
        ("receive", ([1, 1], [1, 2])),  # written over, as by zeros right after the receive
        ("shape", ([1, 1], [50, 70])),  # the message was still to come
    ],
)
def test_whatever_call_takes_the_buffer_first_finds_it_struck(
    two: Pool, how: str, got: tuple[list[int], list[int]]
) -> None:
    """Of (5, 7), times 10 on rank 1: a send, a collective, another receive, or a product."""
    answers = two.run("passed_on", plan=_plan("c10d::recv_*1", ranks=[1]), how=how)
    assert tuple(a["got"] for a in answers) == got
    assert answers[1]["struck"] == [["c10d::recv_*1:0[0]", 0, "in place", 2]]


def test_a_buffer_may_be_read_in_the_step_after(two: Pool) -> None:
    """Step 0 gives 1, read as 10 in step 1 though no fault is for that; the others are right."""
    plan = _plan("c10d::recv_*1", ranks=[1], steps=[0])
    answers = two.run("received_late", plan=plan, sent_in=[0, 1, 2], read_in=[1, 2, 3])
    assert answers[1]["seen"] == [10, 2, 3]
    assert [step for _, step, _, _ in answers[1]["struck"]] == [0]


def test_a_buffer_that_is_read_later_is_given_up(two: Pool) -> None:
    """In step 3, which a fault is for again, the 1 of step 0 is not struck any more."""
    plan = _plan("c10d::recv_*1", ranks=[1], steps=[0, 3])
    answers = two.run("received_late", plan=plan, sent_in=[0], read_in=[3])
    assert answers[1]["seen"] == [1]
    assert answers[1]["missed"] == {
        "f1": "c10d::recv_*1 is struck when a call first takes its buffer, and none did by the "
        "end of step 1"
    }


def test_what_waits_counts_as_a_firing(two: Pool) -> None:
    """With times 1 the first of two receives is struck, though both are read after both."""
    answers = two.run("received_twice", plan=_plan("c10d::recv_", ranks=[1], times=1))
    assert [a["got"] for a in answers] == [[0, 0], [50, 7]]


def test_looking_at_everything_does_not_hang(four: Pool) -> None:
    """A log of every call waits on nothing either."""
    plan = {"version": 2, "modules": [""], "log_steps": [0], "verbosity": "verbose"}
    answers = four.run("ring", plan=plan, batched=True)
    assert [a["got"] for a in answers] == [[4, 4], [1, 1], [2, 2], [3, 3]]
