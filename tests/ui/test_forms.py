"""The fault form's material and the Python lines beside every click."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fi_notebook import faults
from fi_notebook.core.fault import Fault
from fi_notebook.core.site import Target
from fi_notebook.core.steps import Steps
from fi_notebook.session import Session
from fi_notebook.ui.forms import (
    arm_line,
    models_payload,
    refused_models,
    selections_payload,
)

FAULT = Fault(
    "f1",
    Target.parse("relu*2:0"),
    "bitflip",
    {"bit": 31},
    elements={"index": [0, 3]},
    steps=Steps.parse(0),
)


def test_every_fault_model_is_in_the_form() -> None:
    """The form is made from the registry: no name is missing, none is added."""
    assert [each["name"] for each in models_payload()] == faults.names()
    bitflip = next(each for each in models_payload() if each["name"] == "bitflip")
    assert {"bit", "field", "ber"} <= {each["name"] for each in bitflip["parameters"]}


def test_a_model_of_ones_own_is_in_the_form() -> None:
    """What a person registers can be clicked."""

    @faults.register("mine_for_the_form")
    def mine(values, ctx, *, gain: float = 2.0):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        """Every value times a gain."""
        return values * gain

    try:
        (found,) = [each for each in models_payload() if each["name"] == "mine_for_the_form"]
    finally:
        faults.unregister("mine_for_the_form")
    assert found["summary"] == "Every value times a gain."
    (gain,) = found["parameters"]
    assert (gain["name"], gain["type"], gain["default"]) == ("gain", "float", 2.0)


def test_what_a_model_needs_beside_required_parameters_is_told() -> None:
    """One of several; nothing of a model that does without, or that says so at a field."""
    needs = {each["name"]: each["needs"] for each in models_payload()}
    assert {name: text for name, text in needs.items() if text} == {
        "stuck_at_0": "give either bit or field",
        "stuck_at_1": "give either bit or field",
        "clamp": "give low, high or both",
        "round_to": "give either format or mantissa",
    }


def test_every_way_to_choose_elements_is_in_the_form() -> None:
    """With an example where it takes an argument."""
    found = {each["name"]: each["example"] for each in selections_payload()}
    assert found["all"] is None
    assert {"index", "count", "fraction", "row", "tile"} <= set(found)
    assert all(found[name] for name in ("count", "fraction", "row", "tile"))


def test_a_click_has_its_python_line() -> None:
    """The line is the call of arm that makes the same fault."""
    assert arm_line(FAULT) == (
        "session.arm('relu*2:0', 'bitflip', elements={'index': [0, 3]}, steps='0', seed=0, bit=31)"
    )


def test_the_python_line_calls_the_session_what_a_person_does() -> None:
    """After ``%%fi_explore as=mine`` it is ``mine.arm``."""
    assert arm_line(FAULT, "mine").startswith("mine.arm('relu*2:0', ")


def test_ranks_and_micro_batches_are_in_the_python_line() -> None:
    """Where they are given, as text that `arm` reads back."""
    fault = replace(FAULT, ranks=Steps.parse("1-3"), micro_batches=Steps.parse([0, 2]))
    assert arm_line(fault).endswith("seed=0, micro_batches='0,2', ranks='1-3', bit=31)")


def test_filters_are_in_the_python_line() -> None:
    """Modules, source lines and phases, as the fault has them."""
    fault = replace(FAULT, modules=("fc",), code=("run.py[83]",), phases=("forward",))
    assert arm_line(fault).endswith(
        "seed=0, modules=('fc',), code=('run.py[83]',), phases=('forward',), bit=31)"
    )


@pytest.mark.parametrize(
    ("site", "refused", "allowed"),
    [
        ("relu*2:0", {"drop_rank", "duplicate", "skip_update"}, {"bitflip", "nan", "swap_rows"}),
        ("add_*1:0", {"drop_rank", "nan", "inf", "round_to", "swap_rows"}, {"bitflip", "scale"}),
    ],
)
def test_what_cannot_strike_a_site_is_named_with_its_reason(
    session: Session, site: str, refused: set[str], allowed: set[str]
) -> None:
    """By what the call is, and by the dtype and shape of its output: a counter is one int64."""
    golden = session.golden
    assert golden is not None
    found = refused_models(golden, golden.row(site))
    assert refused <= set(found)
    assert not allowed & set(found)
    assert found["drop_rank"].startswith("is for collectives")
