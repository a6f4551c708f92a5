"""Filters over modules and source lines, the same in Python, JSON and the widget.

    module  "layer"      the module and everything below
            "layer.*"    globs; "" is the root, which is the whole model
    code    "run.py[83]" any frame of the call's stack; also "run.py", "In [5][3]"

Wrapper prefixes (``module.`` of DDP, ``_orig_mod.`` of torch.compile and the like)
may be left out of a module filter and of the name of a parameter, and may stand in either where
the model has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from fi_notebook.core.site import ALL_PARAMETERS, LOSS_FUNCTION, OUTSIDE, PHASES, Frame
from fi_notebook.errors import SiteError, did_you_mean, nearest, short

__all__ = [
    "CodeFilter",
    "check_modules",
    "check_phases",
    "has_module",
    "is_glob",
    "module_hint",
    "module_matches",
    "name_matches",
    "unknown_hint",
    "unwrapped",
]

_WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
_NOT_MODULES = (LOSS_FUNCTION, OUTSIDE, ALL_PARAMETERS)
_CODE = re.compile(r"(?P<file>.+?)(?:\[(?P<line>\d+)\]|:(?P<colon>\d+))?")


def unwrapped(name: str) -> str:
    """The module path without the parts that wrappers add."""
    parts = [part for part in name.split(".") if part not in _WRAPPERS]
    return ".".join(parts[1:] if parts[:1] == ["module"] else parts)


def is_glob(pattern: str) -> bool:
    """Whether a name holds a wildcard, and so may choose several.

    Args:
        pattern: The name.

    Returns:
        Whether it is a glob.
    """
    return any(wildcard in pattern for wildcard in "*?[")


def module_matches(pattern: str, names: Iterable[str]) -> bool:
    """Whether a module filter chooses a module that has these names.

    Args:
        pattern: Dotted path or glob; ``""`` is the root and so the whole model.
        names: Every name of the module; a shared module has several.
    """
    wanted = (pattern, unwrapped(pattern))
    return any(
        _below(want, form)
        for name in names
        for form in ((name,) if name in _NOT_MODULES else (name, unwrapped(name)))
        for want in wanted
    )


def _below(pattern: str, name: str) -> bool:
    if name in _NOT_MODULES:
        return pattern == name
    if pattern in ("", name):
        return True
    if not is_glob(pattern):
        return name.startswith(pattern + ".")
    parts = name.split(".")
    return any(fnmatchcase(".".join(parts[: n + 1]), pattern) for n in range(len(parts)))


def name_matches(pattern: str, names: Iterable[str]) -> bool:
    """Whether a name, or a glob, is that of a stored tensor, but for what wrappers add.

    Args:
        pattern: The name or glob, such as ``a.weight``.
        names: Every name of the tensor; one that is tied has several.
    """
    wanted = {pattern, unwrapped(pattern)}
    forms = {form for name in names for form in (name, unwrapped(name))}
    return any(fnmatchcase(form, want) for form in forms for want in wanted)


def module_hint(text: str, names: Iterable[str]) -> str:
    """What to write where the name of a module stands in place of an operator, or ``""``."""
    if not text or text not in names:
        return ""
    return f"; {text!r} is a module: name an operator, with modules={text!r}"


def check_modules(patterns: Iterable[str], known: Iterable[str], root: str = "") -> None:
    """Refuse a module filter that chooses nothing.

    Args:
        patterns: The filters.
        known: Every module name there is.
        root: Class of the model, which people take for its name.

    Raises:
        SiteError: Names the filter and the nearest module names.
    """
    names = list(known)
    for pattern in patterns:
        if not has_module(pattern, names):
            hint = unknown_hint(pattern, names, root)
            raise SiteError(f"no module {pattern!r}{hint and '; '}{hint}")


def unknown_hint(pattern: str, known: Iterable[str], root: str = "") -> str:
    """What a module filter that chooses nothing may mean, as a clause, or ``""``.

    Args:
        pattern: The filter.
        known: Every module name there is.
        root: Class of the model, which people take for its name.
    """
    if root and pattern.casefold() == root.casefold():
        return "that is the whole model, which is ''"
    return nearest(pattern, (*known, LOSS_FUNCTION, OUTSIDE))


def check_phases(phases: Iterable[str], error: type[Exception] = SiteError) -> None:
    """Refuse a filter of phases that names none.

    Args:
        phases: The phases.
        error: What is raised.

    Raises:
        Exception: ``error``; names the phase and the nearest.
    """
    for phase in phases:
        if phase not in PHASES:
            raise error(f"no phase {short(phase)}{did_you_mean(str(phase), PHASES)}")


def has_module(pattern: str, known: Iterable[str]) -> bool:
    """Whether a module filter chooses anything at all among these names."""
    return any(module_matches(pattern, (name,)) for name in (*known, LOSS_FUNCTION, OUTSIDE))


class CodeFilter(NamedTuple):
    """A file and, where given, a line of it.

    Attributes:
        file: Path, or the tail of one, with forward slashes; or ``In [5]``.
        line: Line number from 1, or None for the whole file.
    """

    file: str
    line: int | None

    @classmethod
    def parse(cls, text: str) -> CodeFilter:
        """Read a filter from text such as ``run.py[83]`` or ``In [5][3]``.

        Raises:
            SiteError: The text is empty or not text.
        """
        match = _CODE.fullmatch(text.strip()) if isinstance(text, str) else None
        if match is None:
            raise SiteError(
                f"cannot read {short(text)} as a source line; expected 'run.py[83]', "
                "'run.py' or 'In [5][3]'"
            )
        file, line = match["file"], match["line"] or match["colon"]
        if re.fullmatch(r"In ?\[\d+\]?", text.strip()):  # a whole cell: its number is no line
            file, line = text.strip(), None
        return cls(_normal(file), None if line is None else int(line))

    def matches(self, frames: Sequence[Frame]) -> bool:
        """Whether any of the frames is the line that this filter names."""
        return any(
            self.line in (None, frame.line) and self._names(_normal(frame.file)) for frame in frames
        )

    def _names(self, file: str) -> bool:
        return file == self.file or file.endswith("/" + self.file)


def _normal(path: str) -> str:
    text = re.sub(r"^In ?\[(\d+)\]$", r"In [\1]", path.replace("\\", "/"))
    while text.startswith("./"):
        text = text[2:]
    return text
