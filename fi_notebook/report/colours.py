"""The colours of runs and outcomes, the same in figures and in static pages; no plotly here."""

from __future__ import annotations

__all__ = ["FAULTY", "GOLDEN", "OPPOSITE", "OUTCOME_COLOURS"]

GOLDEN = "#7a828e"
FAULTY = "#e8590c"
OPPOSITE = "#3b82f6"

OUTCOME_COLOURS = {
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
"""The colour of each outcome; what is not in it has none of its own."""
