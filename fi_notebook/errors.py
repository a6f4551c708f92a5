"""The errors that fi_notebook raises, and the near-match hints that they carry.

Every message says what was given, what was expected and what to do next::

    no module 'layr.0'; did you mean 'layer.0'?

All errors derive from `FiError`; those about a value that a person typed are
`ValueError`s as well, so that generic callers can catch them. In a notebook their
tracebacks show a person's own frames alone.

Limits: an argument of another type is Python's own `TypeError`, a tensor that was not
kept a `LookupError`, a file that cannot be read or written an `OSError`.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

__all__ = [
    "ArgumentError",
    "CampaignError",
    "FaultError",
    "FaultWarning",
    "FiError",
    "JournalError",
    "MessageError",
    "NoSuchFaultError",
    "PlanError",
    "SessionArgumentError",
    "SessionCancelled",
    "SessionError",
    "SiteError",
    "TraceError",
    "did_you_mean",
    "nearest",
    "short",
]


_LONG = 200
"""Characters of what was given that a message repeats."""

OURS = str(Path(__file__).parent) + os.sep
"""How the path of each file of this package begins."""


class FiError(Exception):
    """Base of every error raised by fi_notebook."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the frames of a person's own code, and the message."""
        shell = sys.modules["IPython"].get_ipython()  # it is there: it asks
        outside = _outside(self.__traceback__) or self.__traceback__
        lines: list[str] = shell.InteractiveTB.structured_traceback(type(self), self, outside)
        return lines


class ArgumentError(FiError, ValueError):
    """A number or a word that a function cannot be given."""


class SiteError(FiError, ValueError):
    """A site, target, module or source line that cannot be parsed or found."""


class FaultError(FiError, ValueError):
    """A fault model, parameter, element selection or detector that can never be."""


class NoSuchFaultError(FaultError, KeyError):
    """A fault that a plan does not hold; names the nearest."""

    __str__ = Exception.__str__  # a KeyError shows the text as Python writes it


class PlanError(FiError, ValueError):
    """A plan (``injector.json``) that cannot be read; names the place in the file."""


class TraceError(FiError, ValueError):
    """A trace file that is not one, is damaged, or is from a newer version."""


class SessionError(FiError, RuntimeError):
    """A session or a watch that cannot do what was asked in the state it is in."""


class SessionArgumentError(SessionError, ArgumentError):
    """A number, memory or ``evaluate`` that a session cannot be given."""


class SessionCancelled(SessionError):  # noqa: N818 - no fault of anybody
    """A trace or replay was stopped; everything is as it was before."""


class CampaignError(FiError, ValueError):
    """A campaign that cannot be: no site, no fault, no importable session."""


class JournalError(FiError, ValueError):
    """A file that is no journal of this campaign, or a journal without such a row."""


class MessageError(FiError, ValueError):
    """A message from the page that is not understood."""


class FaultWarning(UserWarning):
    """A fault was armed that the golden run gives no occasion to fire."""


def _outside(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this package."""
    if traceback is None:
        return None
    below = _outside(traceback.tb_next)
    if traceback.tb_frame.f_code.co_filename.startswith(OURS):
        return below
    return TracebackType(below, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)


def short(value: object) -> str:
    """What was given, as Python writes it; of what is very long the beginning and the end.

    Args:
        value: What was given.

    Returns:
        Its text; of what cannot be written, the type.
    """
    try:
        text = repr(value)
    except Exception:  # a repr may raise anything, as that of a very large number does  # noqa: BLE001
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= _LONG else f"{text[: _LONG - 40]} … {text[-30:]}"


def nearest(name: str, choices: Iterable[str], limit: int = 3) -> str:
    """Name the nearest valid choices, as a clause of its own.

    Args:
        name: What was given.
        choices: What would have been valid.
        limit: How many near matches to name at most.

    Returns:
        ``"did you mean 'a' or 'b'?"``, or, where nothing is near,
        ``"expected one of …"`` for a short list, else the empty string.
    """
    valid = list(dict.fromkeys(choices))
    near = difflib.get_close_matches(name[:_LONG], valid, n=limit, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    if 0 < len(valid) <= 12:
        return f"expected one of {', '.join(map(repr, valid))}"
    return ""


def did_you_mean(name: str, choices: Iterable[str], limit: int = 3) -> str:
    """What `nearest` says, as the tail of an error message.

    Args:
        name: What was given.
        choices: What would have been valid.
        limit: How many near matches to name at most.

    Returns:
        ``"; did you mean 'a' or 'b'?"``, or ``""`` where there is nothing to say.
    """
    said = nearest(name, choices, limit)
    return said and f"; {said}"
