"""Models that are shared out over ranks: tensor parallelism, FSDP1 and FSDP2.

Both layers are of ones, 2 to 4 to 1. Under tensor parallelism each rank has two of the four
hidden numbers: each is 2, the loss is 4 * 2 = 8. Under FSDP rank r has the whole of them and
an input of r + 1: its loss is 8 * (r + 1).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.distributed.pool import Pool

# lr = 0.25. Tensor parallelism: the gradients are 1 and 2, so the weights are 0.75 and 0.5, and
# the loss is 4 * 0.5 * (2 * 0.75) = 3. FSDP: the means of 1, 2 and of 2, 4 are 1.5 and 3, so the
# weights are 0.625 and 0.25, and the loss is 4 * 0.25 * (2 * 0.625) * (r + 1) = 1.25 * (r + 1).
TRAINED = {
    "tensor": [[8.0, 3.0], [8.0, 3.0]],
    "fsdp1": [[8.0, 1.25], [16.0, 2.5]],
    "fsdp2": [[8.0, 1.25], [16.0, 2.5]],
}


def _plan(target: str, model: str, **parts: Any) -> dict[str, Any]:
    fault = {"id": "f1", "target": target, "model": model, "ranks": [1], **parts}
    return {"version": 2, "faults": [fault], "verbosity": "quiet"}


@pytest.mark.parametrize("kind", TRAINED)
@pytest.mark.parametrize("look", [{"faults": []}, {"modules": [""], "log_steps": "0-"}])
def test_training_is_as_ever(two: Pool, kind: str, look: dict[str, Any]) -> None:
    """Without a fault, and logging every call."""
    plan = {"version": 2, "verbosity": "quiet", **look}
    answers = two.run("struck_in_parallel", kind=kind, plan=plan)
    assert [a["losses"] for a in answers] == TRAINED[kind]


def test_a_struck_view_of_a_distributed_tensor_is_one(two: Pool) -> None:
    """Rank 1 reads its two rows times 10: 2 + 2 + 20 + 20 = 44 in step 1, on both ranks.

    The weights of the second layer become 1 - 0.25 * 2 = 0.5 and 1 - 0.25 * 20 = -4, those of
    the first 0.75, which no write reached: 2 * (0.5 - 4) * 1.5 = -10.5.
    """
    plan = _plan("t*1:0", "scale", parameters={"factor": 10}, steps=[0])
    answers = two.run("struck_in_parallel", kind="tensor", plan=plan)
    assert [a["losses"] for a in answers] == [[44.0, -10.5]] * 2
    assert [a["struck"] for a in answers] == [[], [["t*1:0", 0, "view", 4]]]


def test_an_update_of_a_distributed_tensor_is_skipped(two: Pool) -> None:
    """Rank 1 keeps its ones: the loss is 2 * 0.5 * 1.5 + 2 * 1 * 2 = 5.5 in step 1."""
    plan = _plan("add_", "skip_update", phases=["optimizer"], steps=[0])
    answers = two.run("struck_in_parallel", kind="tensor", plan=plan)
    assert [a["losses"] for a in answers] == [[8.0, 5.5]] * 2
    assert [len(a["struck"]) for a in answers] == [0, 2]


def test_a_stale_distributed_tensor(two: Pool) -> None:
    """In step 1 rank 1 gives 2 again for 1.5: 2 * 0.5 * 1.5 + 2 * 0.5 * 2 = 3.5."""
    plan = _plan("mm*1:0", "stale", steps=[1])
    answers = two.run("struck_in_parallel", kind="tensor", plan=plan)
    assert [a["losses"] for a in answers] == [[8.0, 3.5]] * 2
    assert [a["struck"] for a in answers] == [[], [["mm*1:0", 1, "functional", 2]]]


def test_a_session_on_a_tensor_parallel_model(two: Pool) -> None:
    """Rank 1's hidden numbers times 10 make 44 of 8 on both ranks, and training goes on.

    The gradient of its second layer is 20 instead of 2, 9 times as far as it is long.
    """
    fault = {"factor": 10, "ranks": [1]}
    answers = two.run("explored_in_parallel", kind="tensor", site="mm*1:0", fault=fault)
    assert [a["losses"] for a in answers] == [[8.0, 44.0]] * 2
    assert [a["struck"] for a in answers] == [[], [["mm*1:0", 2]]]
    assert [a["gradients"]["1.weight"] for a in answers] == [0.0, 9.0]
    assert all(a["same"] for a in answers)
    assert [a["trained"] for a in answers] == TRAINED["tensor"]


@pytest.mark.parametrize(
    ("kind", "unread"),
    [("fsdp1", ["split*1:0[0]"]), ("fsdp2", ["fsdp::all_gather_copy_in*1:1"])],
)
def test_a_session_on_a_sharded_model(two: Pool, kind: str, unread: list[str]) -> None:
    """Rank 1's hidden numbers times 10 make 160 of 16 there alone, and training goes on.

    The memory that the weights are gathered in is given back before it is written: what a view
    of it shows has no statistics, and two golden runs may differ there.
    """
    asked = {"site": "mm*1:0", "fault": {"factor": 10, "ranks": [1]}, "unread": unread}
    answers = two.run("explored_in_parallel", kind=kind, **asked)
    assert [a["losses"] for a in answers] == [[8.0, 8.0], [16.0, 160.0]]
    assert [a["struck"] for a in answers] == [[], [["mm*1:0", 4]]]
    assert [a["unread"] for a in answers] == [["nan"]] * 2
    assert all(a["same"] for a in answers)
    assert [a["trained"] for a in answers] == TRAINED[kind]
