"""The names that parameters, buffers, gradients and state have, and those near a wrong one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import fi_notebook as fi
from fi_notebook.core.site import Target
from fi_notebook.engine.stored_tensors import check_stored
from fi_notebook.errors import SiteError


class Tied(nn.Module):
    """An embedding whose weight is the head's too, a frozen layer, and one that is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.frozen(self.embed(x)))


def trained(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 2) -> None:
    """A few steps on the sum of the outputs."""
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.arange(5)).sum().backward()
        optimizer.step()


NAMES = {
    "param:head.weight": "param:embed.weight",
    "grad:head.*": "grad:embed.weight",
    "state:head.weight.exp_avg": "state:embed.weight.exp_avg",
}


@pytest.mark.parametrize("target", NAMES)
def test_a_tied_parameter_is_struck_by_any_of_its_names(target: str) -> None:
    """And shown by its first."""
    model = Tied()
    fault = {"target": target, "model": "zero", "steps": [1]}
    config = {"version": 2, "verbosity": "quiet", "faults": [fault, fault | {"modules": ["head"]}]}
    with fi.Injector(config, model=model) as injector:
        trained(model, torch.optim.Adam(model.parameters()))
    assert [str(one.site) for one in injector.injections] == [NAMES[target]] * 2


def test_a_tied_parameter_is_watched_by_any_of_its_names() -> None:
    """Of a state nothing is there before the first step."""
    model = Tied()
    with fi.watch(model, list(NAMES)) as watch:
        trained(model, torch.optim.Adam(model.parameters()))
    assert set(watch.current.series) == set(NAMES.values())


def test_a_campaign_tries_a_tied_parameter_by_any_of_its_names() -> None:
    """The rows are of the parameter, once."""
    model = Tied()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = fi.Session(lambda: trained(model, optimizer, 1), model=model, optimizer=optimizer)
    session.trace()
    found = fi.Campaign(lambda: session, faults=["zero"], sites="param:head.weight", n=2).run()
    assert {row.site for row in found.rows} == {"param:embed.weight"}


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("param", "head.wieght", "did you mean 'head.weight' or 'embed.weight'?"),
        ("grad", "frozen.wieght", "expected one of 'embed.weight', 'head.weight'"),
        ("state", "frozen.wieght.step", "did you mean 'head.weight.step' or 'embed.weight.step'?"),
    ],
)
def test_names_near_a_wrong_one_are_of_what_there_can_be(kind: str, name: str, said: str) -> None:
    """Every name of a tied parameter; no gradient or state of a frozen one."""
    with pytest.raises(SiteError) as error:
        check_stored(Target(name, kind=kind), Tied())
    assert str(error.value) == f"no {kind} '{name}'; {said}"


@pytest.mark.parametrize(("start", "name"), [("0.", "0.weight"), ("", "weight")])
@pytest.mark.parametrize(("kind", "key"), [("param", ""), ("grad", ""), ("state", ".exp_avg")])
def test_of_a_computed_weight_what_it_is_computed_from_is_named(
    kind: str, key: str, start: str, name: str
) -> None:
    """Of a weight that is parametrized, its originals."""
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    made = [f"'{start}parametrizations.weight.original{n}{key}'" for n in (0, 1)]
    with pytest.raises(SiteError) as error:
        check_stored(Target(name + key, kind=kind), nn.Sequential(layer) if start else layer)
    assert str(error.value) == (
        f"no {kind} '{name}{key}', which is computed; expected what it is computed from: "
        f"{', '.join(made)}"
    )
