"""What can be shown here: the rung of the ladder, why, and what to install.

    >>> fi.doctor()  # doctest: +SKIP
    fi_notebook 0.1.0 in JupyterLab 4 or Notebook 7: full widget
      the explorer and the live watch are shown, and are heard while a cell runs
      python 3.11.2, torch 2.13.0, ipykernel 7.4.0, …

The ladder: `FULL`, `NO_CONTROL`, `STATIC`, `TEXT`. One session stands on every rung;
only what is shown of it differs.

Limits: a kernel is not told which page looks at it. It is found out from what the page
sends with a cell; a front end that is not known counts as none (`STATIC`). VS Code and
Colab are judged by what they document, and were not tested.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fi_notebook.core.versions import installed
from fi_notebook.ui.shells import has_kernel, running_shell

__all__ = ["FULL", "NO_CONTROL", "RUNGS", "STATIC", "TEXT", "Diagnosis", "Place", "doctor", "place"]

FULL = "full widget"
NO_CONTROL = "widget without live control"
STATIC = "HTML progress and static result"
TEXT = "text"
RUNGS = (FULL, NO_CONTROL, STATIC, TEXT)
"""The rungs of the ladder, the best first."""

_MEANS = {
    FULL: "the explorer and the live watch are shown, and are heard while a cell runs",
    NO_CONTROL: "the explorer and the live watch are shown, and are heard when a cell has ended",
    STATIC: "an output carries a static result, made anew when a cell has ended",
    TEXT: "nothing can be shown but text; session.save_html() writes a page that opens anywhere",
}

_PACKAGES = (
    "torch",
    "plotly",
    "anywidget",
    "ipywidgets",
    "ipykernel",
    "ipython",
    "jupyterlab",
    "jupyterlab_widgets",
    "notebook",
    "nbclient",
    "nbconvert",
    "pandas",
)

NOTEBOOK, VSCODE, COLAB = "JupyterLab 4 or Notebook 7", "VS Code", "Colab"
HEADLESS, TERMINAL, SCRIPT = "nbclient or nbconvert", "plain IPython", "a script"
_NEEDED = {"anywidget": (0, 9, 18), "ipywidgets": (8,)}
_HEARS_MEANWHILE = (7,)  # ipykernel: comm messages are read on a subshell while a cell runs


@dataclass(frozen=True, slots=True)
class Place:
    """Where this runs.

    Attributes:
        name: In words.
        tested: Whether the project is tested there.
    """

    name: str
    tested: bool = True

    @property
    def has_page(self) -> bool:
        """Whether a page that draws widgets is known to look."""
        return self.name in (NOTEBOOK, VSCODE, COLAB)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What can be shown here.

    Attributes:
        place: Where this runs.
        rung: Which rung of the ladder that is, one of `RUNGS`.
        why: The reasons, one plain clause each.
        advice: What to install or do for a better rung; empty where there is none.
        versions: Versions of what matters; ``""`` where it is not installed.
    """

    place: Place
    rung: str
    why: tuple[str, ...]
    advice: tuple[str, ...]
    versions: Mapping[str, str]

    def __repr__(self) -> str:
        """Several lines for a person."""
        own = self.versions.get("fi_notebook") or "(not installed)"
        lines = [f"fi_notebook {own} in {self.place.name}: {self.rung}"]
        lines += [f"  {text}" for text in (_MEANS[self.rung], *self.why)]
        if not self.place.tested:
            lines.append(f"  not tested in {self.place.name}; judged by what it documents")
        lines += [f"  → {text}" for text in self.advice]
        found = [f"{name} {number}" for name, number in self.versions.items() if number]
        lines.append(f"  {', '.join(found)}")
        missing = [name for name, number in self.versions.items() if not number]
        lines += [f"  not installed: {', '.join(missing)}"] if missing else []
        return "\n".join(lines)


def doctor() -> Diagnosis:
    """Say what can be shown here, why, and what to install for more."""
    where, versions = place(), _versions()
    rung, why, advice = _judged(where, versions)
    return Diagnosis(where, rung, tuple(why), tuple(advice), versions)


def place() -> Place:
    """Where this runs, by what IPython and the page say of themselves."""
    shell = running_shell()
    if shell is None:
        return Place(SCRIPT)
    if "google.colab" in sys.modules:
        return Place(COLAB, tested=False)
    if not has_kernel(shell):
        return Place(TERMINAL)
    if "__vsc_ipynb_file__" in shell.user_ns or "VSCODE_PID" in os.environ:
        return Place(VSCODE, tested=False)
    return Place(NOTEBOOK if _page_sent(shell) else HEADLESS)


def _page_sent(shell: Any) -> bool:
    """Whether a page sent this cell, or a notebook server started the kernel for one."""
    parent: Mapping[str, Any] = shell.get_parent() or {}
    return "cellId" in parent.get("metadata", {}) or "JPY_SESSION_NAME" in os.environ


def _judged(where: Place, versions: Mapping[str, str]) -> tuple[str, list[str], list[str]]:
    """The rung, the reasons, and the advice."""
    lab = "open a notebook in JupyterLab: pip install 'fi-notebook[lab]', then jupyter lab"
    if where.name == SCRIPT:
        return TEXT, ["no IPython is running"], [lab]
    if where.name == TERMINAL:
        return TEXT, ["IPython runs in a terminal, which shows no pictures"], [lab]
    missing = _missing(versions)
    if missing:
        return STATIC, [f"{name} is missing or too old" for name in missing], [_install(missing)]
    if where.name == HEADLESS:
        return STATIC, ["no page is known to look at this kernel"], []
    if where.name == VSCODE:
        return NO_CONTROL, ["VS Code hands clicks on when the cell has ended"], []
    if where.name == COLAB:
        return NO_CONTROL, ["Colab hands clicks on when the cell has ended"], []
    if _number(versions["ipykernel"]) < _HEARS_MEANWHILE:
        why = f"ipykernel {versions['ipykernel']} hands clicks on when the cell has ended"
        return NO_CONTROL, [why], ["pip install 'ipykernel>=7', then restart the kernel"]
    return FULL, [], _page_advice(versions)


def _page_advice(versions: Mapping[str, str]) -> list[str]:
    """The page needs its own half of ipywidgets, in the server's environment."""
    if versions["jupyterlab_widgets"]:
        return []
    where = "pip install jupyterlab_widgets where the Jupyter server runs"
    return [f"if no widget appears: {where}, then reload the page"]


def _missing(versions: Mapping[str, str]) -> list[str]:
    return [name for name, least in _NEEDED.items() if _number(versions[name]) < least]


def _install(names: Sequence[str]) -> str:
    wanted = " ".join(f"'{name}>={'.'.join(map(str, _NEEDED[name]))}'" for name in names)
    return f"pip install {wanted}, then restart the kernel"


def _number(text: str) -> tuple[int, ...]:
    """A version as numbers, for comparing; ``()`` where it is not installed."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def _versions() -> dict[str, str]:
    found = {"fi_notebook": installed("fi_notebook"), "python": platform.python_version()}
    return found | {name: installed(name) for name in _PACKAGES}
