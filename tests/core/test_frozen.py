"""Plain data that nobody can change."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from fi_notebook.core.frozen import frozen

GIVEN: dict[str, Any] = {"index": [[0, 3], [1, 2]], "at": (1, [2]), "n": 5}


@pytest.mark.parametrize(
    "change",
    [
        lambda kept: kept.update(n=6),
        lambda kept: kept.__setitem__("n", 6),
        lambda kept: kept.__ior__({"n": 6}),
        lambda kept: kept.pop("n"),
        lambda kept: kept["index"].append(1),
        lambda kept: kept["index"][0].__setitem__(0, 9),
        lambda kept: kept["index"].__iadd__([1]),
        lambda kept: kept["at"][1].sort(),
    ],
)
def test_no_part_can_be_changed(change: Any) -> None:
    """At any depth, in place or by a method; it stays what was given."""
    kept = frozen(GIVEN)
    with pytest.raises(TypeError, match="is part of a record, which is never changed"):
        change(kept)
    assert kept == GIVEN


def test_it_is_apart_from_what_was_given() -> None:
    """What the caller changes later does not reach it."""
    given = copy.deepcopy(GIVEN)
    kept = frozen(given)
    given["index"][0][0] = 9
    assert kept == GIVEN


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda kept: pickle.loads(pickle.dumps(kept))]
)
def test_a_copy_is_frozen_and_equal(again: Any) -> None:
    """Copied, copied deeply and pickled."""
    made = again(frozen(GIVEN))
    assert made == GIVEN
    with pytest.raises(TypeError, match="never changed"):
        made["index"].append(1)


def test_it_is_read_as_what_was_given() -> None:
    """JSON and text are the same; a union is a plain dict."""
    kept = frozen(GIVEN)
    assert json.dumps(kept) == json.dumps(GIVEN)
    assert repr(kept) == repr(GIVEN)
    assert type(kept | {"n": 6}) is dict
