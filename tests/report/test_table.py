from __future__ import annotations

from fi_notebook.report.names import LONGEST_TEXT, bounded, cleaned, shortened
from fi_notebook.report.table import indented, table


def test_columns_stand_under_each_other() -> None:
    """Numbers to the right, no space at the end of a line."""
    text = table(["site", "error"], [["relu*1:0", "0.01"], ["mm*1:0", "1.5"]], right={1})
    assert text == "site      error\nrelu*1:0   0.01\nmm*1:0      1.5"


def test_wide_characters_take_two_columns() -> None:
    """An emoji is as wide as two letters."""
    assert table(["", ""], [["🔥", "x"], ["ab", "y"]]) == "🔥  x\nab  y"


def test_nothing_makes_nothing() -> None:
    """No header, no rows."""
    assert table(["", ""], []) == ""
    assert indented("a\n\nb") == "  a\n\n  b"


def test_names_are_one_line_and_short() -> None:
    """Control characters, line breaks and direction overrides are gone."""
    assert cleaned("a\x1b[31m\nb\u202ec") == "a [31m b c"
    assert shortened("a" * 50 + "b" * 50, 9) == "aaaa…bbbb"
    assert len(shortened("x" * 100_000)) == 48


def test_a_very_long_name_is_shown_by_its_ends() -> None:
    """100,000 characters become a few hundred."""
    text = bounded("a" * 100_000)
    assert len(text) < LONGEST_TEXT + 40
    assert "100,000 characters" in text
