"""IPython: ``%%fi_explore`` makes a cell the step, ``%fi_plan`` shows what is armed.

    %load_ext fi_notebook

    %%fi_explore model=net optimizer=opt
    loss = criterion(net(x), y)
    loss.backward()
    opt.step()
    opt.zero_grad()
    loss

The cell runs once as the golden run, everything is put back as it was, and the explorer
opens. Names that the cell binds are put back after this and every later run. The session
stays in ``fi_session``, or in ``NAME`` with ``as=NAME``; the value of the cell's last
line is shown as always. Run again, the cell takes over what was armed and still fits.

How it works: an input transformer makes a call of line 1 and leaves the other lines as
they are, so that file name, line numbers and traceback are the cell's own; an AST
transformer takes the other lines away from IPython and hands them to the call.

Limits: what the cell changes inside objects (a list that grows) is not put back, unless
it is given as ``state=``; ``await`` cannot stand in a step; where another magic stands
above (``%%time``), IPython keeps no lines below it, and every call stands at that magic's.
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from fi_notebook.core.fault import FaultPlan
from fi_notebook.core.words import agreed, among
from fi_notebook.errors import FiError, did_you_mean
from fi_notebook.session import Session

__all__ = ["load_ipython_extension", "unload_ipython_extension"]

MAGIC = "%%fi_explore"
CALL = "fi_explore"
SESSION_NAME = "fi_session"
_OPTIONS = ("model", "optimizer", "state", "memory", "as")
_USAGE = f"write: {MAGIC} model=net optimizer=opt"
_KEY = re.compile(r"(?:^|(?<=\s))([A-Za-z_]\w*)\s*=(?!=)")


def load_ipython_extension(shell: Any) -> None:
    """Add the magics to an IPython shell; a second time changes nothing.

    Args:
        shell: IPython's shell.
    """
    if getattr(shell, "fi_notebook", None) is None:
        shell.fi_notebook = Extension(shell)
        shell.fi_notebook.load()


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics out of an IPython shell; sessions stay what they are.

    Args:
        shell: IPython's shell.
    """
    extension = getattr(shell, "fi_notebook", None)
    if extension is not None:
        extension.unload()
        del shell.fi_notebook


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that was run.

    Attributes:
        number: Its execution count.
        text: Its text as it was written.
        id: The front end's id of it, or None.
    """

    number: int
    text: str
    id: str | None

    def is_same(self, other: Cell) -> bool:
        """Whether it is the same cell, run another time: by its id, else by its text."""
        if self.id is None or other.id is None:
            return self.text == other.text
        return self.id == other.id


class Extension(ast.NodeTransformer):
    """What the extension keeps for one shell; also its AST transformer.

    Attributes:
        cells: The last cell that was run under each file name.
        session: The session of the last cell that was explored, or None.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        """Change nothing yet; see `load`."""
        self.shell: Any = shell  # its attributes are configured at run time
        self.cells: dict[str, Cell] = {}
        self.session: Session | None = None
        self._running: Cell | None = None
        self._made_by: WeakKeyDictionary[Session, Cell] = WeakKeyDictionary()
        self._bodies: dict[int, list[ast.stmt]] = {}
        self._numbers = itertools.count(1)

    def load(self) -> None:
        """Add transformers, events and magics to the shell."""
        shell = self.shell
        shell.input_transformers_cleanup.append(call_of_first_line)
        shell.ast_transformers.append(self)
        shell.events.register("pre_run_cell", self.begin)
        shell.events.register("post_run_cell", self.remember)
        shell.register_magic_function(self.fi_explore_magic, "cell", CALL)
        shell.register_magic_function(self.fi_plan, "line", "fi_plan")
        shell.fi_explore = self.fi_explore

    def unload(self) -> None:
        """Take out what `load` added."""
        shell = self.shell
        shell.input_transformers_cleanup.remove(call_of_first_line)
        if self in shell.ast_transformers:
            shell.ast_transformers.remove(self)
        shell.events.unregister("pre_run_cell", self.begin)
        shell.events.unregister("post_run_cell", self.remember)
        shell.magics_manager.magics["cell"].pop(CALL, None)
        shell.magics_manager.magics["line"].pop("fi_plan", None)
        del shell.fi_explore

    def visit(self, node: ast.AST) -> ast.AST:
        """Take the step out of a cell that is explored, and leave the call of line 1."""
        call = _explore_call(node) if isinstance(node, ast.Module) else None
        if isinstance(node, ast.Module) and call is not None:
            number = next(self._numbers)
            self._bodies = {number: node.body[1:]}
            call.keywords.append(ast.keyword("cell_body", ast.Constant(number)))
            node.body = node.body[:1]
            ast.fix_missing_locations(node)
        return node

    def begin(self, info: Any) -> None:
        """Note which cell is run."""
        cell_id = getattr(info, "cell_id", None)
        self._running = Cell(self.shell.execution_count, str(info.raw_cell), cell_id)

    def remember(self, result: Any) -> None:
        """Keep the number and text of a cell that was run, by its file name."""
        info, number = result.info, result.execution_count
        if number is None or not isinstance(info.raw_cell, str):
            return
        transformed = getattr(info, "transformed_cell", None) or info.raw_cell
        file = self.shell.compile.get_code_name(info.raw_cell, transformed, number)
        self.cells[file] = Cell(number, info.raw_cell, getattr(info, "cell_id", None))

    def cell_name(self, file: str) -> str | None:
        """Name of the cell that a file name stands for, such as ``In [5]``."""
        shown = self.shell.compile.format_code_name(file)  # also knows the cell that runs
        if shown is not None:
            return str(shown[1]).replace("In[", "In [")
        cell = self.cells.get(file)
        return None if cell is None else f"In [{cell.number}]"

    def fi_explore(self, *words: str, cell_body: int = 0, **options: Any) -> Any:
        """Trace the cell as one training step, put everything back, open the explorer.

        Args:
            *words: What stood in line 1 without a key; refused.
            cell_body: Number of the step that was taken out of the cell.
            **options: ``model``, ``optimizer``, ``state``, ``memory``, ``as_``.

        Returns:
            The value of the cell's last line in the golden run.
        """
        __tracebackhide__ = True  # the traceback of a failing step is the cell's own
        _check_options(words, options)
        body = self._bodies.pop(cell_body, [])
        if not body:
            raise UsageError(f"the cell has no step below {MAGIC}; write the step there")
        file = sys._getframe(1).f_code.co_filename  # noqa: SLF001  # the cell's own
        step = CellStep(self.shell, body, file)
        name = options.pop("as_", SESSION_NAME)
        try:
            session = Session(step, cell_name=self.cell_name, **options)
        except (FiError, TypeError, ValueError) as error:
            raise UsageError(str(error)) from error
        value = _traced(session, step)
        self._take_over(session, self.shell.user_ns.get(name))
        self.session = self.shell.user_ns[name] = session
        display(session.explore())
        return value

    def _take_over(self, session: Session, before: Any) -> None:
        """Arm what was armed before the cell was run again, and say what was."""
        known = self._made_by.get(before) if isinstance(before, Session) else None
        if self._running is not None:
            self._made_by[session] = self._running
            if known is not None and known.is_same(self._running) and len(before.plan):
                plan, unfit = session.take_over(before.plan)
                armed = f"{among(len(plan), len(before.plan), 'fault')} {agreed(len(plan), 'are')}"
                said = (f"{armed} armed as before the cell was run again", *unfit)
                display({"text/plain": "\n  ".join(said)}, raw=True)

    def fi_explore_magic(self, line: str, cell: str) -> None:
        """Explore a training step: the cell is the step.

        Usage: ``%%fi_explore model=net optimizer=opt [state=[…]] [memory=…] [as=NAME]``

        The cell runs once as the golden run, everything is put back as it was, and the
        explorer opens. Values are Python expressions: ``optimizer=[opt1, opt2]``. Run again,
        it arms what was armed before and still fits.

        - ``model``: the model that is trained.
        - ``optimizer``: its optimizer, or a list of several.
        - ``state``: schedulers, a GradScaler, generators: what else a step changes.
        - ``memory``: bytes for the outputs that are kept, or ``"auto"``.
        - ``as``: name of the session afterwards; ``fi_session`` if left out.
        """
        self.shell.run_cell(f"{MAGIC} {line}\n{cell}")

    def fi_plan(self, line: str) -> FaultPlan | None:
        """Show, load, save or clear the faults that are armed in the last session.

        Usage: ``%fi_plan``, ``%fi_plan load injector.json``, ``%fi_plan save
        injector.json``, ``%fi_plan clear``. Gives the plan back.
        """
        if self.session is None:
            raise UsageError(f"there is no session yet; {_USAGE}")
        word, _, path = line.strip().partition(" ")
        if word not in _PLAN_WORDS:
            raise UsageError(f"%fi_plan cannot {word!r}{did_you_mean(word, _PLAN_WORDS)}")
        try:
            return _PLAN_WORDS[word](self.session, path.strip().strip("\"'"))
        except (FiError, OSError) as error:
            raise UsageError(str(error)) from error


class CellStep:
    """The lines of a cell below the magic, as a step that can be run again.

    Args:
        shell: The shell whose names the step reads and binds.
        body: The statements.
        file: File name of the cell, for tracebacks and source lines.
    """

    def __init__(self, shell: InteractiveShell, body: Sequence[ast.stmt], file: str) -> None:
        """Compile the statements; a last expression gives the step its value."""
        compiler: Any = shell.compile  # with the flags of the shell; also takes trees
        self._names: dict[str, Any] = shell.user_ns
        *most, last = body
        self._codes: list[CodeType] = []
        if not isinstance(last, ast.Expr):
            most.append(last)
        if most:
            self._codes.append(compiler(ast.Module(most, []), file, "exec"))
        if isinstance(last, ast.Expr):
            self._codes.append(compiler(ast.Expression(last.value), file, "eval"))
        self.listener: Callable[[Any], None] | None = None

    def __call__(self) -> Any:
        """Run the cell, and put back every name that it bound."""
        __tracebackhide__ = True
        value = None
        with _names_kept(self._names):
            for code in self._codes:  # a module's code, called, runs in its globals
                value = FunctionType(code, self._names)()
        if self.listener is not None:
            self.listener(value)
        return value


def _traced(session: Session, step: CellStep) -> Any:
    """Make the golden run, and give the value that the step had in it."""
    __tracebackhide__ = True
    values: list[Any] = []
    step.listener = values.append
    try:
        session.trace()
    except FiError as error:
        raise UsageError(str(error)) from error
    finally:
        step.listener = None
    return values[0]


@contextmanager
def _names_kept(names: dict[str, Any]) -> Iterator[None]:
    """Put back names that were bound, bound anew or deleted in the block."""
    before = dict(names)
    try:
        yield
    finally:
        for name in names.keys() - before.keys():
            del names[name]
        for name, value in before.items():
            if name not in names or names[name] is not value:
                names[name] = value


def call_of_first_line(lines: list[str]) -> list[str]:
    """Input transformer: ``%%fi_explore model=net`` becomes a call, in one line."""
    if not lines or not re.match(rf"{MAGIC}(\s(?!.*\?\s*$)|$)", lines[0]):
        return lines
    arguments = ", ".join(_arguments(lines[0][len(MAGIC) :].strip()))
    written = lines[0].strip()  # kept as a comment: the explorer shows what the person wrote
    return [f"get_ipython().{CALL}({arguments})  # {written}\n", *lines[1:]]


def _arguments(line: str) -> Iterator[str]:
    """``model=net as=s`` as arguments of a call: ``model=(net)``, ``as_='s'``."""
    keys = [key for key in _KEY.finditer(line) if _depth(line[: key.start()]) == 0]
    words = line[: keys[0].start()] if keys else line
    if words.strip():
        yield repr(words.strip())
    for key, following in zip(keys, [*keys[1:], None]):
        end = len(line) if following is None else following.start()
        value = line[key.end() : end].strip().rstrip(",")
        yield f"as_={value!r}" if key[1] == "as" else f"{key[1]}=({value})"


def _depth(text: str) -> int:
    """How many brackets are open at the end of the text."""
    return sum(map(text.count, "([{")) - sum(map(text.count, ")]}"))


def _explore_call(module: ast.Module) -> ast.Call | None:
    """The call that `call_of_first_line` wrote, if it is the first statement."""
    first = module.body[0] if module.body else None
    call = first.value if isinstance(first, ast.Expr) else None
    if isinstance(call, ast.Call) and ast.unparse(call.func) == f"get_ipython().{CALL}":
        return call
    return None


def _check_options(words: Sequence[str], options: dict[str, Any]) -> None:
    if words:
        raise UsageError(f"cannot read {' '.join(words)!r}; {_USAGE}")
    for key in options:
        if key.removesuffix("_") not in _OPTIONS:
            raise UsageError(f"{MAGIC} has no {key}={did_you_mean(key, _OPTIONS)}")
    if "model" not in options:
        raise UsageError(f"model= is missing; {_USAGE}")
    if not str(options.get("as_", SESSION_NAME)).isidentifier():
        raise UsageError(f"as={options['as_']} is no name; write as={SESSION_NAME}")


def _show(session: Session, _path: str) -> FaultPlan:
    return session.plan


def _load(session: Session, path: str) -> FaultPlan:
    return session.load_plan(path or "injector.json")


def _save(session: Session, path: str) -> FaultPlan:
    session.plan.save(Path(path or "injector.json"))
    return session.plan


def _clear(session: Session, _path: str) -> FaultPlan:
    session.disarm()
    return session.plan


_PLAN_WORDS: dict[str, Callable[[Session, str], FaultPlan]] = {
    "": _show,
    "show": _show,
    "load": _load,
    "save": _save,
    "clear": _clear,
}
