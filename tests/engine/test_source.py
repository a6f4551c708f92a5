"""Which frames of a stack are a person's own."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import hypothesis
import pytest

from fi_notebook.engine.source import SourceStacks

SITE_PACKAGES = Path(sysconfig.get_paths()["purelib"])


def lines_of(file: str) -> list[str]:
    """The files of the stack of a call that a function of a file makes."""
    sources = SourceStacks(name=lambda _file: None)
    names: dict[str, object] = {"sources": sources}
    exec(compile("def call(): return sources.capture(1)\nstack = call()", file, "exec"), names)
    stack = names["stack"]
    assert isinstance(stack, int)
    return [frame.file for frame in sources.frames(stack)]


@pytest.mark.parametrize("folder", ["coverage", "hypothesis", "pytest", "tornado", "IPython"])
def test_a_folder_named_as_a_tool_is_a_persons_own(folder: str) -> None:
    """Only the installed package is left out, not what happens to have its name."""
    for file in (f"/home/me/{folder}/train.py", f"/home/me/work/{folder}_runs/train.py"):
        assert file in lines_of(file)


@pytest.mark.parametrize(
    "file",
    [
        str(Path(hypothesis.__file__).with_name("core.py")),
        str(Path(pytest.__file__).with_name("assertion.py")),
        str(SITE_PACKAGES / "pytest_timeout.py"),
    ],
)
def test_an_installed_tool_is_left_out(file: str) -> None:
    """Of packages and of modules of one file."""
    assert file not in lines_of(file)


def test_an_installed_package_of_another_kind_is_kept() -> None:
    """A training library calls the model as a person would."""
    file = str(SITE_PACKAGES / "hypothesis_training" / "loop.py")
    assert file in lines_of(file)
