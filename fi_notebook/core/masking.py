"""Why an error vanished: the words for it, and what may have been seen of its values.

    MECHANISMS[comparison.columns["mechanism"][row]]     'pooling'
    DIED_OF["pooling"]                                   'pooling took a larger neighbour'

The engine sees values and reports `Evidence`; ``analysis/mechanisms.py`` decides from
the operator and that evidence, and says *unknown* rather than guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntFlag

__all__ = ["DIED_OF", "MECHANISMS", "Evidence"]


class Evidence(IntFlag):
    """What was seen of the values of a call whose inputs differ and whose outputs do not.

    Those from ``ZERO`` on speak of every place where an input changed.
    """

    SEEN = 1  # the values of every input that differs were at hand, and tell
    FIRST = 2  # the first tensor among the arguments differs
    OTHERS = 4  # another tensor among the arguments differs
    ZERO = 8  # the output is 0 there
    LIMIT = 16  # the output is -1, 0 or 1 there
    FACTOR = 32  # what the change is multiplied by is 0
    SIGN = 64  # only signs changed
    NONFINITE = 128  # the output is NaN or Inf there
    ROUNDED = 256  # with float64 in and out, the outputs differ
    SLOPE = 512  # the derivative is the same with and without the error
    OUTSIDE = 1024  # the call reads nothing there


DIED_OF: Mapping[str, str] = {
    "": "",
    "unknown": "the mechanism is unknown",
    "ReLU at zero": "ReLU gives 0 there with and without the error",
    "pooling": "pooling took a larger neighbour",
    "rounding in a cast": "the cast rounded it away",
    "rounding": "rounding swallowed it",
    "clipping": "clipping gives its bound with and without the error",
    "saturation": "the function is saturated there",
    "dropout mask": "dropout masks it",
    "mask": "a mask covers it",
    "multiplication by zero": "it only scales a zero",
    "normalisation": "normalisation takes it out",
    "comparison": "a comparison comes out the same",
    "selection": "it lies outside the part that the call takes",
    "overwritten": "it was overwritten",
    "sign dropped": "only signs changed, and the call drops them",
    "cancelling or rounding": "its parts cancel or are rounded away",
    "already NaN or Inf": "the value is NaN or Inf with and without it",
}
"""Each mechanism as a clause of a sentence; ``""`` where nothing was masked."""

MECHANISMS = tuple(DIED_OF)
"""Every mechanism, in the order of a comparison's codes."""
