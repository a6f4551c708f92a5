from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open

import fi_notebook as fi
from fi_notebook.errors import SessionError
from fi_notebook.report import text
from tests import models


def session(memory: int | str, **arguments: object) -> fi.Session:
    """A session of the CNN."""
    case = models.cnn()
    return fi.Session(
        case.step,
        model=case.model,
        optimizer=case.optimizer,
        memory=memory,
        **arguments,  # type: ignore[arg-type]
    )


def test_everything_is_whole_within_a_large_budget() -> None:
    """And the result says how much was asked, had and used, and the copies of training state."""
    explored = session("auto")
    explored.trace()
    explored.arm("relu*1:0", "scale", factor=2.0)
    run = explored.replay()
    assert run.memory["asked"] == "auto"
    assert (run.memory["sampled"], run.memory["hashed"]) == (0, 0)
    assert 0 < run.memory["used"] <= run.memory["budget"]
    case = models.cnn()
    parameters = sum(p.numel() for p in case.model.parameters()) * 4
    # parameters, two moments of each, their gradients; 10 step counters; BatchNorm's buffers
    buffers = sum(b.numel() * b.element_size() for b in case.model.buffers())
    assert run.memory["state"] == 4 * parameters + 10 * 4 + buffers
    assert run.comparison.columns["exact"].all()
    said = text.summary(run)
    assert "golden outputs: 210 whole" in said
    assert "of a budget of" in said
    assert "of copies of training state" in said


def test_a_budget_of_nothing_still_finds_every_difference() -> None:
    """By hash: the same sites differ; how far is told from statistics, and rows are not exact."""
    whole, nothing = session("auto"), session(0)
    runs = []
    for explored in (whole, nothing):
        explored.trace()
        explored.arm("relu*1:0", "scale", factor=2.0)
        runs.append(explored.replay())
    assert runs[0].comparison.diverged.tolist() == runs[1].comparison.diverged.tolist()
    assert runs[0].comparison.columns["exact"].all()
    assert not runs[1].comparison.columns["exact"].all()
    assert runs[1].memory["used"] == 0
    assert runs[1].memory["hashed"] > 200
    bounds, exact = (run.comparison.columns["relative_l2"] for run in (runs[1], runs[0]))
    known = ~np.isnan(bounds)
    assert (bounds[known] <= exact[known] * (1 + 1e-6)).all()  # lower bounds


def test_struck_and_named_sites_are_exact_whatever_the_budget() -> None:
    """relu*1:0 is struck and addmm*1:0 is named: both rows are exact, and counted."""
    explored = session(0, keep=["addmm*1:0"])
    explored.trace()
    explored.arm("relu*1:0", "scale", factor=2.0)
    run = explored.replay()
    compared = run.comparison
    exact = {
        str(compared.site(int(n))) for n in compared.diverged if compared.columns["exact"][int(n)]
    }
    assert exact == {"relu*1:0", "addmm*1:0"}
    # 6 × 4 × 8 × 8 of relu, 6 × 10 of addmm, 4 bytes each
    assert run.memory["always"] == (6 * 4 * 8 * 8 + 6 * 10) * 4
    explored.keep.append("relu*2:0")
    columns = explored.replay(steps=2).comparison.columns
    assert columns["exact"][compared.golden.row("relu*2:0")]


def test_a_sample_says_how_far_where_the_budget_holds_no_more() -> None:
    """Of 200,000 elements 50,000 are sampled, every fourth from the first on."""
    model = torch.nn.Linear(200, 1000)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(200, 200)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.relu(model(x)).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    explored = fi.Session(step, model=model, optimizer=optimizer, memory=2_700_000)
    trace = explored.trace()
    kept = trace.info["memory"]
    assert kept["sampled"] > 0
    assert kept["hashed"] == 0
    assert kept["used"] <= 2_700_000
    explored.arm("addmm*1:0", "scale", factor=1.5)
    run = explored.replay()
    compared = run.comparison
    sampled = [n for n in compared.diverged.tolist() if not compared.columns["exact"][n]]
    assert sampled
    relu = compared.golden.row("relu*1:0")
    assert compared.columns["relative_l2"][relu] == pytest.approx(0.5, rel=1e-6)


def test_a_replay_leaves_the_golden_trace_as_it_was() -> None:
    """What it keeps beyond the budget, relu's 4 bytes each, is told by the run alone."""
    explored = session(0)
    trace = explored.trace()
    traced = dict(trace.info["memory"])
    explored.arm("relu*1:0", "scale", factor=2.0)
    run = explored.replay()
    relu = trace.sites[trace.row("relu*1:0")]
    assert (traced["always"], run.memory["always"]) == (0, 4 * int(np.prod(relu.shape)))
    assert trace.info["memory"] == traced


def test_a_spill_file_keeps_everything_exact(tmp_path: Path) -> None:
    """With a budget of nothing all outputs lie in a safetensors file, under their sites' names."""
    path = tmp_path / "golden.safetensors"
    explored = session(0, spill=path)
    trace = explored.trace()
    assert [p.name for p in tmp_path.iterdir()] == ["golden.safetensors"]
    assert trace.info["memory"]["spilled"] > 0
    with safe_open(path, framework="pt") as file:
        stored = file.get_tensor("addmm*1:0")
    assert torch.equal(stored, trace.value(trace.sites[trace.row("addmm*1:0")]))
    explored.arm("relu*1:0", "scale", factor=2.0)
    run = explored.replay()
    assert run.comparison.columns["exact"].all()
    assert "in the spill file" in text.summary(run)
    explored.arm("relu*1:0", "scale", id="f1", steps=1, factor=2.0)
    assert explored.replay(steps=2).comparison.columns["exact"].all()
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "golden.safetensors",
        "golden.step1.safetensors",
    ]


def test_a_step_that_raises_leaves_no_spill_file(tmp_path: Path) -> None:
    """Neither the file nor the one beside it."""
    case = models.mlp()

    def step() -> None:
        case.step()
        raise ValueError("broken")

    explored = fi.Session(step, model=case.model, memory=0, spill=tmp_path / "golden.safetensors")
    with pytest.raises(ValueError, match="broken"):
        explored.trace()
    assert not list(tmp_path.iterdir())


def test_a_spill_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Before anything runs."""
    explored = session(0, spill=tmp_path / "nowhere" / "golden.safetensors")
    with pytest.raises(SessionError, match="cannot spill to"):
        explored.trace()


@pytest.mark.parametrize("memory", ["plenty", -1, 1.5, True])
def test_memory_that_is_no_number_of_bytes_is_refused(memory: object) -> None:
    """What was given, and what would do."""
    with pytest.raises(SessionError, match="expected a number of bytes from 0, or 'auto'"):
        session(memory)  # type: ignore[arg-type]


def test_long_replays_keep_no_outputs_of_the_steps_between() -> None:
    """Of 12 steps the struck and the last keep their gradients; of the others the parameters."""
    case = models.mlp()
    explored = fi.Session(case.step, model=case.model, optimizer=case.optimizer)
    explored.trace()
    explored.arm("relu*1:0", "scale", factor=2.0, steps=3)
    run = explored.replay(steps=12)
    distances = [record.parameter_distance for record in run.faulty]
    assert distances[:3] == [0, 0, 0]
    assert all(distance > 0 for distance in distances[3:])


@pytest.mark.parametrize("memory", [0, 6_000, 20_000])
def test_what_is_estimated_is_never_divided_by_what_is_exact(memory: int) -> None:
    """A growth that is told is the true one, an effect the true one or *passed on*; it is said."""
    runs = []
    for explored in (session("auto"), session(memory)):
        explored.trace()
        explored.arm("relu*1:0", "bitflip", bit=28, elements={"index": [0, 0, 3, 3]})
        runs.append(explored.replay())
    exact, partial = (run.comparison for run in runs)
    told = ~np.isnan(partial.columns["growth"])
    assert np.array_equal(partial.columns["growth"][told], exact.columns["growth"][told])
    effects = [
        (partial.effect(n), exact.effect(n))
        for n in range(len(exact))
        if partial.effect(n) != exact.effect(n)
    ]
    assert {told for told, _ in effects} <= {"passed on"}
    count = (~partial.columns["equal"] & ~partial.columns["exact"]).sum()
    assert count > 0
    assert f"{count} sites that differ did not fit in the session's memory" in partial.notes[0]
    assert not any("memory" in note for note in exact.notes)


def exact_and_bound(model: str, **parameters: Any) -> tuple[Any, Any]:
    """Columns of a comparison with everything kept, and with statistics alone."""
    columns = []
    for memory in ("auto", 0):
        explored = session(memory)
        explored.trace()
        explored.arm("relu*1:0", model, elements={"index": [0, 0, 3, 3]}, **parameters)
        columns.append(explored.replay().comparison.columns)
    return columns[0], columns[1]


@pytest.mark.parametrize("name", ["relative_l2", "max_abs"])
def test_a_bound_is_below_the_truth(name: str) -> None:
    """Of what differs some bounds are above 0, and none is above the true distance."""
    exact, bound = (each[name] for each in exact_and_bound("bitflip", bit=28))
    differs = exact > 0
    assert differs.sum() > 50
    assert (bound[differs] > 0).sum() > 50
    assert (bound <= exact * (1 + 1e-6)).all()
    assert (bound < exact).any()


@pytest.mark.parametrize("name", ["relative_l2", "max_abs"])
@pytest.mark.parametrize("model", ["nan", "inf"])
def test_there_is_no_bound_where_elements_are_no_numbers(model: str, name: str) -> None:
    """Statistics of other elements bound nothing: where outputs differ, it is not known."""
    exact, bound = exact_and_bound(model)
    estimated = ~bound["equal"] & ~bound["exact"]
    assert estimated.sum() > 50
    assert np.isnan(bound[name][estimated]).all()
    assert np.array_equal(bound[name][~estimated], exact[name][~estimated])
