"""What was clicked on a model strikes it in a wrapper, and the other way round.

The model is y = b(a(x)) with a = (2), b = (3) and x = 1, so that y = 6, the gradient of ``a``
is 3 and that of ``b`` is 2; the learning rate is 1.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fi_notebook import Injector, Session
from fi_notebook.campaign.places import Places
from fi_notebook.campaign.population import Population
from fi_notebook.core.fault import FaultPlan
from fi_notebook.engine.stored_tensors import stored_sites
from fi_notebook.watching.watching import Watching
from tests.injector.helpers import plan

Made = tuple[nn.Module, torch.optim.Optimizer, Callable[[], Tensor]]


class _Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
        nn.init.constant_(self.a.weight, 2.0)
        nn.init.constant_(self.b.weight, 3.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x) * 1)


def _made(wrap: Callable[[nn.Module], nn.Module]) -> Made:
    model = wrap(_Two())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.5)

    def step() -> Tensor:
        out = model(torch.ones(1, 1)).sum()
        out.backward()
        optimizer.step()
        optimizer.zero_grad()
        return out

    return model, optimizer, step


def _plain(model: nn.Module) -> nn.Module:
    return model


@pytest.mark.parametrize(
    ("target", "struck"),
    [
        ("mm*1:0", "mm*1:0"),  # of module a
        ("mul*1:0", "mul*1:0"),  # of the root
        ("param:a.weight", "param:{}a.weight"),
        ("grad:b.weight", "grad:{}b.weight"),
        ("state:a.weight.momentum_buffer", "state:{}a.weight.momentum_buffer"),
    ],
)
@pytest.mark.parametrize(
    ("clicked_in", "run_in", "prefix"),
    [(_plain, nn.DataParallel, "module."), (nn.DataParallel, _plain, "")],
)
def test_a_clicked_fault_strikes_the_same_in_a_wrapper(
    clicked_in: Callable[[nn.Module], nn.Module],
    run_in: Callable[[nn.Module], nn.Module],
    prefix: str,
    target: str,
    struck: str,
    tmp_path: Path,
) -> None:
    """Saved from one and run on the other, it strikes once in step 1 and names what is there."""
    model, optimizer, step = _made(clicked_in)
    session = Session(step, model=model, optimizer=optimizer)
    session.trace()
    kind, _, name = target.rpartition(":")
    wrapped = clicked_in is nn.DataParallel and kind in ("param", "grad", "state")
    session.arm(f"{kind}:module.{name}" if wrapped else target, "scale", factor=10.0, steps=1)
    path = tmp_path / "injector.json"
    session.plan.save(path)
    model, _, step = _made(run_in)
    with Injector(FaultPlan.load(path), model=model) as injector:
        step()
        step()
    assert injector.not_injected == ()
    assert [(str(i.site), i.step) for i in injector.injections] == [(struck.format(prefix), 1)]


def test_a_call_of_another_module_is_still_refused() -> None:
    """Clicked in ``b``, the first ``mm`` is of ``a``, whatever wraps them."""
    anchor = {"phase": "forward", "module": "b", "module_call": 1, "ordinal": 1}
    model, _, step = _made(nn.DataParallel)
    with Injector(plan("mm*1:0", "zero", anchor=anchor), model=model) as injector:
        step()
    (missed,) = injector.not_injected
    assert missed.reason == (
        "the script changed: mm*1 was clicked as number 1 in (forward, module 'b' call 1), and is "
        "now number 1 in (forward, module 'module.a' call 1)"
    )


def test_a_stored_tensor_is_struck_at_the_same_elements_in_a_wrapper() -> None:
    """What a fault draws does not hang on the name that a wrapper gives to a parameter."""
    struck = []
    for wrap in (_plain, nn.DataParallel):
        model = wrap(nn.Linear(64, 1, bias=False))
        fault = plan("param:weight", "zero", elements={"count": 3}, seed=5)
        with Injector(fault, model=model) as injector:
            model(torch.ones(1, 64))
        struck.append([e.index for e in injector.injections[0].elements])
    assert len(struck[0]) == 3
    assert struck[0] == struck[1]


def test_a_watch_reads_the_parameter_of_a_wrapped_model() -> None:
    """``param:a.weight`` is 2 before the first step; it is read under the name that it has."""
    model, _, step = _made(nn.DataParallel)
    with Watching(model, ["param:a.weight"]) as watch:
        step()
        assert watch.unread == {}
        assert watch.to_pandas()["site"].tolist() == ["param:module.a.weight"]


def test_a_campaign_finds_the_parameter_of_a_wrapped_model() -> None:
    """A site that is named without the prefix is that of the wrapped model."""
    model, optimizer, step = _made(nn.DataParallel)
    trace = Session(step, model=model, optimizer=optimizer).trace()
    population = Population.of(Places(trace, stored_sites(model)), sites="param:a.weight")
    assert [str(site) for site in population.sites] == ["param:module.a.weight"]
