"""Which source lines a call came from.

Walks the Python frames and keeps those that are a person's own: not torch, not this
package, not the standard library or the notebook's machinery. The verdict is cached
for each code object and whole stacks are interned, so that a call costs a walk and
one dictionary look-up.

A step without a line of its own, as one that stands in a cell under ``%%time``, has that of the
outermost cell which runs it.

Limits: a call that C++ makes in another thread (backward on a GPU) has no frames.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

from fi_notebook.core.site import Frame
from fi_notebook.errors import OURS

__all__ = ["SourceStacks", "notebook_name"]

_KEEP, _SKIP, _STOP, _GRADIENT, _ENGINE, _RECOMPUTE = range(6)

_TORCH = str(Path(torch.__file__).parent) + os.sep
_DEMO = str(Path(__file__).parents[1] / "demo.py")
"""The demonstration stands for a person's own script."""
_CELL = re.compile(r"In \[(\d+)\]")
_EMPTY_LINES = re.compile(r"\A(\s*\n)+")
_TERMINAL_CELL = "<ipython-input-"
"""How plain IPython names its cells; in Jupyter they are files."""
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
_MACHINERY = (
    *("IPython", "ipykernel", "traitlets", "tornado", "jupyter_client", "nbclient", "zmq"),
    *("_pytest", "pytest", "pluggy", "pytest_timeout", "debugpy", "coverage", "hypothesis"),
)
"""Packages that call a person's code; what else has such a name is a person's own."""
_MARKED = {
    (str(Path("autograd", "__init__.py")), "_make_grads"): _GRADIENT,
    (str(Path("autograd", "graph.py")), "_engine_run_backward"): _ENGINE,
    (str(Path("utils", "checkpoint.py")), "recompute_fn"): _RECOMPUTE,
    (str(Path("utils", "checkpoint.py")), "backward"): _RECOMPUTE,  # of a reentrant one
}
_STEP_RUNNER = "run_user_step"
"""Name of the function of `engine.replay` beneath which a step's own frames begin."""


def _installed(name: str) -> tuple[str, ...]:
    """Where the files of an installed package or module lie; nothing is imported."""
    try:
        spec = find_spec(name)
    except ValueError:  # it is a module that somebody made by hand
        return ()
    if spec is None or spec.origin is None:  # a folder without __init__.py is no such package
        return ()
    folders = spec.submodule_search_locations
    return (spec.origin,) if folders is None else tuple(f"{folder}{os.sep}" for folder in folders)


_INSTALLED = tuple(place for name in _MACHINERY for place in _installed(name))


class SourceStacks:
    """Interned source stacks of a run.

    Args:
        name: Turns a frame's file name into the name of its notebook cell; None
            where it is an ordinary file.
    """

    def __init__(self, name: Callable[[str], str | None] | None = None) -> None:
        """Start with the empty stack alone, as stack 0."""
        self._name = notebook_name if name is None else name
        self._verdicts: dict[int, int] = {}
        self._alive: list[CodeType] = []
        self._ids: dict[tuple[int, ...], int] = {(): 0}
        self._codes: list[tuple[tuple[CodeType, int], ...]] = [()]
        self._names: dict[str, str] = {}
        self._frames: dict[int, tuple[Frame, ...]] = {0: ()}
        self._cells: dict[str, bool] = {}
        self.asking_for_gradients = False
        self.recomputing = False
        self.recompute_lines = 0

    def __len__(self) -> int:
        """How many different stacks there are."""
        return len(self._codes)

    def capture(self, depth: int = 2) -> int:
        """Number of the stack that the caller's caller runs in.

        Sets `asking_for_gradients` (torch makes the first gradient of a backward),
        `recomputing` (a checkpoint runs its forward again) and `recompute_lines`
        (how many of the stack's lines are of what it runs) for this call.
        """
        frame: FrameType | None = sys._getframe(depth)
        innermost = frame
        self.asking_for_gradients = self.recomputing = in_engine = False
        key: list[int] = []
        verdicts = self._verdicts
        while frame is not None:
            code = frame.f_code
            verdict = verdicts.get(id(code))  # hashing the code itself would read all of it
            if verdict is None:
                verdict = self._judged(code)
            if verdict == _SKIP:
                pass
            elif verdict == _KEEP:
                key += (id(code), frame.f_lasti)
            elif verdict == _STOP:
                cell = None if key else self._outermost_cell(frame)
                if cell is not None:
                    innermost, key = cell, [id(cell.f_code), cell.f_lasti]
                break
            elif verdict == _GRADIENT:
                self.asking_for_gradients = True
            elif verdict == _ENGINE:
                in_engine = True  # what is further out asked for this backward
            elif verdict == _RECOMPUTE and not in_engine:
                self.recomputing, self.recompute_lines = True, len(key) // 2
            frame = frame.f_back
        known = self._ids.get(tuple(key))
        return self._intern(tuple(key), innermost) if known is None else known

    def _outermost_cell(self, frame: FrameType | None) -> FrameType | None:
        """The outermost frame of a notebook's cell, from a frame outwards."""
        found = None
        while frame is not None:
            file = frame.f_code.co_filename
            if file not in self._cells:
                self._cells[file] = self._name(file) is not None
            if self._cells[file] and self._judged(frame.f_code) == _KEEP:
                found = frame
            frame = frame.f_back
        return found

    def _judged(self, code: CodeType) -> int:
        verdict = self._verdicts.get(id(code))  # hashing the code itself would read all of it
        if verdict is not None:
            return verdict
        self._alive.append(code)  # so that no other code is given its id
        verdict = self._verdicts[id(code)] = _judge(code)
        return verdict

    def _intern(self, key: tuple[int, ...], frame: FrameType | None) -> int:
        kept: list[tuple[CodeType, int]] = []
        while frame is not None and 2 * len(kept) < len(key):
            if self._verdicts[id(frame.f_code)] == _KEEP:
                kept.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        number = self._ids[key] = len(self._codes)
        self._codes.append(tuple(kept))
        return number

    def frames(self, number: int) -> tuple[Frame, ...]:
        """The source lines of a stack, innermost first."""
        known = self._frames.get(number)
        if known is None:
            known = tuple(
                Frame(self._named(code.co_filename), line, code.co_name)
                for code, line in self._codes[number]
            )
            self._frames[number] = known
        return known

    def agree(self, one: int, other: int, lines: int) -> bool:
        """Whether two stacks have the same innermost lines, this many of them."""
        return self._codes[one][:lines] == self._codes[other][:lines]

    def sources(self) -> dict[str, str]:
        """Text of every file or cell that a stack speaks of, by its name in frames."""
        texts = ((name, "".join(linecache.getlines(file))) for file, name in self._names.items())
        return {name: _as_written(name, text) for name, text in texts}

    def _named(self, file: str) -> str:
        if file not in self._names:
            self._names[file] = self._name(file) or file
        return self._names[file]


def notebook_name(file: str) -> str | None:
    """Name of the notebook cell that a file name stands for, such as ``In [5]``."""
    shell = _shell()
    if shell is None:
        return None
    named = shell.compile.format_code_name(file)
    return None if named is None else str(named[1]).replace("In[", "In [")


def _shell() -> Any:
    """IPython's shell; asked, never imported: a script has none."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def _as_written(name: str, text: str) -> str:
    """Text of a cell with its magics as they were typed, where the lines stay the same.

    IPython compiles ``get_ipython().run_line_magic(…)`` in place of a ``%magic``, and one such
    line in place of a cell under a ``%%magic``; what the person typed stands in its history.
    """
    cell, shell = _CELL.fullmatch(name), _shell()
    if cell is None or shell is None:
        return text
    typed = "".join(shell.history_manager.input_hist_raw[int(cell[1]) :][:1])
    if shell.transform_cell(typed).strip() != text.strip():
        return text
    shown = _EMPTY_LINES.sub("", typed)  # IPython leaves them out
    return shown if len(text.splitlines()) in (1, len(shown.splitlines())) else text


def _judge(code: CodeType) -> int:
    file = code.co_filename
    if file.startswith(_TORCH):
        return _MARKED.get((file[len(_TORCH) :], code.co_name), _SKIP)
    if file.startswith(OURS) and file != _DEMO:
        return _STOP if code.co_name == _STEP_RUNNER else _SKIP
    if file.startswith(_TERMINAL_CELL):
        return _KEEP
    if file.startswith("<") or _is_stdlib(file) or file.startswith(_INSTALLED):
        return _SKIP
    return _KEEP


def _is_stdlib(file: str) -> bool:
    return file.startswith(_STDLIB) and "site-packages" not in file
