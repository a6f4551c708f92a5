"""The tool that takes pictures reads its command line before it makes anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools import screens


def test_help_makes_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--help` says what there is, and a state that there is not is an error."""
    monkeypatch.chdir(tmp_path)
    for arguments, code in ((["--help"], 0), (["folder", "reslut"], 2)):
        with pytest.raises(SystemExit) as ended:
            screens.parsed(arguments)
        assert ended.value.code == code
    assert not list(tmp_path.iterdir())


def test_states_widths_and_a_theme_are_chosen() -> None:
    """All of them where nothing is said."""
    every = screens.parsed(["folder"])
    assert (every.states, every.width, every.theme) == ([], screens.WIDTHS, None)
    asked = screens.parsed(["folder", "ready", "--width", "400", "700", "--theme", "dark"])
    assert (asked.states, asked.width, asked.theme) == (["ready"], [400, 700], "dark")
