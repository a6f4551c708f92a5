"""A fault followed along the tape does what the same fault does in a replay of the step."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import fi_notebook as fi
from fi_notebook import faults
from fi_notebook.analysis.tolerance import Tolerance
from fi_notebook.core.fault import Fault
from fi_notebook.core.site import Site
from fi_notebook.core.steps import Steps
from fi_notebook.demo import make_demo
from fi_notebook.engine.slice import Astray
from fi_notebook.session import Session
from fi_notebook.session.trials import Trials
from tests import models
from tests.campaign import sessions


def _sites(trials: Trials) -> list[Site]:
    skipped = ("detach", "view", "t", "lift_fresh", "empty", "empty_like")
    return [s for s in trials.trace.sites if s.dtype == "float32" and s.op not in skipped]


def _fault(site: Site, draw: random.Random, step: int = 0) -> Fault:
    numel = math.prod(site.shape)
    return Fault(
        "f1",
        site.target,
        "bitflip",
        {"bit": draw.randrange(32)},
        {"index": draw.randrange(numel)},
        steps=Steps.parse(step),
    )


def _disagreements(session: Session, count: int, *, seed: int, steps: int = 1) -> list[str]:
    """What is not the same as a slice and in full: outcome, losses, what differs."""
    trials = session.trials(steps)
    assert not trials.why
    assert trials.slices is not None
    draw, found, tried = random.Random(seed), [], 0
    sites = [site for site in _sites(trials) if math.prod(site.shape)]
    for _ in range(4 * count):
        site, step = draw.choice(sites), draw.randrange(steps)
        fault = _fault(site, draw, step)
        try:
            mine = trials.slices.run(fault, site, step)
        except Astray:
            continue
        full = trials.replay(fault)
        pairs = [
            (mine.outcome.name, full.outcome.name),
            (repr([r.loss for r in mine.records]), repr([r.loss for r in full.records])),
            (mine.injection and mine.injection.changed, full.injection and full.injection.changed),
        ]
        if steps == 1:
            pairs.append((mine.metrics["differing"], full.metrics["differing"]))
        found += [f"{fault}: {a} as a slice, {b} in full" for a, b in pairs if a != b]
        for name in ("gradient_norm", "parameter_distance"):
            a, b = mine.metrics[name], full.metrics[name]
            if not (a == pytest.approx(b, rel=1e-9, nan_ok=True) or math.isinf(a) == math.isinf(b)):
                found.append(f"{fault}: {name} {a} as a slice, {b} in full")
        tried += 1
        if tried == count:
            break
    assert tried >= count // 2, "most faults led astray"
    return found


def test_a_slice_agrees_with_the_replay_on_the_quickstart() -> None:
    """Convolution, BatchNorm, dropout, clipping and AdamW: outcome, loss and differing sites."""
    assert _disagreements(sessions.quickstart(), 24, seed=1) == []


@pytest.mark.parametrize("name", ["cnn", "transformer", "lstm"])
def test_a_slice_agrees_with_the_replay_on_other_models(name: str) -> None:
    """The same on architectures that the tests share."""
    if name not in models.CASES:
        name = next(iter(models.CASES))
    case = models.CASES[name]()
    session = Session(case.step, model=case.model, optimizer=case.optimizer)
    assert _disagreements(session, 10, seed=2) == []


def test_a_slice_agrees_with_the_replay_over_several_steps() -> None:
    """A fault of step 0, 1 or 2 is followed through all three steps."""
    assert _disagreements(sessions.quickstart(), 8, seed=3, steps=3) == []


def _session(forward: Callable[[nn.Module, Tensor], Tensor], *, lr: float = 0.1) -> Session:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Linear(4, 3)
        data = torch.randn(5, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = forward(model, data)
        loss.backward()
        optimizer.step()
        return loss

    return Session(step, model=model, optimizer=optimizer)


def _run(session: Session, text: str, model: str = "set", **parameters: float) -> tuple[str, str]:
    """How a fault is carried out, and its outcome."""
    trials = session.trials()
    site = trials.trace.site(trials.trace.row(text))
    fault = Fault("f1", site.target, model, parameters or {"value": 3.0}, {"index": 0})
    found = trials.run(fault, site, 0)
    return found.way, found.outcome.name


def test_a_number_that_is_read_back_otherwise_leads_to_the_replay() -> None:
    """A branch on a value is taken otherwise: the slice says so, and the step is run."""

    def forward(model: nn.Module, data: Tensor) -> Tensor:
        out: Tensor = model(data)
        return out.square().sum() if float(out.detach().max()) < 100 else out.abs().sum()

    assert _run(_session(forward), "addmm*1:0", value=1000.0) == ("replay", "changed")
    assert _run(_session(forward), "addmm*1:0", value=-0.5) == ("slice", "changed")


@pytest.mark.parametrize("way", ["slice", "replay"])
def test_the_first_changed_element_is_no_nan_that_was_left_alone(way: str) -> None:
    """NaN, 3 and 1 of which each becomes its double: NaN stays what it was, so 3 became 6."""

    def forward(model: nn.Module, data: Tensor) -> Tensor:
        out: Tensor = model(data)
        held = torch.tensor([math.nan, 3.0, 1.0]).abs()
        return (out + held)[:, 1:].square().sum()

    trials = _session(forward).trials()
    assert trials.slices is not None
    fault = Fault("f1", Site.parse("abs*1:0").target, "scale", {"factor": 2.0})
    tries = {"slice": trials.slices.replay, "replay": trials.replay}
    found = tries[way](fault)
    assert (found.way, found.before, found.after) == (way, 3.0, 6.0)


def test_memory_that_is_overwritten_ends_the_slice() -> None:
    """What is written over before anybody reads it can change nothing."""

    def forward(model: nn.Module, data: Tensor) -> Tensor:
        out: Tensor = model(data)
        scratch = data * 2
        scratch.zero_()
        return (out + scratch[:, :3]).square().sum()

    assert _run(_session(forward), "mul*1:0") == ("slice", "masked_exact")


def test_a_view_that_is_struck_by_value_is_replayed() -> None:
    """Only the readers of the view see the fault, which memory alone cannot tell."""

    def forward(model: nn.Module, data: Tensor) -> Tensor:
        out: Tensor = model(data)
        return out.view(-1).square().sum()

    assert _run(_session(forward), "view*1:0")[0] == "replay"


def test_an_error_of_the_faulty_run_is_a_crash() -> None:
    """Where a call raises on faulty values, the step is run, and its error is the outcome."""

    def forward(model: nn.Module, data: Tensor) -> Tensor:
        out: Tensor = model(data)
        if not bool(torch.isfinite(out).all()):
            raise FloatingPointError("not finite")
        return out.square().sum()

    found = _run(_session(forward), "addmm*1:0", value=float("inf"))
    assert found == ("replay", "crash")


def test_where_calls_are_judged_by_their_values_each_fault_is_replayed() -> None:
    """A slice looks for no NaN in calls; a tolerance that does has each fault replayed, and why."""
    demo = make_demo()
    session = Session(
        demo.step,
        model=demo.model,
        optimizer=demo.optimizer,
        tolerance=Tolerance(nonfinite=("calls",)),
    )
    trials = session.trials()
    assert trials.why == (
        "the tolerance looks for NaN and Inf in calls, a slice in what they leave"
    )
    site = trials.trace.site(trials.trace.row("relu*1:0"))
    found = trials.run(Fault("f1", site.target, "nan", {}, {"index": 0}), site, 0)
    assert (found.way, found.outcome.name) == ("replay", "nan_immediate")


@pytest.mark.parametrize(
    ("forward", "why"),
    [
        (
            lambda model, data: (model(data).to_sparse() * 2).sum(),
            "a tensor of layout torch.sparse_coo has no plain memory",
        ),
        (
            lambda model, data: torch.fft.irfft(torch.fft.rfft(model(data)).conj()).square().sum(),
            "a tensor is conjugated or negated lazily",
        ),
    ],
)
def test_a_step_that_is_no_tape_says_why(
    forward: Callable[[nn.Module, Tensor], Tensor], why: str
) -> None:
    """In a dry run, where every fault runs the whole step."""
    session = sessions.small(forward)
    session.trace()
    campaign = fi.Campaign.of_subtree(session, "", faults=["bitflip"], n=2)
    assert str(campaign.dry_run()).endswith(f"Every fault runs the whole step: {why}.")


class _SparseBackward(torch.autograd.Function):
    """The identity, whose backward makes a sparse tensor."""

    @staticmethod
    def forward(ctx: object, values: Tensor) -> Tensor:
        return values.clone()

    @staticmethod
    def backward(ctx: object, *gradients: Tensor) -> Tensor:
        return gradients[0].to_sparse().to_dense()


def test_a_step_that_is_no_tape_is_run_to_its_end() -> None:
    """What ends the tape in a backward is no exception in it: that would leave it half done."""
    model, begun, ended = nn.Linear(2, 1), [0], [0]

    def step() -> Tensor:
        begun[0] += 1
        loss = torch.Tensor(_SparseBackward.apply(model(torch.ones(1, 2)))).sum()
        loss.backward()
        ended[0] += 1
        return loss

    trials = Session(step, model=model).trials()
    assert trials.why == "a tensor of layout torch.sparse_coo has no plain memory"
    assert begun == ended == [2]  # the golden run, and the one that was to be the tape


def test_several_bits_of_one_element_are_flipped_in_a_slice_too() -> None:
    """The short way is for one bit; what several do is what they do in a replay."""
    trials = sessions.small(lambda model, data: model(data).square().sum()).trials()
    site = trials.trace.site(trials.trace.row("addmm*1:0"))
    fault = Fault("f1", site.target, "bitflip", {"bit": [22, 31]}, {"index": 0})
    mine, full = trials.run(fault, site, 0), trials.replay(fault)
    assert (mine.way, full.way) == ("slice", "replay")
    assert (mine.before, mine.after) == (full.before, full.after)
    assert (mine.outcome.name, mine.metrics["loss"]) == (full.outcome.name, full.metrics["loss"])


def test_a_step_with_a_generator_of_its_own_is_no_tape_or_agrees() -> None:
    """Draws from the global generator are made again from the state they began with."""

    def forward(model: nn.Module, data: Tensor) -> Tensor:
        out: Tensor = model(data)
        return torch.bernoulli(out.sigmoid()).add(out).square().sum()

    session = _session(forward)
    assert _disagreements(session, 10, seed=4) == []


@pytest.mark.draws_nothing
def test_trials_leave_session_and_generators_as_they_were() -> None:
    """Plan, runs, parameters and random numbers are those of before."""
    session = sessions.quickstart()
    before = [p.detach().clone() for p in session.model.parameters()]
    session.arm("relu*1:0", "bitflip", bit=3, elements={"index": 0})
    trials = session.trials()
    for site in _sites(trials)[:6]:
        trials.run(_fault(site, random.Random(0)), site, 0)
    assert len(session.plan) == 1
    assert session.runs == []
    after = list(session.model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_the_short_way_to_flip_a_bit_is_the_same_flip(dtype: torch.dtype) -> None:
    """`flip_one` gives what `corrupt` gives, in any strides, and undoes itself."""
    base = torch.randn(6, 8).to(dtype)
    for tensor in (base.clone(), base.t().clone().t(), base[1:, ::2].clone()):
        for bit, index in ((0, 0), (tensor.element_size() * 8 - 1, 7), (5, tensor.numel() - 1)):
            generator = faults.generator(0)
            known = faults.corrupt(tensor, "bitflip", {"bit": bit}, {"index": index}, generator)
            expected, whole = known.corrupted_copy(tensor), tensor.clone()
            flipped = faults.flip_one(tensor, bit, index)
            assert flipped is not None
            assert torch.equal(tensor.view(torch.uint8), expected.view(torch.uint8))
            assert torch.equal(flipped.after.view(torch.uint8), known.after.view(torch.uint8))
            flipped.undo()
            assert torch.equal(tensor.view(torch.uint8), whole.view(torch.uint8))
