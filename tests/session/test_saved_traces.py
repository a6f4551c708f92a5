"""Traces of two processes, saved and compared: where do they first differ?"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fi_notebook as fi
from fi_notebook.core.run import Comparison
from fi_notebook.session import Session
from tests import models

ROOT = Path(__file__).parents[2]

JOB = """
import sys
import torch
from torch import nn
import fi_notebook as fi

class Between(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def forward(self, h):
        if self.kind == "signs":  # two elements of each column change their signs
            return h * torch.tensor([-1.0, -1, 1, 1, 1])[:, None]
        h = h.clone()
        if h.dtype == torch.float32:  # the last bit of one element
            h.detach().view(torch.int32)[2, 3] += self.kind == "ulp"
        if self.kind.startswith("payload"):  # a NaN, with another payload in each process
            h.detach().view(torch.int32)[0, 0] = 0x7FC00000 + int(self.kind[7:])
        return h[[1, 0, 2, 3, 4] if self.kind == "swap" else [0, 1, 2, 3, 4]]  # two rows

def trace(kind, path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    x, y = torch.randn(5, 6), torch.randn(5, 3)
    if kind == "bfloat16":
        model, x, y = model.bfloat16(), x.bfloat16(), y.bfloat16()
    model.insert(1, Between(kind))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    fi.Session(step, model=model, optimizer=optimizer).trace().save(path)

for kind in sys.argv[2:]:
    trace(kind, f"{sys.argv[1]}/{kind}.trace")
"""

FIRST = ("plain", "payload1")
SECOND = ("again", "payload2", "swap", "signs", "ulp", "bfloat16")


def run_job(folder: Path, *kinds: str) -> None:
    """Run jobs in a process of its own, each of which saves its trace."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    job = [sys.executable, "-c", JOB, str(folder), *kinds]
    subprocess.run(job, check=True, env=environment)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two processes save their traces."""
    found = tmp_path_factory.mktemp("traces")
    for kinds in (FIRST, SECOND):
        run_job(found, *kinds)
    return found


def compared(folder: Path, first: str, second: str, tolerance: float = 0.0) -> Comparison:
    """Compare two saved traces."""
    return fi.compare(folder / f"{first}.trace", folder / f"{second}.trace", tolerance=tolerance)


def test_the_same_job_in_two_processes_is_exactly_equal(folder: Path) -> None:
    """Every row is judged on all of its bits."""
    found = compared(folder, "plain", "again")
    assert found.equal
    assert found.columns["exact"].all()
    assert found.notes[0] == "no site that both traces have differs"


def test_identical_nans_are_equal_and_other_payloads_are_not(folder: Path) -> None:
    """Both have one NaN at the same place; statistics and counts are the same."""
    assert compared(folder, "payload1", "payload1").equal
    found = compared(folder, "payload1", "payload2")
    assert found.first is not None
    assert found.first.op in (
        "view",
        "add_",
        "copy_",
        "fill_",
        "select",
        "index_put_",
        "lift_fresh",
    )
    assert found.first.phase == "forward"
    row = int(found.diverged[0])
    assert found.columns["new_nan"][row] == 0


@pytest.mark.parametrize("kind", ["swap", "signs", "ulp"])
def test_what_sums_and_counts_miss_is_found_at_its_call(folder: Path, kind: str) -> None:
    """Rows that changed places, signs that cancel, one unit in the last place."""
    found = compared(folder, "plain", kind)
    first = found.first
    assert first is not None
    assert (first.phase, first.module) == ("forward", "1")
    if kind != "signs":  # there the job makes another call
        assert first.op == {"swap": "lift_fresh", "ulp": "add_"}[kind]
    assert not found.equal


def test_float32_and_bfloat16_differ_first_beyond_a_tolerance(folder: Path) -> None:
    """Bit for bit at the first call; beyond 1e-4 at a named one; within 20 % nowhere."""
    exact = compared(folder, "plain", "bfloat16")
    assert exact.first is not None
    assert exact.first.op in ("t", "addmm")
    strict = compared(folder, "plain", "bfloat16", tolerance=1e-4)
    assert strict.notes[0].startswith(
        "the traces first differ by more than the relative tolerance 0.0001 at "
    )
    loose = compared(folder, "plain", "bfloat16", tolerance=0.2)
    assert len(loose.diverged) < len(strict.diverged) < len(exact.diverged)
    rows = {name: loose.columns[name][loose.diverged] for name in ("golden", "faulty")}
    assert not ((rows["golden"] >= 0) & (rows["faulty"] >= 0)).any()


def test_a_saved_trace_takes_few_bytes(folder: Path) -> None:
    """At most 200 bytes per call, the header with its names aside."""
    trace = fi.Trace.load(folder / "plain.trace")
    columns = [*trace.calls.values(), *trace.site_columns.values()]
    size = sum(c.nbytes for c in (*columns, trace.input_offsets, trace.input_sites))
    assert size / trace.call_count < 200


@pytest.mark.parametrize("count", [1, 3])
def test_traces_of_a_replay_carry_their_loss(count: int, tmp_path: Path) -> None:
    """Saved and compared, they have the losses that the run had, also of a later step."""
    case = models.mlp()
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    session.trace()
    session.arm("relu*1:0", "zero", steps=count - 1)
    run = session.replay(steps=count)
    files = [tmp_path / "golden.trace", tmp_path / "faulty.trace"]
    for trace, file in zip((run.comparison.golden, run.comparison.faulty), files, strict=True):
        trace.save(file)
    loss = fi.compare(*files).loss
    assert (loss.golden, loss.faulty) == (run.golden[-1].loss, run.faulty[-1].loss)
    assert not loss.equal


def test_traces_without_a_loss_are_not_told_a_nan() -> None:
    """Both without: equal, with a note; one alone: other, and neither is a number."""
    case = models.mlp()
    golden = Session(case.step, model=case.model, optimizer=case.optimizer).trace()
    bare = replace(golden, info={**golden.info, "loss": None})
    for pair, equal in (((bare, bare), True), ((golden, bare), False), ((bare, golden), False)):
        loss = fi.compare(*pair).loss
        assert (loss.equal, loss.new_nan, loss.note) == (equal, 0, "no loss was found")


@pytest.mark.parametrize("given", [3, (1, 2), None])
def test_what_is_no_trace_is_refused(given: Any) -> None:
    """With what would be one."""
    with pytest.raises(
        TypeError, match=f"cannot compare a {type(given).__name__}; expected a trace"
    ):
        fi.compare(given, given)
