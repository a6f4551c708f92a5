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


@pytest.mark.parametrize(
    "parts", [{}, {"phases": ["backward"]}, {"direction": "both"}, {"modules": [""]}]
)
def test_fsdp2_scatters_without_one_rank(two: Pool, parts: dict[str, Any]) -> None:
    """Rank 1's contribution dropped: every gradient is 1 / 2 instead of (1 + 2) / 2.

    The one scatter of the step, made after the last node of the backward, is of the backward
    and of the model.
    """
    parts = {"parameters": {"rank": 1}, "steps": [0], **parts}
    plan = _plan("c10d::_reduce_scatter_base_", "drop_rank", **parts)
    answers = two.run("sharded", plan=plan, steps=2)
    assert [a["gradients"] for a in answers] == [[[0.5] * 2, [1.5] * 2]] * 2


@pytest.mark.parametrize(
    ("model", "factor"), [("drop_rank", 0), ("duplicate_rank", 2), ("corrupt_rank", -1)]
)
def test_four_replicas(four: Pool, model: str, factor: float) -> None:
    """Of (1 + 2 + 3 + 4) / 4 = 2.5 times the gradient, rank 1's 2 counts 0, 2 or -1 times."""
    plan = _plan("c10d::allreduce_", model, parameters={"rank": 1}, steps=[1])
    answers = four.run("data_parallel", plan=plan, steps=2)
    clean, wrong = 2.5, (8 + factor * 2) / 4
    expected = [[[mean * 1, mean * 2], [mean * 3, mean * 4]] for mean in (clean, wrong)]
    assert [a["gradients"] for a in answers] == [expected] * 4
    assert [bool(a["struck"]) for a in answers] == [False, True, False, False]


def test_four_shards(four: Pool) -> None:
    """Rank 1 gives its row times 10 and is left out of the gradient: (1 + 3 + 4) / 4 = 2."""
    gather = {
        "target": "c10d::_allgather_base_*1",
        "model": "scale",
        "parameters": {"factor": 10},
        "ranks": [1],
        "scope": "contribution",
    }
    scatter = {
        "target": "c10d::_reduce_scatter_base_",
        "model": "drop_rank",
        "parameters": {"rank": 1},
    }
    plan = {"version": 2, "faults": [gather, scatter], "verbosity": "quiet"}
    answers = four.run("sharded", plan=plan, steps=1)
    assert [a["outputs"] for a in answers] == [[[r, 10 * r, r, r]] for r in (1, 2, 3, 4)]
    assert [a["gradients"] for a in answers] == [[[2.0]]] * 4


# One step of the two shards from w = 1: gradient 1.5, lr = 1, so w = -0.5.


@pytest.mark.parametrize(
    ("target", "output", "weight"),
    [
        ("add_", [2.0] * 4, [-5.0, -5.0]),  # the result of the update times 10
        ("grad:0.weight", [2.0] * 4, [-14.0, -14.0]),  # 1 - 10 * 1.5
        ("param:0.weight", [2.0, 2.0, 20.0, 20.0], [-0.5, -0.5]),  # transient
    ],
)
def test_a_rank_strikes_its_own_shard(
    two: Pool, target: str, output: list[float], weight: list[float]
) -> None:
    """Rank 1 scales its part of a sharded tensor by 10; rank 0 keeps its own."""
    phases = {} if ":" in target else {"phases": ["optimizer"]}
    plan = _plan(target, "scale", parameters={"factor": 10}, ranks=[1], **phases)
    answers = two.run("sharded_update", plan=plan)
    assert [a["weight"] for a in answers] == [[-0.5, -0.5], weight]
    assert answers[1]["output"] == output
    assert len(answers[1]["struck"]) == 1


def test_a_session_traces_and_replays_collectives(two: Pool) -> None:
    """The sum of 1 and 2 is traced as 3 though nobody had waited; dropping rank 1 gives 1.

    The loss on rank r is 1 * (sum + what the other sent): 3 + 2 and 3 + 1, then 1 + 2 and 1 + 1.
    """
    answers = two.run("traced")
    assert [a["sum"] for a in answers] == [3.0, 3.0]
    assert [a["losses"] for a in answers] == [[5.0, 3.0], [4.0, 2.0]]
    assert all(a["noise"] for a in answers)
    assert [a["struck"] for a in answers] == [[], ["c10d::allreduce_*1:0[0]"]]
    words = [a["outcome"].partition("; ")[0] for a in answers]
    assert words[0] == "changed: f1 struck another rank, and what came of it reached this one"
    assert words[1] == "changed: f1 struck c10d::allreduce_*1:0[0] in step 0"


def test_a_session_knows_its_rank(two: Pool) -> None:
    """Each fault strikes the ranks that it is for, and draws what an injector draws there."""
    draw: dict[str, Any] = {"model": "zero", "elements": {"count": 1}}
    answers = two.run("replayed", faults=[draw | {"ranks": [0]}, draw | {"ranks": [1]}, draw])
    first, second = ([[i[0] for i in one["struck"]] for one in answer] for answer in answers)
    assert (first, second) == ([[0], [], [0]], [[], [1], [1]])
    assert answers[0][1]["outcome"] == (
        "not_injected: no fault struck this rank, and nothing on it differs "
        "(f1: it is for rank 1, this is rank 0)"
    )
    plan = _plan("c10d::allreduce_*1", "zero", elements={"count": 1})
    assert two.run("trained_once", plan=plan) == [answer[2]["struck"] for answer in answers]


def test_a_session_remembers_what_a_rank_gave_in_the_step_before(two: Pool) -> None:
    """Rank 1 sends it again in step 1, as in training; it is the same, so no element changes."""
    fault = {"model": "stale_buffer", "rank": 1, "steps": 1}
    answers = two.run("replayed", faults=[fault], steps=2)
    assert [a[0]["struck"] for a in answers] == [[], [[1]]]


def test_what_a_communication_hook_does_later_is_counted_in_its_turn(two: Pool) -> None:
    """The second sum, of a callback, is another reduction on both ranks.

    The first sum is 1 (1, 2) + 2 (1, 2) = (3, 6), and the second would be twice that; its maximum
    is (3, 6). Each rank waits for the first, so that the callback is not in another thread.
    """
    plan = _plan("c10d::allreduce_*2", "wrong_reduction", parameters={"op": "max"}, steps=[0])
    for answer in two.run("hooked", plan=plan):
        assert answer["struck"] == [["c10d::allreduce_*2:0[0]", 0, "in place", 2]]
        assert answer["gradient"] == [3.0, 6.0]
        assert answer["done"] == [True]


def test_ranks_that_run_out_of_inputs_do_not_ask_each_other(two: Pool) -> None:
    """In a Join the second rank makes a step more; in none of them is another reduction made."""
    parts = {"parameters": {"op": "max"}, "phases": ["backward"], "steps": "0-"}
    plan = _plan("c10d::allreduce_", "wrong_reduction", **parts)
    reason = (
        "the model is in a Join, where ranks run out of inputs one by one: their steps part, and "
        "they cannot ask each other"
    )
    answers = two.run("joined", plan=plan)
    assert [a["struck"] for a in answers] == [[], []]
    assert [a["missed"] for a in answers] == [{"f1": reason}] * 2


def test_a_collective_may_be_within_an_operator_of_a_sharded_model(two: Pool) -> None:
    """FSDP2 holds DTensors, whose own collectives are not seen: the reason says so."""
    plan = _plan("_c10d_functional::all_reduce", "zero", steps=[0])
    reason = (
        "no call of '_c10d_functional::all_reduce' was made in step 0; those that DTensor makes "
        "within its own operators are not seen"
    )
    answers = two.run("sharded", plan=plan, steps=1)
    assert [a["missed"] for a in answers] == [{"f1": reason}] * 2
