"""DDP and FSDP2 in real gloo processes: buckets, gathers and scatters by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.distributed.pool import Pool


def _plan(target: str, model: str, **parts: Any) -> dict[str, Any]:
    fault = {"id": "f1", "target": target, "model": model, **parts}
    return {"version": 2, "faults": [fault], "verbosity": "quiet"}


# Gradients on ranks 0 and 1 are (1, 2 | 3, 4) and twice that; DDP halves each and sums.
CLEAN = [[1.5, 3.0], [4.5, 6.0]]


def test_ddp_without_a_fault(two: Pool) -> None:
    """The mean of (1, 2) and (2, 4) is (1.5, 3), and both ranks have it."""
    answers = two.run("data_parallel", plan={"version": 2, "log_steps": [0]}, steps=2)
    assert all(a["gradients"] == [CLEAN, CLEAN] for a in answers)


@pytest.mark.parametrize(
    ("model", "parameters", "factor"),
    [
        ("drop_rank", {"rank": 1}, 0),
        ("duplicate_rank", {"rank": 1}, 2),
        ("corrupt_rank", {"rank": 1}, -1),
        ("corrupt_rank", {"rank": 1, "model": "scale", "parameters": {"factor": 3}}, 3),
    ],
)
def test_a_bucket_with_one_wrong_contribution(
    two: Pool, model: str, parameters: dict[str, Any], factor: float
) -> None:
    """In step 1 both ranks get (1 + factor * 2) / 2 times the gradient of rank 0."""
    plan = _plan("c10d::allreduce_", model, parameters=parameters, steps=[1])
    answers = two.run("data_parallel", plan=plan, steps=3)
    mean = (1 + factor * 2) / 2
    wrong = [[mean * 1, mean * 2], [mean * 3, mean * 4]]
    for answer in answers:
        assert answer["gradients"] == [CLEAN, wrong, CLEAN]
    assert answers[0]["weights"] == answers[1]["weights"]
    assert answers[1]["struck"] == [["c10d::allreduce_*1:0[0]", 1, "contribution", 4]]


def test_one_copy_of_a_bucket_lets_the_replicas_part(two: Pool) -> None:
    """Rank 1's copy of the averaged bucket times 10: its weights leave those of rank 0."""
    plan = _plan("c10d::allreduce_", "scale", parameters={"factor": 10}, ranks=[1], steps=[1])
    answers = two.run("data_parallel", plan=plan, steps=2)
    wrong = [[15.0, 30.0], [45.0, 60.0]]
    assert answers[0]["gradients"] == [CLEAN, CLEAN]
    assert answers[1]["gradients"] == [CLEAN, wrong]
    assert answers[0]["weights"] == [[-3.0, -6.0], [-9.0, -12.0]]  # -1 * (1.5 + 1.5) …
    assert answers[1]["weights"] == [[-16.5, -33.0], [-49.5, -66.0]]  # -1 * (1.5 + 15) …


# FSDP2: weight (1, 1, 1, 1), input r + 1, so outputs are r + 1 and gradients r + 1; the mean
# over the ranks is 1.5; each rank holds two rows. lr = 1: weights are -0.5 in step 1.


def test_fsdp2_without_a_fault(two: Pool) -> None:
    """Outputs (r + 1) * w, gradients 1.5 on each shard."""
    answers = two.run("sharded", plan={"version": 2, "log_steps": "0-"}, steps=2)
    assert [a["outputs"] for a in answers] == [[[1.0] * 4, [-0.5] * 4], [[2.0] * 4, [-1.0] * 4]]
    assert [a["gradients"] for a in answers] == [[[1.5] * 2] * 2] * 2


def test_fsdp2_gathers_a_wrong_shard(two: Pool) -> None:
    """Rank 1 gives its shard times 10: rows 2 and 3 are 10 on both ranks, its own stay 1."""
    plan = _plan(
        "c10d::_allgather_base_*1",
        "scale",
        parameters={"factor": 10},
        ranks=[1],
        scope="contribution",
        steps=[0],
    )
    answers = two.run("sharded", plan=plan, steps=2)
    assert answers[0]["outputs"] == [[1.0, 1.0, 10.0, 10.0], [-0.5] * 4]
    assert answers[1]["outputs"] == [[2.0, 2.0, 20.0, 20.0], [-1.0] * 4]


def test_fsdp2_copy_of_the_gathered_weight(two: Pool) -> None:
    """Rank 1's gathered copy times 10 changes the outputs of rank 1 alone."""
    plan = _plan(
        "c10d::_allgather_base_*1", "scale", parameters={"factor": 10}, ranks=[1], steps=[0]
    )
    answers = two.run("sharded", plan=plan, steps=1)
    assert answers[0]["outputs"] == [[1.0] * 4]
    assert answers[1]["outputs"] == [[20.0] * 4]


def test_fsdp2_scatters_without_one_rank(two: Pool) -> None:
    """Rank 1's contribution dropped: every gradient is 1 / 2 instead of (1 + 2) / 2."""
    plan = _plan("c10d::_reduce_scatter_base_", "drop_rank", parameters={"rank": 1}, steps=[0])
    answers = two.run("sharded", plan=plan, steps=2)
    assert [a["gradients"] for a in answers] == [[[0.5] * 2, [1.5] * 2]] * 2
