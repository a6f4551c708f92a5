"""The browser harness: a real kernel computes, a real widget draws, nothing leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.page import LabPage

WIDGET = '''
import anywidget, traitlets

class Counter(anywidget.AnyWidget):
    _esm = """
    export default { render({ model, el }) {
      const button = document.createElement("button");
      const show = () => { button.textContent = `count is ${model.get("value")}`; };
      button.addEventListener("click", () => {
        model.set("value", model.get("value") + 1); model.save_changes();
      });
      model.on("change:value", show);
      show(); el.append(button);
    } };
    """
    value = traitlets.Int(0).tag(sync=True)

counter = Counter(value=41)
counter
'''


def test_a_notebook_computes(show: Callable[..., LabPage]) -> None:
    """Cells run in a kernel of this Python that has the package; results come from the model."""
    lab = show("import fi_notebook; fi_notebook.__file__", "21 * 2")
    lab.run_all()
    lab.assert_ran()
    package = Path(__file__).parents[2] / "fi_notebook"
    assert lab.output_text(0).strip("'").startswith(str(package))
    assert lab.output_text(1) == "42"


def test_a_widget_draws_and_talks(show: Callable[..., LabPage]) -> None:
    """A click in the page reaches the kernel: 41 + 1 = 42 on both sides."""
    lab = show(WIDGET, "counter.value")
    lab.run_cell(0)
    lab.page.get_by_role("button", name="count is 41").click()
    lab.page.get_by_role("button", name="count is 42").wait_for()
    lab.run_cell(1)
    assert lab.output_text(1) == "42"


def test_what_leaves_the_machine_is_blocked_and_told(show: Callable[..., LabPage]) -> None:
    """A request to another host fails, and the test that made it would fail by it."""
    lab = show("1")
    blocked = "() => fetch('https://example.org/').then(() => false, () => true)"
    assert lab.page.evaluate(blocked)
    with pytest.raises(AssertionError, match=r"left the machine.*example.org"):
        lab.assert_quiet()


def test_a_kernel_cannot_leave_the_machine(show: Callable[..., LabPage]) -> None:
    """The kernel's own connections stop at loopback too."""
    lab = show("import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)")
    lab.run_all()
    with pytest.raises(AssertionError, match="PermissionError"):
        lab.assert_ran()
