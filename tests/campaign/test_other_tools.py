"""What a fault does to an activation is what other injectors make of the same fault.

The first is a forward hook that flips one bit, which needs nothing of ours. PyTorchFI 0.6
and MRFI 2.1 are compared where they are installed (see docs/campaigns.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fi_notebook.analysis.tolerance import DEFAULT
from fi_notebook.campaign import Campaign
from fi_notebook.campaign.worker import Job
from fi_notebook.engine.slice import run_slice
from fi_notebook.engine.tape import LookKey
from tests.campaign import sessions
from tests.campaign.other_tools import LAYERS, Scores, flipped, hooked, mrfi, pytorchfi

N = 100


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    """Bit flips in what the two convolutions give, in inference."""
    made = Campaign(sessions.inference, sites=[*LAYERS], n=N, seed=4)
    made.run()
    return made


def _ours(campaign: Campaign, job: Job) -> Tensor:
    """The scores as a campaign has them: golden, but where the slice found them to differ."""
    slices = campaign.bench.trials.slices
    assert slices is not None
    key = LookKey(0, "result", "result 0")
    found = run_slice(slices.tape, job.fault, campaign.bench._site(job.site), 0)
    golden = slices.result_of(0)
    assert golden is not None
    return found.looks.get(key, golden).clone()


def _outcome(golden: Tensor, faulty: Tensor) -> str:
    """The outcome by its definition, from the scores alone."""
    if torch.equal(golden.view(torch.int32), faulty.view(torch.int32)):
        return "masked_exact"
    if not bool(faulty.isfinite().all()):
        return "nan_immediate"
    a, b = golden.double(), faulty.double()
    apart = max(float((b - a).norm() / a.norm()), abs(float(b.norm() / a.norm()) - 1))
    return "masked_tolerance" if apart <= DEFAULT.relative else "changed"


@pytest.mark.parametrize("tool", [hooked, pytorchfi, mrfi])
def test_every_score_and_outcome_is_what_another_injector_gives(
    tool: Callable[[], Scores], campaign: Campaign
) -> None:
    """The same bit of the same element: all 640 scores bit for bit, and the outcome."""
    try:
        scores = tool()
    except ModuleNotFoundError as error:
        pytest.skip(str(error))
    seen = set()
    slices = campaign.bench.trials.slices
    assert slices is not None
    golden = slices.result_of(0)
    assert golden is not None
    for job, row in zip(campaign.jobs, campaign.results, strict=True):
        elements, bit = job.fault.elements, job.fault.parameters["bit"]
        assert isinstance(elements, dict)
        theirs = scores(LAYERS[job.site], elements["index"], bit)
        mine = _ours(campaign, job)
        assert torch.equal(mine.view(torch.int32), theirs.view(torch.int32)), str(job.fault)
        assert row.outcome == _outcome(golden, theirs), row.reason
        changed = int((golden.argmax(1) != theirs.argmax(1)).sum())
        assert row.metrics["top1_changed"] == changed
        assert row.metrics["after"] == pytest.approx(
            flipped(row.metrics["before"], bit), rel=0, nan_ok=True
        ) or math.isinf(row.metrics["after"])
        seen.add(row.outcome)
    assert seen >= {"masked_exact", "masked_tolerance", "changed"}
