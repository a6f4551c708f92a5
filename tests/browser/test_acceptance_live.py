"""The explorer while something goes on: progress, Stop, and whatever goes wrong."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.browser.explorer import Explorer
from tests.browser.page import LabPage

SESSION = """
import torch
import fi_notebook as fi
from tests import models

case = models.mlp(seed=1)
broken = []

def step():
    if broken:
        raise RuntimeError("the data ran out")
    return case.step()

session = fi.Session(step, model=case.model, optimizer=case.optimizer)
before = [p.clone() for p in case.model.parameters()]
session.trace()
"""

PROGRESS = """
import time
tell = session._events.tell
tell("state", state="replaying")
begun = time.perf_counter()
for n in range(3000):
    tell("progress", run="golden", step=0, steps=1, call=n + 1, calls=6000, phase="forward")
    time.sleep(max(0, begun + (n + 1) * 5 / 3000 - time.perf_counter()))
"""

CLEAN = """
assert all(torch.equal(a, b) for a, b in zip(before, case.model.parameters()))
assert not torch.nn.modules.module._global_forward_hooks
assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()
assert all(p.grad is None for p in case.model.parameters())
"clean"
"""

FAULT = """
@fi.faults.register("explodes")
def explodes(values, ctx):
    raise ArithmeticError("the fault itself failed")

session.arm("addmm*1", "explodes")
"""


@pytest.fixture
def lab(show: Callable[..., LabPage]) -> LabPage:
    """A session of a small step, traced and explored; more cells below."""
    opened = show(
        SESSION, "session.explore()", PROGRESS, CLEAN, FAULT, "broken.append(1)", OBSERVER
    )
    opened.run_cell(0)
    opened.run_cell(1)
    opened.assert_ran()
    return opened


OBSERVER = """
def observer(event, payload):
    raise LookupError("the observer itself failed")

unsubscribe = session.subscribe(observer)
"""


def test_progress_is_told_ten_times_a_second(lab: LabPage, measured: Callable[..., None]) -> None:
    """Of 3000 events in 5 s at most ten a second travel, evenly, and the last is among them:
    3000 of 6000 calls of the first of two runs are a quarter.
    """
    explorer = Explorer(lab)
    explorer.settle()
    bar = explorer.root.locator(".fi-progress")
    bar.evaluate(WATCH)
    lab.run_cell(2)
    lab.page.wait_for_function("(bar) => bar.value === 0.25", arg=bar.element_handle())
    times = lab.page.evaluate("() => window.fiDrawn")
    seconds = (times[-1] - times[0]) / 1000
    measured("frames a second", (len(times) - 1) / seconds, "frames/s", limit=10.5)
    between = [after - before for before, after in itertools.pairwise(times)]
    measured("longest time between frames", max(between), "ms")


WATCH = """(bar) => {
  window.fiDrawn = [];
  const drawn = () => window.fiDrawn.push(performance.now());
  new MutationObserver(drawn).observe(bar, { attributeFilter: ['value'] });
}"""


def test_stop_ends_a_long_replay_and_puts_everything_back(
    lab: LabPage, measured: Callable[..., None]
) -> None:
    """Stopped within a second; parameters, gradients and hooks are as before."""
    explorer = Explorer(lab)
    explorer.set_steps(100_000)
    explorer.press("Replay")
    explorer.root.locator(".fi-state[data-state=busy]", has_text="step").wait_for()
    took = explorer.root.evaluate(STOPPED)
    measured("Stop", took, "ms", limit=1000)
    explorer.root.locator(".fi-state", has_text="cancelled").wait_for()
    assert clean(lab)


STOPPED = """async (root) => {
  const begun = performance.now();
  [...root.querySelectorAll('.fi-foot button')].find((b) => b.textContent === 'Stop').click();
  const state = root.querySelector('.fi-state');
  while (state.dataset.state === 'busy') await new Promise(requestAnimationFrame);
  return performance.now() - begun;
}"""


def test_whatever_raises_is_shown_and_the_next_replay_is_clean(lab: LabPage) -> None:
    """An exception in a fault, in the step, in a listener and in a callback: each is told, where
    it is ours with its traceback; nothing is left behind, and the replay after it works.
    """
    explorer = Explorer(lab)
    lab.run_cell(4)
    explorer.press("Replay")
    told(explorer, "the fault itself failed")
    assert clean(lab)
    explorer.press("Disarm all")
    explorer.root.get_by_text("nothing is armed").wait_for(state="attached")

    lab.run_cell(5)
    explorer.replay()
    assert explorer.outcome == "crash"
    explorer.root.locator(".fi-verdict", has_text="RuntimeError: the data ran out").wait_for()
    ask(lab, "broken.clear(); session.add = None")  # what the next click calls
    assert clean(lab)

    explorer.choose("addmm*1:0")
    explorer.pane("site").get_by_role("button", name="Arm at ").click()
    told(explorer, "'NoneType' object is not callable")
    ask(lab, "del session.add")

    lab.run_cell(6)
    explorer.replay()
    golden, faulty = explorer.tile("loss")
    assert golden == faulty
    ask(lab, "unsubscribe()")
    assert clean(lab)


def told(explorer: Explorer, text: str) -> None:
    """Wait until the log has an error with this text and a traceback."""
    panel = explorer.tab("Log")
    entry = panel.locator(".fi-entry[data-level=error]", has_text=text).first
    entry.wait_for()
    assert "Traceback" in (entry.text_content() or "")


def ask(lab: LabPage, code: str) -> None:
    """Run code in the notebook's kernel, without a cell."""
    lab.page.evaluate(
        """async (code) => {
          const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
          await kernel.requestExecute({ code }).done;
        }""",
        code,
    )


def clean(lab: LabPage) -> bool:
    """Whether parameters, hooks, modes and gradients are as they were before the session."""
    lab.run_cell(3)
    assert not lab.errors(3), lab.errors(3)
    return "clean" in lab.output_text(3)
