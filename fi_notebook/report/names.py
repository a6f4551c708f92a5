r"""Names that come from a model, made fit for a line of text.

    cleaned("a\nb")                 'a b'           no line breaks, control or bidi characters
    shortened("a" * 100, 9)         'aaaa…aaaa'     the ends say more than the beginning
    bounded(name)                   for a page, which has room: only a very long one is cut

Limits: nothing here escapes markup; whoever writes HTML does that.
"""

from __future__ import annotations

import re

__all__ = ["LONGEST_TEXT", "bounded", "cleaned", "shortened"]

LONGEST_TEXT = 300
"""Characters of one name on a page; a longer one is shown by its two ends."""

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]+")


def cleaned(text: object) -> str:
    """A text in one line that can neither move the cursor nor turn its neighbours around."""
    return _CONTROLS.sub(" ", str(text))


def shortened(text: object, limit: int = 48) -> str:
    """A cleaned text with its middle left out where it is longer than the limit."""
    whole = cleaned(text)
    if len(whole) <= limit:
        return whole
    head = (limit - 1) // 2
    return f"{whole[:head]}…{whole[len(whole) - (limit - 1 - head) :]}"


def bounded(text: str) -> str:
    """A name of bearable length: a very long one by its two ends."""
    if len(text) <= LONGEST_TEXT:
        return text
    half = LONGEST_TEXT // 2
    return f"{text[:half]} … {len(text):,} characters … {text[-half:]}"
