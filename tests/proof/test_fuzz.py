"""Texts and plans that almost are some: read, or refused with a reason, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fi_notebook import FaultPlan, Session
from fi_notebook.core.match import CodeFilter
from fi_notebook.core.site import Site, Target
from fi_notebook.core.steps import Steps
from fi_notebook.errors import FiError
from tests import models

_PIECES = st.sampled_from(
    [
        *("relu", "add", "Tensor", "c10d", "allreduce_", "other/", "param:", "grad:", "state:"),
        *("*", ":", "[", "]", ".", "::", "/", "-", ",", " ", "0", "1", "07", "9" * 30, "-1"),
        *("\n", "\x00", "é", "٣", "__class__", "run.py", "In [5]", "%s", "{0}", "10-", "0-9:2"),
    ]
)
_almost = st.lists(_PIECES, max_size=9).map("".join)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _almost,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_almost, inner, max_size=3),
    max_leaves=6,
)
_elements = st.one_of(
    _json,
    st.dictionaries(
        st.sampled_from(["index", "count", "fraction", "row", "tile", "channel", "first"]),
        _json,
        min_size=1,
        max_size=2,
    ),
)
_READERS: dict[str, Callable[[Any], Any]] = {
    "target": Target.parse,
    "site": Site.parse,
    "line": CodeFilter.parse,
    "steps": Steps.parse,
}


def _read(reader: Callable[[Any], Any], text: Any) -> None:
    try:
        reader(text)
    except FiError as error:
        assert str(error)  # noqa: PT017  # both are well, and neither is asked for


@pytest.mark.parametrize("name", _READERS)
@settings(max_examples=200)
@given(text=_almost)
def test_a_text_that_almost_is_one(name: str, text: str) -> None:
    """Pieces of targets, lines and steps in any order."""
    _read(_READERS[name], text)


@pytest.mark.parametrize("name", _READERS)
@pytest.mark.parametrize("piece", ["a", "*1", "a.", "[1]", "1,", "1-", "::", " ", "In [5]"])
def test_a_very_long_text_is_judged_at_once(name: str, piece: str) -> None:
    """Two hundred thousand characters."""
    _read(_READERS[name], piece * (200_000 // len(piece)))


@pytest.fixture(scope="module")
def session() -> Session:
    """A session for all faults."""
    case = models.cnn()
    made = Session(case.step, model=case.model, optimizer=case.optimizer)
    made.trace()
    return made


def _arm(session: Session, aimed: tuple[Any, Any], how: dict[str, Any]) -> None:
    before = session.plan
    try:
        session.arm(*aimed, **how)
    except (FiError, TypeError) as error:
        assert str(error)  # noqa: PT017  # both are well, and neither is asked for
        assert session.plan == before
    else:
        plan = session.plan
        assert FaultPlan.load(plan.to_dict()) == plan
        session.disarm()


_aims = st.tuples(
    st.sampled_from(["relu*1:0", "addmm", "mul", "param:fc.weight"]) | _almost,
    st.sampled_from(["zero", "bitflip", "scale", "stale", "noise"]) | _almost,
)
_options = st.fixed_dictionaries(
    {},
    optional={
        "elements": _elements,
        "steps": _json,
        "seed": _json,
        "bit": _json,
        "factor": _json,
        "modules": _json,
        "phases": _json,
        "probability": _json,
        "times": _json,
        "ranks": _json,
        "code": _json,
        "scope": _json,
    },
)


@pytest.mark.filterwarnings("ignore::fi_notebook.session.FaultWarning")
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(aimed=_aims, how=_options)
def test_a_fault_that_almost_is_one(
    session: Session, aimed: tuple[Any, Any], how: dict[str, Any]
) -> None:
    """Armed, and the same again from its JSON, or refused with the plan as it was."""
    _arm(session, aimed, how)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::fi_notebook.session.FaultWarning")
@settings(max_examples=20_000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(aimed=_aims, how=_options)
def test_very_many_faults_that_almost_are_some(
    session: Session, aimed: tuple[Any, Any], how: dict[str, Any]
) -> None:
    """The same, twenty thousand times."""
    _arm(session, aimed, how)
