"""The colours of what has a meaning, the same in every figure and notebook.

    GOLDEN, FAULTY        the two runs
    BAD                   NaN and Inf
    PHASES["backward"]    the hue of a phase, as in the explorer
    BITS["exponent"]      the hue of a field of a floating-point number, as in the explorer
    OUTCOME_COLOURS       the colour of each outcome

Each but the last has a contrast of at least 3 on white and on the dark paper of figures, so that
none changes with the theme.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["BAD", "BITS", "FAULTY", "GOLDEN", "OPPOSITE", "OUTCOME_COLOURS", "PHASES"]

GOLDEN = "#7a828e"
FAULTY = "#e8590c"
OPPOSITE = "#3b82f6"
"""What is neither golden nor faulty: a bound, a run that is still watched, less than before."""

BAD = "#e03131"
"""NaN and Inf."""

PHASES: Mapping[str, str] = {
    "forward": "#3b82f6",
    "loss": "#b37f00",
    "backward": "#8b5cf6",
    "recompute": "#c2419a",
    "optimizer": "#2f9e53",
    "other": "#7a828e",
}

BITS: Mapping[str, str] = {"sign": "#e03131", "exponent": "#3b82f6", "mantissa": "#2f9e53"}

OUTCOME_COLOURS: Mapping[str, str] = {
    "crash": "#7a1f1f",
    "inactive": "#c3c8d0",
    "nan_immediate": "#c2255c",
    "nan_delayed": "#e64980",
    "masked_exact": GOLDEN,
    "masked_tolerance": "#9aa3b0",
    "changed": FAULTY,
    "spike_degrade": "#b35309",
    "spike_recover": "#d9a406",
    "slow_degrade": "#6741d9",
    "silent_drift": OPPOSITE,
    "metric_degraded": "#0b7285",
}
"""The colour of each outcome; what is not in it has none of its own. Shares lie side by side, so
these tell apart by hue and not by their contrast with the paper."""
