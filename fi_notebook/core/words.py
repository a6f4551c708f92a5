"""Counts as they stand in a sentence.

    counted(1, "call")               '1 call'
    counted(2000, "call")            '2,000 calls'
    among(1, 6, "element")           '1 of 6 elements'
    among(1, 1, "element")           '1 of 1 element'
    agreed(1, "differ")              'differs'
    several("micro batch")           'micro batches'
    spoken("masked_exact")           'masked exact'
    too_few(7, "relu", 3)            'asked for call 7 of relu, 3 were made'

Limits: nouns take an s, or an es after s, x, ch and sh; no other plural is known.
"""

from __future__ import annotations

__all__ = ["agreed", "among", "counted", "several", "spoken", "too_few"]


def counted(count: int, noun: str, width: int = 0) -> str:
    """A number and its noun, in the singular for 1.

    Args:
        count: How many.
        noun: What they are, in the singular; may have words before it: ``new element``.
        width: Room for the number, for counts that stand below each other.
    """
    return f"{count:>{width},} {_as_many(count, noun)}"


def among(part: int, whole: int, noun: str) -> str:
    """A part of a number of things: ``1 of 6 elements``.

    Args:
        part: How many of them.
        whole: How many there are.
        noun: What they are, in the singular.
    """
    return f"{part:,} of {whole:,} {_as_many(whole, noun)}"


def agreed(count: int, verb: str) -> str:
    """A verb that agrees with a number of things: ``1 differs``, ``2 differ``.

    Args:
        count: How many there are.
        verb: What they do, as of several: ``differ``, ``were``.
    """
    if count != 1:
        return verb
    return {"were": "was", "are": "is", "have": "has"}.get(verb, f"{verb}s")


def several(noun: str) -> str:
    """A noun in the plural: ``calls``, ``batches``."""
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


def too_few(call: int, op: str, made: int) -> str:
    """That a call was asked for by a number that no call of its operator reached.

    Args:
        call: The number.
        op: The operator.
        made: How many calls of it were made.

    Returns:
        One plain clause.
    """
    return f"asked for call {call} of {op}, {made} {agreed(made, 'were')} made"


def _as_many(count: int, noun: str) -> str:
    return noun if count == 1 else several(noun)


def spoken(identifier: str) -> str:
    """The name of an outcome, a detector or a quantity as a person reads it: ``masked exact``.

    Args:
        identifier: What it is called in code and data.

    Returns:
        The words of it.
    """
    return identifier.replace("_", " ")
