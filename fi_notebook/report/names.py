r"""Names that come from a model, made fit for a line of text.

    cleaned("a\nb")                 'a b'           no line breaks, control or bidi characters
    shortened("a" * 100, 9)         'aaaa…aaaa'     the ends say more than the beginning
    told_apart(["a.0.b", "a.1.b"], 4)   ['…0.b', '…1.b']   without what a set of names begins with
    bounded(name)                   for a page, which has room: only a very long one is cut

Limits: nothing here escapes markup; whoever writes HTML does that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile

__all__ = ["LONGEST_TEXT", "bounded", "cleaned", "shortened", "told_apart"]

LONGEST_TEXT = 300
"""Characters of one name on a page; a longer one is shown by its two ends."""

_KIND = re.compile(r"[a-z]+:")  # of a stored tensor
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


def told_apart(texts: Iterable[object], limit: int = 48) -> list[str]:
    """Cleaned names of one set, short, yet those that differ still do.

    What all names over the limit begin with is left out, up to a dot, then the middle of each;
    where two would be alike the limit grows.
    """
    whole = [cleaned(text) for text in texts]
    names = set(whole)
    stem = _stem([name for name in names if len(name) > limit])
    bare = {name: _without(name, stem) if len(name) > limit else name for name in names}
    for room in range(limit, LONGEST_TEXT, 4):
        cut = {name: shortened(bare[name], room) for name in names}
        if len(set(cut.values())) == len(names):
            return [cut[name] for name in whole]
    return [bounded(name) for name in whole]


def _stem(names: list[str]) -> str:
    """The modules that several names begin with; "" of one name."""
    if len(names) < 2:
        return ""
    columns = zip(*(name.split(".")[:-1] for name in names))
    return ".".join(parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, columns))


def _without(name: str, stem: str) -> str:
    """A name without what all begin with, but with the kind of a stored tensor."""
    kind = _KIND.match(stem)
    return f"{kind[0] if kind else ''}…{name[len(stem) + 1 :]}" if stem else name


def bounded(text: str) -> str:
    """A name of bearable length: a very long one by its two ends."""
    if len(text) <= LONGEST_TEXT:
        return text
    half = LONGEST_TEXT // 2
    return f"{text[:half]} … {len(text):,} characters … {text[-half:]}"
