from __future__ import annotations

from dataclasses import replace

import pytest

from fi_notebook.analysis.ended import ended_words, undone_words
from fi_notebook.core.injection import Injection
from tests.records import FLIPPED, comparison, injection
from tests.traces import Call, build

SAME = (0.0, 0.5, 1.0, 2.0, 0.0, 3.0)
BACK = injection(before=FLIPPED, after=SAME, fault="f2")


@pytest.mark.parametrize(
    ("phase", "errors", "expected"),
    [
        ("backward", {"mul*1:0": 0.1}, "nothing reads what it changed"),
        (
            "backward",
            {"mul*1:0": 0.1, "add*1:0": 0.2},
            "no gradient and no update depends on what it changed",
        ),
        (
            "backward",
            {"mul*1:0": 0.1, "neg*1:0": 0.1},
            "nothing that training keeps depends on what it changed",
        ),
        ("forward", {"mul*1:0": 0.1, "add*1:0": 0.2}, "no result depends on what it changed"),
    ],
)
def test_what_later_calls_read_is_not_called_unread(
    phase: str, errors: dict[str, float], expected: str
) -> None:
    """Where the error ran on and no call masked it, the sentence says what it did not reach."""
    trace = build(
        Call("mul"),
        Call("add", inputs=(0,)) if "add*1:0" in errors else Call("add"),
        Call("neg", phase=phase, inputs=(0,)) if "neg*1:0" in errors else Call("neg", phase=phase),
        Call("sum"),
    )
    last = list(errors)[-1]
    assert ended_words(comparison(errors, trace)) == (
        f"{expected}; the last call that differs is {last}, and every later call"
    )


def test_where_no_call_differs_it_is_said_of_those_that_were_compared() -> None:
    """The words are what *are bit-equal* is said of."""
    assert ended_words(comparison({})) == "every call that was compared"


FIRST = injection(before=SAME, after=FLIPPED)
OTHER = injection(before=FLIPPED, after=(0.0, 0.5, 1.0, 2.5, 0.0, 3.0), fault="f2")


@pytest.mark.parametrize(
    "strikes",
    [
        (FIRST,),
        (FIRST, OTHER),  # the element beside it is another than before
        (FIRST, replace(BACK, fault="f1")),
        (FIRST, replace(BACK, step=1)),
        (FIRST, replace(BACK, site=replace(BACK.site, call=3))),
        (replace(FIRST, changed=65), replace(BACK, changed=65)),  # of which 64 are recorded
        (injection(after=SAME), BACK),  # f1 changed nothing, and f2 alone did
    ],
)
def test_that_a_fault_undid_another_is_told_where_it_is_proven(
    strikes: tuple[Injection, ...],
) -> None:
    """Not of another place, step or value, nor of elements that were not recorded."""
    assert undone_words(strikes) == ""


def test_the_last_of_several_faults_undoes_them_all() -> None:
    """1 becomes 1.125, then 1.25, then 1 again; a fault elsewhere has no say in it."""
    second = injection(before=FLIPPED, after=(0.0, 0.5, 1.25, 2.0, 0.0, 3.0), fault="f2")
    third = injection(before=(0.0, 0.5, 1.25, 2.0, 0.0, 3.0), after=SAME, fault="f3")
    elsewhere = injection(site="mm*1:0", fault="f4")
    assert undone_words((FIRST, elsewhere, second, third)) == (
        "f3 gave relu*2:0 back the bits that it had before f1"
    )
