from __future__ import annotations

from fi_notebook.report.names import LONGEST_TEXT, bounded, cleaned, shortened, told_apart
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


def test_names_of_a_set_are_told_apart() -> None:
    """What all begin with goes, the kind of a stored tensor stays; alike ones get more room."""
    layers = [f"grad:encoder_layers.{n}.hidden_layer.weight" for n in (3, 40)]
    assert told_apart(layers, 30) == [f"grad:…{n}.hidden_layer.weight" for n in (3, 40)]
    assert told_apart(["relu*2:0", *layers], 30)[0] == "relu*2:0"
    alike = ["a" * 20 + x + "b" * 20 for x in "xy"]  # the middle at 20: cut at 41 - 1 or more
    assert told_apart(alike, 30) == alike
    assert told_apart(["a" * 50, "a" * 50], 9) == ["aaaa…aaaa"] * 2
    assert told_apart([], 9) == []


def test_a_very_long_name_is_shown_by_its_ends() -> None:
    """100,000 characters become a few hundred."""
    text = bounded("a" * 100_000)
    assert len(text) < LONGEST_TEXT + 40
    assert "100,000 characters" in text
