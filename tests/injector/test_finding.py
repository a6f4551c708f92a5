"""Which live module is the model, where a part of it begins to train."""

from __future__ import annotations

import logging

import pytest
from torch import nn
from torch.optim import SGD

from fi_notebook.injector.finding import Named, whole


class Pair(nn.Module):
    """Two parts, and no forward of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)


class Holder(nn.Module):
    """What holds a pair as well, as an average of weights may."""

    def __init__(self, pair: Pair) -> None:
        super().__init__()
        self.pair = pair


def test_a_part_whose_optimizer_steps_the_whole_stands_for_the_whole() -> None:
    """The pair owns all of it; the larger holder does too, but holds no more that is stepped."""
    pair = Pair()
    holder, optimizer = Holder(pair), SGD(pair.parameters(), 0.1)
    assert whole(pair.first) is pair
    assert whole(pair) is pair
    del holder, optimizer


def test_a_part_with_an_optimizer_of_its_own_is_the_model() -> None:
    """As either network of a GAN, and as a module that no optimizer steps yet."""
    pair, lone = Pair(), nn.Linear(2, 2)
    optimizers = [SGD(part.parameters(), 0.1) for part in (pair.first, pair.second)]
    assert whole(pair.first) is pair.first
    assert whole(lone) is lone
    del optimizers


def test_several_optimizers_of_a_part_are_taken_together() -> None:
    """One steps the weight of the first part, another its bias and all of the second."""
    pair = Pair()
    optimizers = [
        SGD([pair.first.weight], 0.1),
        SGD([pair.first.bias, *pair.second.parameters()], 0.1),
    ]
    assert whole(pair.first) is pair
    del optimizers


def test_parts_that_no_module_holds_together_are_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An encoder and a decoder of a script, with one optimizer: the first alone can be struck."""
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    optimizer = SGD([*first.parameters(), *second.parameters()], 0.1)
    with caplog.at_level(logging.WARNING, "fi_notebook"):
        assert whole(first) is first
    (told,) = caplog.messages
    assert told == (
        "the optimizer of Linear steps parameters beside its own that no module holds together "
        "with it; faults can strike Linear alone"
    )
    del optimizer


def test_a_module_that_is_not_made_yet_is_passed_over() -> None:
    """Its constructor has not run, as in another thread."""
    pair, unmade = Pair(), Pair.__new__(Pair)
    optimizer = SGD(pair.parameters(), 0.1)
    assert whole(pair.first) is pair
    assert Named("Pair").model(pair.first) is pair
    del unmade, optimizer


def test_a_model_is_found_by_its_class_from_any_part_of_it() -> None:
    """Its own forward, or that of a part; the nearest of those that hold it."""
    named, pair = Named("Pair"), Pair()
    holder = Holder(pair)
    assert named.model(pair) is pair
    assert named.model(holder) is None
    assert named.model(pair.second) is pair
    assert Named("Holder").model(pair.second) is holder
    assert named.model(nn.Linear(2, 2)) is None


def test_what_is_made_later_is_looked_for_then() -> None:
    """A stranger trained before there was a pair."""
    named, lone = Named("Pair"), nn.Linear(2, 2)
    assert named.model(lone) is None
    pair = Pair()
    assert named.model(lone) is None
    assert named.model(pair.first) is pair
