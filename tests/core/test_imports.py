from __future__ import annotations

import sys
from pathlib import Path

from fi_notebook.core.imports import importing_from


def test_a_folder_is_looked_in_first_and_only_meanwhile(tmp_path: Path) -> None:
    """Whatever is done to the list inside is undone."""
    before = list(sys.path)
    with importing_from(tmp_path):
        assert sys.path == [str(tmp_path), *before]
        sys.path.append("elsewhere")
    assert sys.path == before
