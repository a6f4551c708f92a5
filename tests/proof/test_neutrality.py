"""Watched or not, training has the same bits, and every call has its place.

The small set explores one training of each architecture that the tests have, and of some
that `transformers` has. The whole does each thing apart, in two dtypes, with every kind of
optimizer, and compiled.
"""

from __future__ import annotations

import sys
from functools import partial

import pytest
import torch

from fi_notebook.errors import SessionError
from tests import models, models_graph
from tests.proof.architectures import ARCHITECTURES
from tests.proof.cases import CASES, UNREPEATABLE, prove
from tests.proof.compiling import compiled_differences
from tests.proof.courses import ARMS, Make, course, differences, session_of
from tests.proof.placing import UNEXPLAINED, Placed, placed
from tests.proof.recipes import RECIPES

_OF_TRANSFORMERS = ("bert", "mamba", "convnext") if sys.version_info >= (3, 11) else ()
_SMALL = [name for name in RECIPES if name not in ARCHITECTURES or name in _OF_TRANSFORMERS]
_PLACED = [name for name in _SMALL if name not in models.CASES | models_graph.GRAPHS]
"""Those of the small set that `tests.engine.test_lineage` does not look at."""


_COMPILED = [(title, backend) for title, case in CASES.items() for backend in case.backends]


def _make(name: str) -> Make:
    """An architecture with one optimizer, in turn over all of them."""
    kind, number = RECIPES[name], list(RECIPES).index(name)
    return partial(kind.make, torch.float32, kind.optimizers[number % len(kind.optimizers)])


def _assert_placed(found: Placed) -> None:
    assert found.checked
    assert found.wrong == []
    assert not [reason for reason in found.without if reason.startswith(UNEXPLAINED)]


@pytest.mark.parametrize("name", _SMALL)
def test_explored_training_is_bit_equal_to_plain_training(name: str) -> None:
    """Trace, an armed fault that never fires, a struck replay, disarmed: nothing stays."""
    plain = course(_make(name), ARMS["plain"])
    assert differences(course(_make(name), ARMS["explored"]), plain) == []


@pytest.mark.parametrize("name", _PLACED)
def test_every_call_has_its_place(name: str) -> None:
    """Each call has module and line or a known reason; backward ones as plain torch says."""
    _assert_placed(placed(_make(name)))


@pytest.mark.parametrize("name", ["mlp", "gan", "gradient_penalty"])
def test_compiled_training_is_bit_equal_too(name: str) -> None:
    """Explored when compiled or before: the same graphs run as often, with the same bits."""
    assert compiled_differences(_make(name), RECIPES[name].backend) == []


def test_a_change_would_be_seen() -> None:
    """A step with other random numbers, or one bit of a weight flipped, is found by name."""
    plain = course(_make("cnn"), ARMS["plain"])
    other = course(_make("cnn"), ARMS["plain"])
    weight = other[1]["fc.weight"]
    weight.view(torch.int32)[0, 0] ^= 1
    other[0]["torch's generator"][-1] ^= 1
    assert differences(other, plain) == ["step 0: torch's generator", "step 1: fc.weight"]


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("title", CASES)
def test_everything_is_neutral(title: str) -> None:
    """Traced, idle, watching, armed, replayed: no bit differs, and no call is lost."""
    verdict = prove(CASES[title])
    assert {name: found for name, found in verdict.changed.items() if found} == {}
    _assert_placed(verdict.placed)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("title", "backend"), _COMPILED)
def test_everything_is_neutral_when_compiled(title: str, backend: str) -> None:
    """Explored when compiled or before: the same graphs run as often, with the same bits."""
    assert compiled_differences(CASES[title].make, backend) == []


@pytest.mark.soak
@pytest.mark.parametrize("name", [name for name in UNREPEATABLE if name in RECIPES])
def test_what_seeds_itself_is_refused(name: str) -> None:
    """Its calls are placed; a replay says that it does not repeat, and where that shows."""
    _assert_placed(placed(_make(name)))
    with pytest.raises(SessionError, match=r"not repeatable: two golden runs differ first at"):
        session_of(_make(name)()).replay()
