"""Numbers and lists as they stand in a sentence.

four_digits(0.000123456)     '0.0001235'
four_digits(float("nan"))    'NaN'
percent(0.05)                '5 %'
about(0.5), about(0.0001)    '50%', '<0.1%'
limited(8e44)                'more than a million'
times(35.0), times(8e44)     '35 times', 'more than a million times'
several(["a", "b", "c", "d"], 2)   'a, b and 2 more'
nonfinite_words(6, 0)        '6 NaN'
how_far(gradient)            'relative L2 0.25', '6 NaN'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fi_notebook.core.run import Difference

__all__ = [
    "about",
    "excess",
    "four_digits",
    "how_far",
    "limited",
    "nonfinite_words",
    "percent",
    "several",
    "times",
    "told_apart",
]

_LARGEST = 1e6
"""The largest ratio that is told as a number; of a larger one the digits say nothing."""


def four_digits(value: float) -> str:
    """A number with four significant digits; ``NaN``, ``Inf`` and ``-Inf`` by name."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return f"{value:.4g}"


def percent(share: float) -> str:
    """A share as a percentage, four significant digits."""
    return f"{four_digits(100 * share)} %"


def about(share: float, digits: int = 0) -> str:
    """A share as a short percentage; of what is there it never says 0, nor 100 of less than all.

    Args:
        share: The share.
        digits: How many after the point; near 0 and near 1 at least one.
    """
    if share in (0.0, 1.0):
        return f"{share:.{digits}%}"
    near = share < 0.1 or share > 0.99
    text = f"{share:.{max(digits, 1) if near else digits}%}"
    return {"0.0%": "<0.1%", "100.0%": ">99.9%"}.get(text, text)


def limited(ratio: float) -> str:
    """A ratio with four significant digits; of a huge one, that it is more than a million."""
    return "more than a million" if _LARGEST < ratio < math.inf else four_digits(ratio)


def times(factor: float) -> str:
    """How many times larger; *without bound* where an infinity was reached."""
    return "without bound" if math.isinf(factor) else f"{limited(factor)} times"


def excess(share: float, *, of_mean: bool = False) -> str:
    """By how much one number exceeds another: a percentage, or how many times the other.

    Args:
        share: By which share of it.
        of_mean: Whether of the mean golden loss over the steps.
    """
    if share >= 10:
        return f"{limited(share)} times {'the mean golden loss' if of_mean else 'its value'}"
    return f"{percent(share)}{' of the mean golden loss' if of_mean else ''}"


def several(words: Sequence[str], limit: int = 3) -> str:
    """The first few of a list, and how many more there are."""
    if len(words) <= 1:
        return "".join(words)
    if len(words) <= limit:
        return f"{', '.join(words[:-1])} and {words[-1]}"
    return f"{', '.join(words[:limit])} and {len(words) - limit} more"


def told_apart(first: float, second: float) -> tuple[str, str]:
    """Two numbers with four significant digits, or as many as it takes to see that they differ."""
    texts = four_digits(first), four_digits(second)
    if texts[0] != texts[1] or first == second or math.isnan(first):
        return texts
    return next(
        (f"{first:.{digits}g}", f"{second:.{digits}g}")
        for digits in range(5, 18)
        if f"{first:.{digits}g}" != f"{second:.{digits}g}"
    )


def nonfinite_words(nan: int, inf: int) -> str:
    """How many NaN and Inf there are: ``6 NaN``, ``1 NaN, 2 Inf``; ``""`` where there are none."""
    return ", ".join(f"{n:,} {name}" for n, name in ((nan, "NaN"), (inf, "Inf")) if n > 0)


def how_far(difference: Difference) -> str:
    """How far a tensor is from the golden one; to NaN, Inf and what is none there is no distance.

    Args:
        difference: The difference of one named tensor.
    """
    bad = nonfinite_words(difference.new_nan, difference.new_inf)
    return bad or difference.note or f"relative L2 {limited(difference.relative_l2)}"
