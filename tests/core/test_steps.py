from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fi_notebook.core.steps import Steps
from fi_notebook.errors import FaultError

NUMBERS = st.integers(0, 10**18 - 1)


@st.composite
def steps(draw: st.DrawFn, end: int = 10**18 - 1) -> Steps:
    """Steps of up to four ranges."""
    ranges = []
    for _ in range(draw(st.integers(0, 4))):
        first = draw(st.integers(0, end))
        last = draw(st.none() | st.integers(first, end))
        ranges.append((first, last, draw(st.integers(1, end))))
    return Steps(tuple(ranges))


@given(steps())
def test_steps_read_their_own_text_back(value: Steps) -> None:
    """`Steps.parse` is the inverse of `str`, for no step as well."""
    assert Steps.parse(str(value)) == value


@given(st.lists(NUMBERS))
def test_a_list_of_steps_holds_exactly_its_numbers(numbers: list[int]) -> None:
    """What is listed is in, its neighbours are not."""
    value = Steps.parse(numbers)
    assert all(number in value for number in numbers)
    assert all((n + 1 in value) == (n + 1 in numbers) for n in numbers)
    assert value.last == max(numbers, default=-1)


@given(steps(end=60))
def test_the_first_step_is_the_smallest_member(value: Steps) -> None:
    """And None where there is none, however far apart the ranges are."""
    assert value.first == next((step for step in range(61) if step in value), None)
    assert Steps.parse("999999999999999999,7").first == 7


@given(st.one_of(st.text(max_size=20), st.integers(), st.floats(), st.lists(st.integers())))
def test_anything_is_steps_or_refused(value: object) -> None:
    """Nothing raises anything but `FaultError`."""
    try:
        Steps.parse(value)  # type: ignore[arg-type]
    except FaultError:
        return


@pytest.mark.parametrize(
    ("value", "first"),
    [
        (0, [0]),
        ("4", [4]),
        ([4, 2], [2, 4]),
        ("2,5-7,10-", [2, 5, 6, 7, 10, 11]),
        ("0-100:10", [0, 10, 20, 30, 40, 50]),
        ("3-:5", [3, 8, 13, 18, 23, 28]),
        (" 1 , 3 - 4 ", [1, 3, 4]),
        ("5-5:3", [5]),
        ([], []),
        ("[]", []),
    ],
)
def test_forms_of_steps(value: str | int | list[int], first: list[int]) -> None:
    """Each form holds the steps that it says; ranges include both ends."""
    held = Steps.parse(value)
    assert [step for step in range(101) if step in held][: len(first) or 1] == first


@pytest.mark.parametrize(
    "value",
    [-1, True, None, 2.0, "", "a", "1,", "3-:0", "4:2", [True], ["1"], [-1], {}, b"12", 10**18],
)
def test_what_is_no_steps_is_refused(value: object) -> None:
    """A refusal shows the value and the forms that there are."""
    with pytest.raises(FaultError, match=r"cannot read .* as steps; expected a number from 0"):
        Steps.parse(value)  # type: ignore[arg-type]


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    """The range is named."""
    with pytest.raises(FaultError, match="the range '7-5' ends before it begins"):
        Steps.parse("2,7-5")


def test_steps_hold_whole_numbers_only() -> None:
    """Membership of what is no number is False, not an error."""
    assert "4" not in Steps.parse("4")
    assert Steps.parse("4-").last is None
    assert Steps.parse(Steps.parse(3)) == Steps.parse("3")


@pytest.mark.parametrize(
    ("steps", "noun", "expected"),
    [
        ("0", "step", "step 0"),
        ("5-7", "step", "steps 5-7"),
        ("2,5-7,10-", "step", "steps 2,5-7,10-"),
        ("0-", "step", "every step"),
        ("0-100:10", "step", "steps 0-100:10"),
        ("[]", "step", "steps []"),
        ("0,2", "micro batch", "micro batches 0,2"),
    ],
)
def test_steps_in_words_are_one_or_several(steps: str, noun: str, expected: str) -> None:
    """The noun agrees with how many numbers the text has."""
    assert Steps.parse(steps).in_words(noun) == expected
