from __future__ import annotations

from pathlib import Path

import pytest

from fi_notebook.core.files import append_whole, path_argument, written_whole


def test_a_file_is_replaced_when_it_is_whole(tmp_path: Path) -> None:
    """The new text stands there, and nothing else is left in the folder."""
    path = tmp_path / "plan.json"
    path.write_text("old")
    with written_whole(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_failed_half_way_stays_as_it_was(tmp_path: Path) -> None:
    """An error while writing leaves the old file and no rest."""
    path = tmp_path / "plan.json"
    path.write_text("old")

    def fail() -> None:
        with written_whole(path) as file:
            file.write(b"ne")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """The file that the link names is the one that is written."""
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)
    with written_whole(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_what_is_added_goes_to_the_end(tmp_path: Path) -> None:
    """A file is made at the first addition, and grows by each."""
    path = tmp_path / "lines"
    for text in (b"", b"one\n", b"two\n"):
        append_whole(path, text)
    assert path.read_bytes() == b"one\ntwo\n"


def test_errors_name_the_file_that_was_asked_for(tmp_path: Path) -> None:
    """Not the temporary one: a folder stands where the file would."""
    (tmp_path / "taken").mkdir()
    for write in (append_whole, _written):
        with pytest.raises(OSError, match=r"\[Errno \d+\] .*'.*/taken'"):
            write(tmp_path / "taken", b"text")
    assert [each.name for each in tmp_path.iterdir()] == ["taken"]


def _written(path: Path, data: bytes) -> None:
    with written_whole(path) as file:
        file.write(data)


def test_an_option_is_no_path(capsys: pytest.CaptureFixture[str]) -> None:
    """``--help`` shows help and makes no file of that name; nor does a path too many."""
    assert path_argument("Write.", ["a/b.md"]) == Path("a/b.md")
    for given in (["--help"], [], ["a", "b"], ["--theme"]):
        with pytest.raises(SystemExit):
            path_argument("Write the page.", given)
    assert "Write the page." in capsys.readouterr().out
