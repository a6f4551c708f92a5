"""Faults of collectives, in real gloo processes, against values computed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.distributed.pool import Pool

ALL_REDUCE = "c10d::allreduce_"


def _plan(target: str, model: str, **parts: Any) -> dict[str, Any]:
    fault = {"id": "f1", "target": target, "model": model, **parts}
    return {"version": 2, "faults": [fault], "verbosity": "quiet"}


@pytest.mark.parametrize(
    ("model", "parameters", "expected"),
    [
        ("drop_rank", {"rank": 2}, 4),  # 0 + 1 + 3
        ("duplicate_rank", {"rank": 2}, 8),  # 0 + 1 + 2 + 2 + 3
        ("corrupt_rank", {"rank": 2}, 2),  # 0 + 1 - 2 + 3
        ("corrupt_rank", {"rank": 2, "model": "scale", "parameters": {"factor": 10}}, 24),
        ("wrong_reduction", {"op": "max"}, 3),
        ("wrong_reduction", {"op": "min"}, 0),
        ("wrong_reduction", {"op": "product"}, 0),
        ("wrong_reduction", {"op": "avg"}, 1.5),
    ],
)
def test_a_wrong_rank_changes_the_sum_on_all(
    four: Pool, model: str, parameters: dict[str, Any], expected: float
) -> None:
    """Of ranks that hold 0, 1, 2, 3, whose sum is 6, every rank gets the wrong sum."""
    plan = _plan(ALL_REDUCE, model, parameters=parameters)
    answers = four.run("all_reduces", plan=plan, give=[0.0])
    assert [a["got"] for a in answers] == [[[expected, expected]]] * 4
    struck = [0, 1, 2, 3] if model == "wrong_reduction" else [2]
    assert [r for r, a in enumerate(answers) if a["struck"]] == struck
    if model != "wrong_reduction":
        reason = "it is for rank 2 of the group, this is rank 0"
        assert answers[0]["missed"] == {"f1": reason}


@pytest.mark.parametrize(
    ("op", "rank", "expected"),
    [
        ("MIN", 0, [True, True, False]),  # what rank 1 gives alone
        ("MIN", 1, [True, False, False]),
        ("MAX", 1, [True, False, False]),  # what rank 0 gives alone
    ],
)
def test_a_dropped_rank_leaves_the_truths_of_the_other(
    two: Pool, op: str, rank: int, expected: list[bool]
) -> None:
    """The ranks hold (1, 0, 0) and (1, 1, 0)."""
    plan = _plan(ALL_REDUCE, "drop_rank", parameters={"rank": rank})
    answers = two.run("all_reduce_of", plan=plan, kind="truths", op=op)
    assert [a["got"] for a in answers] == [expected] * 2


def test_another_reduction_of_a_sparse_tensor_is_refused(two: Pool) -> None:
    """Training goes on with the sum, (1, 2)."""
    plan = _plan(ALL_REDUCE, "wrong_reduction", parameters={"op": "max"})
    answers = two.run("all_reduce_of", plan=plan, kind="sparse", op="SUM")
    assert [a["got"] for a in answers] == [[1.0, 2.0]] * 2
    reason = (
        "at c10d::allreduce_*1: wrong_reduction cannot strike this tensor: layout sparse_coo is "
        "not supported; strike its values() or a dense tensor"
    )
    assert [a["missed"] for a in answers] == [{"f1": reason}] * 2


def test_without_a_fault_the_sum_is_right(four: Pool) -> None:
    """0 + 1 + 2 + 3 = 6 on every rank while the injector looks on."""
    plan = {"version": 2, "modules": [""], "log_steps": [0]}
    answers = four.run("all_reduces", plan=plan, give=[0.0])
    assert [a["got"] for a in answers] == [[[6, 6]]] * 4


def test_a_rank_that_is_not_there_is_reported(four: Pool) -> None:
    """Rank 7 of a group of 4 strikes nobody, and each rank says why."""
    plan = _plan(ALL_REDUCE, "drop_rank", parameters={"rank": 7})
    answers = four.run("all_reduces", plan=plan, give=[0.0])
    assert [a["got"] for a in answers] == [[[6, 6]]] * 4
    reason = "c10d::allreduce_*1 has 4 ranks, there is no rank 7 in it"
    assert all(a["missed"] == {"f1": reason} for a in answers)


def test_a_stale_contribution_is_that_of_the_collective_before(four: Pool) -> None:
    """A call that is named has that of the call before where there was no step before.

    Rank 2 gives 2 again where it had 12: 10 + 11 + 2 + 13 = 36 instead of 46.
    """
    plan = _plan(f"{ALL_REDUCE}*2", "stale_buffer", parameters={"rank": 2})
    answers = four.run("all_reduces", plan=plan, give=[0.0, 10.0])
    assert [a["got"] for a in answers] == [[[6, 6], [36, 36]]] * 4


def test_a_stale_contribution_may_be_of_the_step_before(two: Pool) -> None:
    """In step 2 rank 1 gives the 11 of step 1 instead of 21: 20 + 11 = 31."""
    plan = _plan(f"{ALL_REDUCE}*1", "stale_buffer", parameters={"rank": 1}, steps=[2])
    answers = two.run("trained_all_reduces", plan=plan, steps=4)
    assert [a["got"] for a in answers] == [[1, 21, 31, 61]] * 2


def test_a_contribution_that_is_stale_in_every_step_is_one_step_late(two: Pool) -> None:
    """Rank 1 gives 1, 1, 11, 21 instead of 1, 11, 21, 31, and rank 0 gives 0, 10, 20, 30."""
    plan = _plan(f"{ALL_REDUCE}*1", "stale_buffer", parameters={"rank": 1}, steps="1-")
    answers = two.run("trained_all_reduces", plan=plan, steps=4)
    assert [a["got"] for a in answers] == [[1, 11, 31, 51]] * 2


def test_another_reduction_is_of_what_the_ranks_gave(two: Pool) -> None:
    """Rank 1 gives 0 instead of 2, and of 1 and 0 the maximum is 1; of 1 and 2 it were 2."""
    dropped = {"id": "f1", "target": ALL_REDUCE, "model": "drop_rank", "parameters": {"rank": 1}}
    other = {
        "id": "f2",
        "target": ALL_REDUCE,
        "model": "wrong_reduction",
        "parameters": {"op": "max"},
    }
    plan = {"version": 2, "faults": [dropped, other]}
    answers = two.run("all_reduces", plan=plan, give=[1.0])
    assert [a["got"] for a in answers] == [[[1, 1]]] * 2


def test_ranks_choose_who_strikes(four: Pool) -> None:
    """With ranks "1,3" only their copies of 6 become 60."""
    plan = _plan(ALL_REDUCE, "scale", parameters={"factor": 10}, ranks="1,3")
    answers = four.run("all_reduces", plan=plan, give=[0.0])
    assert [a["got"][0] for a in answers] == [[6, 6], [60, 60], [6, 6], [60, 60]]
    assert answers[0]["missed"] == {"f1": "it is for ranks 1,3, this is rank 0"}
    assert answers[1]["ranks"] == [1]
    assert answers[1]["struck"] == [["c10d::allreduce_*1:0[0]", 0, "in place", 2]]


def test_only_chosen_elements_of_a_contribution_go_wrong(four: Pool) -> None:
    """Rank 3 gives (0, 3): element 0 sums to 0 + 1 + 2 = 3, element 1 to 6."""
    plan = _plan(ALL_REDUCE, "drop_rank", parameters={"rank": 3}, elements={"index": [0]})
    answers = four.run("all_reduces", plan=plan, give=[0.0])
    assert [a["got"] for a in answers] == [[[3, 6]]] * 4


def test_the_namespace_may_be_left_out(two: Pool) -> None:
    """The target allreduce_ of the first form is c10d::allreduce_: 1.5 * (0 + 1) = 1.5."""
    plan = {"targets": ["allreduce_"], "steps": [0], "error_type": "light"}
    answers = two.run("all_reduces", plan=plan, give=[0.0])
    assert [a["got"] for a in answers] == [[[1.5, 1.5]]] * 2


def test_an_asynchronous_collective_is_struck_after_its_wait(two: Pool) -> None:
    """0 + 1 = 1 becomes 10 on rank 1 though the script waits by itself."""
    plan = _plan(ALL_REDUCE, "scale", parameters={"factor": 10}, ranks=[1])
    answers = two.run("asynchronous", plan=plan)
    assert [a["got"] for a in answers] == [[1, 1], [10, 10]]


AFTER = {  # op: (rank 0 got, rank 1 got), where rank 1's copy is scaled by 10 after the call
    "c10d::allreduce_": ([3], [30]),  # 1 + 2
    "c10d::allreduce_coalesced_": ([3, 30], [30, 300]),
    "c10d::broadcast_": ([2], [20]),
    "c10d::allgather_": ([1, 2], [10, 20]),
    "c10d::_allgather_base_": ([1, 2], [10, 20]),
    "c10d::reduce_": ([0], [30]),
    "c10d::reduce_scatter_": ([3], [300]),  # 1 + 2; 10 + 20
    "c10d::_reduce_scatter_base_": ([3], [300]),
    "c10d::scatter_": ([5], [70]),
    "c10d::gather_": ([0, 0], [10, 20]),
    "c10d::alltoall_base_": ([1, 2], [100, 200]),
    "_c10d_functional::all_reduce": ([3], [30]),
    "_c10d_functional::all_gather_into_tensor": ([1, 2], [10, 20]),
    "_c10d_functional::reduce_scatter_tensor": ([3], [300]),
    "_c10d_functional::wait_tensor": ([3], [30]),
}
BEFORE = {  # op: the same, where rank 1's contribution is scaled by 10 before the call
    "c10d::allreduce_": ([21], [21]),  # 1 + 20
    "c10d::allreduce_coalesced_": ([21, 210], [21, 210]),
    "c10d::broadcast_": ([20], [20]),
    "c10d::allgather_": ([1, 20], [1, 20]),
    "c10d::_allgather_base_": ([1, 20], [1, 20]),
    "c10d::reduce_": ([0], [21]),
    "c10d::reduce_scatter_": ([21], [210]),  # 1 + 20; 10 + 200
    "c10d::_reduce_scatter_base_": ([21], [210]),
    "c10d::scatter_*1:0[0]": ([50], [7]),  # the first tensor of the list, for rank 0
    "c10d::gather_": ([0, 0], [1, 20]),
    "c10d::alltoall_base_": ([1, 20], [10, 200]),
    "c10d::send": ([20], [2]),
    "_c10d_functional::all_reduce": ([21], [21]),
    "_c10d_functional::all_gather_into_tensor": ([1, 20], [1, 20]),
    "_c10d_functional::reduce_scatter_tensor": ([21], [210]),
}
STAYS = {  # op: what rank 1 gave, where the call does not overwrite it
    "c10d::allgather_": [2],
    "c10d::_allgather_base_": [2],
    "c10d::reduce_scatter_": [2, 20],
    "c10d::_reduce_scatter_base_": [2, 20],
    "c10d::scatter_": [5, 7],
    "c10d::gather_": [2],
    "c10d::alltoall_base_": [2, 20],
    "_c10d_functional::all_reduce": [2],
    "_c10d_functional::all_gather_into_tensor": [2],
    "_c10d_functional::reduce_scatter_tensor": [2, 20],
}


@pytest.mark.parametrize("op", AFTER)
def test_this_ranks_copy_goes_wrong_after_the_call(two: Pool, op: str) -> None:
    """By default a fault on rank 1 changes what rank 1 got, and nothing else."""
    plan = _plan(op, "scale", parameters={"factor": 10}, ranks=[1])
    answers = two.run("collective", plan=plan, op=op)
    assert tuple(a["got"] for a in answers) == AFTER[op]


@pytest.mark.parametrize("target", BEFORE)
def test_this_ranks_contribution_goes_wrong_before_the_call(two: Pool, target: str) -> None:
    """With scope contribution all ranks get what follows from it; the input itself stays."""
    op = target.partition("*")[0]
    plan = _plan(target, "scale", parameters={"factor": 10}, ranks=[1], scope="contribution")
    answers = two.run("collective", plan=plan, op=op)
    assert tuple(a["got"] for a in answers) == BEFORE[target]
    assert answers[1]["given"] == STAYS.get(op)
    assert {kind for _, _, kind, _ in answers[1]["struck"]} == {"contribution"}
    assert not answers[0]["struck"]


def test_who_gives_nothing_cannot_give_it_wrong(two: Pool) -> None:
    """Rank 0 is not the root of the broadcast, which says so."""
    plan = _plan("c10d::broadcast_", "zero", ranks=[0], scope="contribution")
    answers = two.run("collective", plan=plan, op="c10d::broadcast_")
    assert [a["got"] for a in answers] == [[2], [2]]
    assert answers[0]["missed"] == {"f1": "this rank gives nothing to c10d::broadcast_*1"}


def test_nothing_counts_twice_where_nothing_is_reduced(two: Pool) -> None:
    """duplicate_rank at an all-gather is reported, and the gather is right."""
    plan = _plan("c10d::allgather_", "duplicate_rank", parameters={"rank": 1})
    answers = two.run("collective", plan=plan, op="c10d::allgather_")
    assert [a["got"] for a in answers] == [[1, 2], [1, 2]]
    assert "does not reduce" in answers[1]["missed"]["f1"]


def test_one_rank_cannot_call_twice(two: Pool) -> None:
    """The model duplicate would leave the other rank waiting; it is refused."""
    plan = _plan(ALL_REDUCE, "duplicate", ranks=[1])
    answers = two.run("all_reduces", plan=plan, give=[0.0])
    assert [a["got"] for a in answers] == [[[1, 1]]] * 2
    assert "use duplicate_rank" in answers[1]["missed"]["f1"]


def test_an_update_may_be_skipped_on_one_rank(two: Pool) -> None:
    """Rank 1 keeps its own 1 where the sum was 1 + 2 = 3."""
    plan = _plan(ALL_REDUCE, "skip_update", ranks=[1])
    answers = two.run("all_reduces", plan=plan, give=[1.0])
    assert [a["got"] for a in answers] == [[[3, 3]], [[2, 2]]]


def test_ranks_are_counted_in_their_group(four: Pool) -> None:
    """Of ranks 1 and 3, whose sum is 4, group rank 1 is rank 3: without it the sum is 1."""
    plan = _plan(ALL_REDUCE, "drop_rank", parameters={"rank": 1})
    answers = four.run("subgroup", plan=plan, members=[1, 3])
    assert [a["got"] for a in answers] == [0, 1, 2, 1]
    assert [bool(a["struck"]) for a in answers] == [False, False, False, True]


def _max(**parts: Any) -> dict[str, Any]:
    return _plan(parts.pop("target"), "wrong_reduction", parameters={"op": "max"}, **parts)


def test_another_reduction_is_made_where_all_ranks_mean_the_call(four: Pool) -> None:
    """Ranks 0 and 1 make a call more, so 2 is not one call: nobody waits, and all is right."""
    answers = four.run("uneven", plan=_max(target=f"{ALL_REDUCE}*2"), members=[0, 1])
    sums = [[1000.0] * 4, [10000.0] * 4]
    assert [a["got"][1:] for a in answers] == [sums] * 4
    assert [a["got"][0] for a in answers] == [[3.0] * 4, [3.0] * 4, [3.0] * 4, [4.0] * 4]
    why = "c10d::allreduce_*2 is not the call that the fault is at on every rank of its group: "
    assert all(a["missed"]["f1"].startswith(why) for a in answers)


def test_another_reduction_strikes_the_same_elements_on_all_ranks(four: Pool) -> None:
    """One element, 400 or 4000 instead of 1000 or 10000, though ranks count otherwise."""
    plan = _max(target=ALL_REDUCE, elements={"count": 1})
    answers = four.run("uneven", plan=plan, members=[0, 1])
    assert answers[0]["got"][1:] == answers[1]["got"][1:] == answers[2]["got"][1:]
    assert answers[0]["got"][0] == answers[1]["got"][0] != [3.0] * 4
    assert [sorted(one) for one in answers[3]["got"][1:]] == [
        [400.0, 1000.0, 1000.0, 1000.0],
        [4000.0, 10000.0, 10000.0, 10000.0],
    ]


def test_a_rank_whose_times_are_used_up_keeps_nobody_waiting(four: Pool) -> None:
    """Ranks 0 and 1 fired once, at a call of their own; the others cannot fire without them."""
    answers = four.run("uneven", plan=_max(target=ALL_REDUCE, times=1), members=[0, 1])
    assert [a["got"][1:] for a in answers] == [[[1000.0] * 4, [10000.0] * 4]] * 4
    assert [a["got"][0][0] for a in answers] == [2, 2, 3, 4]


def test_a_receive_does_not_reduce(two: Pool) -> None:
    """wrong_reduction says so."""
    answers = two.run("collective", plan=_max(target="c10d::recv_"), op="c10d::recv_")
    assert answers[0]["missed"] == {"f1": "c10d::recv_ does not reduce"}


STALE = {  # op: what each rank gets in steps 0, 1 and 2, where rank 1 gives what it gave before
    "all_reduce": ([102, 112, 132], [102, 112, 132]),  # 1 + 101, 11 + 101, 21 + 111
    "reduce_scatter": ([102, 112, 132], [102, 112, 132]),
    "broadcast": ([101, 101, 111], [101, 101, 111]),
}


@pytest.mark.parametrize("op", STALE)
@pytest.mark.parametrize("model", ["stale", "stale_buffer"])
def test_what_a_rank_gives_late_is_what_it_gave_in_the_step_before(
    two: Pool, model: str, op: str
) -> None:
    """Rank 1 gives 101, 101, 111 instead of 101, 111, 121, not what it got."""
    target = {"reduce_scatter": "c10d::_reduce_scatter_base_"}.get(op, f"c10d::{op}_")
    target = {"all_reduce": ALL_REDUCE}.get(op, target)
    parts: dict[str, Any] = {"scope": "contribution", "ranks": [1]}
    if model == "stale_buffer":
        parts = {"parameters": {"rank": 1}}
    plan = _plan(f"{target}*1", model, steps="1-", **parts)
    answers = two.run("trained", plan=plan, ops=[op], steps=3)
    assert tuple(a["got"] for a in answers) == STALE[op]


@pytest.mark.parametrize("second", ["all_reduce", "all_reduce of one"])
def test_each_call_is_late_by_itself(two: Pool, second: str) -> None:
    """Of calls 1 and 2 of an operator in each step, of whatever shape; none in step 0."""
    plan = _plan(ALL_REDUCE, "stale_buffer", parameters={"rank": 1})
    answers = two.run("trained", plan=plan, ops=["all_reduce", second], steps=2)
    assert answers[0]["got"] == [102, 104, 112, 114]  # 11 + 101, 12 + 102
    assert [step for _, step, _, _ in answers[1]["struck"]] == [1, 1]
    plan = _plan(ALL_REDUCE, "stale", ranks=[1])
    answers = two.run("trained", plan=plan, ops=["all_reduce", second], steps=2)
    assert answers[1]["got"] == [102, 104, 102, 104]


@pytest.mark.parametrize(
    ("model", "parameters", "got"),
    [
        ("scale", {"factor": 10}, [1020]),
        ("wrong_reduction", {"op": "max"}, [101]),
    ],
)
def test_a_rank_that_gets_nothing_is_not_struck(
    two: Pool, model: str, parameters: dict[str, Any], got: list[int]
) -> None:
    """Rank 1 is the root of a reduce; what lies in the memory of rank 0 stays."""
    clean = two.run("trained", plan={"version": 2}, ops=["reduce"], steps=1)
    plan = _plan("c10d::reduce_", model, parameters=parameters)
    answers = two.run("trained", plan=plan, ops=["reduce"], steps=1)
    assert answers[1]["got"] == got
    assert answers[0]["got"] == clean[0]["got"]
    reason = "this rank gets nothing of c10d::reduce_*1, its root does"
    assert answers[0]["missed"] == {"f1": reason}


def test_a_collective_that_is_made_to_wait_says_so(two: Pool) -> None:
    """Once, and not of one that the script itself waits for."""
    plan = _plan(ALL_REDUCE, "scale", parameters={"factor": 10}, ranks=[1])
    answers = two.run("asynchronous", plan=plan)
    said = (
        "rank 1: c10d::allreduce_*1 was made asynchronously and is waited for here, as a fault "
        "needs what it gives: ranks that meet only because it is asynchronous wait for ever"
    )
    assert [a["warned"] for a in answers] == [[], [said]]
    answers = two.run("asynchronous", plan=plan, async_op=False)
    assert [a["warned"] for a in answers] == [[], []]


@pytest.mark.parametrize(
    ("model", "parts", "reasons"),
    [
        ("zero", {"ranks": [5]}, ["it is for rank 5, and there are 2 ranks"] * 2),
        (
            "drop_rank",
            {"ranks": [1], "parameters": {"rank": 0}},
            [
                "it is for rank 1, this is rank 0",
                "it is for rank 0 of the group, this is rank 1; its ranks 1 leave that one out",
            ],
        ),
    ],
)
def test_a_fault_that_is_for_no_rank_says_so(
    two: Pool, model: str, parts: dict[str, Any], reasons: list[str]
) -> None:
    """A filter of ranks that chooses none there is, or not the one that goes wrong."""
    answers = two.run("all_reduces", plan=_plan(ALL_REDUCE, model, **parts), give=[0.0])
    assert [a["got"] for a in answers] == [[[1, 1]]] * 2
    assert [a["missed"]["f1"] for a in answers] == reasons
    assert answers[1]["warned_of"] == ["f1"]


@pytest.mark.parametrize("target", ["relu*1:0", "c10d::allreduce_*1:0[0]"])
def test_a_model_that_raises_is_told_as_that(two: Pool, target: str) -> None:
    """The exception is the step's; the reason is not that no such call was made."""
    answers = two.run("raising", target=target)
    told = {"f1": f"at {target}: boom raised ValueError('boom')"}
    assert [a["missed"] for a in answers] == [told] * 2
    assert [a["raised"] for a in answers] == ["ValueError('boom')"] * 2
