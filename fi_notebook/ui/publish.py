"""What the kernel tells the page: the session's records as messages.

    everything(explorer)    hello, trace, plan, run, figures and state, for a page just opened
    run(run)                the run and its figures, one message each

Figures are drawn in Python and travel as plotly's own JSON; a figure that fails takes
nothing else with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fi_notebook import assets
from fi_notebook.core.run import Run, StepRecord
from fi_notebook.core.trace import Trace
from fi_notebook.core.versions import installed
from fi_notebook.report.figures_json import run_figures, templates
from fi_notebook.report.payload import plan_payload, run_payload, steps_payload, trace_payload
from fi_notebook.ui.forms import arm_line, models_payload, selections_payload
from fi_notebook.ui.messages import Message
from fi_notebook.ui.shells import bound_name

if TYPE_CHECKING:
    from fi_notebook.ui.explorer import Explorer

__all__ = [
    "MOST_STEPS",
    "everything",
    "hello",
    "plan",
    "plotly",
    "progress",
    "run",
    "steps",
    "trace",
]

MOST_STEPS = 200
"""Steps of a running replay that the page is given at a time."""


def everything(explorer: Explorer) -> Iterator[Message]:
    """The whole state of a session."""
    session = explorer.session
    yield hello(explorer)
    if session.golden is not None:
        yield trace(session.golden)
    yield plan(explorer)
    yield from run(session.run)
    if explorer.sweep is not None:
        yield from explorer.sweep.messages()
    yield Message("state", explorer.announced)


def hello(explorer: Explorer) -> Message:
    """What does not change: fault models and ways to choose elements."""
    return Message(
        "hello",
        {
            "version": installed("fi_notebook"),
            "models": models_payload(),
            "selections": selections_payload(),
            "superseded": explorer.superseded,
            "templates": templates(),
        },
    )


def trace(golden: Trace) -> Message:
    """The golden run."""
    return Message("trace", *trace_payload(golden))


def plan(explorer: Explorer) -> Message:
    """The armed faults, the Python lines that arm them, and what the session is called."""
    session = explorer.session
    name = bound_name(session, "session")
    faults = plan_payload(session.plan, session.golden)
    for entry, fault in zip(faults, session.plan, strict=True):
        entry["code"] = arm_line(fault, name)
    return Message(
        "plan",
        {
            "faults": faults,
            "session": name,
            "json": json.dumps(session.plan.to_dict(), indent=2),
            "undo": session.can_undo,
            "redo": session.can_redo,
        },
    )


def run(last: Run | None) -> Iterator[Message]:
    """The last run and its figures; where there is none, that."""
    if last is None:
        yield Message("run", None)
        return
    yield Message("run", *run_payload(last))
    figures, texts = run_figures(last)
    yield Message("figures", {"figures": figures, "texts": texts})


def steps(records: Mapping[str, Sequence[StepRecord]]) -> dict[str, Any]:
    """The steps that have been run so far, thinned to `MOST_STEPS`; the last is always in."""
    return steps_payload(_thinned(records["golden"]), _thinned(records["faulty"]))


def _thinned(records: Sequence[StepRecord]) -> Sequence[StepRecord]:
    every = len(records) // MOST_STEPS + 1
    return records[(len(records) - 1) % every :: every] if every > 1 else list(records)


def progress(payload: Mapping[str, Any], seconds: float = 0.0) -> dict[str, Any]:
    """How far a replay is, over both runs.

    Args:
        payload: The session's ``progress`` event.
        seconds: How long it has been running.
    """
    steps_, calls = max(1, payload.get("steps", 1)), max(1, payload.get("calls", 1))
    step, faulty = payload.get("step", 0), payload.get("run") == "faulty"
    within = step + min(1.0, payload.get("call", 0) / calls)
    done = within + (steps_ if faulty else 0)
    text = f"{payload.get('run', '')} step {step + 1} of {steps_}, {payload.get('phase', '')}"
    left = seconds * (2 * steps_ - done) / done if done else 0.0
    if left >= 1:
        text += f", {left:.0f} s left" if left < 100 else f", {left / 60:.0f} min left"
    return {"done": done, "total": 2 * steps_, "text": text}


def plotly() -> Message:
    """The plotly.js of the installed package, for a page that has none yet."""
    source = np.frombuffer(assets.plotly_source().encode(), dtype=np.uint8)
    return Message("plotly", {}, {"source": source})
