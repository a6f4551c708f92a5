from __future__ import annotations

import sys

import pytest
import torch

from fi_notebook.demo import BIT, TARGET, largest_element, load_digits, make_demo
from fi_notebook.session import Session


def test_the_data_are_the_digits() -> None:
    """1,797 images of 8 × 8 with values from 0 to 1, and ten labels."""
    images, labels = load_digits()
    assert images.shape == (1797, 1, 8, 8)
    assert (float(images.min()), float(images.max())) == (0.0, 1.0)
    assert labels.unique().tolist() == list(range(10))


def test_making_it_draws_nothing_from_the_global_generator() -> None:
    """The same seed makes the same model, and the global generator stays where it is."""
    before = torch.get_rng_state()
    first, second = make_demo(seed=3), make_demo(seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.model.conv1.weight, second.model.conv1.weight)
    assert not torch.equal(first.model.conv1.weight, make_demo(seed=4).model.conv1.weight)


def test_it_learns() -> None:
    """Thirty steps halve the loss on the batch: it is a real training step."""
    demo = make_demo()
    torch.manual_seed(0)
    losses = [demo.step().item() for _ in range(30)]
    assert losses[-1] < losses[0] / 2
    assert all(parameter.grad is None for parameter in demo.model.parameters())


def test_the_struck_element_has_a_large_finite_value() -> None:
    """Bit 27 is worth 16 of the exponent: 2 ** 16 = 65,536 times the value."""
    assert largest_element(torch.tensor([[0.0, 3.0], [4.5, 1.0]])) == [1, 0]
    torch.manual_seed(1)
    demo = make_demo()
    session = Session(demo.step, model=demo.model, optimizer=demo.optimizer)
    element = largest_element(session.trace().value(TARGET))
    session.arm(TARGET, "bitflip", elements={"index": element}, bit=BIT)
    (injection,) = session.replay()
    (change,) = injection.elements
    assert change.index == tuple(element)
    assert change.after == change.before * 65_536


def test_its_source_lines_are_shown_as_a_persons_own() -> None:
    """The second ReLU stands at its line of the demonstration."""
    demo = make_demo(batch=2)
    session = Session(demo.step, model=demo.model, optimizer=demo.optimizer)
    site = session.trace().sites[session.trace().row(TARGET)]
    assert [frame.function for frame in site.code] == ["forward", "step"]
    assert site.code[0].label.startswith("demo.py:")


def test_a_missing_scikit_learn_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install."""
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'fi-notebook\[lab\]'"):
        load_digits()
