from __future__ import annotations

from math import inf, nan

from hypothesis import given
from hypothesis import strategies as st

from fi_notebook.analysis.words import (
    about,
    excess,
    four_digits,
    how_far,
    limited,
    nonfinite_words,
    percent,
    several,
    times,
    told_apart,
)
from fi_notebook.core.run import Difference


def test_numbers_have_four_significant_digits() -> None:
    """NaN and Inf by name."""
    cases = [(0.000123456, "0.0001235"), (nan, "NaN"), (inf, "Inf"), (-inf, "-Inf"), (3.0, "3")]
    assert [four_digits(value) for value, _ in cases] == [text for _, text in cases]
    assert percent(0.0523456) == "5.235 %"
    assert (excess(1.5), excess(12)) == ("150 %", "12 times its value")


def test_huge_ratios_are_not_told_by_their_digits() -> None:
    """8e44 times says no more than a million times; an infinite factor is without bound."""
    assert (limited(1e6), limited(8e44), limited(inf)) == ("1e+06", "more than a million", "Inf")
    assert (times(36.36), times(8e44)) == ("36.36 times", "more than a million times")
    assert times(inf) == "without bound"
    assert excess(4e30) == "more than a million times its value"


def test_two_numbers_are_told_apart() -> None:
    """2.30312 and 2.30318 are both 2.303; five digits show the difference."""
    assert told_apart(2.30312, 2.30318) == ("2.3031", "2.3032")
    assert told_apart(2.5, 3.0) == ("2.5", "3")
    assert told_apart(2.5, 2.5) == ("2.5", "2.5")
    assert told_apart(nan, nan) == ("NaN", "NaN")
    assert told_apart(2.5, nan) == ("2.5", "NaN")


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_different_numbers_have_different_texts(first: float, second: float) -> None:
    """Seventeen digits tell any two floats apart."""
    texts = told_apart(first, second)
    assert first == second or texts[0] != texts[1]


def test_lists_in_a_sentence() -> None:
    """The first three, and how many more."""
    assert several([]) == ""
    assert several(["a"]) == "a"
    assert several(["a", "b", "c"]) == "a, b and c"
    assert several(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_no_distance_is_given_to_what_is_not_finite() -> None:
    """6 NaN are 6 NaN, however far the finite elements are; the rest has a relative L2."""
    assert how_far(Difference("a", False, 6, 6, 0.0, new_nan=6)) == "6 NaN"
    assert how_far(Difference("a", False, 9, 9, 0.5, new_nan=1, new_inf=2000)) == "1 NaN, 2,000 Inf"
    assert how_far(Difference("a", False, 6, 6, 0.25)) == "relative L2 0.25"
    assert nonfinite_words(0, 0) == ""


def test_what_is_there_is_never_said_to_be_none() -> None:
    """4 of 1,500 are 0.3 %, 1 of 10,000 is less than 0.1 %; all but one are not all."""
    assert [about(share) for share in (0, 4 / 1500, 1e-4, 0.614, 1)] == [
        *("0%", "0.3%", "<0.1%", "61%", "100%")
    ]
    assert [about(share) for share in (0.996, 0.9999)] == ["99.6%", ">99.9%"]
    assert about(0.614, 1) == "61.4%"
