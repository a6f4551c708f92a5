"""The package is layered, lazy, importable, documented and within the house numbers."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fi_notebook"
FILES = sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))

_BELOW_SESSION = {"core", "faults", "analysis", "report", "assets", "engine", "config"}
_BELOW_SESSION |= {"injector", "watching"}
_BELOW_UI = _BELOW_SESSION | {"session", "campaign"}

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "assets": set(),
    "core": set(),
    "faults": {"core"},
    "analysis": {"core"},
    "report": {"core", "analysis", "assets"},
    "engine": {"core", "faults"},
    "config": {"core", "faults"},
    "injector": {"core", "faults", "engine", "config"},
    "watching": {"core", "analysis", "report", "engine"},
    "session": _BELOW_SESSION,
    "campaign": _BELOW_SESSION | {"session"},
    "ui": _BELOW_UI,
    "demo": set(),
    "cli": _BELOW_UI | {"ui", "demo"},
    "magics": _BELOW_UI | {"ui"},
    "__main__": {"cli"},
    "__init__": _BELOW_UI | {"ui", "magics"},
}
"""Rooms that each room may import; everybody may import errors and itself."""

THIRD_PARTY: dict[str, set[str]] = {
    "errors": {"numpy"},
    "assets": set(),
    "core": {"numpy"},
    "faults": {"numpy", "torch"},
    "analysis": {"numpy"},
    "report": {"numpy", "plotly"},
    "engine": {"numpy", "torch", "safetensors"},
    "config": {"numpy", "pydantic"},
    "injector": {"numpy", "torch"},
    "watching": {"numpy", "torch"},
    "session": {"numpy", "torch"},
    "campaign": {"numpy"},
    "ui": {"numpy", "torch", "anywidget", "traitlets", "ipywidgets"},
    "demo": {"torch", "sklearn"},
    "cli": {"numpy", "torch", "pydantic", "plotly", "anywidget", "safetensors"},
    "magics": {"numpy", "torch", "IPython"},
    "__main__": set(),
    "__init__": set(),
}
"""Third-party packages that each room may import."""

LAZY_UPWARD = {
    ("core/fault.py", "config"),  # FaultPlan.load and save
    ("session/session.py", "ui"),  # Session.explore
    ("campaign/counted.py", "ui"),  # Campaign.show
}
"""The imports that reach upward; each stands inside a function."""

ANYWHERE_LAZY = {"pandas"}
"""Third-party packages that every room may import, inside functions only."""

_STANDARD = sys.stdlib_module_names


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _room(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Dotted names that a file imports, and whether inside a function or for types only."""
    yield from _imports_below(_tree(path), lazy=False)


def _imports_below(node: ast.AST, *, lazy: bool) -> Iterator[tuple[str, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, lazy) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"relative import in line {child.lineno}"
            module = child.module or ""
            names = [a.name for a in child.names] if module == "fi_notebook" else [""]
            yield from ((f"{module}.{name}".rstrip("."), lazy) for name in names)
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) or _for_types(child)
            yield from _imports_below(child, lazy=lazy or inside)


def _for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_a_room_imports_only_from_rooms_below_it(path: Path) -> None:
    """Every import of our own stays in the table, but for the named lazy ones."""
    room = _room(path)
    allowed = MAY_IMPORT[room] | {room, "errors"}
    for name, lazy in _imports(path):
        if not name.startswith("fi_notebook"):
            continue
        target = [*name.split("."), ""][1]
        if lazy and (_name(path), target) in LAZY_UPWARD:
            continue
        if target in ("", "__version__"):  # the lazy root: only the faces may use it
            assert room in ("cli", "magics", "__init__"), f"{room} imports the package root"
            continue
        assert target in allowed, f"{_name(path)} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_a_room_imports_only_its_third_party_packages(path: Path) -> None:
    """Keep torch out of core and analysis, plotly in report, pandas inside functions."""
    for name, lazy in _imports(path):
        package = name.partition(".")[0]
        if package == "fi_notebook" or package in _STANDARD:
            continue
        if lazy and package in ANYWHERE_LAZY:
            continue
        assert package in THIRD_PARTY[_room(path)], f"{_name(path)} imports {name}"


def test_plotly_is_used_in_figures_only() -> None:
    """Within report, only the figures import plotly; export takes it from them."""
    users = [_name(p) for p in FILES for name, _ in _imports(p) if name.startswith("plotly")]
    assert all(user.startswith(("report/figures", "report/export")) for user in users), users


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_every_module_imports(path: Path) -> None:
    """Every module can be imported."""
    dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    importlib.import_module(dotted.removesuffix(".__init__"))


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_records_that_hold_arrays_are_themselves_alone(path: Path) -> None:
    """They are not compared field by field: of arrays, that has no truth value."""
    dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    module = importlib.import_module(dotted)
    for record in vars(module).values():
        if not isinstance(record, type) or record.__module__ != dotted:
            continue
        if dataclasses.is_dataclass(record) and "__eq__" in vars(record):
            types = [str(field.type) for field in dataclasses.fields(record) if field.compare]
            held = [each for each in types if not each.startswith("Callable")]
            assert not re.findall(r"\b(?:ndarray|Tensor)\b", " ".join(held)), record


def test_importing_the_package_loads_nothing_heavy() -> None:
    """The root is lazy: no torch, plotly, anywidget, IPython or pandas is loaded by it."""
    heavy = {"torch", "plotly", "anywidget", "ipywidgets", "IPython", "pandas", "pydantic"}
    code = f"import sys, fi_notebook; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def _documented(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Public classes, functions and methods of a module."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not node.name.startswith("_"):
                yield node
                if isinstance(node, ast.ClassDef):
                    yield from _documented(node)
        elif isinstance(node, ast.If | ast.Try):
            yield from _documented(node)


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_everything_public_has_a_docstring(path: Path) -> None:
    """Modules, public classes, functions and methods say what they are."""
    tree = _tree(path)
    assert ast.get_docstring(tree), f"{_name(path)} has no docstring"
    silent = [n.name for n in _documented(tree) if not ast.get_docstring(n) and not _is_stub(n)]
    assert not silent, f"{_name(path)}: no docstring: {silent}"


def _is_stub(node: ast.AST) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any("overload" in ast.unparse(d) or "setter" in ast.unparse(d) for d in decorators)


@pytest.mark.parametrize("path", TESTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_every_test_has_a_docstring(path: Path) -> None:
    """Every test says in a sentence what must hold."""
    functions = [n for n in ast.walk(_tree(path)) if isinstance(n, ast.FunctionDef)]
    tests = [node for node in functions if node.name.startswith("test_")]
    assert not [node.name for node in tests if not ast.get_docstring(node)]


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    """Lines of a function or class without its docstring."""
    total = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node) and len(node.body) > 1:
        first = node.body[0]
        total -= (first.end_lineno or first.lineno) - first.lineno + 1
    return total


def _all(kind: type[ast.AST]) -> list[tuple[str, int]]:
    return [
        (f"{_name(path)}:{node.name}", _lines(node))  # type: ignore[attr-defined,arg-type]
        for path in FILES
        for node in ast.walk(_tree(path))
        if isinstance(node, kind)
    ]


def test_functions_are_short() -> None:
    """Median about 10 lines, nine in ten within 40, none above 60, docstrings aside."""
    sizes = _all(ast.FunctionDef)
    lines = sorted(n for _, n in sizes)
    assert not [(name, n) for name, n in sizes if n > 60]
    assert statistics.median(lines) <= 12
    assert lines[int(len(lines) * 0.9)] <= 40


def test_classes_and_files_are_short() -> None:
    """No class has 250 lines or more, no file 400."""
    assert not [(name, n) for name, n in _all(ast.ClassDef) if n >= 250]
    sizes = [(_name(path), len(path.read_text("utf-8").splitlines())) for path in FILES]
    assert not [(name, n) for name, n in sizes if n > 400]


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_no_habits_that_hide_things(path: Path) -> None:
    """No star import, bare except, global, eval, exec or pickle; prints in two places only."""
    for node in ast.walk(_tree(path)):
        where = f"{_name(path)}:{getattr(node, 'lineno', 0)}"
        assert not isinstance(node, ast.Global), f"{where}: global"
        if isinstance(node, ast.ImportFrom):
            assert all(alias.name != "*" for alias in node.names), f"{where}: star import"
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"{where}: bare except"
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in ("eval", "exec", "torch.load"), f"{where}: {called}"
            allowed = _room(path) == "cli" or _name(path) == "report/text.py"
            assert called != "print" or allowed, f"{where}: print"
    assert not any(name.split(".")[0] in ("pickle", "shelve") for name, _ in _imports(path))


def test_the_public_names_exist() -> None:
    """Everything in __all__ of the root can be had, and its help says something."""
    package = importlib.import_module("fi_notebook")
    for name in package.__all__:
        assert inspect.getdoc(getattr(package, name)), name
