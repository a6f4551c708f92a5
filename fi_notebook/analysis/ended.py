"""Where an error ended, as far as it was seen, in the words of a sentence.

    >>> ended_words(comparison)
    'the error died in relu*1 (…); the last call that differs is addmm*1:0, and every later call'
    >>> undone_words(injections)
    'f2 gave relu*2:0 back the bits that it had before f1'

Limits: that one fault undid another is told of strikes whose changed elements were all
recorded, which are the first 64 of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from fi_notebook.analysis.mechanisms import deaths_words
from fi_notebook.analysis.unread import last_followed
from fi_notebook.analysis.updates import has_update, update_differs
from fi_notebook.analysis.words import several
from fi_notebook.core.injection import Injection
from fi_notebook.core.run import EFFECTS, Comparison
from fi_notebook.core.trace import FLAGS

__all__ = ["ended_words", "lost_words", "read_rows", "undone_words"]

_FOLDED = 1 << FLAGS.index("folded")
_INTRODUCED = EFFECTS.index("introduced")


def ended_words(comparison: Comparison) -> str:
    """Where the error ended, and what is equal after it: the subject of *are bit-equal*."""
    if not len(comparison.diverged):
        return "every call that was compared"
    died, lost = deaths_words(comparison), last_followed(comparison)
    if lost is None:
        return f"{died or _alive_words(comparison)}; {_last_words(comparison)}"
    what = f"{died}; the rest" if died else "its error"
    return f"{what} {lost_words(comparison, lost)}; {_last_words(comparison)} that is read"


def _alive_words(comparison: Comparison) -> str:
    """Why an error that no call masked does no harm."""
    if (comparison.columns["effect"][comparison.diverged] == _INTRODUCED).all():
        return "nothing reads what it changed"
    if not has_update(comparison.golden):
        left = "no result"
    elif update_differs(comparison):
        left = "nothing that training keeps"
    else:
        left = "no gradient and no update"
    return f"{left} depends on what it changed"


def lost_words(comparison: Comparison, lost: int) -> str:
    """That an error was lost sight of in a row that is not read."""
    return f"was last followed into {comparison.site(lost)}, which is not read"


def _last_words(comparison: Comparison) -> str:
    """The last call that differs: one that a tree shows, where there is any."""
    rows, columns = read_rows(comparison), comparison.columns
    if not len(rows):
        return "every call"
    calls = comparison.faulty.site_columns["call"][columns["faulty"][rows]]
    shown = rows[(comparison.faulty.calls["flags"][calls] & _FOLDED) == 0]
    if not len(shown) or shown[-1] == rows[-1]:
        return (
            f"the last call that differs is {comparison.site(int(rows[-1]))}, and every later call"
        )
    last = comparison.site(int(shown[-1]))
    return f"the last call of the tree that differs is {last}, and every later call of it"


def read_rows(comparison: Comparison) -> np.ndarray:
    """Rows that were seen to differ."""
    return np.setdiff1d(comparison.diverged, comparison.unread)


def undone_words(injections: Sequence[Injection]) -> str:
    """Which faults undid which others, as a clause; ``""`` where that is proven of none.

    Args:
        injections: Every strike, in order.
    """
    changed = sorted((i for i in injections if i.changed), key=_place)
    struck = (list(strikes) for _, strikes in groupby(changed, _place))
    return several(
        [
            f"{last.fault} gave {last.site} back the bits that it had before {first.fault}"
            for first, *_, last in filter(_restores, struck)
        ]
    )


def _place(injection: Injection) -> tuple[int, str]:
    return injection.step, str(injection.site)


def _restores(strikes: Sequence[Injection]) -> bool:
    """Whether another fault than the first left every element with the bits that it had before."""
    if strikes[0].fault == strikes[-1].fault:
        return False
    elements = [element for strike in strikes for element in strike.elements]
    known = len(elements) == sum(strike.changed for strike in strikes)
    if not known or any(element.before_bits is None for element in elements):
        return False
    before = {element.index: element.before_bits for element in reversed(elements)}
    return before == {element.index: element.after_bits for element in elements}
