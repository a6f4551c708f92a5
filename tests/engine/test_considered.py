"""What is said of filters stays true where calls stand in more places than are kept."""

from __future__ import annotations

from typing import Any

import pytest

from fi_notebook import Injector
from fi_notebook.engine import considered
from fi_notebook.watching import Watching
from tests import models
from tests.injector.helpers import plan


@pytest.fixture(autouse=True)
def _one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(considered, "_MOST", 1)


def _missed(op: str, **more: Any) -> str:
    case = models.mlp(seed=1)
    with Injector(plan(op, "zero", steps=0, **more), model=case.model) as injector:
        case.step()
    (missed,) = injector.not_injected
    return missed.reason


def test_each_value_that_a_filter_may_ask_for_is_kept() -> None:
    """The second layer's call is known of, and the phases of all: each filter is judged by all."""
    assert _missed("addmm", modules=["2"], phases=["backward"]) == (
        "no call of 'addmm' in step 0 is in phase 'backward': they are in 'forward'"
    )
    assert _missed("mm", modules=["0"], phases=["forward"]) == (
        "no call of 'mm' in step 0 is in phase 'forward': they are in 'backward'"
    )
    assert _missed("t", modules=["1"]) == (
        "no call of 't' in step 0 is in module '1': they are in '0', '2'"
    )


def test_a_call_that_fits_is_known_of_though_its_place_is_not_kept() -> None:
    """Of ``t`` the backward of the first layer has nothing that no other has, but it fits."""
    said = "its probability of 1e-12 never came up"
    fitting = {"modules": ["0"], "phases": ["backward"]}
    assert _missed("t", probability=1e-12, **fitting) == said
    assert _missed("addmm", probability=1e-12, modules=["2"]) == said


def test_a_watch_says_the_same() -> None:
    """Its filter of modules fits one of the calls, its filter of phases none."""
    case = models.mlp(seed=1)
    with Watching(case.model, "addmm", modules=["2"], phases=["backward"]) as watch:
        case.step()
    assert watch.unread == {
        "addmm": "no call of 'addmm' is in phase 'backward': they are in 'forward'"
    }


def test_a_watch_that_is_drawn_while_a_step_goes_on_says_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each place that is described meets another one that the training adds meanwhile."""
    monkeypatch.setattr(considered, "_MOST", 1024)
    case = models.mlp(seed=1)
    with Watching(case.model, "addmm", phases=["backward"]) as watch:
        case.step()
        (aim,) = watch._training.reader._aims
        kept, made = aim._considered._places, aim._considered._made

        def beside_a_training(place: Any) -> Any:
            overload, _, *rest = place
            other = (overload, -len(kept), *rest)
            kept[other] = None
            return made(place)

        monkeypatch.setattr(aim._considered, "_made", beside_a_training)
        assert watch.unread == {
            "addmm": "no call of 'addmm' is in phase 'backward': they are in 'forward'"
        }
