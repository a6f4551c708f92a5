"""Counts in sentences."""

from __future__ import annotations

import pytest

from fi_notebook.core.words import agreed, among, counted, too_few


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (counted(0, "call"), "0 calls"),
        (counted(1, "call"), "1 call"),
        (counted(2000, "call"), "2,000 calls"),
        (counted(1, "call", 5), "    1 call"),
        (counted(2, "process"), "2 processes"),
        (among(1, 6, "element"), "1 of 6 elements"),
        (among(1, 1, "element"), "1 of 1 element"),
        (among(1000, 2000, "new output"), "1,000 of 2,000 new outputs"),
        (agreed(1, "differ"), "differs"),
        (agreed(0, "differ"), "differ"),
        (agreed(1, "were"), "was"),
        (agreed(3, "are"), "are"),
    ],
)
def test_a_count_agrees_with_its_words(text: str, expected: str) -> None:
    """One is singular; none and many are plural; thousands have a comma."""
    assert text == expected


@pytest.mark.parametrize(("made", "words"), [(0, "0 were"), (1, "1 was"), (3, "3 were")])
def test_a_call_that_was_not_made_is_told_by_how_many_were(made: int, words: str) -> None:
    """One was, several were."""
    assert too_few(7, "relu", made) == f"asked for call 7 of relu, {words} made"
