"""Tables are DataFrames of pandas, which is loaded in one place and may be missing."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fi_notebook as fi
from fi_notebook.campaign.results import Results
from fi_notebook.core import frames
from fi_notebook.session.session import Session
from fi_notebook.watching import watching
from tests import models

PACKAGE = Path(fi.__file__).parent


def test_pandas_is_loaded_where_it_is_asked_for() -> None:
    """It is the package itself."""
    table = frames.pandas().DataFrame({"site": ["relu*1:0"]})
    assert table["site"].tolist() == ["relu*1:0"]


def test_a_table_without_pandas_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the five kinds of table, and not with Python's own words."""
    made = models.mlp(seed=1)
    session = Session(made.step, model=made.model, optimizer=made.optimizer)
    session.arm("relu*1:0", "zero")
    run = session.replay()
    results = Results(())
    monkeypatch.setitem(sys.modules, "pandas", None)
    with watching.Watching(made.model, "relu*1:0") as watch:
        tables: list[Any] = [
            run.comparison.to_pandas,
            run.comparison.golden.to_pandas,
            watch.to_pandas,
        ]
        tables += [results.to_pandas, results.rates_to_pandas]
        for table in tables:
            with pytest.raises(ModuleNotFoundError, match="install it with: pip install pandas"):
                table()


def _loaded(tree: ast.AST, *, typed: bool = False) -> Iterator[str]:
    """The modules that a file imports when it runs, not for its types alone."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Import) and not typed:
            yield from (alias.name for alias in child.names)
        if isinstance(child, ast.ImportFrom) and not typed:
            yield child.module or ""
        types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        yield from _loaded(child, typed=typed or types)


def test_nothing_else_imports_pandas() -> None:
    """So that no table fails with a bare message where it is missing."""
    paths = list(PACKAGE.rglob("*.py"))
    assert PACKAGE / "core" / "frames.py" in paths
    for path in paths:
        loaded = _loaded(ast.parse(path.read_text(encoding="utf-8")))
        assert not [name for name in loaded if name.partition(".")[0] == "pandas"], path
