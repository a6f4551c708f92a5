"""IPython as it runs here, asked and never imported: a script has none.

shell = running_shell()             # None in a script
has_kernel(shell)                   # a notebook's; a terminal's IPython has no kernel
bound_name(session, "session")      # "fi_session" after %%fi_explore
publish(shell, bundle, "abc")       # an output that `publish(…, update=True)` replaces
refuse_cell(shell, "not now")       # the cell that begins ends with this error, and runs nothing
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

__all__ = [
    "accept_cells",
    "bound_name",
    "has_kernel",
    "publish",
    "refuse_cell",
    "running_shell",
]


def running_shell() -> Any:
    """The IPython shell that runs this, or None."""
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()


def has_kernel(shell: Any) -> bool:
    """Whether a shell belongs to a kernel, and so to a notebook."""
    return getattr(shell, "kernel", None) is not None


def bound_name(value: object, usual: str) -> str:
    """What a person calls an object: the name that it has in the notebook.

    Args:
        value: The object.
        usual: Its name where it has none, and the one that is taken of several.

    Returns:
        The name; of several without the usual one the oldest.
    """
    names = dict(getattr(running_shell(), "user_ns", {}))
    found = [name for name, each in names.items() if each is value and name[0] != "_"]
    return found[0] if found and usual not in found else usual


def publish(shell: Any, bundle: Mapping[str, Any], name: str, *, update: bool = False) -> None:
    """Show an output, or put it in place of the one of the same name."""
    shell.display_pub.publish(dict(bundle), {}, transient={"display_id": name}, update=update)


class _Refusal:
    """What refuses a cell, as IPython lets the transformers of its code do."""

    def __init__(self, why: str) -> None:
        self._why = why

    def visit(self, _code: object) -> None:
        raise sys.modules["IPython.core.error"].InputRejected(self._why)


def refuse_cell(shell: Any, why: str) -> None:
    """Let the cell that begins end with an error before any of it runs.

    Args:
        shell: IPython's shell.
        why: What the error says.
    """
    shell.ast_transformers.append(_Refusal(why))


def accept_cells(shell: Any) -> None:
    """Refuse no further cell."""
    for each in [each for each in shell.ast_transformers if isinstance(each, _Refusal)]:
        shell.ast_transformers.remove(each)
