"""The colours of what has a meaning, the same in every figure and notebook.

    GOLDEN, FAULTY        the two runs
    PHASES["backward"]    the hue of a phase, as in the explorer
    BITS["exponent"]      the hue of a field of a floating-point number, as in the explorer

Each has a contrast of at least 3 on white and on the dark paper of figures, so that none
changes with the theme.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["BITS", "FAULTY", "GOLDEN", "OPPOSITE", "PHASES"]

GOLDEN = "#7a828e"
FAULTY = "#e8590c"
OPPOSITE = "#3b82f6"
"""What is neither golden nor faulty: a bound, a run that is still watched, less than before."""

PHASES: Mapping[str, str] = {
    "forward": "#3b82f6",
    "loss": "#b37f00",
    "backward": "#8b5cf6",
    "recompute": "#c2419a",
    "optimizer": "#2f9e53",
    "other": "#7a828e",
}

BITS: Mapping[str, str] = {"sign": "#e03131", "exponent": "#3b82f6", "mantissa": "#2f9e53"}
